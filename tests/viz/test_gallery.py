"""Pictures: what is drawn, where, and that the same input gives the same file."""

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.errors import InputError
from hpme.viz import gallery
from hpme.viz.nodelink import node_positions

PNG = b"\x89PNG"


def cycle(size=5, **attributes):
    source = torch.arange(size)
    target = (source + 1) % size
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    truth = {"edge_mask": torch.arange(2 * size) % size < 2, "node_mask": source < 3}
    return Data(**{"edge_index": edge_index, "num_nodes": size, **truth, **attributes})


def explain(graph, pooled=True):
    weight = torch.linspace(0, 1, graph.num_edges)
    explanation = Explanation(edge_index=graph.edge_index, edge_mask=weight)
    if pooled:
        explanation.pooled = torch.arange(graph.num_nodes) < 2
    return explanation


def texts(path):
    """Comments of an SVG; matplotlib writes every text it draws as one."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    root = ET.parse(path, parser).getroot()
    return [node.text.strip() for node in root.iter(ET.Comment)]


def test_png_and_svg_by_suffix(tmp_path):
    graphs = [cycle(), cycle(7), cycle(4)]
    explanations = [explain(graph) for graph in graphs]
    assert gallery(graphs, explanations, tmp_path / "a.PNG").read_bytes().startswith(PNG)
    assert gallery(graphs, explanations, str(tmp_path / "a.svg")).read_text().startswith("<?xml")


def test_captions_scores_and_legend(tmp_path):
    graphs = [cycle(y=torch.tensor([1])), cycle(7, y=torch.tensor([0]))]
    path = gallery(
        graphs,
        {"mine": [explain(graph) for graph in graphs]},
        tmp_path / "a.svg",
        predictions=torch.tensor([[0.0, 3.0], [1.0, 0.0]]),
        title="A title",
    )
    shown = texts(path)
    for text in (
        "A title",
        "predicted class 1 (95%), label 1",
        "predicted class 0 (73%), label 0",
        "ground truth",
        "pooled node",
        "edge weight",
    ):
        assert text in shown
    assert sum(text.startswith("mine, AUC") for text in shown) == 2


def test_regression_values_and_several_explainers(tmp_path):
    graph = cycle(y=torch.tensor([12.5]))
    columns = {"a": [explain(graph)], "b": [explain(graph, pooled=False)]}
    shown = texts(
        gallery([graph], columns, tmp_path / "a.svg", predictions=torch.tensor([[11.75]]))
    )
    assert "predicted 11.75, label 12.5" in shown
    assert "lowest" in shown
    assert {"a", "b"} == {text.split(",")[0] for text in shown if "AUC" in text}


def test_without_ground_truth(tmp_path):
    graph = cycle(edge_mask=None, node_mask=None)
    shown = texts(gallery([graph], [explain(graph, pooled=False)], tmp_path / "a.svg"))
    assert "explanation" in shown
    assert "graph 0" not in shown  # the only one needs no number
    assert "ground truth" not in shown
    assert "pooled node" not in shown


def test_odd_graphs(tmp_path):
    none, one = torch.zeros(0).bool(), torch.ones(1).bool()
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    loop = torch.zeros(2, 1, dtype=torch.long)
    graphs = [
        Data(edge_index=no_edges, num_nodes=0, edge_mask=none, node_mask=none),
        Data(edge_index=no_edges, num_nodes=1, edge_mask=none, node_mask=one),
        Data(edge_index=loop, num_nodes=1, edge_mask=one, node_mask=one),
        Data(
            edge_index=torch.tensor([[0, 2], [1, 3]]),
            num_nodes=4,
            edge_mask=torch.tensor([True, False]),
            node_mask=torch.ones(4).bool(),
        ),
    ]
    explanations = [explain(graph) for graph in graphs]
    path = gallery(graphs, explanations, tmp_path / "a.png", graphs_per_row=3)
    assert path.read_bytes().startswith(PNG)


def test_constant_and_nan_weights_can_be_drawn(tmp_path):
    for value in (0.5, torch.nan):
        explanation = explain(cycle())
        explanation.edge_mask = torch.full((10,), value)
        assert gallery([cycle()], [explanation], tmp_path / "a.png").stat().st_size > 1000


def test_same_input_same_bytes(tmp_path):
    for suffix in ("png", "svg"):
        paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
        for path in paths:
            gallery([cycle()], [explain(cycle())], path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_no_global_matplotlib_state(tmp_path):
    gallery([cycle()], [explain(cycle())], tmp_path / "a.png")
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"png or \.svg"):
        gallery([cycle()], [explain(cycle())], tmp_path / "a.pdf")
    with pytest.raises(InputError, match="one explanation per graph"):
        gallery([cycle()], [], tmp_path / "a.png")
    with pytest.raises(InputError, match="one explanation per graph"):
        gallery([], [], tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_neighbours_are_closer_than_strangers():
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    positions = node_positions(path, 5)
    gaps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    assert np.allclose(gaps, gaps[0], rtol=0.1)
    assert np.linalg.norm(positions[0] - positions[4]) > 3 * gaps[0]
    assert np.abs(positions).max() == pytest.approx(1.0)


def test_separate_parts_do_not_overlap():
    edge_index = torch.tensor([[0, 1, 2, 4, 5, 6], [1, 2, 0, 5, 6, 4]])  # two triangles, node 3
    positions = node_positions(edge_index, 7)
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    apart = distance[:3, 4:].min()
    assert apart > 0.5 * distance[:3, :3].max()
    assert distance[3, [0, 1, 2, 4, 5, 6]].min() > 0.2


def test_control_characters_in_names(tmp_path):
    graph = cycle()
    graph.name = "a\x00b\x1b[31m\x0bc"
    columns = {"m\x01ine": [explain(graph)]}
    for suffix in ("svg", "png"):
        gallery([graph], columns, tmp_path / f"a.{suffix}", title="t\x02itle")
    shown = " ".join(texts(tmp_path / "a.svg"))
    assert "a b [31m c" in shown and "m ine" in shown and "t itle" in shown
