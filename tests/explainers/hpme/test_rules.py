"""Rules about graphs whose reasons are known."""

import json
from types import SimpleNamespace

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool

from hpme.data import GraphStore, from_smiles
from hpme.data.molecules.fragments import smarts_of
from hpme.errors import InputError, NotFittedError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.decisions import DecisionList
from hpme.explainers.hpme.patterns import Catalogue, Vocabulary, add_contexts
from hpme.explainers.hpme.rulebook import RuleBook
from hpme.explainers.hpme.weighing import Weighing

CHEAP = {"restarts": 1}


class Both(nn.Module):
    """Logits: whether a graph has a node of kind 1 joined to one of kind 2."""

    def forward(self, x, edge_index, batch):
        joined = x[edge_index[0], 1] * x[edge_index[1], 2]
        h = torch.zeros_like(x).index_add(0, edge_index[1], joined.unsqueeze(1) * torch.ones(3))
        count = global_add_pool(torch.cat([x, h], 1), batch)[:, 3:4]
        return torch.cat([4 - 8 * count, 8 * count - 4], 1)


def graph_of(seed, planted):
    generator = torch.Generator().manual_seed(seed)
    tree = nx.random_labeled_tree(9, seed=seed)
    kind = torch.zeros(9, dtype=torch.long)
    first, second = next(iter(tree.edges))
    if planted:
        kind[first], kind[second] = 1, 2
    else:  # one of the two alone
        kind[int(torch.randint(9, (1,), generator=generator))] = 1 + seed % 2
    edges = torch.tensor(list(tree.edges)).t()
    return Data(x=torch.eye(3)[kind], edge_index=torch.cat([edges, edges.flip(0)], 1))


@pytest.fixture(scope="module")
def fitted():
    graphs = [graph_of(seed, seed % 3 == 0) for seed in range(60)]
    return HPMEExplainer(k=2, **CHEAP).fit(Both(), graphs, progress=False), graphs


def test_the_planted_pair_is_the_rule(fitted):
    explainer, graphs = fitted
    book = explainer.rules(Both(), graphs, classes=["without", "with"], progress=False)
    assert (book.learned_graphs, book.unseen_graphs, book.fidelity) == (42, 18, 1.0)
    rule = book[0]
    assert (rule.label, rule.prediction, len(rule.patterns)) == ("with", 1.0, 1)
    assert rule.precision == rule.recall == 1
    assert rule.lift == pytest.approx(1 / rule.coverage)
    assert rule.effect > 0.9 and len(rule.effects) == round(rule.coverage * 18)
    assert rule.graphs[0].number_of_edges() == 1
    assert int(rule.exemplar.nodes.sum()) == 2
    json.dumps(book.to_dict(), allow_nan=False)
    assert "1. IF edge" in str(book) and "OTHERWISE without" in str(book)


def test_rules_predict_other_graphs(fitted):
    explainer, graphs = fitted
    book = explainer.rules(Both(), graphs, progress=False)
    others = [graph_of(seed, seed % 2 == 0) for seed in range(100, 120)]
    assert book.predict(others).tolist() == [1.0, 0.0] * 10


def test_values_are_explained_by_their_variance(fitted):
    class Value(Both):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch)[:, 1:]

    graphs = fitted[1]
    explainer = HPMEExplainer(k=2, **CHEAP)
    explainer.fit(Value(), graphs, mode="regression", progress=False)
    book = explainer.rules(Value(), graphs, progress=False)
    assert book.fidelity > 0.99
    assert (book[0].prediction, len(book)) == (pytest.approx(4, abs=0.1), 1)
    assert (book[0].label, book.default_label) == ("a value of 4", "a value of -4")
    assert book[0].precision == 1 and book[0].lift == pytest.approx(1 / book[0].coverage)


def test_one_prediction_only_is_said_clearly(fitted):
    explainer, graphs = fitted
    book = explainer.rules(Both(), graphs[::3], progress=False)
    assert (len(book), book.default, book.fidelity) == (0, 1.0, 1.0)
    assert "same prediction" in str(book)
    assert b"nothing to tell apart" in book.draw().encode()


def test_graphs_without_edges_have_rules_about_nodes():
    class Kind(nn.Module):
        def forward(self, x, edge_index, batch):
            return global_add_pool(8 * x - 1, batch)[:, 1:]

    graphs = [Data(x=torch.eye(3)[[0, 1 + i % 2, 0]], edge_index=torch.zeros(2, 0).long())
              for i in range(30)]  # fmt: skip
    explainer = HPMEExplainer(k=1, **CHEAP).fit(Kind(), graphs, progress=False)
    book = explainer.rules(Kind(), graphs, progress=False)
    assert book.fidelity == 1
    assert all(len(pattern) == 1 for rule in book for pattern in rule.patterns)


def test_molecules_have_smarts_and_a_picture(tmp_path):
    class Fluorine(nn.Module):
        def forward(self, x, edge_index, batch):
            count = global_add_pool(x, batch)[:, 4:5]
            return torch.cat([1 - 2 * count, 2 * count - 1], 1)

    smiles = [f"{'C' * n}{end}" for n in range(2, 17) for end in ("F", "O", "(=O)C", "Cl")]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    explainer = HPMEExplainer(k=1, **CHEAP).fit(Fluorine(), graphs, progress=False)
    book = explainer.rules(Fluorine(), graphs, progress=False)
    assert (book[0].name, book.fidelity) == ("F", 1.0)
    picture = book.draw(tmp_path / "rules.svg").read_text()
    assert picture.startswith("<?xml") and picture.count("</svg>") >= 1
    assert book._repr_html_()


class Atoms(nn.Module):
    """Logits: whether a molecule has two fluorines, or one and no chlorine."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)
        yes = (count[:, 4:5] >= 2) | ((count[:, 4:5] == 1) & (count[:, 6:7] == 0))
        return torch.cat([2 - 4.0 * yes, 4.0 * yes - 2], 1)


def test_counts_and_absence_are_conditions_and_none_is_there_twice():
    ends = ("F", "O", "C(F)F", "C(F)Cl", "Cl", "N")
    smiles = [f"{'C' * n}{end}" for n in range(2, 22) for end in ends]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    explainer = HPMEExplainer(k=2, **CHEAP).fit(Atoms(), graphs, progress=False)
    book = explainer.rules(Atoms(), graphs, progress=False)
    assert book.fidelity == 1.0 and len({rule.name for rule in book}) == len(book)
    assert any("NOT " in name or "2 x " in name for rule in book for name in rule.names)
    assert all(rule.lift > 1 and rule.coverage * 36 >= 6 for rule in book)
    assert book.predict(graphs).tolist() == Atoms()(*_inputs(graphs)).argmax(1).tolist()


def _inputs(graphs):
    batch = Batch.from_data_list(graphs)
    return batch.x, batch.edge_index, batch.batch


def test_without_a_pattern_there_is_no_rulebook_but_contributors():
    class Chance(nn.Module):  # of the size alone, up and down
        def forward(self, x, edge_index, batch):
            odd = global_add_pool(0 * x + 1, batch)[:, :1] % 2
            return torch.cat([1 - 2 * odd, 2 * odd - 1], 1)

    sizes = torch.randint(8, 20, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    smiles = [f"{'C' * n}{end}" for n in sizes for end in "OFN"]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    explainer = HPMEExplainer(k=2, **CHEAP).fit(Chance(), graphs, progress=False)
    book = explainer.rules(Chance(), graphs, progress=False)
    assert len(book) == 0 and book.fidelity == book.always
    assert str(book).startswith("no rulebook: the best short list sets right")
    assert all(rule.lift > 1 and len(rule.conditions) == 1 for rule in book.contributors)
    assert len(book.to_dict()["contributors"]) == len(book.contributors)
    assert "no rulebook" in str(book.draw())


def test_smarts_of_surroundings_match_the_same_molecules():
    chem = pytest.importorskip("rdkit.Chem")
    smiles = ["c1ccccc1[N+](=O)[O-]", "CC[N+](=O)[O-]", "Nc1ccccc1", "CNc1ccc2ccccc2c1", "C1CCNC1"]
    store = GraphStore.from_graphs(from_smiles(smiles, [0] * 5, progress=False))
    graphs, found = Vocabulary.of(store).read(store), Catalogue()
    add_contexts(found, store, graphs, torch.ones(len(store.x), dtype=torch.bool))
    names = {smarts_of(pattern): pattern for pattern in found.patterns}
    assert {"[NH2]c", "O[N+;H0;!R](=O)c", "c1ccc2ccccc2c1", "C[NH;R]C", "[CH3]"} <= {*names}
    for name, pattern in names.items():
        query = chem.MolFromSmarts(name)
        matched = [chem.MolFromSmiles(text).HasSubstructMatch(query) for text in smiles]
        assert (graphs.times(pattern) > 0).tolist() == matched, name


def test_a_list_takes_no_banned_condition_and_no_rule_without_gain():
    generator = torch.Generator().manual_seed(0)
    has = torch.rand(4, 200, generator=generator) < 0.5
    has = torch.stack([has, ~has], 1).flatten(0, 1)
    wanted = torch.eye(2, dtype=torch.double)[(has[0] & has[2]).long()]
    cost, free = torch.full((8,), 2.0), torch.zeros(8, 2, dtype=torch.bool)
    found = DecisionList(has, cost, wanted, True, free, 5).learn()
    assert [(sorted(some), told) for some, told in found.rules] == [([0, 2], 1.0)]
    free[0, 1] = True  # the first must not speak for class 1
    other = DecisionList(has, cost, wanted, True, free, 5).learn()
    assert all(0 not in some for some, told in other.rules if told == 1)
    noise = torch.eye(2, dtype=torch.double)[(torch.arange(200) % 2)]
    assert len(DecisionList(has[:2], cost[:2], noise, True, free[:2], 5).learn().rules) <= 1


def test_what_cannot_be_learned_from_is_refused(fitted):
    explainer, graphs = fitted
    with pytest.raises(InputError, match="too few to learn"):
        explainer.rules(Both(), graphs[:1])
    with pytest.raises(InputError, match="unseen is a share"):
        explainer.rules(Both(), graphs, unseen=1.0)
    with pytest.raises(NotFittedError):
        HPMEExplainer(**CHEAP).rules(Both(), graphs)
    assert isinstance(explainer.rules(Both(), graphs, unseen=0, progress=False), RuleBook)


def worth_of(share, decided=100, values=False):
    """A rule for class 1, which half of 1,000 unseen graphs get."""
    right, rest = round(share * decided), torch.arange(1000 - decided)
    predicted = torch.cat([torch.arange(decided) < right, rest < 500 - right]).long()
    context = SimpleNamespace(prediction=predicted, task=SimpleNamespace(scale=1.0))
    names = None if values else ["no", "yes"]
    transplants = SimpleNamespace(context=context, count=1000)
    here = torch.arange(1000) < decided
    return Weighing(transplants, None, names, torch.zeros(1000).bool(), None).worth(here, 1.0)


def test_rules_need_a_lift_that_is_clearly_above_one():
    assert worth_of(0.8).sound and worth_of(0.8).lift == pytest.approx(1.6)
    assert not worth_of(0.53).sound  # three more of 100 than of all
    assert not worth_of(0.7, decided=10).sound  # too few to be sure
    assert not worth_of(0.4).sound
    assert worth_of(0.5, values=True).label == "a value between 0 and 1"
