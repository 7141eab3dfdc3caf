import pytest

from finder import PLANTED, Finder, planted_graphs
from hpme.explainers import HPMEExplainer


@pytest.fixture(scope="session")
def graphs():
    return planted_graphs()


@pytest.fixture(scope="session")
def fitted(graphs):
    """The search at its defaults on a target whose explanation is known."""
    return HPMEExplainer(k=PLANTED).fit(Finder(), graphs, mode="regression")
