"""``hpme run`` in this process."""

import importlib
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpme.bench import Experiment, ResultStore
from hpme.errors import ModelError
from hpme.explainers import RandomExplainer

command = importlib.import_module("hpme.commands.run")
SMALL = ["--size", "40", "--train-steps", "3", "--graphs", "6"]
RUN = ["run", "--dataset", "ba-2motifs", "--explainer", "random", *SMALL]


def test_help_explains_every_option(invoke, flat):
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


def test_graphs_with_types_have_a_model_of_their_own(invoke):
    for dataset in ("hetero-motifs", "hetero-fraud"):
        given = ["--dataset", dataset, "--explainer", "random", "--size", "200", *SMALL[2:]]
        result = invoke("run", *given, "--json", f"{dataset}.json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(Path(f"{dataset}.json").read_text())["model"] == "hetero"


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
def test_wrong_usage_is_explained_before_any_work(invoke, monkeypatch, arguments, messages, flat):
    monkeypatch.setattr(command, "prepare", lambda *_: pytest.fail("work has begun"))
    Path("file").write_text("")
    result = invoke("run", "--size", "40", *arguments)
    assert result.exit_code == 2
    for message in messages:
        assert message in flat(result.stderr)


def test_a_fit_report_is_shown_and_recorded(invoke, monkeypatch):
    report = SimpleNamespace(
        summary=lambda: logging.getLogger("hpme").warning("pool is unsure") or "pool found",
        warnings=["pool is unsure"],
        to_dict=lambda: {"pool": 1},
    )
    monkeypatch.setattr(RandomExplainer, "report", report, raising=False)
    result = invoke(*RUN, "--json", "r.json")
    assert "pool found" in result.stderr
    assert result.stderr.count("warning: pool is unsure") == 1
    assert json.loads(Path("r.json").read_text())["runs"][0]["report"] == {"pool": 1}


def test_the_seeds_before_a_failure_are_not_run_again(invoke, monkeypatch):
    with monkeypatch.context() as broken:
        fit = RandomExplainer.fit

        def fail_at_two(self, *args, **kwargs):
            if self.seed == 2:
                raise ModelError("it broke")
            return fit(self, *args, **kwargs)

        broken.setattr(RandomExplainer, "fit", fail_at_two)
        assert invoke(*RUN, "--seeds", "0-2").exit_code == 1
    fitted = []
    monkeypatch.setattr(RandomExplainer, "_fit", lambda self, *_, **__: fitted.append(self.seed))
    result = invoke(*RUN, "--seeds", "0-3", "--json", "r.json")
    assert result.exit_code == 0, result.stderr
    assert fitted == [2, 3]
    assert "seed 1: AUC" in result.stderr and "from an earlier run" in result.stderr
    assert [run["seed"] for run in json.loads(Path("r.json").read_text())["runs"]] == [0, 1, 2, 3]


def test_results_are_those_of_a_benchmark(invoke):
    """The same key, so that each finds what the other has computed."""
    assert invoke(*RUN, "--out", "kept").exit_code == 0
    (record,) = ResultStore("kept").records()
    expected = Experiment("ba-2motifs", "random", 0, size=40, train_steps=3, graphs=6)
    assert record.experiment == expected
    assert {"cpu_seconds", "peak_memory_mib"} <= set(record.cost)


def test_a_picture_needs_the_explanations_again(invoke):
    assert invoke(*RUN).exit_code == 0
    assert invoke(*RUN, "--gallery", "g.svg").exit_code == 0
    assert Path("g.svg").is_file()


def test_the_model_is_the_one_an_explainer_is_made_for(invoke):
    assert invoke("run", "-d", "ba-2motifs", "-e", "att", *SMALL, "--json", "r.json").exit_code == 0
    assert json.loads(Path("r.json").read_text())["model"] == "gat"
