"""The mask against the paper's matrices."""

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj, to_undirected

from hpme.data import GraphStore
from hpme.explainers.hpme.method.mixup import mix_mask, structural_mixup
from hpme.explainers.hpme.method.pool import Selection


def ring(nodes):
    index = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(-1)])
    data = Data(x=torch.rand(nodes, 1), edge_index=to_undirected(index))
    return GraphStore.from_graphs([data]).batch(with_pairs=True)


def test_is_the_equation_of_the_paper():
    source, host = ring(5), ring(7)
    chosen, removed = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 6])
    order = torch.arange(3)
    picked = Selection(torch.zeros(5, dtype=torch.bool), torch.zeros(5, dtype=torch.long))
    gone = Selection(torch.zeros(7, dtype=torch.bool), torch.zeros(7, dtype=torch.long))
    for selection, nodes in ((picked, chosen), (gone, removed)):
        selection.keep[nodes], selection.order[nodes] = True, order
    mix = structural_mixup(source, picked, host, gone, torch.Generator(), attach="rank")
    weight = torch.rand(mix.pair_index.shape[1])
    # The mix lists what is left of the host, then the inserted nodes, by rank.
    place = torch.cat([(~gone.keep).nonzero().squeeze(1), removed])

    def dense(graphs, values=None):
        return to_dense_adj(graphs.edge_index, edge_attr=values, max_num_nodes=graphs.num_nodes)[0]

    def in_host(values):
        full = torch.zeros(7, 7)
        full[place.unsqueeze(1), place] = dense(mix.graphs, mix.per_edge(values))
        return full

    s = torch.eye(7)[:, removed]
    outside = dense(host) - s @ (s.t() @ dense(host) @ s) @ s.t()
    inside = s @ dense(source)[chosen][:, chosen] @ s.t()
    w = in_host(weight)
    expected = (1 - w) * outside + w * inside
    torch.testing.assert_close(in_host(mix_mask(weight, mix.transplanted)), expected)


def test_without_mixup_nothing_weighs_outside():
    weight, transplanted = torch.tensor([0.2, 0.7, 0.4]), torch.tensor([True, False, True])
    assert mix_mask(weight, transplanted, mixup=False).tolist() == weight.mul(transplanted).tolist()
