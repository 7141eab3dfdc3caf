"""Commands start without what they do not need."""

import subprocess
import sys

import pytest

from hpme.commands.start import Deferred, defer


def test_a_module_is_imported_when_it_is_asked_for_something(tmp_path, monkeypatch):
    package = tmp_path / "heavy"
    package.mkdir()
    (package / "__init__.py").write_text("weight = 7")
    (package / "part.py").write_text("other = 8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("heavy", "heavy.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    defer("heavy")
    import heavy

    assert not hasattr(heavy, "__file__") and isinstance(sys.modules["heavy"], Deferred)
    assert heavy.weight == 7
    assert type(sys.modules["heavy"]) is not Deferred
    del sys.modules["heavy"]
    defer("heavy")
    from heavy.part import other

    assert other == 8 and not isinstance(sys.modules["heavy"], Deferred)
    defer("heavy")  # it is there
    assert not isinstance(sys.modules["heavy"], Deferred)
    with pytest.raises(AttributeError):
        heavy.nothing  # noqa: B018


@pytest.mark.slow
def test_explainers_need_neither_compiler_nor_datasets():
    code = """
import sys
from hpme.commands.start import UNUSED, Deferred, defer
defer(*UNUSED)
import hpme.apply.work, hpme.explainers, hpme.page
assert all(isinstance(sys.modules[name], Deferred) for name in UNUSED)
import torch
from torch_geometric.datasets import TUDataset
assert torch._dynamo.OptimizedModule.__module__ == "torch._dynamo.eval_frame"
assert not any(isinstance(sys.modules[name], Deferred) for name in UNUSED)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
