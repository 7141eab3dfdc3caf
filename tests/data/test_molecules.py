"""The molecular sets, rebuilt from SMILES, against the published graphs, labels and matches."""

import itertools
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from hpme.data import DATASETS, GraphStore, load_dataset
from hpme.errors import InputError, MissingPackageError, StorageError
from hpme.graphs.segment import segment_sum

SETS = {
    "benzene": "benzene",
    "alkane-carbonyl": "logic7_4326",
    "fluoride-carbonyl": "logic8_8671",
    "crippen": "crippen",
}
RULES = {
    ("benzene", "paper"): ("benzene",),
    ("alkane-carbonyl", "published"): ("fluoride", "carbonyl"),
    ("alkane-carbonyl", "named"): ("alkane", "carbonyl"),
    ("fluoride-carbonyl", "published"): ("alkane", "carbonyl"),
    ("fluoride-carbonyl", "named"): ("fluoride", "carbonyl"),
}
LENGTH = {"benzene": 6, "alkane": 3, "carbonyl": 2, "fluoride": 1}
POSITIVES = [6001, 375, 1098, 1527, 2904]


@pytest.fixture(scope="module")
def oracle(molecule_folder):
    path = molecule_folder / "molecule_graphs.npz"
    if not path.is_file():
        pytest.skip("molecule_graphs.npz not found beside the SMILES files")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays}


@pytest.fixture
def get(molecules, load):
    return load


def starts(counts):
    return np.cumsum(counts) - counts


@pytest.mark.parametrize("name", SETS)
def test_graphs_are_the_published_ones(get, oracle, name):
    dataset, key = get(name), SETS[name]
    data, slices = dataset._data, dataset.slices
    assert len(dataset) == DATASETS[name].num_graphs
    assert np.array_equal(slices["x"].diff(), oracle[f"{key}/n_atoms"])
    assert np.array_equal(slices["edge_index"].diff(), 2 * oracle[f"{key}/n_bonds"].astype(int))
    assert np.array_equal(data.x.argmax(1), oracle[f"{key}/atom"])
    u, v = oracle[f"{key}/bond_u"], oracle[f"{key}/bond_v"]
    assert np.array_equal(data.edge_index[:, ::2], np.stack([u, v]))
    assert np.array_equal(data.edge_index[:, 1::2], np.stack([v, u]))
    assert np.array_equal(data.edge_attr[::2].argmax(1), oracle[f"{key}/bond_type"])
    assert torch.equal(data.edge_attr[::2], data.edge_attr[1::2])
    for features, width in ((data.x, 14), (data.edge_attr, 5)):
        assert features.shape[1] == width and features.dtype == torch.float
        assert bool((features.sum(1) == 1).all())
    pairs = GraphStore.from_graphs(dataset).pairs
    assert bool(((pairs.forward >= 0) & (pairs.backward >= 0)).all())


@pytest.mark.parametrize(("name", "variant"), RULES)
def test_labels_matches_and_masks_follow_the_rule(get, oracle, name, variant):
    """Masks by another way than the library's: from the published matches."""
    dataset, key, rule = get(name, variant=variant), SETS[name], RULES[name, variant]
    data = dataset._data
    counts = {part: oracle[f"{key}/{part}_n"].astype(int) for part in rule}
    y = np.logical_and.reduce([counts[part] > 0 for part in rule])
    assert np.array_equal(data.y, y)
    if variant != "named":
        assert np.array_equal(data.y, oracle[f"{key}/y_published"])
    assert y.sum() == POSITIVES[list(RULES).index((name, variant))]
    start = starts(oracle[f"{key}/n_atoms"].astype(int))
    node_mask = np.zeros(len(data.x), dtype=bool)
    for number, part in enumerate(rule):
        graph = np.repeat(np.arange(len(y)), counts[part] * LENGTH[part])
        atoms = oracle[f"{key}/{part}_atoms"].astype(int)
        node_mask[(start[graph] + atoms)[y[graph]]] = True
        mine = data.match_rule.numpy() == number
        owner = np.repeat(np.arange(len(y)), dataset.slices["match_index"].diff())
        assert np.array_equal(data.match_index[mine], atoms)
        assert np.array_equal(owner[mine], graph)
    assert np.array_equal(data.node_mask, node_mask)
    offset = np.repeat(start, dataset.slices["edge_index"].diff())
    assert np.array_equal(data.edge_mask, node_mask[data.edge_index.numpy() + offset].all(0))
    assert np.array_equal(dataset.explainable, y.nonzero()[0])
    assert bool((data.y[dataset.companions(0)] == 0).all())
    assert " ".join(rule) in dataset.rule.replace("AND ", "")


@pytest.mark.parametrize("name", ["benzene", "alkane-carbonyl", "fluoride-carbonyl"])
def test_alternatives_are_products_of_unions_of_matches(get, oracle, name):
    dataset, key = get(name), SETS[name]
    rule = RULES[name, dataset.variant]
    ptr = {p: np.cumsum([0, *oracle[f"{key}/{p}_n"].astype(int) * LENGTH[p]]) for p in rule}
    for number in dataset.explained(0, 60).tolist():
        groups = []
        for part in rule:
            atoms = oracle[f"{key}/{part}_atoms"][ptr[part][number] : ptr[part][number + 1]]
            groups.append([frozenset(m) for m in atoms.reshape(-1, LENGTH[part]).tolist()])
        single = {frozenset().union(*choice) for choice in itertools.product(*groups)}
        unions = {
            frozenset().union(*itertools.chain(*choice))
            for choice in itertools.product(
                *(
                    [c for n in range(1, len(g) + 1) for c in itertools.combinations(g, n)]
                    for g in groups
                )
            )
        }
        for expected, masks in (
            (single, dataset.alternatives(number)),
            (unions, dataset.alternatives(number, unions=True)),
        ):
            found = [frozenset(mask.nonzero().view(-1).tolist()) for mask in masks]
            assert len(found) == len(set(found)) and set(found) == expected
        total = torch.stack(dataset.alternatives(number)).any(0)
        assert torch.equal(total, dataset[number].node_mask)
    negative = int((dataset._data.y == 0).nonzero()[0])
    assert dataset.alternatives(negative) == []


def test_crippen_contributions_and_labels(get, oracle):
    data, slices = get("crippen")._data, get("crippen").slices
    weight = oracle["crippen/contrib_values"][oracle["crippen/contrib_code"]]
    assert np.array_equal(data.contribution, weight.astype(np.float32))
    assert np.abs(data.y.numpy() - oracle["crippen/y"]).max() < 1e-5
    sums = segment_sum(torch.from_numpy(weight), torch.repeat_interleave(slices["x"].diff()), 1127)
    torch.testing.assert_close(sums.float(), data.y)


def test_crippen_ground_truth_is_the_rule(get):
    """Every tenth molecule, bond by bond."""
    dataset = get("crippen")
    for data in dataset[::10]:
        weight = (data.contribution.double() * 1e5).round()
        value = weight[data.edge_index[:, ::2]].sum(0).abs().tolist()
        order = sorted(range(len(value)), key=lambda i: -value[i])
        expected, reached = set(), 0.0
        for i in order:
            reached += value[i]
            if not reached < 0.7 * sum(value) - 1e-6:
                break
            expected.add(i)
        assert set(data.edge_mask[::2].nonzero().view(-1).tolist()) == expected
        assert torch.equal(data.edge_mask[::2], data.edge_mask[1::2])
        ends = data.edge_index[:, data.edge_mask].unique()
        assert torch.equal(data.node_mask.nonzero().view(-1), ends)
    assert 0.45 < float(dataset._data.edge_mask.float().mean()) < 0.55
    assert len(dataset.explainable) == 1125
    assert len(dataset.alternatives(0)) == 1


def test_published_crippen_splits_bonds(get):
    dataset = get("crippen", variant="published")
    mask = dataset._data.edge_mask.view(-1, 2)
    bond_owner = torch.repeat_interleave(dataset.slices["edge_index"].diff() // 2)
    assert len(bond_owner[mask[:, 0] != mask[:, 1]].unique()) == 572


def test_constant_predictor_reaches_the_papers_accuracy(get):
    dataset = get("fluoride-carbonyl")
    share = dataset._data.y[dataset.split["test"]].double().mean()
    assert round(100 * (1 - float(share)), 2) == 83.29


def test_downsampled(get):
    whole, part = get("alkane-carbonyl"), get("alkane-carbonyl", variant="downsampled")
    assert torch.bincount(part._data.y).tolist() == [750, 375]
    names = list(whole._data.name)
    position = [names.index(name) for name in part._data.name]
    assert position == sorted(position)
    for number in (0, 500, 1124):
        mine, theirs = part[number], whole[position[number]]
        assert mine.smiles == theirs.smiles
        for key in ("x", "edge_index", "edge_attr", "edge_mask", "match_index"):
            assert torch.equal(mine[key], theirs[key])
    other = get("alkane-carbonyl", variant="downsampled", seed=1)
    assert set(other._data.name) != set(part._data.name)
    assert torch.bincount(other._data.y).tolist() == [750, 375]


def test_same_from_the_cache_and_without_rdkit(molecules, tmp_path, monkeypatch):
    first = load_dataset("alkane-carbonyl", size=50, root=tmp_path)
    monkeypatch.setenv("HPME_DATA_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    again = load_dataset("alkane-carbonyl", size=50, root=tmp_path)
    for one, two in zip(first, again, strict=True):
        assert one.to_dict().keys() == two.to_dict().keys()
        for key, value in one.to_dict().items():
            assert torch.equal(value, two[key]) if torch.is_tensor(value) else value == two[key]


def test_without_rdkit_the_message_says_what_to_install(molecules, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hpme\[chem\]'"):
        load_dataset("benzene", size=10, root=tmp_path)


def test_batches_renumber_matches(get):
    dataset = get("benzene")
    graphs = [dataset[int(i)] for i in dataset.explainable[:3]]
    batch = Batch.from_data_list(graphs)
    assert batch.smiles == [graph.smiles for graph in graphs]
    assert set(batch.match_index.tolist()) == set(batch.node_mask.nonzero().view(-1).tolist())


def test_invalid_requests(molecules, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="published, named, downsampled"):
        load_dataset("alkane-carbonyl", variant="paper", root=tmp_path)
    with pytest.raises(InputError, match="1,127 molecules"):
        load_dataset("crippen", size=1128, root=tmp_path)
    monkeypatch.delenv("HPME_DATA_DIR")
    monkeypatch.setenv("HPME_MIRROR_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(StorageError, match=r"logic8_smiles\.csv.*HPME_DATA_DIR/molecules"):
        load_dataset("fluoride-carbonyl", root=tmp_path)
