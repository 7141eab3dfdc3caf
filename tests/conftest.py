import pytest
import torch
from hypothesis import settings

# Timings vary too much between machines for a deadline; the same examples in every run.
settings.register_profile("hpme", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("hpme")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small tensors: more threads only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_random_numbers():
    """A test that draws numbers draws the same ones in every run."""
    torch.default_generator.manual_seed(0)
