"""``hpme demo`` in this process."""

import json
from pathlib import Path

from hpme.explainers import HPMEExplainer

SMALL = ["--size", "40", "--train-steps", "3", "--graphs", "6"]


def test_demo(invoke):
    result = invoke("demo", "--out", "made", *SMALL)
    assert result.exit_code == 0, result.stderr
    for name in ("gallery.png", "result.json", "explainer.safetensors", "page.html"):
        assert str(Path("made", name)) in result.stdout
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"Open {Path('made/page.html')} in a browser")
    assert "<title>" in Path("made/page.html").read_text()
    assert Path("made/gallery.png").read_bytes().startswith(b"\x89PNG")
    (run,) = json.loads(Path("made/result.json").read_text())["runs"]
    assert run["pool_ratio_source"] == "ground truth"
    loaded = HPMEExplainer.load("made/explainer.safetensors")
    assert loaded.config() == run["config"]
