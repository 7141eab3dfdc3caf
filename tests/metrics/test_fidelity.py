"""Fidelity: against single graphs, by hand, against PyG, and by its symmetries."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import DummyExplainer, Explainer
from torch_geometric.explain.metric import fidelity as pyg_fidelity
from torch_geometric.nn import GIN, global_add_pool

from hpme.errors import InputError, ModelError
from hpme.explainers import RandomExplainer
from hpme.metrics import fidelity, hard_masks
from slow_metrics import (
    MODELS,
    EdgeCount,
    all_explanations,
    bare_explanations,
    best_pairs,
    both_ways,
    edges,
    explained,
    make_model,
    output_on,
    pair_scores,
    random_explanation,
    slow_judge,
)


@pytest.mark.parametrize("name", MODELS)
def test_every_graph_equals_the_slow_way(name):
    model, mode = make_model(name)
    explanations = all_explanations()
    lost, _ = slow_judge(model, explanations, mode)
    plus, minus = [], []
    for number, explanation in enumerate(explanations):
        best = best_pairs(explanation, 2)
        rest = set(pair_scores(explanation)) - best
        plus.append(lost(number, output_on(model, explanation, rest)))
        minus.append(lost(number, output_on(model, explanation, best)))
    result = fidelity(model, explanations, 2, mode=mode)
    assert result.plus.per_graph.tolist() == pytest.approx(plus, abs=1e-5)
    assert result.minus.per_graph.tolist() == pytest.approx(minus, abs=1e-5)
    assert result.plus.mean == pytest.approx(sum(plus) / len(plus), abs=1e-5)
    assert max(plus) - min(plus) > 0.05  # there is something to see


def paths():
    """Paths of four and two pairs."""
    return [explained(both_ways(*((i, i + 1) for i in range(n))), n + 1, n) for n in (4, 2)]


def test_values_by_hand():
    result = fidelity(EdgeCount(), paths(), 1, mode="regression", scale=2.0)
    # 4 edges and 3 without the explanation, 1 with it alone; 2, 1 and 1 in the second graph.
    assert result.plus.per_graph.tolist() == [0.5, 0.5]
    assert result.minus.per_graph.tolist() == [1.5, 0.5]
    assert result.minus.mean == 1.0
    assert result.minus.std == 0.5
    relative = fidelity(EdgeCount(), paths(), 1, mode="regression", scale="prediction")
    assert relative.minus.per_graph.tolist() == [0.75, 0.5]
    spread = fidelity(EdgeCount(), paths(), 1, mode="regression")
    assert spread.minus.mean == pytest.approx(2 / math.sqrt(2))  # standard deviation of 4 and 2


def test_probabilities_by_hand():
    def more(count):
        return 1 / (1 + math.exp(-count))

    result = fidelity(EdgeCount(2), paths(), 1)
    assert result.plus.per_graph.tolist() == pytest.approx([more(4) - more(3), more(2) - more(1)])
    assert result.minus.per_graph.tolist() == pytest.approx([more(4) - more(1), more(2) - more(1)])
    # The probability of class 0 rises instead.
    other = fidelity(EdgeCount(2), paths(), 1, labels=torch.tensor([0, 1]))
    assert other.plus.per_graph.tolist() == pytest.approx([more(3) - more(4), more(2) - more(1)])


def test_self_loops_stay():
    looped = explained(torch.cat([both_ways((0, 1), (1, 2)), edges((0, 0), (1, 1))], dim=1), 3)
    looped.edge_mask = torch.tensor([0.9, 0.1, 0.9, 0.1, 1.0, 1.0])
    result = fidelity(EdgeCount(), [looped], 1, mode="regression", scale="prediction")
    # The model counts 3, half for each loop, and one less without either pair.
    assert (result.plus.mean, result.minus.mean) == pytest.approx((1 / 3, 1 / 3))


def test_all_pairs_selected():
    model, _ = make_model("classes")
    explanations = all_explanations()
    result = fidelity(model, explanations, 1.0)
    assert result.minus.per_graph.tolist() == pytest.approx([0] * len(explanations), abs=1e-6)
    lost, _ = slow_judge(model, explanations, None)
    expected = [lost(i, output_on(model, e, set())) for i, e in enumerate(explanations)]
    assert result.plus.per_graph.tolist() == pytest.approx(expected, abs=1e-5)


class Summed(nn.Module):
    """Sums messages, so that masking one is deleting its edge."""

    def __init__(self):
        super().__init__()
        self.gnn, self.head = GIN(3, 8, 2, 8), nn.Linear(8, 3)

    def forward(self, x, edge_index, batch=None):
        return self.head(global_add_pool(self.gnn(x, edge_index), batch))


@pytest.mark.parametrize("kind", ["model", "phenomenon"])
def test_accuracy_form_equals_pyg(kind):
    model = Summed().eval()
    explanations = [random_explanation(seed) for seed in range(30)]
    generator = torch.Generator().manual_seed(0)
    labels = None if kind == "model" else torch.randint(3, (30,), generator=generator)
    result = fidelity(model, explanations, 3, form="accuracy", labels=labels)
    batch = Batch.from_data_list(explanations)
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    explainer = Explainer(
        model,
        DummyExplainer(),
        explanation_type=kind,
        edge_mask_type="object",
        model_config=config,
    )
    explanation = explainer(batch.x, batch.edge_index, target=labels, batch=batch.batch)
    explanation.edge_mask = torch.cat(hard_masks(explanations, 3)).float()
    explanation.batch = batch.batch
    plus, minus = pyg_fidelity(explainer, explanation)
    assert min(plus, minus) > 0
    # PyG takes the mean of the sizes of the changes.
    assert float(result.plus.per_graph.abs().mean()) == pytest.approx(plus)
    assert float(result.minus.per_graph.abs().mean()) == pytest.approx(minus)


@given(st.permutations(range(8)), st.integers(0, 4), st.sampled_from(["classes", "values"]))
def test_numbering_and_edge_order_do_not_matter(order, seed, name):
    model, mode = make_model(name)
    explanation = random_explanation(seed, nodes=8)
    order = torch.tensor(order)
    edge_order = torch.randperm(
        explanation.num_edges, generator=torch.Generator().manual_seed(seed)
    )
    moved = explained(order[explanation.edge_index][:, edge_order], 8)
    moved.x[order] = explanation.x
    moved.edge_mask = explanation.edge_mask[edge_order]
    before, after = (fidelity(model, [e], 4, mode=mode) for e in (explanation, moved))
    torch.testing.assert_close(before.plus.per_graph, after.plus.per_graph, atol=1e-5, rtol=0)
    torch.testing.assert_close(before.minus.per_graph, after.minus.per_graph, atol=1e-5, rtol=0)


def test_edge_features_and_weights_go_with_their_edges():
    class Weighted(EdgeCount):
        def forward(self, x, edge_index, batch, edge_weight, edge_attr):
            return super().forward(x, edge_index, batch, edge_weight * edge_attr.view(-1))

    explanation = explained(both_ways((0, 1), (1, 2)), 3)
    explanation.edge_mask = torch.tensor([1.0, 0, 1, 0])
    explanation.edge_weight = torch.tensor([2.0, 3, 2, 3])
    explanation.edge_attr = torch.tensor([[1.0], [10], [1], [10]])
    result = fidelity(Weighted(), [explanation], 1, mode="regression", scale=1.0)
    assert result.plus.mean == 2
    assert result.minus.mean == 30


def test_graphs_without_edges_and_nan_scores_are_left_out():
    model, mode = make_model("values")
    good = [random_explanation(seed) for seed in range(2)]
    broken = random_explanation(2)
    broken.edge_mask[3] = torch.nan
    sizes = torch.tensor([2, 1, 1, 1, 1, 1, 3])
    mixed = [good[0], broken, *bare_explanations().values(), good[1]]
    alone = fidelity(model, good, torch.tensor([2, 3]), mode=mode)
    result = fidelity(model, mixed, sizes, mode=mode)
    assert result.plus.per_graph.isnan().tolist() == [False, *[True] * 5, False]
    torch.testing.assert_close(result.plus.per_graph[[0, 6]], alone.plus.per_graph)
    assert result.minus.mean == pytest.approx(alone.minus.mean)
    assert result.minus.count == 2


def test_labels_stay_with_their_graphs():
    model, _ = make_model("classes")
    good = [random_explanation(seed) for seed in range(2)]
    alone = fidelity(model, good, 2, labels=torch.tensor([1, 2]))
    mixed = [explained(edges(), 3), *good]
    result = fidelity(model, mixed, 2, labels=torch.tensor([0, 1, 2]))
    torch.testing.assert_close(result.plus.per_graph[1:], alone.plus.per_graph)


def test_nothing_to_perturb_is_nan_with_a_reason():
    broken = random_explanation(2)
    broken.edge_mask[:] = torch.nan
    result = fidelity(EdgeCount(), [broken, *bare_explanations().values()], 1, mode="regression")
    for scores in (result.plus, result.minus):
        assert math.isnan(scores.mean)
        assert "4 have no edges" in scores.mean.reason
        assert "1 have NaN scores" in scores.std.reason


class NaNWithoutEdges(EdgeCount):
    def forward(self, x, edge_index, batch):
        out = super().forward(x, edge_index, batch)
        return out / out.abs().sum(1, keepdim=True)


@pytest.mark.parametrize("form", ["probability", "accuracy"])
def test_a_model_that_fails_on_a_perturbed_graph_gives_no_number(form):
    result = fidelity(NaNWithoutEdges(2), paths(), torch.tensor([4, 1]), form=form)
    assert result.plus.per_graph.isnan().tolist() == [True, False]
    result = fidelity(NaNWithoutEdges(2), paths(), 1.0, form=form)
    assert "perturbed" in result.plus.mean.reason


def test_a_model_that_fails_on_the_graphs_themselves_is_an_error():
    class Broken(EdgeCount):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch) * torch.nan

    with pytest.raises(ModelError, match="NaN"):
        fidelity(Broken(2), paths(), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"form": "log"}, "form"),
        ({"labels": torch.tensor([0])}, "one value for each of 2"),
        ({"labels": torch.tensor([0, 3])}, "integers in"),
        ({"labels": torch.tensor([0.0, 1.0])}, "integers in"),
        ({"scale": "std"}, "scale"),
        ({"scale": 0.0}, "scale"),
        ({"size": torch.tensor([1])}, "one value for each of 2"),
        ({"mode": "ranking"}, "mode"),
        ({"mode": "regression", "labels": torch.tensor([0, 1])}, "for classification"),
        ({"mode": "regression", "form": "accuracy"}, "for classification"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    model, _ = make_model("classes")
    with pytest.raises(InputError, match=message):
        fidelity(model, paths(), **{"size": 1, **arguments})


def test_one_output_needs_a_mode():
    with pytest.raises(InputError, match="mode="):
        fidelity(EdgeCount(), paths(), 1)


def test_pyg_configuration_says_what_the_output_means():
    class LogProbabilities(EdgeCount):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch).log_softmax(1)

    config = {
        "mode": "multiclass_classification",
        "task_level": "graph",
        "return_type": "log_probs",
    }
    result = fidelity(LogProbabilities(2), paths(), 1, model_config=config)
    raw = fidelity(EdgeCount(2), paths(), 1)
    torch.testing.assert_close(result.plus.per_graph, raw.plus.per_graph, atol=1e-6, rtol=0)


def test_node_level_models_are_judged_at_the_anchor():
    class Degrees(nn.Module):
        def forward(self, x, edge_index):
            return x.new_zeros(len(x), 1).index_add(
                0, edge_index[0], x.new_ones(edge_index.shape[1], 1)
            )

    explanation = explained(both_ways((0, 1), (1, 2), (2, 3)), 4, anchors=torch.tensor([1]))
    explanation.edge_mask = torch.tensor([0.9, 0.1, 0.8, 0.9, 0.1, 0.8])
    result = fidelity(Degrees(), [explanation], 2, mode="regression", scale=1.0, level="node")
    assert (result.plus.mean, result.minus.mean) == (1, 1)


def test_what_explainers_return_can_be_scored_as_it_is():
    graphs = [Data(x=e.x, edge_index=e.edge_index) for e in paths()]
    for graph in graphs:
        graph.edge_weight = torch.full((graph.num_edges,), 3.0)
    explanations = RandomExplainer().explain(EdgeCount(), graphs, progress=False)
    result = fidelity(EdgeCount(), explanations, 1, mode="regression", scale=1.0)
    assert result.plus.per_graph.tolist() == [3, 3]
    assert result.minus.per_graph.tolist() == [9, 3]
