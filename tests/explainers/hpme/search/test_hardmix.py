"""Many selections in few forward passes."""

from dataclasses import replace

import pytest
import torch

from finder import Finder, mix_of, planted_graphs, planted_mix
from hpme.graphs import transforms


@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_hard_mixes_do_not_depend_on_the_chunk(monkeypatch, limit):
    mix = planted_mix("random")
    graphs = mix.graphs
    chosen = mix.select(graphs.x[:, 1].unsqueeze(0))[torch.zeros(6, dtype=torch.long)]
    own = torch.arange(graphs.num_graphs).expand(6, -1)
    whole = mix.predict(own, chosen, own, chosen)
    # A graph that hosts its own subgraph has all its boundary edges back in some order.
    assert whole.shape == (6, graphs.num_graphs, 1)
    monkeypatch.setattr(transforms, "MAX_ELEMENTS", limit)
    assert mix.per_pass(own[0]) < own.numel()
    torch.testing.assert_close(mix.predict(own, chosen, own, chosen), whole)


def test_alone_the_target_sees_the_induced_subgraph():
    graphs = planted_graphs(6)
    mix = replace(mix_of(Finder(), graphs, k=5), alone=True)
    chosen = mix.select(torch.rand(2, mix.graphs.num_nodes))
    own = torch.arange(6).expand(2, -1)
    output = mix.predict(own, chosen, own.flip(1), chosen)
    for row in range(2):
        for number, graph in enumerate(graphs):
            keep = chosen.keep[row][mix.graphs.batch == number]
            part = graph.subgraph(keep)
            alone = Finder()(part.x, part.edge_index, torch.zeros(len(part.x), dtype=torch.long))
            torch.testing.assert_close(output[row, number], alone[0])


def test_a_subset_is_what_would_be_built_of_its_graphs():
    graphs, ids = planted_graphs(9), torch.tensor([7, 2, 5])
    part, built = mix_of(Finder(), graphs).subset(ids), mix_of(Finder(), [graphs[i] for i in ids])
    torch.testing.assert_close(part.features, built.features)
    torch.testing.assert_close(part.h, built.h)
    assert torch.equal(part.m, built.m) and torch.equal(part.draw(4), built.draw(4))
