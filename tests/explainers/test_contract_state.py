"""The user's model and the global random state are as before, whatever happens."""

import copy
from functools import cache

import pytest
import torch
from torch import nn

from contract import (
    EACH,
    SLUGS,
    assert_same,
    assert_same_random_state,
    call,
    fitted,
    in_use,
    make_explainer,
    make_graphs,
    make_target,
    random_state,
    snapshot,
)
from hpme.errors import ModelError, NotFittedError

pytestmark = pytest.mark.parametrize("slug", SLUGS)


@pytest.mark.parametrize("target", EACH)
def test_fit_and_explain_leave_the_model_alone(slug, target):
    case = fitted(slug, target)
    assert_same(case.before, case.after)
    call(case.explainer, case.model, case.batch)
    case.explainer.explain(case.model, case.graphs, progress=False)
    assert_same(case.before, snapshot(case.model))


class BoomError(Exception):
    pass


class Fuse(nn.Module):
    """Lets a number of calls pass, then fails; the counter lies outside the module."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.limit = [None]

    def forward(self, *_):
        self.calls.append(1)
        if self.limit[0] is not None and len(self.calls) > self.limit[0]:
            raise BoomError("blown")


def fused(target, slug):
    """A target that can be made to fail after its first layer has run."""
    model, fuse = in_use(make_target(target, slug)), Fuse()
    layers = [m for m in model.modules() if hasattr(m, "propagate")]
    layers[0].register_forward_hook(fuse)
    return model, fuse


@cache
def calls_of_a_fit(slug, target):
    model, fuse = fused(target, slug)
    make_explainer(slug).fit(model, make_graphs(target), progress=False)
    return len(fuse.calls)


MOMENTS = [
    *((target, "half way") for target in EACH),
    *((target, when) for target in ("gcn", "gine") for when in ("first call", "last call")),
]


@pytest.mark.parametrize(("target", "when"), MOMENTS)
def test_exception_while_fitting(slug, target, when):
    model, fuse = fused(target, slug)
    before = snapshot(model)
    if when == "first call":
        fuse.limit[0] = 0
    else:
        total = calls_of_a_fit(slug, target)
        assert total >= 2
        fuse.limit[0] = total // 2 if when == "half way" else total - 1
    explainer = make_explainer(slug)
    state = random_state()
    with pytest.raises(ModelError, match="blown") as caught:
        explainer.fit(model, make_graphs(target), progress=False)
    assert isinstance(caught.value.__cause__, BoomError)
    assert_same(before, snapshot(model))
    assert_same_random_state(state)
    if explainer.needs_fit:
        with pytest.raises(NotFittedError):
            explainer.explain(model, make_graphs(target), progress=False)


@pytest.mark.parametrize("target", EACH)
def test_exception_while_explaining(slug, target):
    case = fitted(slug, target)
    model, fuse = fused(target, slug)
    before = snapshot(model)
    call(case.explainer, model, case.batch)
    total = len(fuse.calls)
    for limit in {0, total // 2, max(0, total - 1)}:
        fuse.calls.clear()
        fuse.limit[0] = limit
        if total:
            with pytest.raises(ModelError, match="blown"):
                call(case.explainer, model, case.batch)
        else:  # an explainer that never asks the model
            call(case.explainer, model, case.batch)
        assert_same(before, snapshot(model))


def test_failed_refit_does_not_pass_for_the_fit_before(slug):
    explainer = copy.deepcopy(fitted(slug).explainer)
    model, fuse = fused("gcn", slug)
    fuse.limit[0] = 0
    with pytest.raises(ModelError):
        explainer.fit(model, make_graphs(), progress=False)
    assert explainer.fitted is not explainer.needs_fit


def test_global_random_state_is_untouched_and_unused(slug):
    model, graphs = make_target("gcn", slug), make_graphs()
    masks = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        state = random_state()
        explainer = make_explainer(slug).fit(model, graphs, progress=False)
        masks.append([e.edge_mask for e in explainer.explain(model, graphs, progress=False)])
        assert_same_random_state(state)
    assert all(torch.equal(a, b) for a, b in zip(*masks, strict=True))


def test_works_where_gradients_are_off(slug):
    case = fitted(slug)
    expected = call(case.explainer, case.model, case.batch).edge_mask
    with torch.no_grad():
        explainer = make_explainer(slug).fit(case.model, case.graphs, progress=False)
        assert torch.equal(call(explainer, case.model, case.batch).edge_mask, expected)
        assert not torch.is_grad_enabled()


def test_inputs_are_not_changed(slug):
    case = fitted(slug)
    graphs = make_graphs()
    graphs[0].x.requires_grad_()
    before = [graph.clone() for graph in graphs]
    explanation = case.explainer.explain(case.model, graphs, progress=False)[0]
    make_explainer(slug).fit(case.model, graphs, progress=False)
    assert not explanation.edge_mask.requires_grad
    assert graphs[0].x.grad is None
    for old, new in zip(before, graphs, strict=True):
        assert torch.equal(old.x, new.x)
        assert torch.equal(old.edge_index, new.edge_index)
        assert old.keys() == new.keys()
