"""What makes a pool, a subset or an explanation good."""

from types import SimpleNamespace

import torch

from finder import planted_mix
from hpme.explainers.hpme.search.criterion import (
    bounded_loss,
    closeness,
    criterion,
    joint_rank,
)
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.models.output import Task


def test_criterion_prefers_the_planted_nodes():
    mix = planted_mix("random")
    planted = mix.graphs.x[:, 1]
    noise = torch.rand(2, len(planted), generator=torch.Generator().manual_seed(0))
    keep = torch.stack([planted, *noise])
    values = criterion(mix, mix.select(keep), mix.draw(3))
    assert joint_rank(values).argmin() == 0
    assert values[0, 0] < 0.1 < values[1:, 0].min()


def test_disagreement_is_one_minus_the_correlation(monkeypatch):
    mix = planted_mix("random")
    output = torch.randn(3, mix.graphs.num_graphs, 1, generator=torch.Generator().manual_seed(1))
    monkeypatch.setattr(HardMix, "predict", lambda *_: output)
    values = criterion(mix, mix.select(mix.graphs.x[:, :1].T), mix.draw(3))
    both = torch.stack([output.flatten(), mix.context.values[:, 0].repeat(3)])
    torch.testing.assert_close(values[0, 0], 1 - torch.corrcoef(both)[0, 1])


def test_bounded_and_close_for_classes():
    task = Task("multiclass_classification")
    context = SimpleNamespace(task=task, prediction=torch.tensor([1, 0]))
    output, wanted = torch.tensor([[[-9.0, 9.0], [0.0, 0.0]]]), torch.tensor([[0, 1]])
    close, loss = (measure(context, output, wanted) for measure in (closeness, bounded_loss))
    torch.testing.assert_close(close, torch.tensor([[1.0, 0.5]]))
    assert torch.equal(loss, 1 - close)


def test_bounded_and_close_for_values():
    task = Task("regression", scale=2.0)
    context = SimpleNamespace(task=task, prediction=torch.tensor([[0.0]] * 4))
    output, wanted = torch.tensor([[[0.0], [1.0], [2.0], [200.0]]]), torch.arange(4)[None]
    assert closeness(context, output, wanted).tolist() == [[1, 0.5, 0, 0]]
    assert bounded_loss(context, output, wanted).tolist() == [[0, 0.25, 1, 4]]
