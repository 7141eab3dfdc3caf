"""Robust fidelity: against single samples with the same draws, and against exact expectations."""

import itertools

import pytest
import torch

from hpme.errors import InputError
from hpme.metrics import fidelity, robust_fidelity
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


def slow_robust_fidelity(model, explanations, count, mode, labels, samples, alpha1, alpha2, seed):
    lost, _ = slow_judge(model, explanations, mode, labels)
    generator = torch.Generator().manual_seed(seed)
    # The order of tied pairs, which is drawn first.
    torch.randperm(sum(len(pair_scores(e)) for e in explanations), generator=generator)
    result = []
    for side in ("plus", "minus"):
        values = []
        for number, explanation in enumerate(explanations):
            pairs, best = list(pair_scores(explanation)), best_pairs(explanation, count)
            changes = []
            for _ in range(samples):
                noise = torch.rand(len(pairs), generator=generator).tolist()
                if side == "plus":
                    kept = {
                        p for p, u in zip(pairs, noise, strict=True) if p not in best or u >= alpha1
                    }
                else:
                    kept = {p for p, u in zip(pairs, noise, strict=True) if p in best or u < alpha2}
                changes.append(lost(number, output_on(model, explanation, kept)))
            values.append(sum(changes) / samples)
        result.append(values)
    return result


@pytest.mark.parametrize("name", MODELS)
def test_every_graph_equals_the_slow_way(name):
    model, mode = make_model(name)
    explanations = all_explanations()
    plus, minus = slow_robust_fidelity(model, explanations, 2, mode, None, 4, 0.3, 0.6, seed=5)
    result = robust_fidelity(
        model, explanations, 2, alpha1=0.3, alpha2=0.6, samples=4, mode=mode, seed=5
    )
    assert result.plus.per_graph.tolist() == pytest.approx(plus, abs=1e-5)
    assert result.minus.per_graph.tolist() == pytest.approx(minus, abs=1e-5)
    assert max(minus) - min(minus) > 0.05


def test_given_labels_equal_the_slow_way():
    model, _ = make_model("classes")
    explanations = all_explanations()
    labels = torch.arange(len(explanations)) % 3
    plus, minus = slow_robust_fidelity(model, explanations, 2, None, labels, 3, 0.1, 0.9, seed=0)
    result = robust_fidelity(model, explanations, 2, samples=3, labels=labels)
    assert result.plus.per_graph.tolist() == pytest.approx(plus, abs=1e-5)
    assert result.minus.per_graph.tolist() == pytest.approx(minus, abs=1e-5)


@pytest.mark.parametrize("name", ["classes", "values"])
def test_certain_deletions_give_plain_fidelity_and_none_give_zero(name):
    model, mode = make_model(name)
    explanations = all_explanations()
    plain = fidelity(model, explanations, 2, mode=mode)
    certain = robust_fidelity(model, explanations, 2, alpha1=1, alpha2=0, samples=2, mode=mode)
    none = robust_fidelity(model, explanations, 2, alpha1=0, alpha2=1, samples=2, mode=mode)
    for side in ("plus", "minus"):
        expected = getattr(plain, side).per_graph
        torch.testing.assert_close(getattr(certain, side).per_graph, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(
            getattr(none, side).per_graph, torch.zeros_like(expected), atol=1e-6, rtol=0
        )


def test_means_approach_the_expectation_over_all_subsets():
    model, _ = make_model("classes")
    explanation = explained(both_ways((0, 1), (1, 2), (2, 0), (2, 3), (3, 4)), 5, 4)
    lost, _ = slow_judge(model, [explanation], None)
    pairs, best = set(pair_scores(explanation)), best_pairs(explanation, 3)
    expected = {"plus": 0.0, "minus": 0.0}
    for side, risky in (("plus", best), ("minus", pairs - best)):
        for count in range(len(risky) + 1):
            for gone in itertools.combinations(risky, count):
                chance = 0.4**count * 0.6 ** (len(risky) - count)
                expected[side] += chance * lost(0, output_on(model, explanation, pairs - {*gone}))
    result = robust_fidelity(model, [explanation], 3, alpha1=0.4, alpha2=0.6, samples=4000)
    assert result.plus.mean == pytest.approx(expected["plus"], abs=0.01)
    assert result.minus.mean == pytest.approx(expected["minus"], abs=0.01)
    assert abs(expected["plus"]) > 0.03 or abs(expected["minus"]) > 0.03


def test_counts_by_hand():
    """Of 10 pairs 4 are the explanation, of which 0.4 go on average, or 0.6 of the other 6."""
    explanation = explained(both_ways(*((i, i + 1) for i in range(10))), 11)
    result = robust_fidelity(
        EdgeCount(), [explanation], 4, samples=20_000, mode="regression", scale=1.0
    )
    assert result.plus.mean == pytest.approx(0.1 * 4, abs=0.02)
    assert result.minus.mean == pytest.approx(0.1 * 6, abs=0.02)


def test_same_seed_same_values_and_global_random_state_untouched():
    model, _ = make_model("classes")
    explanations = all_explanations()
    before = torch.random.get_rng_state()
    first, same, other = (
        robust_fidelity(model, explanations, 2, samples=3, seed=seed).minus.per_graph
        for seed in (0, 0, 1)
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(fails):
    model, _ = make_model("classes")
    model.first.eval()
    model.head.bias.requires_grad_(False)
    model.head.weight.grad = torch.ones_like(model.head.weight)
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def flags():
        training = [module.training for module in model.modules()]
        return training, [(p.requires_grad, p.grad is None) for p in model.parameters()]

    before = flags()
    explanations = [random_explanation(0)]
    if fails:
        with pytest.raises(InputError):
            robust_fidelity(model, explanations, torch.tensor([-1]))
    else:
        robust_fidelity(model, explanations, 2, samples=2)
    assert flags() == before
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_undefined_graphs_keep_their_place():
    model, _ = make_model("classes")
    bare = list(bare_explanations().values())
    result = robust_fidelity(model, [*bare, random_explanation(0)], 2, samples=2)
    assert result.plus.per_graph.isnan().tolist() == [True] * 4 + [False]
    assert "no edges" in robust_fidelity(model, bare, 2).plus.mean.reason


@pytest.mark.parametrize("arguments", [{"alpha1": 1.1}, {"alpha2": -0.1}, {"samples": 0}])
def test_wrong_arguments_are_named(arguments):
    model, _ = make_model("classes")
    with pytest.raises(InputError, match=next(iter(arguments))):
        robust_fidelity(model, [random_explanation(0)], 2, **arguments)
