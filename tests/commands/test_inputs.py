"""Molecules for Chemprop; the package itself is not needed."""

from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from hpme.commands.chemprop import chemprop_graphs
from hpme.models import chemprop
from hpme.models.chemprop import files

rdkit = pytest.importorskip("rdkit.Chem", reason="molecules need RDKit: pip install 'hpme[chem]'")


class Point:
    def __init__(self, mol, name):
        self.mol, self.name, self.x_d = mol, name, None


def as_chemprop(points, model):
    """Features of atoms alone, bonds in the order of the atoms: not hpme's own graphs."""
    made = []
    for point in points:
        edges = torch.tensor(rdkit.GetAdjacencyMatrix(point.mol)).nonzero().t()
        x = torch.tensor([[float(atom.GetAtomicNum())] for atom in point.mol.GetAtoms()])
        made.append(Data(x=x, edge_index=edges, smiles=point.name, x_d=point.x_d))
    return made


def test_chemprop_gets_molecules_that_are_parsed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(chemprop, "molecules", as_chemprop)
    data = SimpleNamespace(MoleculeDatapoint=Point)
    monkeypatch.setattr(files, "chemprop_module", lambda name: data)
    parsed, parse = [], rdkit.MolFromSmiles
    monkeypatch.setattr(
        rdkit, "MolFromSmiles", lambda text, **more: parsed.append(text) or parse(text, **more)
    )
    table, skipped = tmp_path / "m.csv", tmp_path / "skipped.csv"
    table.write_text("smiles,id,y\nCC(=O)C,acetone,1\nCCO,ethanol,0\nC,methane,\nC1CC,none,1\n")
    columns = {"name_column": "id"}
    plain = chemprop_graphs("model", table, skipped, **columns)
    assert [graph.name for graph in plain] == ["acetone", "ethanol", "methane"]
    assert all("y" not in graph and "node_mask" not in graph for graph in plain)
    assert [parsed.count(text) for text in ("CC(=O)C", "CCO", "C")] == [1, 1, 1]
    assert "5,C1CC" in skipped.read_text()
    rules = {"carbonyl": "[CX3]=O"}
    ruled = chemprop_graphs("model", table, skipped, rules=rules, hydrogens=True)
    assert [int(graph.y) for graph in ruled] == [1, 0, 0] and len(ruled[2].x) == 5
    first = ruled[0]
    assert first.node_mask.nonzero().view(-1).tolist() == [1, 2] and first.edge_mask.sum() == 2
    assert first.edge_index[:, first.edge_mask].tolist() == [[1, 2], [2, 1]]
    labelled = chemprop_graphs(
        "model", table, skipped, label_column="y", rules=rules, task="regression"
    )
    assert [float(graph.y) for graph in labelled] == [1.0, 0.0]
    assert [bool(graph.edge_mask.any()) for graph in labelled] == [True, False]
    assert "no finite number" in skipped.read_text()
