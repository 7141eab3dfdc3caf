"""The rest of a reason, on a model that needs two things of which hosts mostly have one."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import subgraph, to_undirected

from hpme.explainers import HPMEExplainer

NODES, A, B = 10, 2, 3
CHEAP = {"k": 2, "restarts": 2}


class Both(nn.Module):
    """Log odds of 8 (a + b - 1.5), for the share of two A and of one B that is there."""

    def __init__(self, b=1.0):
        super().__init__()
        self.b = b

    def forward(self, x, edge_index, batch):
        h = x + 0 * global_add_pool(x[edge_index[0]], edge_index[1], len(x))
        there = (global_add_pool(h, batch) / torch.tensor([1, 1, 2, 1])).clamp(max=1)
        return 8 * (there[:, A] + self.b * there[:, B] - 0.5 - self.b)


def tree(generator, *kinds):
    """A random tree with two A, or one B, or both, at random places."""
    parent = [int(torch.randint(n, (1,), generator=generator)) for n in range(1, NODES)]
    edges = torch.tensor([parent, list(range(1, NODES))])
    code = torch.randint(2, (NODES,), generator=generator)
    places = torch.randperm(NODES, generator=generator)
    for kind in kinds:
        code[places[:2] if kind == A else places[2:3]] = kind
    x = nn.functional.one_hot(code, 4).float()
    return Data(x=x, edge_index=to_undirected(edges))


@pytest.fixture(scope="module")
def graphs():
    """Half have A and B; of the others 19 of 20 have B, and one neither."""
    generator = torch.Generator().manual_seed(0)
    with_both = [tree(generator, A, B) for _ in range(30)]
    return with_both + [tree(generator, *([B] if n % 20 else [])) for n in range(30)]


def fit(model, graphs):
    return HPMEExplainer(**CHEAP).fit(model, graphs, mode="binary_classification", progress=False)


@pytest.fixture(scope="module")
def fitted(graphs):
    return fit(Both(), graphs)


@pytest.fixture(scope="module")
def judged(fitted, graphs):
    explanations = fitted.explain(Both(), graphs[:12], progress=False)
    return explanations, fitted.quality(Both(), explanations)


def kind(graph):
    return graph.x.argmax(1)


def test_half_of_a_reason_is_completed(judged):
    explanations, qualities = judged
    for one, quality in zip(explanations, qualities, strict=True):
        assert torch.equal(one.pooled, kind(one) == A)  # enough, where hosts have B
        assert quality.verdict == "carried" and quality.carried > 0.7
        assert torch.equal(one.rest, kind(one) == B) and one.rest is quality.rest
        assert quality.together > 0.8
        (number,) = one.rest.nonzero().view(-1).tolist()
        assert quality.more == f"node {number}"
        word = "needs" if quality.carried > 0.9 else "with"
        assert f"; {word} node {number}" in quality.sentence()


def test_one_motif_that_carries_all_has_no_rest(graphs):
    model = Both(b=0.0)
    for quality in fit(model, graphs).quality(model, graphs[:12]):
        assert quality.carried > 0.9 and not quality.rest.any()
        assert quality.together != quality.together and quality.more == ""


def test_explanations_are_taken_as_they_come(fitted, graphs, judged):
    wanted = [q.rest for q in judged[1]]
    alone = [fitted.quality(Both(), [graph])[0].rest for graph in graphs[3:5]]
    loaded = fitted.quality(Both(), DataLoader(graphs[:12], batch_size=5))
    assert all(map(torch.equal, alone, wanted[3:5]))
    assert all(torch.equal(q.rest, mask) for q, mask in zip(loaded, wanted, strict=True))


def test_does_not_depend_on_the_order_of_nodes(fitted, graphs, judged):
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    turned = []
    for graph in graphs[:12]:
        edges = subgraph(order, graph.edge_index, relabel_nodes=False)[0]
        turned.append(Data(x=graph.x[order], edge_index=order.argsort()[edges]))
    for before, after in zip(judged[1], fitted.quality(Both(), turned), strict=True):
        assert torch.equal(before.rest[order], after.rest)


def test_is_kept_shown_and_drawn(judged, tmp_path):
    explanations = judged[0]
    torch.save(list(explanations), tmp_path / "e.pt")
    loaded = torch.load(tmp_path / "e.pt", weights_only=False)
    assert torch.equal(loaded[0].rest, explanations[0].rest)
    assert int(Batch.from_data_list(loaded).rest.sum()) == len(loaded)
    frame = loaded[0].to_frame("nodes")
    assert frame["rest"].tolist() == explanations[0].rest.tolist()
    picture = explanations[0].draw()
    assert "node these rely on" in picture and "#a66bd4" in picture.lower()
    without = explanations[0].clone()
    without.rest = torch.zeros_like(without.rest)
    assert "node these rely on" not in without.draw()
