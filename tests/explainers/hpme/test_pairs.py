"""Why two graphs differ, by parts exchanged in place; hybrids and shares by hand."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

from finder import Finder, planted_graphs
from hpme.data import from_smiles
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.pairs import _molecules, node_pairs
from hpme.models.explained import ExplainedModel

pytest.importorskip("rdkit")
from rdkit import Chem

TWINS = [
    ("Cc1ccccc1", "Fc1ccccc1"),
    ("Oc1ccc(C)cc1", "Fc1ccc(Cl)cc1"),
    ("CC(=O)NC1CCOCC1", "CC(=O)NC1CCNCC1"),
    ("Cc1c[nH]cc1", "Cc1cn(C)cc1F"),
    ("CCCCO", "CCCCO"),
    ("c1ccc2ccccc2c1", "c1ccccc1"),
    ("CC(=O)O", "CC(=O)[O-]"),
    ("C1CCCCC1", "CCCCCC"),
    ("OCC(N)CC(=O)Nc1ccc(Cl)cc1", "OCC(N)CS(=O)(=O)Nc1ccc(Br)cc1"),
    ("C", "CCCC.Cl"),
]


class Counts(torch.nn.Module):
    """Fluorines count two, chlorines one, and both together more."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)
        fluorine, chlorine = count[:, 4:5], count[:, 6:7]
        return 2 * fluorine + chlorine + 3 * fluorine * chlorine


MODEL = ExplainedModel(Counts(), mode="regression")


def graphs_of(smiles):
    return list(from_smiles(smiles, [0] * len(smiles), progress=False))


def output(smiles):
    graph = graphs_of([smiles])[0]
    return float(Counts()(graph.x, graph.edge_index, torch.zeros(len(graph.x), dtype=torch.long)))


@pytest.fixture(scope="module")
def found():
    return HPMEExplainer().pairs(MODEL, *(graphs_of(side) for side in zip(*TWINS, strict=True)))


@pytest.mark.parametrize(("first", "second"), TWINS)
def test_no_part_is_the_first_molecule_and_all_are_the_second(first, second):
    union, make = _molecules([Data(**graph.to_dict()) for graph in graphs_of([first, second])])
    molecules = [Chem.MolFromSmiles(text) for text in (first, second)]
    for some, molecule in zip((set(), set(range(union.count))), molecules, strict=True):
        if union.count > 1:
            assert make(some) == Chem.MolToSmiles(molecule)
    masks = [[union.nodes(part, side) for side in (0, 1)] for part in range(union.count)]
    for side, molecule in enumerate(molecules):
        covered = sum((mask[side].long() for mask in masks), torch.zeros(molecule.GetNumAtoms()))
        assert int(covered.max()) <= 1  # parts do not overlap


def test_shares_agree_with_hybrids_written_by_hand(found):
    """Of two parts, each share is the mean over both orders of exchanging them."""
    a, b = TWINS[1]
    by_oxygen, by_methyl = output("Fc1ccc(C)cc1"), output("Oc1ccc(Cl)cc1")
    one = found[1]
    changes = {
        tuple(part.first.nonzero().view(-1).tolist()): (part.change, part.alone)
        for part in one.parts
    }
    ends = output(a), output(b)
    assert (one.before, one.after) == pytest.approx(ends)
    fluorine = ((by_oxygen - ends[0]) + (ends[1] - by_methyl)) / 2
    chlorine = ((by_methyl - ends[0]) + (ends[1] - by_oxygen)) / 2
    assert changes[(0,)] == pytest.approx((fluorine, by_oxygen - ends[0]))
    assert changes[(5,)] == pytest.approx((chlorine, by_methyl - ends[0]))
    assert one.interaction == pytest.approx(3) and one.difference == pytest.approx(6)
    assert [abs(part.change) for part in one.parts] == sorted(
        (abs(part.change) for part in one.parts), reverse=True
    )


def test_parts_are_what_differs(found):
    atoms = [
        sorted((p.first.nonzero().view(-1).tolist(), p.second.nonzero().view(-1).tolist())
               for p in one.parts)
        for one in found
    ]  # fmt: skip
    assert atoms[0] == [([0], [0])]
    assert atoms[2] == [([7], [7])]
    assert atoms[3] == [([], [4]), ([], [7])]
    assert atoms[4] == []
    assert len(found[8].parts) == 2
    for one in found:
        assert sum(p.change for p in one.parts) == pytest.approx(one.difference)
    assert "do not differ" in str(found[4]) and "only together" in str(found[1])


def test_classes_are_those_of_the_first_graph():
    class Sure(Counts):
        def forward(self, x, edge_index, batch):
            count = super().forward(x, edge_index, batch)
            return torch.cat([1 - count, count - 1], 1)

    first, second = graphs_of(["CF"]), graphs_of(["CC"])
    one = HPMEExplainer().pairs(Sure(), first, second)[0]
    assert one.output == "p(class 1)" and one.before > 0.8 > 0.2 > one.after
    assert one.parts[0].change == pytest.approx(one.difference)


def test_other_graphs_are_matched():
    graphs = planted_graphs(6)
    changed = []
    for graph in graphs:
        x = torch.cat([graph.x, torch.tensor([[9.0, 1.0]])])
        x[3, 0] += 5
        more = torch.tensor([[12, 7], [7, 12]])
        changed.append(Data(x=x, edge_index=torch.cat([graph.edge_index, more], 1)))
    model = ExplainedModel(Finder(), mode="regression")
    for graph, other, one in zip(
        graphs, changed, HPMEExplainer().pairs(model, graphs, changed), strict=True
    ):
        assert len(node_pairs(graph, other)) == 11  # all but the one that was changed
        first = torch.stack([p.first for p in one.parts]).any(0).nonzero().view(-1).tolist()
        second = torch.stack([p.second for p in one.parts]).any(0).nonzero().view(-1).tolist()
        assert first == [3] and second == [3, 12]
        batch = [torch.zeros(len(g.x), dtype=torch.long) for g in (graph, other)]
        ends = [
            float(Finder()(g.x, g.edge_index, b))
            for g, b in zip((graph, other), batch, strict=True)
        ]
        assert (one.before, one.after) == pytest.approx(ends, rel=1e-5)
        assert sum(p.change for p in one.parts) == pytest.approx(one.difference, rel=1e-4)


def test_equal_graphs_do_not_differ():
    graphs = planted_graphs(4)
    model = ExplainedModel(Finder(), mode="regression")
    for one in HPMEExplainer().pairs(model, graphs, graphs):
        assert one.parts == [] and one.difference == 0 and one.interaction == 0


def test_tables_and_pictures(found):
    pytest.importorskip("pandas")
    table = found.to_frame()
    assert len(table) == sum(len(one.parts) for one in found)
    assert table["share"][0] == pytest.approx(1) and table["second_nodes"][0] == [0]
    shown = found.explanations()
    assert len(shown) == 2 * len(TWINS) and shown[0].pooled.tolist() == [True] + [False] * 6
    assert float(shown[0].effect.nodes[0, 0]) == -2 and float(shown[1].effect.nodes[0, 0]) == 2
    assert "<svg" in shown[2].draw()


@pytest.mark.parametrize(("a", "b"), [([], []), (["CC"], []), (["CC"], ["CC", "CO"])])
def test_what_are_no_pairs_is_refused(a, b):
    with pytest.raises(InputError):
        HPMEExplainer().pairs(MODEL, graphs_of(a) if a else [], graphs_of(b) if b else [])


def test_graphs_about_nodes_are_refused():
    graphs = planted_graphs(2)
    for graph in graphs:
        graph.anchors = torch.tensor([0])
    with pytest.raises(InputError, match="single nodes"):
        HPMEExplainer().pairs(ExplainedModel(Finder(), mode="regression"), graphs, graphs)
