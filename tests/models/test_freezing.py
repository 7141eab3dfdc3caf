"""A frozen model is as before afterwards."""

import random
import threading
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest
import torch
from torch import nn

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


class Writer(nn.Module):
    """Writes in place, wherever a module can keep something."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3, max_norm=0.1)
        self.weight = nn.Parameter(torch.ones(2))
        self.plain, self.array = torch.zeros(2), np.zeros(2)
        self.counted, self.listed = Counter(a=1), defaultdict(list)
        self.nested = [[0], {"a": [torch.zeros(2)]}, ([1],)]
        self.nested.append(self.nested)
        self.queue, self.ordered = deque([[1]], maxlen=2), OrderedDict(a=[1])
        self.shared = self.nested[0]
        self.rng, self.own = torch.Generator().manual_seed(0), random.Random(0)
        self.draws = np.random.default_rng(0)
        self.tied = [self.weight]

    def write(self):
        self.table(torch.arange(4))
        with torch.no_grad():
            self.weight.mul_(2)
        self.plain += 1
        self.array += 1
        self.counted["a"] += 1
        self.listed["b"].append(1)
        self.nested[0].append(1)
        self.nested[1]["a"][0].add_(1)
        self.nested[2][0].append(2)
        self.queue[0].append(2)
        self.ordered["a"].append(2)
        torch.rand(1, generator=self.rng)
        self.own.random()
        self.draws.random()

    def state(self):
        return repr(
            [
                (self.table.weight, self.weight, self.plain, self.array, self.counted, self.listed),
                (self.nested[:3], self.queue, self.ordered, self.shared, self.tied),
                (self.rng.get_state().sum(), self.own.getstate(), self.draws.bit_generator.state),
            ]
        )


def test_what_is_written_in_place_goes_into_copies():
    model = Writer()
    before, kept = model.state(), dict(model.__dict__)
    with frozen(model):
        assert model.state().replace(", requires_grad=True", "") == before.replace(
            ", requires_grad=True", ""
        )
        assert model.nested[3] is model.nested and model.shared is model.nested[0]
        assert model.tied[0] is model.weight and model.queue.maxlen == 2
        model.write()
        assert model.state() != before
    assert model.state() == before
    assert all(model.__dict__[name] is value for name, value in kept.items())
    assert model.nested[3] is model.nested and model.tied[0] is model.weight


def test_threads_take_turns():
    """Whatever their models: these share the random state, and may share layers."""
    model, twin = Net(), Net()
    twin.first = model.first
    inside, most = [], []

    def work(one):
        for _ in range(20):
            with frozen(one), frozen(one):
                inside.append(1)
                most.append(len(inside))
                torch.rand(1), np.random.rand(1)
                inside.pop()

    state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    threads = [threading.Thread(target=work, args=(one,)) for one in (model, twin) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80 and max(most) == 1
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.random.get_state()[1].tolist() == state[1]
    assert model.training and all(weight.requires_grad for weight in model.parameters())
