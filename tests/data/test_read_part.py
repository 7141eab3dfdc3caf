"""Molecules read in bulk are those of a dataset."""

import pytest
import torch

from hpme.data import from_smiles
from hpme.data.molecules.molgraph import read_part

pytest.importorskip("rdkit", reason="RDKit is not installed: pip install 'hpme[chem]'")

ODD = ["[Cu]<-N", "N->[Cu]", "C~C", "C$C", "[Na+].[Cl-]", "c1ccccc1O", "C/C=C/C", "[U]", "*CC",
       "[2H]OC#N", "[Fe]~C=C", "CC(=O)Nc1ccc(O)cc1", "O", "FC(F)(F)P(Cl)(Br)I"]  # fmt: skip


def _slow(smiles, hydrogens):
    """Graphs of the other reader, with their edges sorted."""
    for graph in from_smiles(smiles, [0] * len(smiles), hydrogens=hydrogens, progress=False):
        order = torch.argsort(graph.edge_index[0] * graph.num_nodes + graph.edge_index[1])
        yield graph.x, graph.edge_index[:, order], graph.edge_attr[order]


@pytest.mark.parametrize("hydrogens", [False, True])
def test_graphs_are_the_same(hydrogens):
    found = read_part(ODD, hydrogens=hydrogens)
    assert found.numbers == list(range(len(ODD)))
    for graph, (x, edge_index, edge_attr) in zip(found.store, _slow(ODD, hydrogens), strict=True):
        assert torch.equal(graph.x, x)
        assert torch.equal(graph.edge_index, edge_index)
        assert torch.equal(graph.edge_attr, edge_attr)


def test_edges_are_in_the_order_of_the_adjacency_matrix():
    chem, np = pytest.importorskip("rdkit.Chem"), pytest.importorskip("numpy")
    (graph,) = read_part(["CC(=O)Nc1ccc(O)cc1"]).store
    matrix = chem.GetAdjacencyMatrix(chem.MolFromSmiles("CC(=O)Nc1ccc(O)cc1"))
    assert graph.edge_index.T.tolist() == np.argwhere(matrix).tolist()


def test_what_cannot_be_read_is_listed():
    found = read_part(["C", "C1CC", "", "C(C)(C)(C)(C)C", "CC x", "O"])
    assert found.numbers == [0, 5]
    assert list(found.failed) == [1, 2, 3, 4]
    assert "no atoms" in found.failed[2] and "alence" in found.failed[3]
    assert len(read_part(["?"]).store) == 0
