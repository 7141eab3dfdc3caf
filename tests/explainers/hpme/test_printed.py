"""HPME as printed against Algorithm 1 written out with matrices and loops."""

import pytest
import torch
import torch.nn.functional as F

from finder import Finder, planted_graphs
from hpme.errors import InputError
from hpme.explainers import HPMEPrintedExplainer
from hpme.explainers.hpme.method import mixer, training
from hpme.explainers.hpme.method.mixer import HostSampler
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.shared.parametric import EdgeMLP

POOLED = 6
CHEAP = {"k": POOLED, "epochs": 4}


@pytest.fixture(scope="module")
def graphs():
    return planted_graphs(8)


def fit(graphs, **options):
    explainer = HPMEPrintedExplainer(**{**CHEAP, **options})
    return explainer.fit(Finder(), graphs, mode="regression", progress=False)


def edge_mask(explainer, graphs):
    return torch.cat([e.edge_mask for e in explainer.explain(Finder(), graphs)])


@pytest.fixture(scope="module")
def fitted(graphs):
    return fit(graphs)


def adjacency(graph):
    a = torch.zeros(graph.num_nodes, graph.num_nodes)
    a[tuple(graph.edge_index)] = 1
    return a


def target(x, a):
    """What Finder computes, with a weighted adjacency matrix; embeddings and output."""
    marked = x * x[:, 1:2]
    h = (a.T @ marked) * marked[:, 1:2]
    return torch.cat([h, x], dim=1), h[:, 0].sum()


def pooled(pool, h, a):
    """Scores by Eq. graph_pooling, and the preserved nodes, most edges to the outside first."""
    a_hat = a + torch.eye(len(a))
    d = a_hat.sum(1).rsqrt()
    z = ((d[:, None] * a_hat * d) @ h @ pool.weight[0] + pool.bias[0]).relu()
    p = pool.projection[0]
    score = z @ p / p.norm()
    chosen = sorted(range(len(a)), key=lambda i: -score[i].item())[:POOLED]
    inside = torch.zeros(len(a))
    inside[chosen] = 1
    leaving = a @ (1 - inside)
    return score, sorted(chosen, key=lambda i: (-leaving[i].item(), i))


def probabilities(mlp, h):
    """p_ij of all pairs of nodes, equal in both directions."""
    n, width = h.shape
    both = torch.cat([h[:, None].expand(n, n, width), h[None].expand(n, n, width)], dim=2)
    w = (both @ mlp.first + mlp.first_bias).relu() @ mlp.second + mlp.second_bias
    return ((w + w.T) / 2).sigmoid()


def algorithm_1(graphs, *, beta, epochs, lr, weight_decay):
    """One start, any host, S' as matrices, sums over edges, a step after all graphs."""
    generator = torch.Generator().manual_seed(0)
    seen = [target(g.x, adjacency(g)) for g in graphs]
    scale = torch.stack([output for _, output in seen]).std()
    pool = Pool(seen[0][0].shape[1], generator=generator)
    mlp = EdgeMLP(seen[0][0].shape[1], generator=generator)
    optimiser = torch.optim.Adam(
        [*pool.parameters(), *mlp.parameters()], lr=lr, weight_decay=weight_decay
    )
    for _ in range(epochs):
        losses = []
        for number, graph in enumerate(graphs):
            other = (number + 1) % len(graphs)
            a, a2 = adjacency(graph), adjacency(graphs[other])
            (h, wanted), h2 = seen[number], seen[other][0]
            score, own = pooled(pool, h, a)
            place = torch.eye(len(a2))[:, pooled(pool, h2, a2)[1]]  # S'
            inserted = place @ a[own][:, own] @ place.T
            a_mix = a2 - place @ (place.T @ a2 @ place) @ place.T + inserted
            outside = (1 - place.sum(1))[:, None]
            h_mix = outside * h2 + place @ h[own]
            gate = score[own].tanh()[:, None]
            x_mix = outside * graphs[other].x + place @ (graph.x[own] * gate)
            p = probabilities(mlp, h_mix)
            mask = p * inserted + (1 - p) * (a_mix - inserted)
            output = target(x_mix, mask * a_mix)[1]
            bce = -(inserted * p.log() + (a_mix - inserted) * (1 - p).log()).sum()
            losses.append(((output - wanted) / scale) ** 2 + beta * bce)
        optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        optimiser.step()
    return torch.cat([
        probabilities(mlp, h)[tuple(g.edge_index)]
        for g, (h, _) in zip(graphs, seen, strict=True)
    ])  # fmt: skip


@pytest.fixture
def nothing_drawn(monkeypatch):
    """The next graph hosts, ties go to the first node, and weights are their expectation."""
    by_boundary = mixer.by_boundary
    monkeypatch.setattr(mixer, "by_boundary", lambda keep, g, _: by_boundary(keep, g, None))
    monkeypatch.setattr(training, "binary_concrete", lambda logits, *_: logits.sigmoid())
    monkeypatch.setattr(HostSampler, "__call__", lambda self, ids: (ids + 1) % len(self.values))


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_it_is_algorithm_1(graphs, nothing_drawn, beta):
    options = {"epochs": 6, "lr": 0.03, "weight_decay": 5e-4}
    explainer = fit(graphs, bce_weight=beta, **options)
    expected = algorithm_1(graphs, beta=beta, **options)
    torch.testing.assert_close(
        edge_mask(explainer, graphs), expected.detach(), rtol=1e-4, atol=1e-5
    )


def test_explanations_are_probabilities_and_the_whole_pool(graphs, fitted):
    assert all(int(e.pooled.sum()) == POOLED for e in fitted.explain(Finder(), graphs))
    assert fitted.report.held_out == 0


@pytest.mark.parametrize(
    "options",
    [{"mixup": False}, {"bce_weight": 0.0}, {"gate": None}, {"pool_layers": 2},
     {"attach": "swap"}, {"neighbor": "contrast"}, {"score": "node"}, {"search_graphs": 4},
     {"temperature": 0.5}],
    ids=str,
)  # fmt: skip
def test_variants_differ(graphs, fitted, options):
    assert not torch.equal(edge_mask(fitted, graphs), edge_mask(fit(graphs, **options), graphs))


def test_without_a_gate_the_pool_stays_as_it_was_drawn(graphs):
    before = Pool(4, generator=torch.Generator().manual_seed(0))
    after = fit(graphs, gate=None).pool
    for first, last in zip(before.parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(F.normalize(first, dim=-1), F.normalize(last, dim=-1))


@pytest.mark.parametrize("ratio", [None, "auto"])
def test_a_size_must_be_given(ratio):
    with pytest.raises(InputError, match="ratio"):
        HPMEPrintedExplainer(ratio=ratio)


def test_several_layers_are_saved(graphs, tmp_path):
    explainer = fit(graphs, pool_layers=2)
    explainer.save(tmp_path / "e.safetensors")
    loaded = HPMEPrintedExplainer.load(tmp_path / "e.safetensors")
    assert loaded.pool.layers == 2
    assert torch.equal(edge_mask(loaded, graphs), edge_mask(explainer, graphs))


@pytest.mark.parametrize(
    "options", [{"bce_weight": -1.0}, {"gate": "relu"}, {"pool_layers": 0}, {"temperature": 0.0}]
)
def test_bad_arguments_are_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        HPMEPrintedExplainer(k=3, **options)
