"""Many selections in few forward passes."""

from dataclasses import replace

import torch

from finder import planted_mix


def test_hard_mixes_do_not_depend_on_the_chunk():
    mix = planted_mix("random")
    graphs = mix.graphs
    chosen = mix.select(graphs.x[:, 1].unsqueeze(0))[torch.zeros(6, dtype=torch.long)]
    own = torch.arange(graphs.num_graphs).expand(6, -1)
    whole = mix.predict(own, chosen, own, chosen)
    # A graph that hosts its own subgraph has all its boundary edges back in some order.
    assert whole.shape == (6, graphs.num_graphs, 1)
    torch.testing.assert_close(replace(mix, max_nodes=1).predict(own, chosen, own, chosen), whole)
