"""The paper's part stands on its own, and every name the documentation gives for it exists."""

import importlib
import re
from pathlib import Path

import pytest

from hpme.explainers.hpme import method

ROOT = Path(__file__).parents[3]
LABELS = ("graph_pooling", "str_mixup", "bce_loss", "finall_loss", "Algorithm 1", "Algorithm 2")
LINKS = sorted(set(re.findall(r"api/hpme\.md#([\w.]+)", (ROOT / "docs/concepts.md").read_text())))


def resolve(name):
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_the_method_knows_nothing_of_the_search():
    files = list(Path(method.__file__).parent.glob("*.py"))
    assert len(files) > 5
    for file in files:
        imported = re.findall(r"from hpme\.explainers\.hpme\.(\w+)", file.read_text())
        assert set(imported) <= {"method"}, file


@pytest.mark.parametrize("name", LINKS)
def test_every_link_from_the_concepts_leads_somewhere(name):
    assert resolve(name).__doc__


@pytest.mark.parametrize("label", LABELS)
def test_concepts_map_every_equation_to_a_function_that_names_it(label):
    lines = [line for line in (ROOT / "docs/concepts.md").read_text().splitlines() if label in line]
    assert len(lines) == 1
    (name,) = re.findall(r"api/hpme\.md#([\w.]+)", lines[0])
    assert label in resolve(name).__doc__
