"""The hpme command, run in this process and, where it matters, as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hpme import __version__, cli
from hpme.cli import app, parse_options
from hpme.data import DATASETS
from hpme.errors import InputError, ModelError
from hpme.explainers import EXPLAINERS, HPMEExplainer, RandomExplainer
from hpme.models import MODELS

SMALL = ["--size", "40", "--train-steps", "3", "--graphs", "6"]
RUN = ["run", "--dataset", "ba-2motifs", "--explainer", "random", *SMALL]


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cli-cache")


@pytest.fixture
def invoke(cache, tmp_path, monkeypatch):
    """Runs the command in an empty folder; the result has stdout, stderr and exit_code."""
    monkeypatch.setenv("HPME_CACHE_DIR", str(cache))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def flat(text):
    """Text of a message without the frame and line breaks around it."""
    return " ".join(text.replace("│", " ").split())


def test_version(invoke):
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"hpme {__version__}\n"


def test_one_thread_unless_asked(invoke, monkeypatch):
    given = []
    monkeypatch.setattr(cli.torch, "set_num_threads", given.append)
    invoke("list", "models")
    invoke("--threads", "3", "list", "models")
    assert given == [1, 3]


@pytest.mark.parametrize(
    ("kind", "names"), [("datasets", DATASETS), ("explainers", EXPLAINERS), ("models", MODELS)]
)
def test_list(invoke, kind, names):
    result = invoke("list", kind)
    assert result.exit_code == 0
    shown = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert shown == list(names)


def test_help_explains_every_option(invoke):
    text = flat(invoke("run", "--help").stdout)
    for option in ("--seeds", "--variant", "--option", "--json", "--gallery", "--target-seed"):
        assert option in text
    assert "Exit codes" in text


def test_run_prints_a_table_and_writes_the_result(invoke):
    result = invoke(*RUN, "--seeds", "0-1,4", "--json", "new/r.json", "--gallery", "new/g.svg")
    assert result.exit_code == 0, result.stderr
    content = json.loads(Path("new/r.json").read_text())
    assert {"dataset", "explainer", "model", "auc_mean", "auc_std", "runs"} <= set(content)
    assert [run["seed"] for run in content["runs"]] == [0, 1, 4]
    for run in content["runs"]:
        assert run["graphs"] == 6
        assert 0 < run["auc"] < 1
        assert {"fit_seconds", "explain_seconds"} <= set(run)
        assert f"{run['auc']:.4f}" in result.stdout
    assert f"{content['auc_mean']:.4f} ± {content['auc_std']:.4f}" in result.stdout
    assert "over 3 seeds" in result.stdout
    assert Path("new/g.svg").read_text().startswith("<?xml")
    assert "seed 4: AUC" in result.stderr


def test_quiet_prints_nothing(invoke):
    result = invoke(*RUN, "--quiet", "--json", "r.json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert Path("r.json").exists()


def test_options_reach_the_explainer(invoke):
    assert invoke(*RUN, "-q", "--option", "batch_size=3", "--json", "r.json").exit_code == 0
    (run,) = json.loads(Path("r.json").read_text())["runs"]
    assert run["config"]["batch_size"] == 3


def test_a_failure_keeps_the_seeds_before_it(invoke, monkeypatch):
    fit = RandomExplainer.fit

    def fail_at_two(self, *args, **kwargs):
        if self.seed == 2:
            raise ModelError("the model [broke]; repair it")
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(RandomExplainer, "fit", fail_at_two)
    result = invoke(*RUN, "--seeds", "0-3", "--json", "r.json")
    assert result.exit_code == 1
    assert "error: the model [broke]; repair it" in result.stderr
    assert "Traceback" not in result.stderr
    assert [run["seed"] for run in json.loads(Path("r.json").read_text())["runs"]] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["-d", "ba2motifs"], ["did you mean 'ba-2motifs'", "valid names", "triangles"]),
        (["-d", "ba-2motifs", "-e", "hpm"], ["did you mean 'hpme'", "random"]),
        (["-d", "ba-2motifs", "-m", "transformer"], ["valid names", "gat", "gcn", "gin"]),
        (["-d", "ba-2motifs", "-s", "zero"], ["--seeds", "0-4"]),
        (["-d", "ba-2motifs", "--variant", "newest"], ["paper, published"]),
        (["-d", "ba-2motifs", "-o", "ratio"], ["key=value"]),
        (["-d", "ba-2motifs", "-o", "colour=3"], ["no option 'colour'", "ratio"]),
        (["-d", "ba-2motifs", "--gallery", "g.pdf"], [".png or .svg"]),
        (["-d", "ba-2motifs", "--graphs", "0"], ["--graphs"]),
        (["-d", "ba-2motifs", "--json", "file/r.json"], ["file/r.json"]),
        ([], ["--dataset"]),
    ],
)
def test_wrong_usage_is_explained_before_any_work(invoke, monkeypatch, arguments, messages):
    monkeypatch.setattr(cli, "_prepare", lambda *_: pytest.fail("work has begun"))
    Path("file").write_text("")
    result = invoke("run", "--size", "40", *arguments)
    assert result.exit_code == 2
    for message in messages:
        assert message in flat(result.stderr)


def test_a_fit_report_is_shown_and_recorded(invoke, monkeypatch):
    report = SimpleNamespace(
        summary=lambda: "pool found", warnings=["pool is unsure"], to_dict=lambda: {"pool": 1}
    )
    monkeypatch.setattr(RandomExplainer, "report", report, raising=False)
    result = invoke(*RUN, "--json", "r.json")
    assert "pool found" in result.stderr
    assert "warning: pool is unsure" in result.stderr
    assert json.loads(Path("r.json").read_text())["runs"][0]["report"] == {"pool": 1}


def test_demo(invoke):
    result = invoke("demo", "--out", "made", *SMALL)
    assert result.exit_code == 0, result.stderr
    for name in ("gallery.png", "result.json", "explainer.safetensors"):
        assert str(Path("made", name)) in result.stdout
    assert Path("made/gallery.png").read_bytes().startswith(b"\x89PNG")
    (run,) = json.loads(Path("made/result.json").read_text())["runs"]
    assert run["pool_ratio_source"] == "ground truth"
    loaded = HPMEExplainer.load("made/explainer.safetensors")
    assert loaded.config() == run["config"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("near", "near"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_option_values(text, value):
    assert parse_options([f"some-key={text}"]) == {"some_key": value}


@pytest.mark.parametrize("pairs", [["x"], ["=1"], ["x=1", "x=2"]])
def test_malformed_options(pairs):
    with pytest.raises(InputError):
        parse_options(pairs)


def test_the_installed_command(cache):
    """Exit code and streams as a shell sees them."""
    program = "from hpme.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program, "run", "-d", "nothing-like-it"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert "valid names" in flat(result.stderr)
