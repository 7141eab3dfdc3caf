"""Input nobody thought of ends in an error that names it, never in a traceback."""

import io
import re
import sys

import pytest
import typer
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool
from typer.testing import CliRunner

from contract import CHEAP, SLUGS, call, fitted, make_explainer, make_graphs, make_target
from hpme.bench import ResultStore, parse_seeds
from hpme.cli import app, main
from hpme.data import load_dataset
from hpme.errors import InputError, ModelError, StorageError
from hpme.execute import Failure
from hpme.explainers import explainer_class
from hpme.models import build_model
from hpme.storage import read_json, write_atomically

LEARNING = [s for s in SLUGS if explainer_class(s).needs_fit and s != "metagnn"]


@pytest.mark.parametrize("slug", LEARNING)
def test_a_model_of_another_width(slug):
    """The explainer learned from embeddings of 8 channels."""
    explainer = fitted(slug).explainer
    if explainer.width is None:
        pytest.skip("learns nothing from embeddings")
    wide = build_model("gcn", 3, 3, hidden_channels=16)
    uses = [
        lambda: explainer.explain(wide, make_graphs(), progress=False),
        lambda: call(explainer, wide, fitted(slug).batch),
    ]
    if slug == "hpme":
        uses.append(lambda: explainer.quality(wide, make_graphs()))
    for use in uses:
        with pytest.raises(ModelError, match=r"8 channels.*16; explain that model, or fit again"):
            use()


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(-1, 4), nn.LazyLinear(2)

    def forward(self, x, edge_index, batch, edge_weight=None):
        return self.head(global_add_pool(self.conv(x, edge_index, edge_weight), batch))


class Integers(nn.Module):
    def forward(self, x, edge_index, batch, edge_weight=None):
        return global_add_pool(x, batch).round().long()


@pytest.mark.parametrize("slug", ["hpme", "grad", "att", "random"])
def test_models_that_are_none_yet(slug):
    explainer = make_explainer(slug)
    with pytest.raises(ModelError, match=r"no shape yet.*call the model once"):
        explainer.fit(Lazy(), make_graphs(), progress=False)
    with pytest.raises(ModelError, match=r"torch.int64.*floating-point"):
        explainer.fit(Integers(), make_graphs(), progress=False)


def test_sparse_features():
    graph = make_graphs()[0]
    sparse = Data(x=graph.x.to_sparse(), edge_index=graph.edge_index)
    for use in (
        lambda: make_explainer("grad").explain(make_target("gcn"), [sparse], progress=False),
        lambda: make_explainer("grad")(make_target("gcn"), sparse.x, sparse.edge_index),
    ):
        with pytest.raises(InputError, match=r"x is sparse.*x\.to_dense\(\)"):
            use()


@pytest.mark.parametrize("slug", [slug for slug in CHEAP if slug in SLUGS])
@pytest.mark.parametrize("value", [1.5, True])
def test_batch_sizes_are_whole_numbers(slug, value):
    with pytest.raises(InputError, match=r"batch_size must be (a whole number|a number)"):
        make_explainer(slug, batch_size=value)


@pytest.mark.parametrize(
    ("slug", "option"),
    [
        ("hpme", {"k": 2.5}),
        ("hpme", {"k": True}),
        ("hpme", {"ratio": True, "k": None}),
        ("hpme", {"restarts": 1.5}),
        ("pgexplainer", {"epochs": 1.5}),
        ("gnnexplainer", {"epochs": True}),
        ("pgexplainer", {"lr": float("inf")}),
        ("matchexplainer", {"k": 2.5}),
        ("random", {"seed": 10**30}),
        ("random", {"seed": 0.5}),
    ],
)
def test_options_of_the_wrong_kind(slug, option):
    (name, *_) = option
    with pytest.raises(InputError, match=f"{name} must"):
        make_explainer(slug, **option)


@pytest.mark.parametrize("text", ["1" + "0" * 30, "0-1000000000", "0-10000", "5,0-9999"])
def test_seeds_that_are_too_many_or_too_large(text):
    with pytest.raises(InputError, match=r"at most|more than 10,000 seeds"):
        parse_seeds(text)


def test_sizes_that_no_memory_holds(tmp_path):
    with pytest.raises(InputError, match="size must be at most"):
        load_dataset("ba-2motifs", size=10**12, root=tmp_path)


RUN = ["run", "--dataset", "ba-2motifs", "--explainer", "random", "--train-steps", "2"]
EXPLAIN = ["explain", "--model", "a:b", "--data", "c:d"]
HUGE = str(10**30)
WRONG = {
    "size": ([*RUN, "--size", str(10**12)], r"value for '?--size"),
    "seeds": ([*RUN, "--seeds", "0-1000000000"], "--seeds: '0-1000000000' is more than 10,000"),
    "one seed": ([*RUN, "--seeds", HUGE], f"a seed is at most .*, got {HUGE}"),
    "target seed": ([*RUN, "--target-seed", HUGE], r"value for '?--target-seed"),
    "seed": ([*EXPLAIN, "--seed", HUGE], r"value for '?--seed"),
    "threads": (["--threads", "100000", *RUN], r"value for '?--threads"),
    "device": ([*RUN, "--device", "nowhere"], "--device: .*nowhere"),
    "absent device": ([*RUN, "--device", "cuda:99"], "--device: .*cuda"),
    "option": ([*RUN, "-o", "batch_size=1.5"], "batch_size must be a whole number, got 1.5"),
    "k": ([*EXPLAIN, "-o", "k=2.5"], "k must be a whole number, got 2.5"),
    "ratio": ([*EXPLAIN, "-o", "ratio=true"], "ratio must be a number, got True"),
    "bench size": (["bench", "smoke", "--size", str(10**12)], r"value for '?--size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_commands_refuse(name, monkeypatch, tmp_path):
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    arguments, message = WRONG[name]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert re.search(message, " ".join(result.output.replace("│", " ").split())), result.output


def test_deeply_nested_json(tmp_path):
    nested = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(nested)
    result = CliRunner().invoke(app, [*RUN, "-o", "posthoc=" + nested.decode()[:20_000]])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)


def test_damaged_files_of_a_store(tmp_path, caplog, make_record):
    store, record = ResultStore(tmp_path), make_record()
    store.put_failure(record.experiment, Failure("ModelError", "it broke", ""))
    path = store.failure_path(record.experiment)
    for content in (b"{", b"[" * 100_000, b"3", b"\xff"):
        path.write_bytes(content)
        assert list(store.failures()) == []
        assert f"'{path}' is left out" in caplog.text
    path.unlink()
    path.mkdir()
    assert list(store.failures()) == []


def test_a_folder_where_a_record_should_be(tmp_path, caplog, make_record):
    store, record = ResultStore(tmp_path), make_record()
    store.path().mkdir(parents=True)
    assert store.get(record.experiment) is None and list(store.records()) == []
    with pytest.raises(StorageError, match="is a folder; remove it"):
        store.put(record)
    key = record.experiment.key.encode()
    deep = b'{"key": "' + key + b'", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    write_atomically(store.path("table1"), deep)
    assert store.get(record.experiment) is None


CONSOLES = {"ascii": ("ascii", "80"), "cp1252": ("cp1252", "80"), "narrow": ("utf-8", "20")}


@pytest.mark.parametrize("console", CONSOLES)
@pytest.mark.parametrize(
    ("arguments", "code"), [(["list", "explainers"], 0), (["run", "--dataset", "ä→\x1b[31m"], 2)]
)
def test_consoles_that_lack_letters_or_room(console, arguments, code, monkeypatch):
    encoding, columns = CONSOLES[console]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "argv", ["hpme", *arguments])
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    if code == 0:
        out.flush()
        assert b"random" in out.buffer.getvalue()
    typer.echo("ä→ü")  # whatever is printed


def test_control_characters_in_names(tmp_path, monkeypatch):
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    from hpme.data import from_smiles

    dataset = from_smiles(["C", "CC"], [0, 1], names=["a\x00b\x1b[31mc", "d\re\nf"])
    assert [graph.name for graph in dataset] == ["a b [31mc", "d e f"]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["explain", "-m", "no\x1b[2Jwhere:build", "-d", "x.csv"])
    assert result.exit_code != 0 and "\x1b[2J" not in result.output + result.stderr
