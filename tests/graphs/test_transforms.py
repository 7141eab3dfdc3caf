"""Graphs as one, and with more edges, against loops over graphs."""

import torch
from torch_geometric.data import Batch, Data

from hpme.graphs import GraphStore
from hpme.graphs.transforms import side_by_side, with_edges


def make(seed, nodes, own=True):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(nodes, (2, 2 * nodes), generator=generator)
    data = Data(
        x=torch.rand(nodes, 2, generator=generator), edge_index=index,
        edge_attr=torch.rand(2 * nodes, 3, generator=generator),
        edge_weight=torch.rand(2 * nodes, generator=generator),
        charge=torch.rand(nodes, generator=generator),
        length=torch.rand(2 * nodes, 2, generator=generator),
        dose=torch.rand(1, 4, generator=generator), anchors=torch.tensor([seed % nodes]),
    )  # fmt: skip
    if own:
        data.only = torch.rand(nodes, generator=generator)
    return data


def batch(graphs):
    return GraphStore.from_graphs(graphs, attributes="fitting").batch()


def test_attributes_of_both_stay_with_nodes_and_edges():
    first = [make(seed, 3 + seed) for seed in range(3)]
    second = [make(9 + seed, 6 - seed, own=False) for seed in range(3)]
    graphs, place = side_by_side(batch(first), batch(second))
    assert sorted(graphs.node) == ["charge"] and sorted(graphs.edge) == ["length"]
    assert torch.equal(graphs.graph["dose"], torch.cat([g.dose for g in first]))
    for graph in first:
        del graph.only
    together = Batch.from_data_list([*first, *second])
    x, charge = together.x, together.charge
    assert torch.equal(graphs.x[place], x) and torch.equal(graphs.node["charge"][place], charge)
    assert torch.equal(graphs.edge_index, place[together.edge_index])
    assert torch.equal(graphs.edge["length"], together.length)
    assert torch.equal(graphs.edge_attr, together.edge_attr)
    assert graphs.sizes.tolist() == [3 + 6, 4 + 5, 5 + 4]
    anchors = graphs.x[graphs.anchors[:, 0]]
    assert torch.equal(anchors, torch.stack([g.x[g.anchors[0]] for g in first]))


def test_new_edges_are_like_real_ones():
    graphs = batch([make(0, 4), make(1, 5)])
    new = torch.tensor([[0, 5], [1, 6]])
    longer = with_edges(graphs, new, torch.Generator().manual_seed(0))
    total = graphs.num_edges
    assert torch.equal(longer.edge_index, torch.cat([graphs.edge_index, new], dim=1))
    assert longer.edge_weight[total:].tolist() == [1, 1]
    for place in (total, total + 1):
        like = (graphs.edge_attr == longer.edge_attr[place]).all(1).nonzero()[0, 0]
        assert torch.equal(longer.edge["length"][place], graphs.edge["length"][like])
    bare = with_edges(graphs.edges(torch.zeros(total, dtype=torch.bool)), new, torch.Generator())
    assert bare.edge_attr.tolist() == [[0, 0, 0]] * 2 and bare.edge["length"].shape == (2, 2)
