"""What is given to users: the wheel, the sdist, and what stands about the project."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import markers
from hpme.explainers import EXPLAINERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with sdist and wheel."""
    pytest.importorskip("hatchling", reason="builds the wheel: pip install 'hpme[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_the_wheel_has_the_package_and_nothing_else(dist):
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"hpme-{VERSION}.dist-info/METADATA").decode()
    source = ROOT / "src"
    wanted = {
        file.relative_to(source).as_posix()
        for file in (source / "hpme").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    added = {n for n in names if n.startswith(f"hpme-{VERSION}.dist-info/")}
    assert names - added == wanted
    # Whatever else lies in the folder of the source is not meant for users.
    kinds = {".py", ".typed", ".js", ".css", ".html", ".j2", ".json", ".txt"}
    assert {Path(name).suffix for name in wanted} == kinds
    assert "Requires-Python: >=3.10" in metadata
    assert "Project-URL: Documentation," in metadata
    assert "License-Expression: MIT AND BSD-3-Clause" in metadata  # the sketcher of hpme serve
    assert any(name.endswith("licenses/src/hpme/serve/openchemlib-license.txt") for name in added)
    assert path.stat().st_size < 1.25 * 2**20  # a third of a megabyte is the sketcher


def test_the_sdist_has_what_building_and_testing_needs(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("src/hpme/cli.py", "tests/conftest.py", "LICENSE", "README.md", "CHANGELOG.md"):
        assert name in names
    assert not [n for n in names if n.startswith(("docs/results", "src/hpme.egg-info"))]
    assert path.stat().st_size < 1.25 * 2**21


def test_one_version_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", changes, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1][0] == VERSION
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == VERSION
    assert citation["date-released"] == headings[1][1]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]


def test_style_is_checked_with_one_version():
    pinned = re.search(r"^ruff==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    revisions = {repo["repo"].rpartition("/")[2]: repo.get("rev") for repo in config["repos"]}
    assert pinned and revisions["ruff-pre-commit"] == f"v{pinned[1]}"


def test_workflows_run_targets_that_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
        steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
        used = {name for text in steps for name in re.findall(r"\bmake ([a-z]+)", text)}
        assert used <= targets, path.name


def test_what_is_marked_exists():
    """A test that was renamed must not become a quick one by that."""
    files = list((ROOT / "tests").rglob("test_*.py"))
    names = re.findall(r"^def (test_\w+)", "".join(f.read_text("utf-8") for f in files), re.M)
    assert markers.SLOW - {*names} == set()
    assert markers.FILES.keys() - {file.name for file in files} == set()
    assert EXPLAINERS.keys() >= markers.QUICK_EXPLAINERS
