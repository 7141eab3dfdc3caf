import pytest
import torch

from hpme.data.dataset import combine_matches
from hpme.errors import InputError


def table(*matches):
    """The match table of ``(rule, nodes)`` pairs."""
    rows = [(node, i, rule) for i, (rule, nodes) in enumerate(matches) for node in nodes]
    return torch.tensor(rows).t()


def sets(masks):
    return [set(mask.nonzero().view(-1).tolist()) for mask in masks]


def test_one_match_of_every_rule():
    rows = table((0, [0]), (0, [1]), (1, [2, 3]), (1, [3, 4]))
    masks = combine_matches(*rows, 6)
    assert sets(masks) == [{0, 2, 3}, {0, 3, 4}, {1, 2, 3}, {1, 3, 4}]
    assert all(mask.dtype == torch.bool and mask.shape == (6,) for mask in masks)


def test_unions_of_matches():
    rows = table((0, [0]), (0, [1]), (1, [2]))
    masks = sets(combine_matches(*rows, 3, unions=True))
    assert sorted(map(sorted, masks)) == [[0, 1, 2], [0, 2], [1, 2]]


def test_equal_alternatives_are_given_once():
    rows = table((0, [0, 1]), (0, [1, 2]), (0, [0, 2]))
    assert len(combine_matches(*rows, 3)) == 3
    unions = sets(combine_matches(*rows, 3, unions=True))
    assert len(unions) == 4 and {0, 1, 2} in unions


def test_too_many_are_refused():
    rows = table(*((0, [node]) for node in range(17)))
    assert len(combine_matches(*rows, 17)) == 17
    with pytest.raises(InputError, match="131,071"):
        combine_matches(*rows, 17, unions=True)
