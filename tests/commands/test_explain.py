"""``hpme explain``: a user's own model and graphs to a page."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_model
from torch_geometric.data import Data
from typer.testing import CliRunner

from hpme.cli import app
from hpme.data import save_graphs
from hpme.explainers import HPMEExplainer
from hpme.graphs import GraphBatch, store

MODULE = """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN, global_add_pool


class Model(torch.nn.Module):
    def __init__(self, features=3, outputs=2):
        super().__init__()
        self.gnn = GCN(features, 8, 2)
        self.head = torch.nn.Linear(8, outputs)

    def forward(self, x, edge_index, batch):
        return self.head(global_add_pool(self.gnn(x, edge_index), batch))


def graphs(count=12, features=3):
    generator = torch.Generator().manual_seed(0)
    found = []
    for size in range(5, 5 + count):
        ring = torch.arange(size)
        edges = torch.stack([ring, (ring + 1) % size])
        found.append(Data(
            x=torch.rand(size, features, generator=generator),
            edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        ))
    return found


build = Model
value = lambda: Model(outputs=1)
atoms = lambda: Model(features=14)
number = lambda: 3
nothing = lambda: []
broken = lambda: 1 / 0
needs = lambda size: size
"""
QUICK = ["-o", "restarts=1"]


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A folder with a user's module, weights and graphs; returns the module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("my_code.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_code", raising=False)
    import my_code

    torch.manual_seed(1)
    save_model(my_code.build(), "weights.safetensors")
    save_graphs("graphs.safetensors", my_code.graphs())
    monkeypatch.delitem(sys.modules, "my_code")
    sys.path.remove(str(tmp_path))  # the command finds the folder by itself
    yield my_code
    sys.modules.pop("my_code", None)


def run(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def flat(text):
    return " ".join(text.replace("│", " ").split())


def page(path="page.html"):
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1])


MODEL = ["--model", "my_code:build", "--weights", "weights.safetensors"]


def test_model_weights_and_graph_file_to_a_page(user):
    result = run(
        *MODEL, "--data", "graphs.safetensors", "--explainer", "hpme,random", "--graphs", 5,
        "--out", "new/page.html", "--save-explainer", "fitted", "--title", "Mine",
        "--classes", "no, yes", *QUICK,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "new/page.html" in result.stdout
    assert "12 graphs; 5 explained, learning from 12" in result.stderr
    assert "chosen without labels" in result.stderr
    data = page("new/page.html")
    assert [e["name"] for e in data["explainers"]] == ["hpme", "random", "random edges"]
    assert {"carried", "lost", "stable"} <= set(data["explainers"][0]["metrics"])
    assert data["explainers"][0]["evidence"] and data["explainers"][1]["evidence"] is None
    assert data["title"] == "Mine" and data["classes"] == ["no", "yes"]
    numbers = [int(name.removeprefix("graph ")) for name in data["names"]]
    assert len(numbers) == 5 and numbers == sorted(numbers)
    assert sorted(p.name for p in Path("fitted").iterdir()) == [
        "hpme.safetensors",
        "random.safetensors",
    ]
    model = user.build()
    from safetensors.torch import load_model

    load_model(model, "weights.safetensors")
    loaded = HPMEExplainer.load("fitted/hpme.safetensors")
    assert loaded.explain(model, user.graphs(2))[0].edge_mask.numel() == 10


def test_the_weights_are_those_of_the_file(user):
    arguments = ["--data", "graphs.safetensors", "-e", "random", "-q"]
    for _ in range(2):  # whatever numbers the factory draws
        assert run(*MODEL, *arguments, "--out", f"{_}.html").exit_code == 0
    assert page("0.html")["prediction"] == page("1.html")["prediction"]
    result = run("--model", "my_code:build", *arguments[:-1])
    assert result.exit_code == 0 and "no --weights" in result.stderr


def test_quiet_and_module_data(user):
    result = run(*MODEL, "--data", "my_code:graphs", "-e", "random", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert len(page()["names"]) == 12


def test_one_output_needs_a_mode(user):
    arguments = ["--model", "my_code:value", "--data", "my_code:graphs", "-e", "random", "-q"]
    result = run(*arguments)
    assert result.exit_code == 2 and "regression or binary_classification" in flat(result.stderr)
    assert run(*arguments, "--mode", "regression").exit_code == 0
    assert page()["classes"] is None


def test_a_table_of_smiles(user):
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    Path("m.csv").write_text("smiles,id\nCCO,ethanol\nCC(=O)C,acetone\nc1ccccc1,benzene\n")
    arguments = ["--model", "my_code:atoms", "--data", "m.csv", "-e", "random", "-q"]
    assert run(*arguments, "--name-column", "id").exit_code == 0
    data = page()
    assert data["names"] == ["ethanol", "acetone", "benzene"]
    assert data["smiles"] == ["CCO", "CC(=O)C", "c1ccccc1"]
    assert data["y"] is None and data["truth"] is None  # nobody gave labels
    assert run(*arguments, "--rule", "carbonyl=[CX3]=O").exit_code == 0
    assert page()["truth"] is not None
    result = run(*arguments, "--name-column", "no")
    assert result.exit_code == 1 and "no column 'no'" in result.stderr


@pytest.mark.parametrize("suffix", ["pt", "pth", "pkl"])
def test_pickles_are_refused_with_the_way_out(user, suffix):
    Path(f"w.{suffix}").write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    result = run(
        "--model", "my_code:build", "--weights", f"w.{suffix}", "--data", "graphs.safetensors"
    )
    assert result.exit_code == 1
    assert "pickle" in result.stderr and "safetensors.torch.save_model(model" in flat(result.stderr)
    assert not Path("owned").exists()


def test_weights_that_do_not_fit(user):
    save_model(user.value(), "other.safetensors")
    arguments = ["--data", "graphs.safetensors", "-e", "random"]
    result = run("--model", "my_code:build", "--weights", "other.safetensors", *arguments)
    assert result.exit_code == 1 and "do not fit the model" in flat(result.stderr)
    Path("bad.safetensors").write_bytes(b"nothing")
    result = run("--model", "my_code:build", "--weights", "bad.safetensors", *arguments)
    assert result.exit_code == 1 and "damaged" in flat(result.stderr)
    result = run("--model", "my_code:build", "--weights", "none.safetensors", *arguments)
    assert result.exit_code == 1 and "no file" in flat(result.stderr)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("my_code", "write module:function"),
        ("no_such_code:build", "no module 'no_such_code'"),
        ("my_code:bild", "did you mean 'build'?"),
        ("my_code:number", "returned int"),
        ("my_code:broken", "division by zero"),
        ("my_code:needs", "called without arguments"),
    ],
)
def test_wrong_factories_are_named(user, model, message):
    result = run("--model", model, "--data", "my_code:graphs")
    assert result.exit_code == 1 and message in flat(result.stderr)
    assert "Traceback" not in result.output and not Path("page.html").exists()


def test_an_error_inside_the_module_is_shown(user):
    Path("bad_code.py").write_text("import no_such_package_at_all\n")
    result = run("--model", "bad_code:build", "--data", "my_code:graphs")
    assert result.exit_code == 1 and "no_such_package_at_all" in flat(result.stderr)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("somewhere", "neither a .csv"),
        ("my_code:nothing", "returned nothing"),
        ("my_code:number", "not a collection"),
        ("weights.safetensors", "not written by hpme"),
        ("missing.safetensors", "no file"),
    ],
)
def test_wrong_data_is_named(user, data, message):
    result = run(*MODEL, "--data", data)
    assert result.exit_code == 1 and message in flat(result.stderr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-e", "hpmee"], "did you mean 'hpme'?"),
        (["-e", ","], "at least one explainer"),
        (["-o", "nonsense=1"], "no explainer has 'nonsense'"),
        (["-o", "ratio=high"], "ratio must be a number, got 'high'"),
        (["-o", "seed=1"], "use --seed"),
        (["--out", "page.pdf"], "must end in .html"),
    ],
)
def test_wrong_usage_is_refused_before_any_work(user, options, message):
    result = run("--model", "no_such_code:build", "--data", "my_code:graphs", *options)
    assert result.exit_code == 2 and message in flat(result.stderr)


def test_options_of_tables_belong_to_tables(user):
    result = run(*MODEL, "--data", "graphs.safetensors", "--name-column", "id")
    assert result.exit_code == 1 and "table of SMILES" in flat(result.stderr)


def test_features_the_model_does_not_know(user):
    result = run("--model", "my_code:atoms", "--data", "my_code:graphs")
    assert result.exit_code == 1 and "3 features" in flat(result.stderr)


@pytest.fixture
def readings(monkeypatch):
    """Collections of graphs that are made flat; batches are flat already."""
    found, read = [], store.read_graphs

    def counted(graphs, attributes):
        if not isinstance(graphs, GraphBatch):
            found.append(graphs)
        return read(graphs, attributes)

    monkeypatch.setattr(store, "read_graphs", counted)
    return found


@pytest.mark.parametrize("data", ["my_code:graphs", "graphs.safetensors"])
def test_graphs_are_read_once(user, readings, data):
    result = run(*MODEL, "--data", data, "-e", "hpme,random,occlusion", "--graphs", 5, *QUICK)
    assert result.exit_code == 0, result.output
    given = [
        graphs for graphs in readings if graphs[0].x.shape[1] > 1
    ]  # others are drawn in proofs
    assert [len(graphs) for graphs in given] == [12]


@pytest.mark.parametrize(("options", "times"), [([], 0), (["--rule", "carbonyl=[CX3]=O"], 1)])
def test_molecules_are_read_once(user, readings, monkeypatch, options, times):
    rdkit = pytest.importorskip(
        "rdkit.Chem", reason="molecules need RDKit: pip install 'hpme[chem]'"
    )
    Path("m.csv").write_text("smiles\nCCO\nCC(=O)C\nc1ccccc1\nCC(=O)CC\n")
    parsed, parse = [], rdkit.MolFromSmiles
    monkeypatch.setattr(
        rdkit, "MolFromSmiles", lambda text, **more: parsed.append(text) or parse(text, **more)
    )
    arguments = ["--model", "my_code:atoms", "--data", "m.csv", "-e", "random", "--title", "m"]
    assert run(*arguments, *options).exit_code == 0
    assert len(readings) == times  # what has no labels comes flat
    drawn = parsed[4:]
    assert parsed[:4] == ["CCO", "CC(=O)C", "c1ccccc1", "CC(=O)CC"] and len(drawn) <= 4


def test_what_is_missing_is_looked_for_where_nothing_carries_the_prediction():
    from hpme.commands.explain import what_is_missing
    from hpme.explainers.hpme.quality import Quality
    from hpme.graphs import GraphStore
    from hpme.models import ExplainedModel

    graphs = [Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]])) for n in range(2, 6)]
    verdicts = ("carried", "absence", "part", "absence")
    found = [Data(quality=Quality(word, *[0.5] * 15, size=1)) for word in verdicts]
    asked = []

    class Asked:
        def counterfactuals(self, model, graphs, n, *, donors, progress):
            asked.append((graphs.sizes.tolist(), n, len(donors)))
            return [["first"], []]

    store = GraphStore.from_graphs(graphs)
    model = ExplainedModel(torch.nn.Linear(1, 2))
    assert what_is_missing(Asked(), model, store, found) == [None, ["first"], None, []]
    assert asked == [([3, 5], 1, 4)]
    value = ExplainedModel(torch.nn.Linear(1, 1), mode="regression")
    assert what_is_missing(Asked(), value, store, found) is None
    assert what_is_missing(Asked(), model, store, found[:1] * 4) is None


def test_a_quick_answer_says_that_it_is_one_and_offers_the_full_search(user):
    arguments = [*MODEL, "--data", "graphs.safetensors", "--quick"]
    result = run(*arguments, "--save-explainer", "fitted", "-e", "hpme,random")
    assert result.exit_code == 0, result.output
    assert "leave out --quick for the full search" in flat(result.stderr)
    data = page()
    assert [e["name"] for e in data["explainers"]] == ["hpme, quick", "random", "random edges"]
    assert data["explainers"][0]["evidence"]
    assert HPMEExplainer.load("fitted/hpme.safetensors").restarts == 0
    result = run(*arguments, "-e", "random")
    assert result.exit_code == 2 and "is about the explainer hpme" in flat(result.stderr)
