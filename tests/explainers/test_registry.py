"""Explainers of other packages, found by their entry points."""

import os
import subprocess
import sys

import pytest

from hpme.explainers import GNNExplainer
from hpme.explainers.registry import Registry, built_in

MODULE = '''
from hpme.explainers import GraphExplainer
from hpme.explainers import Masks


class Mine(GraphExplainer):
    slug, title, summary, needs_fit = "mine", "Mine", "All edges alike.", False

    def _explain(self, adapter, graphs, **model_kwargs):
        return Masks(edge_mask=graphs.x.new_ones(graphs.edge_index.shape[1]))


class Copy(Mine):
    """Another explainer under the same name."""


class Usurper(Mine):
    slug = "hpme"


class Nameless(GraphExplainer):
    summary = "Does not say what it is called."


def no_explainer():
    pass
'''
ASK = "from hpme.explainers import explainer_class; print(explainer_class('mine').title)"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution with the given entry points on the path; its folder."""

    def write(**points):
        (tmp_path / "elsewhere.py").write_text(MODULE)
        info = tmp_path / "elsewhere-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[hpme.explainers]", *lines]))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
        return tmp_path

    return write


def test_found_in_this_process_and_in_others(install, caplog):
    folder = install(mine="elsewhere:Mine")
    registry = Registry()
    assert list(registry) == [*built_in(), "mine"]
    assert registry["mine"].title == "Mine"
    assert caplog.messages == []
    path = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    asked = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, check=True, capture_output=True, text=True
    )
    assert asked.stdout.strip() == "Mine"


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("elsewhere:Missing", "cannot be loaded"),
        ("nowhere:Mine", "cannot be loaded: No module named 'nowhere'"),
        ("elsewhere:no_explainer", "is no GraphExplainer"),
        ("pathlib:Path", "is no GraphExplainer"),
        ("elsewhere:Nameless", "elsewhere:Nameless has no slug and no title"),
        ("elsewhere:Usurper", "'hpme' is registered twice; elsewhere:Usurper is left out"),
        ("elsewhere:Copy", "'mine' is registered twice; elsewhere:Copy is left out"),
    ],
)
def test_unusable_ones_are_named_and_left_out(install, caplog, point, message):
    install(a="elsewhere:Mine", b=point)
    registry = Registry()
    assert list(registry) == [*built_in(), "mine"]
    assert registry["mine"].__name__ == "Mine"
    assert registry["hpme"].__module__ == "hpme.explainers.hpme.explainer"
    assert len(caplog.messages) == 1 and message in caplog.messages[0]


def test_all_describe_themselves():
    ours = built_in().values()
    for kind in ours:
        assert kind.slug == kind.slug.lower() and kind.title and kind.summary.endswith(".")
    for name in ("slug", "title"):
        assert len({getattr(kind, name) for kind in ours}) == len(ours)


def test_entries_can_be_added_and_taken_away():
    registry = Registry()
    registry["again"] = GNNExplainer
    assert registry.pop("again") is GNNExplainer
    assert "again" not in registry
