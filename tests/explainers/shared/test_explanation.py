"""Explanations as tables and pictures."""

import pytest
import torch
from torch_geometric.data import Data

from hpme.errors import InputError
from hpme.explainers import RandomExplainer
from hpme.explainers.hpme.effects import Effect
from hpme.explainers.shared.explanation import Explanation, Explanations, report_html
from small_models import Net

INDEX = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def explanation(**more):
    return Explanation(
        x=torch.ones(3, 3),
        edge_index=INDEX,
        edge_mask=torch.tensor([0.9, 0.9, 0.1, 0.2]),
        node_mask=torch.tensor([[1.0], [0.5], [0.0]]),
        pooled=torch.tensor([True, True, False]),
        **more,
    )


def test_a_row_per_edge_or_node():
    pytest.importorskip("pandas")
    edges = explanation().to_frame()
    assert list(edges.columns) == ["source", "target", "importance", "pooled"]
    assert edges["pooled"].tolist() == [True, True, False, False]
    assert edges["importance"].tolist() == pytest.approx([0.9, 0.9, 0.1, 0.2])
    effect = Effect(0.1, 0.0, 0.2, torch.arange(9.0).view(3, 3))
    nodes = explanation(effect=effect).to_frame("nodes")
    assert nodes["importance"].tolist() == [1.0, 0.5, 0.0]
    assert nodes[["effect", "effect low", "effect high"]].values.tolist()[1] == [3.0, 4.0, 5.0]
    wide = Explanation(node_mask=torch.eye(2)).to_frame("nodes")
    assert list(wide.columns) == ["node", "feature 0", "feature 1"]


def test_what_a_table_cannot_show_is_named():
    pytest.importorskip("pandas")
    with pytest.raises(InputError, match="no edge_mask"):
        Explanation(node_mask=torch.eye(2)).to_frame()
    with pytest.raises(InputError, match="no node_mask"):
        Explanation(edge_index=INDEX, edge_mask=torch.ones(4)).to_frame("nodes")
    with pytest.raises(InputError, match="rows must be one of edges, nodes, descriptors"):
        explanation().to_frame("columns")


def test_it_draws_itself(tmp_path):
    one = explanation(name="three in a row")
    assert one._repr_html_() == one.draw()
    assert "<svg" in one.draw() and "ground truth" not in one.draw()
    assert one.draw(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    molecule = Explanation(x=torch.ones(3, 1), edge_index=INDEX, edge_mask=torch.rand(4))
    molecule.smiles = "CCO"
    assert "<svg" in molecule.draw()


def test_explainers_return_it_with_names_and_smiles():
    graphs = [Data(x=torch.ones(3, 3), edge_index=INDEX, smiles="CCO", name=n) for n in "ab"]
    found = RandomExplainer().explain(Net(), graphs, progress=False)
    assert all(isinstance(one, Explanation) for one in found)
    assert [(one.smiles, one.name) for one in found] == [("CCO", "a"), ("CCO", "b")]


def test_many_show_themselves_in_notebooks(monkeypatch):
    monkeypatch.setattr("hpme.explainers.shared.explanation.SHOWN", 2)
    many = Explanations([explanation()] * 5)
    html = many._repr_html_()
    assert html.count("<figure") == html.count("<svg") == 2
    assert "and 3 more" in html
    some = many[:2]._repr_html_()
    assert some.count("<svg") == 2 and "more" not in some.rpartition("</svg>")[2]


def test_a_report_is_shown_as_text():
    html = report_html("effect 0.9\nfine", ["<b>weak</b>"])
    assert "<p>effect 0.9</p><p>fine</p>" in html
    assert "<li>&lt;b&gt;weak&lt;/b&gt;</li>" in html
    assert "No warnings." in report_html("fine", [])
