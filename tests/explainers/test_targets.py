"""Which class or task is explained."""

import pytest
import torch
from sklearn.base import clone
from torch import nn
from torch_geometric.nn import global_add_pool

from contract import make_explainer, make_graphs
from hpme.errors import InputError
from hpme.explainers import GradExplainer, HPMEExplainer
from hpme.explainers.hpme.base import HPMEBase
from hpme.models import ExplainedModel
from hpme.models.output import OutputView

CLASSES = ["A", "B", "C"]


class Weigher(nn.Module):
    """Class c scores the sum of feature c; edges only as far as they weigh their source."""

    def forward(self, x, edge_index, batch, edge_weight=None):
        source, target = edge_index
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        seen = x + torch.zeros_like(x).index_add(0, target, x[source] * weight.unsqueeze(1))
        return global_add_pool(seen, batch)


@pytest.fixture(scope="module")
def graphs():
    return make_graphs()


def predicted(graphs):
    return [
        int(Weigher()(g.x, g.edge_index, torch.zeros(len(g.x)).long()).argmax()) for g in graphs
    ]


def grad(graphs, **facts):
    explainer = GradExplainer(target="logit")
    return [e.edge_mask for e in explainer.explain(Weigher(), graphs, progress=False, **facts)]


def test_a_class_is_asked_about_by_name_or_number(graphs):
    by_name = grad(graphs, target="B", classes=CLASSES)
    by_number = grad(graphs, target=1)
    assert all(torch.equal(a, b) for a, b in zip(by_name, by_number, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(by_name, grad(graphs), strict=True))


def test_one_target_for_each_graph(graphs):
    wanted = [number % 3 for number in range(len(graphs))]
    each = grad(graphs, target=wanted)
    single = [grad(graphs, target=c) for c in range(3)]
    for number, mask in enumerate(each):
        assert torch.equal(mask, single[wanted[number]][number])
    assert torch.equal(grad(graphs, target=torch.tensor(wanted))[1], each[1])


def test_targets_of_other_number_than_graphs(graphs):
    with pytest.raises(InputError, match=f"2 targets for {len(graphs)} graphs"):
        grad(graphs, target=[0, 1])


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"target": "D", "classes": CLASSES}, "unknown class 'D'; valid: A, B, C"),
        ({"target": 7}, "unknown class 7"),
        ({"target": 0, "mode": "regression", "contrast": 1}, "regression has no classes"),
        ({"target": 0, "mode": "binary_classification", "tasks": ["t"]}, "1 names for 3 tasks"),
    ],
)
def test_unknown_classes_and_tasks(graphs, facts, message):
    with pytest.raises(InputError, match=message):
        HPMEExplainer(k=3).fit(Weigher(), graphs, progress=False, **facts)


def test_fit_to_several_classes_and_ask_about_each(graphs, tmp_path):
    explainer = make_explainer("hpme").fit(
        Weigher(), graphs, target=["A", "B", "C"], classes=CLASSES, progress=False
    )
    only = make_explainer("hpme").fit(Weigher(), graphs, target=1, progress=False)
    masks = explainer.explain(Weigher(), graphs, target="B", progress=False)
    for one, other in zip(masks, only.explain(Weigher(), graphs, progress=False), strict=True):
        torch.testing.assert_close(one.edge_mask, other.edge_mask)
    explainer.save(tmp_path / "hpme.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "hpme.safetensors")
    default = loaded.explain(Weigher(), graphs, progress=False)  # predicted classes
    told = explainer.explain(Weigher(), graphs, target=predicted(graphs), progress=False)
    for one, other in zip(default, told, strict=True):
        torch.testing.assert_close(one.edge_mask, other.edge_mask)
    with pytest.raises(InputError, match="fitted to target 1, not to 0"):
        only.explain(Weigher(), graphs, target=0, progress=False)


def test_why_this_and_not_that(graphs, monkeypatch):
    """Hosts are graphs that are predicted the other class."""
    classes = predicted(graphs)
    ours, other = sorted(set(classes))[:2]
    seen, hard_mix = [], HPMEBase.hard_mix

    def spy(self, context, generator):
        mix = hard_mix(self, context, generator)
        seen.append((context, mix))
        return mix

    monkeypatch.setattr(HPMEBase, "hard_mix", spy)
    make_explainer("hpme").fit(Weigher(), graphs, target=ours, contrast=other, progress=False)
    context, mix = seen[-1]
    assert len(context.store) == sum(c in (ours, other) for c in classes)
    hosts, side = mix.draw(5), context.prediction
    assert bool((side[hosts] != side).all())
    absent = ({0, 1, 2} - set(classes)) or None
    if absent:
        with pytest.raises(InputError, match="no graph is predicted to be of class"):
            HPMEExplainer(k=3).fit(Weigher(), graphs, contrast=absent.pop(), progress=False)


def test_clones_are_not_fitted():
    explainer = make_explainer("hpme")
    copy = clone(explainer)
    assert copy is not explainer and copy.get_params() == explainer.get_params()
    assert copy.set_params(k=7, seed=3) is copy
    assert (copy.k, copy.seed, copy.size.k) == (7, 3, 7)
    with pytest.raises(InputError, match="has no argument 'kk'; valid: "):
        copy.set_params(kk=1)
    with pytest.raises(InputError, match="k must be at least 1"):
        copy.set_params(k=0)
    assert copy.k == 7


def test_a_view_is_made_of_facts():
    explained = ExplainedModel(Weigher(), classes=CLASSES, target="B", output="logits")
    assert explained.view == OutputView(entry="logits", classes=CLASSES, target="B")
