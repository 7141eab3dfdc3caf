"""Fixtures of tests of how any model is called."""

import pytest
import torch

from small_models import as_batch, random_graph


@pytest.fixture
def seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def graphs(seeded):
    return as_batch(random_graph(6, 9), random_graph(4, 5), random_graph(7, 12))
