"""The README's example runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs_and_finds_the_motifs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**os.environ, "HPME_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    match = re.fullmatch(r"edge ROC-AUC: (.+)\n", result.stdout)
    assert match, result.stdout
    assert float(match[1]) > 0.8
    assert (tmp_path / "gallery.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "explainer.safetensors").stat().st_size > 0


def test_links_lead_somewhere():
    root = README.parent
    for page in [README, *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
