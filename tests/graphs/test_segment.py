import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpme.graphs.segment import (
    concatenated_ranges,
    exclusive_cumsum,
    rank_in_segment,
    reverse_edge_index,
    segment_mean,
    segment_sum,
    stable_order,
    standardise_in_segment,
)

counts = st.lists(st.integers(0, 5), min_size=1, max_size=8)


def segments(sizes, seed, *columns):
    generator = torch.Generator().manual_seed(seed)
    segment = torch.repeat_interleave(torch.tensor(sizes))
    return torch.randn(len(segment), *columns, generator=generator), segment


@given(counts)
def test_exclusive_cumsum(sizes):
    expected = [sum(sizes[:i]) for i in range(len(sizes))]
    assert exclusive_cumsum(torch.tensor(sizes)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), min_size=1, max_size=8))
def test_concatenated_ranges(blocks):
    start, count = torch.tensor(blocks).t()
    position, owner = concatenated_ranges(start, count)
    assert position.tolist() == [s + k for s, c in blocks for k in range(c)]
    assert owner.tolist() == [i for i, (_, c) in enumerate(blocks) for _ in range(c)]


@given(counts, st.integers(0, 99), st.sampled_from([(), (3,)]))
def test_segment_sum_and_mean(sizes, seed, columns):
    values, segment = segments(sizes, seed, *columns)
    total = segment_sum(values, segment, len(sizes))
    mean = segment_mean(values, segment, len(sizes))
    for i, size in enumerate(sizes):
        mine = values[segment == i]
        torch.testing.assert_close(total[i], mine.sum(0))
        torch.testing.assert_close(mean[i], mine.mean(0) if size else torch.zeros(columns))


@given(counts, st.integers(0, 99), st.booleans())
def test_rank_in_segment(sizes, seed, with_ties):
    score, segment = segments(sizes, seed)
    score = score.round() if with_ties else score
    rank = rank_in_segment(score, segment, exclusive_cumsum(torch.tensor(sizes)))
    for i in range(len(sizes)):
        mine = score[segment == i].tolist()
        best_first = sorted(range(len(mine)), key=lambda k: -mine[k])
        assert rank[segment == i].tolist() == [best_first.index(k) for k in range(len(mine))]


def test_rank_of_extreme_scores():
    score = torch.tensor([0.0, -1e30, float("inf"), -0.0, 1e-40, float("-inf")])
    rank = rank_in_segment(score, torch.zeros(6, dtype=torch.long), torch.zeros(1).long())
    assert rank.tolist() == [2, 4, 0, 3, 1, 5]


@given(st.lists(st.integers(2, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_standardise_in_segment(sizes, seed):
    values, segment = segments(sizes, seed)
    result = standardise_in_segment(values, segment, len(sizes))
    for i in range(len(sizes)):
        mine = values[segment == i]
        expected = (mine - mine.mean()) / (mine.std(unbiased=False) + 1e-6)
        torch.testing.assert_close(result[segment == i], expected, rtol=1e-3, atol=1e-4)


def test_standardise_constant_segment():
    result = standardise_in_segment(torch.full((3,), 7.0), torch.zeros(3, dtype=torch.long), 1)
    assert result.tolist() == pytest.approx([0.0, 0.0, 0.0])


def test_a_constant_segment_does_not_spoil_the_gradient_of_others():
    values = torch.tensor([7.0, 7.0, 1.0, 2.0, 5.0], requires_grad=True)
    segment = torch.tensor([0, 0, 1, 1, 1])
    result = standardise_in_segment(values, segment, 2)
    (gradient,) = torch.autograd.grad(result @ torch.tensor([1.0, 1.0, 3.0, 0.0, 1.0]), values)
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient[2:] != 0).all())


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20))
def test_reverse_edge_index(edges):
    edges = list(edges)
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    expected = [edges.index((v, u)) if (v, u) in edges else i for i, (u, v) in enumerate(edges)]
    assert reverse_edge_index(edge_index, 6).tolist() == expected


@pytest.mark.parametrize("below", [1 << 16, (1 << 16) + 1])
def test_stable_order_is_that_of_a_stable_sort(below):
    values = torch.randint(0, below, (500,), generator=torch.Generator().manual_seed(0))
    values = torch.cat([values, values.flip(0), torch.tensor([below - 1, 0])])
    assert torch.equal(stable_order(values, below), torch.argsort(values, stable=True))
