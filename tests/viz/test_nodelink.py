"""Node-link drawings mark the nodes a graph is about."""

import pytest
import torch
from matplotlib.colors import Normalize, to_rgba
from matplotlib.figure import Figure
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.viz.nodelink import NodeLinkPainter
from hpme.viz.style import ANCHOR

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def rings(axes):
    """Places of all rings."""
    found = []
    for collection in axes.collections:
        colours = collection.get_edgecolors()
        if len(colours) and tuple(colours[0]) == to_rgba(ANCHOR):
            assert len(collection.get_facecolors()) == 0  # the node below stays visible
            found += collection.get_offsets().tolist()
    return found


@pytest.mark.parametrize("anchors", [None, [2], [0, 3]])
def test_anchors_have_rings(anchors):
    graph = Data(x=torch.ones(4, 1), edge_index=EDGES, edge_mask=torch.arange(6) < 2)
    if anchors is not None:
        graph.anchors = torch.tensor(anchors)
    truth, weights = Figure().subplots(1, 2)
    painter = NodeLinkPainter()
    painter.draw_truth(truth, graph)
    painter.draw_weights(weights, graph, Explanation(edge_mask=torch.rand(6)), Normalize(0, 1))
    places = painter._placed[1]
    expected = [] if anchors is None else places[anchors].tolist()
    assert rings(truth) == rings(weights) == expected
