"""Tables of a folder of results: what is in them, that they repeat, that they can be checked."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from hpme.bench import Experiment, Failure, ResultStore
from hpme.bench.measures import drawn
from hpme.cli import app
from hpme.data import load_dataset
from hpme.errors import InputError, UnknownNameError
from hpme.paper import suites
from hpme.paper.shared import document
from hpme.paper.shared.blocks import second_best, truth_ratio
from hpme.paper.shared.cells import Results
from hpme.paper.shared.suite import Suite
from hpme.paper.suites import (
    EVERYTHING,
    REPORTED,
    SUITES,
    differences,
    home,
    table_files,
    write_files,
)

SEEDS = (100, 101)
runner = CliRunner()


@pytest.fixture
def put(tmp_path, make_record):
    """Stores results of all experiments of a suite, with values from a function."""
    store = ResultStore(tmp_path / "bench")

    def put(name, value=lambda e: {"auc": 0.5}, seeds=SEEDS, only=lambda e: True, **parts):
        suite = EVERYTHING if name == EVERYTHING.name else SUITES[name]
        store.begin([name] if name in SUITES else REPORTED)
        for e in suite.experiments(seeds):
            if only(e):
                record = make_record(values=value(e), variant=e.variant, **parts)
                store.put(replace(record, experiment=e), name if name in SUITES else home(e))
        return store.folder

    put.store = store
    return put


@pytest.fixture
def not_drawn(monkeypatch):
    """Figures are made but not drawn, which takes most of the time."""
    monkeypatch.setattr(document, "render", lambda figure, suffix: suffix.encode())


def score(e):
    return {"auc": 0.9 - (e.seed - 100) / 100 if e.explainer == "hpme" else 0.4}


def of_two(e):
    return e.dataset in ("ba-2motifs", "benzene") and e.explainer in ("hpme", "grad", "random")


def is_told(e):
    return e.explainer == "hpme" and not e.options


class Page(HTMLParser):
    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.tags, self.sources, self.text = [], [], ""
        self.feed(content.decode())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [v for k, v in attrs if k in ("src", "href")]

    def handle_data(self, data):
        self.text += data


def test_main_table_in_all_formats(put):
    folder = put("table1", score, only=of_two)
    files = table_files(folder)
    assert {"index.md", "table1.md", "report.html", "files.txt"} <= set(files)
    assert "tables/table1-classification.tex" in files
    assert files["figures/table1-ranks.png"].startswith(b"\x89PNG")
    assert files["figures/table1-ranks.pdf"].startswith(b"%PDF")
    page = files["table1.md"].decode()
    assert "| HPME | 0.895 ± 0.000<br>0.971 ± 0.021 |" in page
    assert "(figures/table1-ranks.png)" in page
    assert "80 results." in files["index.md"].decode()
    assert files["files.txt"].decode().splitlines() == ["# written by hpme tables", *sorted(files)]


def test_one_html_page_that_needs_nothing_else(put):
    page = Page(table_files(put("table1", score, only=of_two))["report.html"])
    assert "script" not in page.tags and "link" not in page.tags
    assert page.sources
    assert all(source.startswith(("data:image/", "#")) for source in page.sources)
    assert "0.895 ± 0.000" in page.text
    assert "prefers-color-scheme: dark" in page.text


def test_same_results_same_bytes(put):
    folder = put("table1", score, only=of_two)
    assert table_files(folder) == table_files(folder)


def test_curious_names_stay_text(tmp_path, make_record):
    suites = {
        "odd": Suite(
            "odd",
            "<b>Odd</b> suite",
            lambda seeds: [
                Experiment(d, m, s) for d in ("<script>", "a_b&c") for m in ("$x|y",) for s in seeds
            ],
        )
    }
    store = ResultStore(tmp_path)
    for name in ("<script>", "a_b&c"):
        store.put(make_record(name, "$x|y"))
    files = table_files(tmp_path, suites=suites)
    page = Page(files["report.html"])
    assert "script" not in page.tags and "b" not in page.tags
    assert "<script>" in page.text and "a_b&c" in page.text and "$x|y" in page.text
    latex = files["tables/odd-auc.tex"].decode()
    assert r"\textless{}script\textgreater{} & a\_b\&c" in latex
    assert r"| Method | &lt;script&gt; | a\_b&amp;c |" in files["odd.md"].decode()


def test_ablation_and_curves(put, not_drawn):
    told = {"pool_ratio_source": "ground truth", "config": {"ratio": 0.3}}
    some = {"seeds": SEEDS[:1], "only": lambda e: e.dataset == "ba-motif-volume"}
    put("ablation", score, **some)
    put("ratio", score, context=told, **some)
    folder = put("beta", score, **some)
    files = table_files(folder)
    for name in ("ablation", "beta", "ratio"):
        assert f"figures/{name}.png" in files
    text = files["ablation.md"].decode()
    assert all(f"| {row} |" in text for row in ("HPME", "HPME as printed", "w/o Mix", "w/o BCE"))
    assert "best other method, as the paper prints it." in files["beta.md"].decode()


def test_second_best_method_and_ratio_of_the_ground_truth(put):
    results = Results.read(put.store, SUITES)
    assert second_best("ba-motif-volume", results) == (
        ("RegExplainer", 0.766),
        "as the paper prints it",
    )
    assert second_best("nowhere", results) == (None, "")
    assert truth_ratio("ba-motif-volume", results) is None
    told = {"pool_ratio_source": "ground truth", "config": {"ratio": 0.3}}
    put("table1", score, only=lambda e: e.dataset == "ba-motif-volume", context=told)
    results = Results.read(put.store, SUITES)
    assert second_best("ba-motif-volume", results) == (("TAGExplainer", 0.4), "as measured here")
    assert truth_ratio("ba-motif-volume", results) == 0.3


def test_means_over_graphs(put, not_drawn):
    values = {"cosine": 0.9, "euclidean": 0.2}
    spread = {"cosine": 0.1, "euclidean": 0.05}
    folder = put(
        "shift", lambda e: values, only=lambda e: e.dataset == "ba-housegrid", spread=spread
    )
    page = table_files(folder)["shift.md"].decode()
    assert "| Ground truth | 0.900 ± 0.100<br>0.688 ± 0.102 |" in page
    assert "over all graphs of 2 runs" in page
    assert "two different values" in page


@pytest.mark.parametrize("name", sorted(SUITES))
def test_every_suite_has_a_page(put, not_drawn, name):
    metrics = {
        "fidelity": {"simoar": 0.8, "robust_fidelity_plus": 0.1, "precision": 0.9},
        "links": {"robust_fidelity_plus": 0.1, "robust_fidelity_minus": 0.2},
        "shift": {"cosine": 0.5, "euclidean": 0.5},
        "backbones": {"accuracy": 0.5, "macro_f1": 0.5},
    }
    first = SUITES[name].experiments(SEEDS)[0].dataset
    values = metrics.get(name, {"auc": 0.5})
    folder = put(name, lambda e: values, SEEDS[:1], lambda e: e.dataset == first)
    files = table_files(folder, [name])
    text = files[f"{name}.md"].decode()
    assert text.startswith("# ") and "|---|" in text


def test_only_suites_that_were_run(put, not_drawn):
    folder = put("table1", score, SEEDS[:1], lambda e: of_two(e) and e.dataset == "benzene")
    # HPME on Benzene is also the first bar of the ablation.
    assert "ablation.md" not in table_files(folder)
    assert "ablation.md" in table_files(folder, ["ablation"])
    lonely = put("ablation", score, only=lambda e: e.options.get("mixup") is False)
    assert "ablation.md" in table_files(lonely)


def test_what_was_run_for_all_suites_is_shown_by_each(put):
    def only(e):
        return (e.dataset, e.explainer, e.options) == ("benzene", "hpme-printed", {})

    folder = put("all", score, only=only)
    shown = Results.read(ResultStore(folder), SUITES).shown
    wanted = ["baselines", "architectures", "shift", "ablation", "ratio-printed"]
    assert shown == wanted
    lines = [line for path in (folder / "results").iterdir() for line in path.open()]
    assert len(lines) == len(set(lines)) == len(list(put.store.records()))


def test_a_single_shared_result_is_shown_once(put, not_drawn):
    folder = put("table1", only=lambda e: e.dataset == "benzene" and is_told(e))
    files = table_files(folder)
    assert [name for name in files if re.fullmatch(r"(?!index)\w+\.md", name)] == ["table1.md"]


def test_failures_alone_make_a_page(put, not_drawn):
    experiment = SUITES["table1"].experiments([100])[0]
    put.store.put_failure(experiment, Failure("OSError", "disk full", "trace"))
    files = table_files(put.store.folder)
    assert "0 results, 1 failed experiment." in files["index.md"].decode()


def test_nothing_to_report(tmp_path, put, not_drawn):
    with pytest.raises(InputError, match="holds no results; run 'hpme bench SUITE"):
        table_files(tmp_path)
    folder = put("table1", only=of_two)
    with pytest.raises(InputError, match="no result of shift; run 'hpme bench shift"):
        table_files(folder, ["shift"])
    with pytest.raises(UnknownNameError, match="unknown suite 'nosuch'"):
        table_files(folder, ["nosuch"])


@pytest.fixture
def exhibits(tmp_path, monkeypatch):
    """Records show graph 4 of a small dataset, as an explanation and as a mixup with graph 7."""
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    dataset = load_dataset("ba-housegrid", size=30)
    graph = dataset[4]
    edges = graph.num_edges
    explanation = {
        "graph": 4,
        "drawn": drawn(dataset, 4),
        "edge_mask": [0.5] * edges,
        "pooled": [True] * graph.num_nodes,
    }
    mixup = {
        "graph": 4,
        "partner": 7,
        "drawn": drawn(dataset, 4, 7),
        "num_nodes": graph.num_nodes,
        "edge_index": graph.edge_index.tolist(),
        "edge_weight": [0.5] * edges,
        "transplanted": graph.edge_mask.tolist(),
        "bridge": [False] * edges,
    }
    shown = {"explanations": [explanation], "mixups": [mixup]}
    return {"exhibits": shown, "config": {"neighbor": "near"}}


def test_exhibits_become_pictures(put, make_record, exhibits):
    both = ("auc", "explanations", "mixups")
    common = {"size": 30, "metrics": both, "context": exhibits}
    for explainer in ("hpme", "mixupexplainer"):
        put.store.put(make_record("ba-housegrid", explainer, 100, **common))
    put.store.put(make_record("ba-housegrid", "hpme", 100, options={"neighbor": "near"}, **common))
    names = ("mixups", "sizes")
    files = table_files(put.store.folder, names)
    for name in names:
        assert files[f"drawings/{name}-ba-housegrid.png"].startswith(b"\x89PNG")
        assert "a dataset of 30 graphs" in files[f"{name}.md"].decode()
    assert files == table_files(put.store.folder, names)


def test_cases_become_pictures(put, make_record, exhibits, tmp_path):
    common = {"size": 30, "metrics": ("auc", "explanations"), "context": exhibits}
    record = make_record("ba-housegrid", "hpme", 0, **common)
    put.store.put(record)
    suites = {"cases": replace(SUITES["cases"], experiments=lambda seeds: [record.experiment])}
    files = table_files(put.store.folder, suites=suites)
    name = "drawings/cases-ba-housegrid.pdf"
    assert files[name].startswith(b"%PDF")
    write_files(files, tmp_path)
    (tmp_path / name).write_bytes(b"the same nodes elsewhere")
    assert differences(files, tmp_path) == []
    (tmp_path / name).unlink()
    assert differences(files, tmp_path) == [f"missing: {name}"]


def test_command_writes_and_checks(put, not_drawn, tmp_path):
    folder, out = put("table1", score, only=of_two), tmp_path / "docs"
    result = runner.invoke(app, ["tables", str(folder), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert (out / "report.html").is_file() and (out / "tables/table1-ranks.tex").is_file()
    check = ["tables", str(folder), "--check", str(out)]
    assert runner.invoke(app, check).exit_code == 0
    (out / "report.html").write_text("another page")
    assert "differs: report.html" in runner.invoke(app, check).output
    (out / "report.html").unlink()  # it repeats the others, and a repository may leave it out
    assert runner.invoke(app, check).exit_code == 0
    page = out / "table1.md"
    page.write_text(page.read_text().replace("0.895", "0.999"))
    (out / "index.md").unlink()
    result = runner.invoke(app, check)
    assert result.exit_code == 1
    assert "differs: table1.md" in result.output and "missing: index.md" in result.output
    assert "-| HPME | 0.999" in result.output and "+| HPME | 0.895" in result.output


def test_usage(put, tmp_path):
    folder = str(put("table1", only=of_two))
    result = runner.invoke(app, ["tables", folder, "--suite", "tabel1"])
    assert result.exit_code == 2 and "did you mean 'table1'" in result.output
    result = runner.invoke(app, ["tables", folder, "--check", folder, "--out", folder])
    assert result.exit_code == 2
    assert runner.invoke(app, ["tables", str(tmp_path / "none")]).exit_code == 2
    assert runner.invoke(app, ["tables", str(tmp_path)]).exit_code == 1


def test_files_of_an_earlier_report_go_others_stay(put, not_drawn, tmp_path):
    folder, out = put("table1", only=of_two), tmp_path / "docs"
    put("shift", lambda e: {"cosine": 0.5}, SEEDS[:1], lambda e: e.dataset == "benzene")
    write_files(table_files(folder), out)
    (out / "mine.md").write_text("kept")
    (out / "files.txt").write_text((out / "files.txt").read_text() + "../outside.md\n")
    (tmp_path / "outside.md").write_text("kept")
    fewer = table_files(folder, ["shift"])
    assert "stale: table1.md" in differences(fewer, out)
    write_files(fewer, out)
    assert not (out / "table1.md").exists() and not (out / "figures/table1-ranks.png").exists()
    assert (out / "mine.md").is_file() and (tmp_path / "outside.md").is_file()
    assert differences(fewer, out) == []


@pytest.mark.parametrize("name", ["files.txt", "index.md"])
def test_files_of_others_stay(put, not_drawn, tmp_path, name):
    folder, out = put("table1", only=of_two), tmp_path / ("docs" * 20)  # wider than terminals
    out.mkdir()
    (out / name).write_text("letter.md\nindex.md\n")
    (out / "letter.md").write_text("mine")
    result = runner.invoke(app, ["tables", str(folder), "--out", str(out)])
    assert result.exit_code == 1
    told = f"'{out / name}' was not written by hpme tables; choose another --out"
    assert told in result.output
    assert sorted(file.name for file in out.iterdir()) == sorted([name, "letter.md"])
    assert (out / name).read_text() == "letter.md\nindex.md\n"


def test_files_that_were_half_written_are_known_as_ours(put, not_drawn, tmp_path, monkeypatch):
    files, out = table_files(put("table1", only=of_two)), tmp_path / "docs"
    write, left = suites.write_atomically, [3]

    def killed(path, content):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(suites, "write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            write_files(files, out)
    write_files(files, out)
    assert differences(files, out) == []
