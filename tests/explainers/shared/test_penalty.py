import pytest
import torch
from torch.distributions import Bernoulli

from hpme.explainers.shared.parametric import mask_penalty


def test_is_reduced_graph_by_graph():
    mask = torch.rand(12, generator=torch.Generator().manual_seed(0))
    segment = torch.tensor([0] * 5 + [1] * 4 + [3] * 3)
    entropy = Bernoulli(mask).entropy()
    expected = [
        0.3 * mask[segment == g].sum() + 2 * entropy[segment == g].mean() if g != 2 else mask[0] * 0
        for g in range(4)
    ]
    actual = mask_penalty(mask, segment, 4, size=0.3, entropy=2.0)
    torch.testing.assert_close(actual, torch.stack(expected))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_value_and_slope_are_finite_at_the_ends(value):
    mask = torch.full((3,), value, requires_grad=True)
    penalty = mask_penalty(mask, torch.zeros(3, dtype=torch.long), 1, size=0.0, entropy=1.0)
    penalty.sum().backward()
    assert 0 <= penalty.item() < 1e-4
    assert bool(torch.isfinite(mask.grad).all())
