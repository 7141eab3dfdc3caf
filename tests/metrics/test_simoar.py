"""SimOAR: against single samples with the same draws, by hand, and at its extremes."""

import itertools
import math

import pytest
import torch

from hpme.errors import InputError
from hpme.metrics import fidelity, simoar, simoar_references
from slow_metrics import (
    MODELS,
    EdgeCount,
    all_explanations,
    bare_explanations,
    best_pairs,
    both_ways,
    explained,
    make_model,
    output_on,
    pair_scores,
    random_explanation,
    slow_judge,
)


def slow_simoar(model, explanations, count, mode, ratio, samples, drop_isolated, seed):
    _, kept_value = slow_judge(model, explanations, mode)
    generator = torch.Generator().manual_seed(seed)
    torch.randperm(sum(len(pair_scores(e)) for e in explanations), generator=generator)
    values = []
    for number, explanation in enumerate(explanations):
        pairs, best = list(pair_scores(explanation)), best_pairs(explanation, count)
        total = 0.0
        for _ in range(samples):
            noise = dict(
                zip(pairs, torch.rand(len(pairs), generator=generator).tolist(), strict=True)
            )
            others = sorted((p for p in pairs if p not in best), key=noise.get, reverse=True)
            kept = set(pairs) - set(others[: round(ratio * len(pairs))])
            output = output_on(model, explanation, kept, drop_isolated)
            total += kept_value(number, output)
        values.append(total / samples)
    return values


@pytest.mark.parametrize("drop_isolated", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_every_graph_equals_the_slow_way(name, drop_isolated):
    model, mode = make_model(name)
    explanations = all_explanations()
    expected = slow_simoar(model, explanations, 2, mode, 0.45, 4, drop_isolated, seed=7)
    scores = simoar(
        model,
        explanations,
        2,
        ratio=0.45,
        samples=4,
        drop_isolated=drop_isolated,
        mode=mode,
        seed=7,
    )
    assert scores.per_graph.tolist() == pytest.approx(expected, abs=1e-5)


def test_isolated_nodes_matter():
    model, _ = make_model("classes")
    explanations = all_explanations()
    first, second = (
        simoar(model, explanations, 1, ratio=0.6, samples=2, drop_isolated=drop).per_graph
        for drop in (True, False)
    )
    assert float((first - second).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["classes", "binary"])
def test_without_deletions_the_prediction_and_with_all_the_explanation(name):
    model, mode = make_model(name)
    explanations = all_explanations()
    untouched = simoar(model, explanations, 2, ratio=0, samples=1, drop_isolated=False, mode=mode)
    alone = simoar(model, explanations, 2, ratio=1, samples=1, drop_isolated=False, mode=mode)
    lost = fidelity(model, explanations, 2, mode=mode).minus
    torch.testing.assert_close(
        untouched.per_graph - alone.per_graph, lost.per_graph, atol=1e-5, rtol=0
    )


def test_counts_by_hand():
    """Always 2 of 20 pairs go, none of them explained: exp(-2) in units of one edge."""
    path = explained(both_ways(*((i, i + 1) for i in range(20))), 21)
    scores = simoar(EdgeCount(), [path], 5, samples=3, mode="regression", scale=1.0)
    assert scores.mean == pytest.approx(math.exp(-2))
    # Only one pair is left to delete.
    scores = simoar(EdgeCount(), [path], 19, samples=3, mode="regression", scale=1.0)
    assert scores.mean == pytest.approx(math.exp(-1))
    scores = simoar(EdgeCount(), [path], 1.0, samples=3, mode="regression", scale=1.0)
    assert scores.mean == 1


def test_every_pair_outside_is_deleted_equally_often():
    model, _ = make_model("classes")
    explanation = explained(both_ways((0, 1), (1, 2), (2, 0), (2, 3), (3, 4)), 5, 4)
    _, kept = slow_judge(model, [explanation], None)
    pairs, best = set(pair_scores(explanation)), best_pairs(explanation, 1)
    choices = list(itertools.combinations(pairs - best, 2))
    values = [kept(0, output_on(model, explanation, pairs - {*gone}, True)) for gone in choices]
    scores = simoar(model, [explanation], 1, ratio=0.4, samples=4000)
    assert scores.mean == pytest.approx(sum(values) / len(values), abs=0.01)
    assert max(values) - min(values) > 0.05


def test_given_labels_are_used():
    model, _ = make_model("classes")
    explanations = all_explanations()
    values = [
        simoar(model, explanations, 2, samples=2, labels=torch.full((len(explanations),), label))
        for label in range(3)
    ]
    total = sum(scores.per_graph for scores in values)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_references_spare_nothing_in_particular():
    """One of four pairs is deleted, and only the explained one is missed."""

    class Weighted(EdgeCount):
        def forward(self, x, edge_index, batch, edge_attr):
            return super().forward(x, edge_index, batch, edge_attr.view(-1))

    explanations = []
    for seed in range(300):
        explanation = explained(both_ways((0, 1), (1, 2), (2, 3), (3, 0)), 4, seed)
        explanation.edge_mask = torch.tensor([1.0, 0, 0, 0]).repeat(2)
        explanation.edge_attr = torch.tensor([[1.0], [0], [0], [0]]).repeat(2, 1)
        explanations.append(explanation)
    options = {"ratio": 0.25, "samples": 4, "mode": "regression", "scale": 1.0}
    assert simoar(Weighted(), explanations, 1, **options).mean == 1
    references = simoar_references(Weighted(), explanations, 1, **options)
    expected = 0.75 + 0.25 * math.exp(-1)
    assert references.random.mean == pytest.approx(expected, abs=0.02)
    assert references.empty.mean == pytest.approx(expected, abs=0.02)
    assert references.random.std > references.empty.std  # one random explanation for all samples
    # With all pairs explained nothing is deleted; without explanation all the same.
    references = simoar_references(Weighted(), explanations, 4, **options)
    assert references.random.mean == 1
    assert references.empty.mean == pytest.approx(expected, abs=0.02)


def test_same_seed_same_values_and_global_random_state_untouched():
    model, _ = make_model("classes")
    explanations = all_explanations()
    before = torch.random.get_rng_state()
    first, same, other = (
        simoar(model, explanations, 2, ratio=0.4, samples=3, seed=seed).per_graph
        for seed in (0, 0, 1)
    )
    simoar_references(model, explanations, 2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_undefined_graphs_keep_their_place():
    model, _ = make_model("classes")
    bare = list(bare_explanations().values())
    scores = simoar(model, [*bare, random_explanation(0)], 2)
    assert scores.per_graph.isnan().tolist() == [True] * 4 + [False]
    references = simoar_references(model, bare, 2)
    assert "no edges" in references.random.mean.reason
    assert "no edges" in references.empty.mean.reason


@pytest.mark.parametrize("metric", [simoar, simoar_references])
@pytest.mark.parametrize("arguments", [{"ratio": 1.1}, {"ratio": -0.1}, {"samples": 0}])
def test_wrong_arguments_are_named(metric, arguments):
    model, _ = make_model("classes")
    with pytest.raises(InputError, match=next(iter(arguments))):
        metric(model, [random_explanation(0)], 2, **arguments)
