"""``hpme list``."""

import pytest

from hpme.data import DATASETS
from hpme.explainers import EXPLAINERS, describe_options
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


def test_arguments_of_an_explainer_are_listed(invoke):
    result = invoke("list", "explainers", "hpme")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for option in describe_options(EXPLAINERS["hpme"]):
        assert f"{option.name} {option.default} {option.constraint}" in text


def test_only_explainers_have_arguments(invoke):
    result = invoke("list", "models", "gcn")
    assert result.exit_code == 2 and "only explainers have arguments" in result.output
    result = invoke("list", "explainers", "hpm")
    assert result.exit_code == 2 and "did you mean 'hpme'?" in result.output
