"""Hard masks: against a slow sort, and by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from hpme.errors import InputError
from hpme.metrics import hard_masks, truth_sizes
from slow_metrics import (
    all_explanations,
    bare_explanations,
    best_pairs,
    both_ways,
    edges,
    explained,
    pair_scores,
    random_explanation,
)


def selected(explanation, mask):
    """Pairs of a mask; fails if a pair is selected in part, or a self-loop."""
    marks = {}
    for (i, j), chosen in zip(explanation.edge_index.t().tolist(), mask.tolist(), strict=True):
        if i == j:
            assert not chosen
        else:
            marks.setdefault((min(i, j), max(i, j)), set()).add(chosen)
    assert all(len(values) == 1 for values in marks.values())
    return {pair for pair, values in marks.items() if values == {True}}


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_number_of_pairs(count):
    explanations = all_explanations()
    for explanation, mask in zip(explanations, hard_masks(explanations, count), strict=True):
        assert selected(explanation, mask) == best_pairs(explanation, count)


@pytest.mark.parametrize(("share", "counts"), [(0.1, [1, 1]), (0.3, [3, 1]), (1.0, [10, 3])])
def test_a_share_of_pairs_is_rounded_up(share, counts):
    path = explained(both_ways(*((i, i + 1) for i in range(10))), 11)
    short = explained(both_ways((0, 1), (1, 2), (2, 3)), 4)
    masks = hard_masks([path, short], share)
    assert [int(mask.sum()) // 2 for mask in masks] == counts


def test_a_number_for_each_graph():
    explanations = [random_explanation(seed) for seed in range(3)]
    masks = hard_masks(explanations, torch.tensor([0, 2, 99]))
    sizes = [len(selected(e, m)) for e, m in zip(explanations, masks, strict=True)]
    assert sizes == [0, 2, len(pair_scores(explanations[2]))]


def test_by_hand_both_directions_count_as_their_mean():
    explanation = explained(edges((0, 1), (1, 0), (1, 2), (2, 1), (2, 2), (3, 2)), 4)
    explanation.edge_mask = torch.tensor([0.9, 0.1, 0.6, 0.6, 1.0, 0.55])
    (mask,) = hard_masks([explanation], 2)
    assert mask.tolist() == [False, False, True, True, False, True]


def test_graphs_without_pairs_select_nothing():
    masks = hard_masks([*bare_explanations().values(), random_explanation(0)], 2)
    assert [int(mask.sum()) for mask in masks] == [0, 0, 0, 0, 4]


def test_ties_are_broken_at_random_by_the_seed():
    explanation = explained(both_ways(*((i, i + 1) for i in range(40))), 41)
    explanation.edge_mask = torch.ones(80)
    first, same = (hard_masks([explanation], 20, seed=0)[0] for _ in range(2))
    other = hard_masks([explanation], 20, seed=1)[0]
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert int(first[:20].sum()) not in (0, 20)  # neither the first nor the last pairs


@given(st.permutations(range(14)), st.integers(1, 12), st.integers(0, 3))
def test_numbering_and_edge_order_do_not_matter(order, count, seed):
    explanation = random_explanation(seed, nodes=8)
    edge_order = torch.tensor([i for i in order if i < explanation.num_edges])
    edge_order = torch.cat([edge_order, torch.arange(14, explanation.num_edges)])
    place = torch.tensor([i for i in order if i < 8])
    other = explained(place[explanation.edge_index][:, edge_order], 8)
    other.edge_mask = explanation.edge_mask[edge_order]
    (mask,), (moved,) = hard_masks([explanation], count), hard_masks([other], count)
    assert torch.equal(mask[edge_order], moved)


def test_truth_sizes_count_pairs_once():
    graph = Data(
        x=torch.ones(4, 1),
        edge_index=edges((0, 1), (1, 0), (1, 2), (2, 1), (2, 2), (3, 2)),
        edge_mask=torch.tensor([True, True, True, False, True, False]),
    )
    bare = Data(x=torch.ones(1, 1), edge_index=edges(), edge_mask=torch.zeros(0).bool())
    assert truth_sizes([graph, bare]).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "at least 1"),
        (0.0, "share"),
        (1.5, "share"),
        (torch.tensor([1]), "one integer for each"),
        (torch.tensor([0.5, 0.5]), "one integer for each"),
        (torch.tensor([1, -1]), "negative"),
    ],
)
def test_wrong_sizes_are_named(size, message):
    with pytest.raises(InputError, match=message):
        hard_masks([random_explanation(0), random_explanation(1)], size)


def test_wrong_masks_are_named():
    explanation = random_explanation(0)
    explanation.edge_mask = explanation.edge_mask[1:]
    with pytest.raises(InputError, match=r"explanation 1 .* one value per edge"):
        hard_masks([random_explanation(1), explanation], 1)
    del explanation.edge_mask
    with pytest.raises(InputError, match="no edge_mask"):
        hard_masks([explanation], 1)
    with pytest.raises(InputError, match="no ground truth"):
        truth_sizes([explanation])
    broken = random_explanation(2)
    broken.edge_mask[0] = torch.nan
    with pytest.raises(InputError, match="explanation 1 has NaN"):
        hard_masks([random_explanation(1), broken], 1)
