"""Degrees of transplants, given the outputs."""

from dataclasses import replace

import pytest
import torch

from hpme.explainers.hpme.evidence import Trials, degrees, verdicts


def trials(bounded):
    """Two hosts that a region changes by very different amounts."""
    hosts = torch.full((2, 1), 0.1)
    inserted = torch.tensor([[0.2], [0.9]])
    rest = torch.full((2, 1), 0.1)
    return Trials(torch.tensor([0.95]), hosts, inserted, rest, rest, rest + 0.8, bounded)


def test_probabilities_do_not_change_by_more_than_one():
    mean, low, high = degrees(trials(bounded=True))["effect"][0].tolist()
    assert (round(mean, 6), low, high) == (0.45, -1, 1)
    _, low, high = degrees(trials(bounded=False))["effect"][0].tolist()
    assert low < -3 and high > 3


def outputs(**given):
    """Sixteen hosts of 0.1 for a graph of 0.9; what is given differs by host as little as 0.02."""
    spread = torch.linspace(-0.01, 0.01, 16).unsqueeze(1)
    usual = {"hosts": 0.1, "inserted": 0.1, "random": 0.1, "removed": 0.9, "spared": 0.9}
    tables = [(value + spread).flip(0) for value in (usual | given).values()]
    return Trials(torch.tensor([0.9]), *tables[:5], True)


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"inserted": 0.8, "removed": 0.2}, "carried"),
        ({"inserted": 0.8, "removed": 0.45}, "carried"),  # what is left is less than half
        ({"inserted": 0.8, "removed": 0.85}, "several"),
        ({"inserted": 0.25}, "part"),  # a fifth of the way is not nothing
        ({"removed": 0.7}, "part"),
        ({}, "absence"),
        ({"spared": 0.3, "removed": 0.3}, "unclear"),  # whatever is replaced
        ({"spared": 0.99}, "absence"),  # without a random region it rises: nothing is lost
    ],
)
def test_verdicts(given, verdict):
    assert verdicts(degrees(outputs(**given))) == [verdict]


def test_a_graft_that_does_nothing_is_no_reason():
    mixed = outputs(random=-0.1)
    assert verdicts(degrees(mixed)) == ["part"]  # hosts of mixes make room first
    assert verdicts(degrees(replace(mixed, share=torch.tensor([0.9])))) == ["absence"]
    moved = outputs(inserted=0.25, random=-0.1)
    assert verdicts(degrees(replace(moved, share=torch.tensor([0.9])))) == ["part"]


def test_no_absence_where_the_effect_is_certain():
    found = degrees(outputs()) | {"effect": torch.tensor([[0.03, 0.01, 0.05]])}
    assert verdicts(found) == ["unclear"]
    assert verdicts(found | {"random": torch.tensor([0.04])}) == ["absence"]  # as of any region
    assert verdicts(found | {"random": torch.tensor([0.0095])}) == ["absence"]  # hardly more
