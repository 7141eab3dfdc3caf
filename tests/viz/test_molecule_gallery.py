"""Galleries of molecules."""

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from torch_geometric.explain import Explanation

pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")

from hpme.data import from_smiles
from hpme.viz import gallery
from hpme.viz.molecules import can_draw_molecules

SMILES = ["CC(=O)Nc1ccc(O)cc1", "C[C@H](F)C(=O)[O-].[Na+]", "C", "[H][H]"]


def molecules(smiles=SMILES, **options):
    dataset = from_smiles(smiles, rules={"carbonyl": "[CX3]=O"}, **options)
    return list(dataset)


def explain(graph, weight=None, pooled=True):
    weight = graph.edge_mask.float() if weight is None else torch.full((graph.num_edges,), weight)
    explanation = Explanation(edge_index=graph.edge_index, edge_mask=weight)
    if pooled:
        explanation.pooled = graph.node_mask
    return explanation


def draw(graphs, path, **options):
    return gallery(graphs, [explain(graph, **options) for graph in graphs], path)


def near(path, colour, tolerance=0.03):
    """Number of pixels of a colour."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return int((np.abs(imread(path)[..., :3] - rgb).max(-1) < tolerance).sum())


def drawings(path):
    """RDKit's drawings in an SVG: elements inside the outermost one."""
    root = ET.parse(path).getroot()
    return root.findall("{http://www.w3.org/2000/svg}svg")


def test_png_shows_truth_weights_and_pooled_atoms(tmp_path):
    graphs = molecules(SMILES[:2])
    path = draw(graphs, tmp_path / "a.png")
    assert near(path, "#F2935C") > 300  # ground truth
    assert near(path, "#0072B2") > 300  # the heaviest bonds
    assert near(path, "#F0C000") > 100  # rings of pooled atoms
    plain = draw(graphs, tmp_path / "b.png", pooled=False)
    assert near(plain, "#F0C000") < 10


def test_svg_holds_one_drawing_per_panel_inside_the_page(tmp_path):
    path = draw(molecules(), tmp_path / "a.svg")
    found = drawings(path)
    assert len(found) == 2 * len(SMILES)
    width, height = (float(v) for v in ET.parse(path).getroot().get("viewBox").split()[2:])
    boxes = []
    for drawing in found:
        x, y, w, h = (float(drawing.get(key)) for key in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        assert len(drawing) > 0
        boxes.append((x, y, w, h))
    for i, (x, y, w, h) in enumerate(boxes):  # no two overlap
        for a, b, c, d in boxes[:i]:
            assert x >= a + c or a >= x + w or y >= b + d or b >= y + h
    assert "<image" not in path.read_text().split("</defs>")[-1].split("<svg x=")[1]


def test_band_colour_and_width_follow_the_weight(tmp_path):
    (graph,) = molecules(["CC=O"])
    explanation = explain(graph, pooled=False)
    explanation.edge_mask = torch.tensor([0.0, 0.0, 1.0, 1.0])  # the two directions of each bond
    text = ET.tostring(drawings(gallery([graph], [explanation], tmp_path / "a.svg"))[1]).decode()
    widths = {}
    for colour in ("#E4E7EA", "#0072B2"):
        style = text[: text.index("ellipse")].split(f"stroke:{colour};stroke-width:")[1]
        widths[colour] = float(style.split("px")[0])
    assert widths["#0072B2"] > 2 * widths["#E4E7EA"]


def test_names_are_captions_even_with_odd_letters(tmp_path):
    graphs = molecules(SMILES[:2], names=["Paracetamol, 50 $ je $", "N" * 60])
    text = draw(graphs, tmp_path / "a.svg").read_text()
    assert "Paracetamol, 50" in text
    assert "N" * 31 + "…" in text and "N" * 33 not in text


def test_hydrogens_are_drawn_if_they_are_nodes(tmp_path):
    graphs = molecules(["CC=O"], hydrogens=True)
    assert graphs[0].num_nodes == 7
    assert can_draw_molecules(graphs)
    first = drawings(draw(graphs, tmp_path / "a.svg"))[1]
    assert len({p.get("class") for p in first.iter() if "atom-" in (p.get("class") or "")}) >= 7


def test_no_truth_panel_without_truth(tmp_path):
    graphs = molecules(["CCO", "CC"])
    assert len(drawings(draw(graphs, tmp_path / "a.svg"))) == 2


def test_constant_and_nan_weights_can_be_drawn(tmp_path):
    graphs = molecules()
    for weight in (0.5, torch.nan):
        assert draw(graphs, tmp_path / "a.png", weight=weight).stat().st_size > 1000


def test_same_input_same_bytes(tmp_path):
    for suffix in ("png", "svg"):
        paths = [draw(molecules(), tmp_path / f"{name}.{suffix}") for name in "ab"]
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_dots_and_lines_where_molecules_cannot_be_drawn(tmp_path, monkeypatch):
    graphs = molecules(SMILES[:2])
    mixed = [graphs[0].clone(), graphs[1]]
    del mixed[0].smiles
    wrong = [graphs[0].clone(), graphs[1]]
    wrong[0].smiles = "CCCCC"  # another molecule than the graph
    for given in (mixed, wrong):
        assert drawings(draw(given, tmp_path / "a.svg")) == []
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw.rdMolDraw2D", None)
    assert drawings(draw(graphs, tmp_path / "a.svg")) == []
