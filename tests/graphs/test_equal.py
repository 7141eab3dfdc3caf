"""Which graphs are the same."""

import torch
from torch_geometric.data import Data

from hpme.graphs import GraphStore
from hpme.graphs.patterns import equal_groups


def make(seed=0, **changes):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(8, (2, 14), generator=generator)
    x = torch.randn(8, 3, generator=generator)
    data = Data(x=x, edge_index=edge_index, edge_attr=torch.randn(14, 2, generator=generator))
    for name, value in changes.items():
        data[name] = value
    return data


def renumbered(data, seed=0):
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
    edges = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(seed))
    x = torch.empty_like(data.x)
    x[order] = data.x
    return Data(x=x, edge_index=order[data.edge_index][:, edges], edge_attr=data.edge_attr[edges])


def test_copies_are_the_same_however_their_nodes_are_numbered():
    one, other = make(0), make(1)
    zeros = make(x=torch.zeros(8, 3))
    graphs = [one, other, renumbered(one), one.clone(), renumbered(other, 3), zeros]
    graphs.append(make(x=-torch.zeros(8, 3)))  # a zero is a zero
    group = equal_groups(GraphStore.from_graphs(graphs)).tolist()
    assert group[0] == group[2] == group[3] and group[1] == group[4] and group[5] == group[6]
    assert len(set(group)) == 3


def test_a_feature_an_edge_or_its_attribute_makes_another_graph():
    one = make()
    x, attr, ends = one.x.clone(), one.edge_attr.clone(), one.edge_index.clone()
    x[3, 1] += 1e-6
    attr[5, 0] += 1e-6
    ends[1, 4] = (ends[1, 4] + 1) % 8
    swapped = one.x.clone()
    swapped[[0, 1]] = one.x[[1, 0]]
    graphs = [one, make(x=x), make(edge_attr=attr), make(edge_index=ends), make(x=swapped)]
    assert len(set(equal_groups(GraphStore.from_graphs(graphs)).tolist())) == 5


def test_graphs_about_other_nodes_differ_and_labels_do_not_count():
    one, same = make(y=torch.tensor([0])), make(y=torch.tensor([1]))
    group = equal_groups(GraphStore.from_graphs([one, same])).tolist()
    assert group[0] == group[1]
    store = GraphStore.from_graphs([make(), make()])
    for anchors, count in (([[1], [1]], 1), ([[1], [2]], 2)):
        given = store.with_attributes(graph={"anchors": torch.tensor(anchors)})
        assert len(set(equal_groups(given).tolist())) == count
