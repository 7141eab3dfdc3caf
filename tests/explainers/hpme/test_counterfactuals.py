"""Changes of graphs and molecules that change the answer."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool

pytest.importorskip("rdkit")

from rdkit.Chem import MolFromSmarts

from hpme.data import from_smiles
from hpme.data.molecules.chem import read_molecule
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer

CHEAP = {"restarts": 1}


class Count(nn.Module):
    """Logits: whether a graph has more than a few nodes with a feature."""

    def __init__(self, column, limit):
        super().__init__()
        self.column, self.limit = column, limit

    def forward(self, x, edge_index, batch):
        more = global_add_pool(x, batch)[:, self.column : self.column + 1] - self.limit
        return torch.cat([-4 * more, 4 * more], 1)


def ring(marked, size=8):
    index = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
    kind = (torch.arange(size) < marked).long()
    return Data(x=torch.eye(2)[kind], edge_index=torch.cat([index, index.flip(0)], 1))


@pytest.fixture(scope="module")
def rings():
    graphs = [ring(4 * (i % 2), 8 + i % 3) for i in range(30)]
    model = Count(1, 1.5)  # two marked nodes are enough
    return HPMEExplainer(k=4, **CHEAP).fit(model, graphs, progress=False), model, graphs


def answer(model, graph):
    batch = Batch.from_data_list([graph])
    return int(model(batch.x, batch.edge_index, batch.batch).argmax())


def test_the_answer_changes_and_no_node_can_be_spared(rings):
    explainer, model, graphs = rings
    found = explainer.counterfactuals(model, graphs[:6], n=2, progress=False)
    for graph, some in zip(graphs[:6], found, strict=True):
        assert 1 <= len(some) <= 2
        assert [c.size for c in some] == sorted(c.size for c in some)
        for one in some:
            assert (answer(model, graph), answer(model, one.graph)) == (one.before, one.after)
            assert one.before != one.after
            kept = graph.num_nodes - int(one.removed.sum())
            assert one.graph.num_nodes == kept + int(one.changed.sum())
            marked = int(one.graph.x[:, 1].sum())
            # Just past the limit: sparing one node more would bring the answer back.
            assert marked == (1 if one.before else 2)
            assert one.size == (3 if one.before else 2)


def test_values_need_a_threshold(rings):
    explainer, model, graphs = rings
    with pytest.raises(InputError, match="classes need no threshold"):
        explainer.counterfactuals(model, graphs, threshold=1.0)
    with pytest.raises(InputError, match="n must be at least 1"):
        explainer.counterfactuals(model, graphs, n=0)


def test_nothing_that_changes_the_answer_is_an_empty_list(rings):
    explainer, _, graphs = rings
    assert explainer.counterfactuals(Count(1, -100.0), graphs[:2], progress=False) == [[], []]


@pytest.fixture(scope="module")
def molecules():
    smiles = [f"{'C' * n}{end}" for n in range(2, 12) for end in ("F", "O", "(=O)C", "Cl", "CF")]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Count(4, 0.5)  # fluorine
    return HPMEExplainer(k=1, **CHEAP).fit(model, graphs, progress=False), model, graphs


def test_changed_molecules_are_molecules(molecules):
    explainer, model, graphs = molecules
    found = explainer.counterfactuals(model, graphs, progress=False)
    assert all(found)
    for graph, some in zip(graphs, found, strict=True):
        for one in some:
            molecule = read_molecule(one.smiles)
            assert molecule.GetNumAtoms() == one.graph.num_nodes
            assert ("F" in graph.smiles) != ("F" in one.smiles)
            assert answer(model, one.graph) == one.after != one.before
            assert 0 <= one.similarity < 1
            marked = [a.GetAtomMapNum() == 1 for a in read_molecule(one.marked).GetAtoms()]
            assert sum(marked) == int(one.changed.sum())
        assert min(one.size for one in some) <= 2


def test_every_answer_names_what_was_exchanged(molecules):
    explainer, model, graphs = molecules
    plain = explainer.counterfactuals(model, graphs[:5], n=1, donors=graphs[5:], progress=False)
    for graph, (one,) in zip(graphs[:5], plain, strict=True):
        before, after = one.outputs
        assert before > 0.5 > after >= 0  # of the class that was predicted
        gone, come = one.exchanged.split(" -> ")
        assert ("fluoro" in (gone if "F" in graph.smiles else come)) or one.known
        assert one.exchanged in str(one) and 1 <= one.accessibility <= 10


def test_near_twins_of_the_library_come_first():
    ends = ("F", "O", "(=O)C", "Cl")
    smiles = [f"c1ccccc1{'C' * n}{end}" for n in range(1, 7) for end in ends]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Count(4, 0.5)
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, graphs, progress=False)
    found = explainer.counterfactuals(model, graphs[:4], donors=graphs, progress=False)
    for some in found:
        assert [one.known for one in some] == sorted([one.known for one in some], reverse=True)
        assert some[0].known and not some[-1].known and "have this one" in str(some[0])
        assert some[0].smiles in smiles
        kept = some[0].graph.num_nodes - int(some[0].changed.sum())
        assert kept >= 6  # the ring and more is the same


def test_no_chlorine_comes_to_nitrogen_or_oxygen():
    """Everything else would be a smaller change."""
    smiles = [f"{'C' * n}N" for n in range(1, 9)] + [f"{'C' * n}O" for n in range(1, 9)]
    smiles += [f"{'C' * n}N({'C' * n})Cl" for n in range(1, 9)] + ["CCl", "CCCl", "CCCCCl"]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Count(6, 0.5)  # chlorine
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, graphs, progress=False)
    found = explainer.counterfactuals(model, graphs[:16], donors=graphs, progress=False)
    assert sum(map(bool, found)) >= 12
    for some in found:
        for one in some:
            halogens = read_molecule(one.smiles).GetSubstructMatches(MolFromSmarts("[#7,#8]Cl"))
            assert not halogens or one.known


def test_features_of_others_need_their_featuriser(molecules):
    explainer, model, graphs = molecules
    strange = [Data(x=g.x.flip(1), edge_index=g.edge_index, smiles=g.smiles) for g in graphs[:3]]
    with pytest.raises(InputError, match="pass featurise="):
        explainer.counterfactuals(model, strange, progress=False)


def test_several_edits_where_one_is_not_enough():
    smiles = [f"F{'C' * n}{end}" for n in range(3, 11) for end in ("F", "(F)F", "OF")]
    smiles += [f"{'C' * n}{end}" for n in range(3, 11) for end in ("O", "Cl", "N")]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Count(4, 0.5)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    assert explainer.counterfactuals(model, graphs[:6], progress=False) == [[]] * 6
    found = explainer.counterfactuals(model, graphs[:6], donors=graphs, progress=False)
    assert len(found) == 6
    for some in found:
        assert some
        for one in some:
            assert "F" not in one.smiles
            assert int(one.removed.sum()) >= 2
            assert answer(model, one.graph) == one.after == 0


def test_donors_of_molecules_are_molecules():
    smiles = [f"{'C' * n}{end}" for n in range(3, 8) for end in ("F", "O")]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    plain = [Data(x=graph.x, edge_index=graph.edge_index) for graph in graphs]
    model = Count(4, 0.5)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    with pytest.raises(InputError, match=r"molecules and the donors are not; .*smiles"):
        explainer.counterfactuals(model, graphs[:2], donors=plain, progress=False)
