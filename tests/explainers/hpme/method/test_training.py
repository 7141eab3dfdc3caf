"""The losses, by the sums the paper prints, and a step of Algorithm 1 on a planted case."""

import torch

from finder import Finder, mix_of, planted_graphs, planted_mix
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.method.training import (
    Objective,
    bce_loss,
    final_loss,
    prediction_loss,
    train,
)
from hpme.explainers.shared.parametric import EdgeMLP


def test_bce_is_the_mean_of_the_papers_sum():
    logits, inside = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([True, False, False])
    p, q = logits.sigmoid(), inside.float()
    expected = -(q * p.log() + (1 - q) * (1 - p).log()).sum() / 3
    torch.testing.assert_close(bce_loss(logits, inside), expected)
    torch.testing.assert_close(bce_loss(logits, inside, 1), 3 * expected)
    torch.testing.assert_close(bce_loss(logits, inside, 2), 1.5 * expected)


def test_beta_weighs_the_bce():
    prediction, bce = torch.tensor([1.0, 3.0]), torch.tensor(0.6)
    torch.testing.assert_close(final_loss(prediction, bce, 0.5), torch.tensor(2.3))
    assert final_loss(prediction, bce, 0.0) == 2


def test_prediction_loss_is_zero_on_the_prediction_itself():
    context = planted_mix(count=4).context
    ids = torch.tensor([2, 0])
    output = context.values[ids] * context.task.scale
    assert prediction_loss(context, output, ids).tolist() == [0, 0]
    off = prediction_loss(context, output + context.task.scale, ids)
    torch.testing.assert_close(off, torch.ones(2))


def test_the_gate_is_the_only_path_to_the_pool():
    mix = mix_of(Finder(), planted_graphs(12), k=12)  # all nodes the target looks at are pooled
    pool = Pool(mix.context.h.shape[1], generator=mix.generator)
    pool.bias.data.fill_(1.0)  # no unit is dead
    edge_mlp = EdgeMLP(mix.context.h.shape[1], generator=mix.generator)
    for gate in (False, True):
        pool.zero_grad()
        objective = Objective(mix, gated=gate)
        objective(pool, edge_mlp, torch.arange(6)).backward()
        learns = [p.grad is not None and bool(p.grad.abs().sum() > 0) for p in pool.parameters()]
        assert any(learns) == gate


def test_training_lowers_the_loss():
    mix = planted_mix(count=12)
    pool = Pool(mix.context.h.shape[1], generator=mix.generator)
    edge_mlp = EdgeMLP(mix.context.h.shape[1], generator=mix.generator)
    objective, ids = Objective(mix, 3.0), torch.arange(12)

    def loss():
        return sum(objective(pool, edge_mlp, ids).item() for _ in range(5))

    before = loss()
    optimiser = torch.optim.Adam([*pool.parameters(), *edge_mlp.parameters()], lr=0.03)
    done = list(train(objective, pool, edge_mlp, optimiser, 25, 12))
    assert len(done) == 25
    assert loss() < 0.8 * before
