"""A frozen model is as before afterwards."""

import pytest
import torch

from hpme.errors import ModelError
from hpme.models.freezing import frozen
from small_models import Net

pytestmark = pytest.mark.usefixtures("seeded")


def test_frozen_restores_flags_even_on_error():
    model = Net()
    model.train()
    model.second.eval()
    model.out.weight.requires_grad_(False)
    model.hidden.weight.grad = torch.ones_like(model.hidden.weight)
    training = [m.training for m in model.modules()]
    needs_grad = [p.requires_grad for p in model.parameters()]
    for error in (None, KeyError("x"), KeyboardInterrupt()):
        try:
            with frozen(model):
                assert not any(m.training for m in model.modules())
                assert not any(p.requires_grad for p in model.parameters())
                if error is not None:
                    raise error
        except (KeyError, KeyboardInterrupt) as caught:
            assert caught is error  # noqa: PT017
        assert [m.training for m in model.modules()] == training
        assert [p.requires_grad for p in model.parameters()] == needs_grad
        assert torch.equal(model.hidden.weight.grad, torch.ones_like(model.hidden.weight))


def test_frozen_wants_a_module():
    with pytest.raises(ModelError, match=r"torch\.nn\.Module, got function"), frozen(lambda: 0):
        pass
