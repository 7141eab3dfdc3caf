"""``hpme list``."""

import pytest

from hpme.data import DATASETS
from hpme.explainers import EXPLAINERS
from hpme.models import MODELS


@pytest.mark.parametrize(
    ("kind", "names"),
    [("datasets", DATASETS), ("explainers", EXPLAINERS), ("models", sorted(MODELS))],
)
def test_list(invoke, kind, names):
    result = invoke("list", kind)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()[1:]
    shown = [line.split()[0] for line in lines if not line.startswith(" ")]  # others go on
    assert shown == list(names)
