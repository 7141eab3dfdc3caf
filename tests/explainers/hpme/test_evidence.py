"""Degrees of transplants, given the outputs."""

import torch

from hpme.explainers.hpme.evidence import Trials, degrees


def trials(bounded):
    """Two hosts that a region changes by very different amounts."""
    hosts = torch.full((2, 1), 0.1)
    inserted = torch.tensor([[0.2], [0.9]])
    rest = torch.full((2, 1), 0.1)
    return Trials(torch.tensor([0.95]), hosts, inserted, rest, rest, rest + 0.8, bounded)


def test_probabilities_do_not_change_by_more_than_one():
    mean, low, high = degrees(trials(bounded=True)).effect[0].tolist()
    assert (round(mean, 6), low, high) == (0.45, -1, 1)
    _, low, high = degrees(trials(bounded=False)).effect[0].tolist()
    assert low < -3 and high > 3
