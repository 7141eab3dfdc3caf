"""``hpme apply`` where something is wrong: named, or put right, and never told as done."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from hpme.apply import ShardFolder, open_rows
from hpme.data import from_smiles, load_graphs, save_graphs
from hpme.errors import StorageError
from hpme.explainers import GradExplainer, HPMEExplainer
from hpme.storage import write_tensors
from odd import odd_tables, rows_of

QUICK = {"ratio": 0.4, "restarts": 1}


def rows(out="out"):
    return pq.read_table(out).to_pylist()


def words(result):
    return " ".join(result.output.replace("│", " ").split())


# A folder belongs to one model and one way of calling it ##########################################


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["-m", "my_molecules:other"], "another --model"),
        (["--call", "my_molecules:call"], "another --call"),
    ],
)
def test_another_model_or_call_is_another_run(invoke, table, change, named):
    data, _ = table(6, bad=False)
    assert invoke(data).exit_code == 0
    before = rows()
    result = invoke(data, "out", *change)
    assert result.exit_code == 1 and named in words(result)
    assert "choose another --out" in words(result)
    assert rows() == before and invoke(data).exit_code == 0


def test_a_model_that_was_edited_is_another_run(invoke, table):
    data, _ = table(6, bad=False)
    assert invoke(data).exit_code == 0
    file = Path("my_molecules.py")
    file.write_text(file.read_text().replace("return self.head", "return -self.head"))
    sys.modules.pop("my_molecules")
    result = invoke(data)
    assert result.exit_code == 1 and "another model file" in words(result)


@pytest.mark.parametrize("content", ["[]", "3", "null", '"model"', "[[1, 2]]"])
def test_settings_that_are_no_object_are_named(invoke, table, content):
    data, _ = table(4, bad=False)
    Path("out").mkdir()
    Path("out/_apply.json").write_text(content)
    result = invoke(data)
    assert result.exit_code == 1 and "is not what hpme apply writes" in words(result)
    assert Path("out/_apply.json").read_text() == content


# Files of others ##################################################################################


@pytest.mark.parametrize(
    "name", ["part-1.parquet", "mine.parquet", "part-000000-0123456789abcdef.parquet"]
)
def test_parquet_files_of_others_stay(invoke, table, name):
    data, _ = table(4, bad=False)
    mine = Path("out", name)
    mine.parent.mkdir()
    pq.write_table(pyarrow.table({"a": [1]}), mine)
    content = mine.read_bytes()
    result = invoke(data)
    assert result.exit_code == 1 and "of others" in words(result)
    mine.rename("mine.parquet")
    assert invoke(data).exit_code == 0
    Path("mine.parquet").rename(mine)
    Path("out/.part-mine").write_text("kept")
    result = invoke(data)
    assert result.exit_code == 1 and "is not of this run; move it elsewhere" in words(result)
    assert mine.read_bytes() == content and Path("out/.part-mine").is_file()


def test_a_shard_of_another_run_stays(invoke, table):
    data, _ = table(4, bad=False)
    assert invoke(data).exit_code == 0
    assert invoke(data, "more", "--rows-per-shard", 2).exit_code == 0
    (foreign, *_) = Path("more").glob("part-*")
    copy = Path("out", foreign.name)
    copy.write_bytes(foreign.read_bytes())
    result = invoke(data)
    assert result.exit_code == 1 and "is not of this run" in words(result)
    assert copy.is_file()


def test_a_list_of_somebody_else_stays(invoke, table):
    data, _ = table(4, bad=False)
    Path("out").mkdir()
    Path("out/_skipped.csv").write_text("mine\n")
    assert "of others" in words(invoke(data))
    assert Path("out/_skipped.csv").read_text() == "mine\n"


# Files of graphs ##################################################################################


@pytest.fixture
def graphs(user):
    molecules = list(from_smiles(["CCO", "c1ccccc1", "CCN", "CC"], [0] * 4, progress=False))
    save_graphs("graphs.safetensors", molecules)
    return Path("graphs.safetensors")


def test_a_damaged_file_of_graphs_is_named(invoke, graphs):
    content = bytearray(graphs.read_bytes())
    content[-40] ^= 1
    graphs.write_bytes(content)
    result = invoke(graphs)
    assert result.exit_code == 1 and "is damaged" in words(result)
    assert not list(Path().glob("out/part-*"))


@pytest.mark.parametrize("name", ["sizes", "edge_counts", "node.x", "edge_index", "graph.y"])
def test_graphs_whose_parts_do_not_fit_are_named(graphs, name):
    """As a wrong exporter would write them, with a digest that fits."""
    from hpme.graphs import GraphStore
    from hpme.graphs.transforms import to_tensors

    tensors = to_tensors(GraphStore.from_graphs(load_graphs(graphs), attributes="all"))
    value = tensors[name]
    for changed in (value[..., :-1], value[..., None][..., 0].double() - 9, value.new_zeros(())):
        if name in ("node.x", "graph.y"):
            changed = value[:-1]
        header = {"kind": "graphs", "version": 1, "graphs": 4}
        write_tensors(graphs, {**tensors, name: changed}, header)
        if name == "edge_index" and changed.shape == value.shape:
            continue  # its values are checked with every graph
        with pytest.raises(StorageError, match="is damaged"):
            open_rows(graphs)


# What the model says ##############################################################################


@pytest.mark.parametrize("kind", [HPMEExplainer, GradExplainer])
@pytest.mark.parametrize("target", [0, 1, [0, 1]])
def test_class_and_probabilities_are_the_models_whatever_was_asked(invoke, table, kind, target):
    data, _ = table(12, bad=False)
    sys.path.insert(0, os.getcwd())
    import my_molecules

    explainer = kind(**(QUICK if kind is HPMEExplainer else {}))
    smiles = [line.split(",")[0] for line in data.read_text().splitlines()[1:]]
    molecules = from_smiles(smiles, [0] * len(smiles), progress=False)
    asked = explainer.fit(my_molecules.build(), molecules, target=target)
    asked.save("asked.safetensors")
    assert invoke(data, "plain").exit_code == 0
    result = invoke(data, explainer="asked.safetensors")
    assert result.exit_code == 0, result.output
    for ours, theirs in zip(rows(), rows("plain"), strict=True):
        assert ours["class"] == theirs["class"]
        assert ours["prediction"] == pytest.approx(theirs["prediction"], abs=1e-6)


def test_memory_that_is_short_is_no_fault_of_the_model(invoke, table):
    data, good = table(20, bad=False)
    result = invoke(data, model="my_molecules:hungry")
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in rows()] == good  # three at a time
    data.write_text(data.read_text() + "C" * 60 + ",large\n")
    result = invoke(data, "large", "--rows-per-shard", 8, model="my_molecules:hungry")
    assert result.exit_code == 1
    assert f"memory is too short for row {len(good) + 2}" in words(result)
    assert "run the same command again" in words(result)
    there = list(Path("large").glob("part-*"))
    assert there and not Path("large/_skipped.csv").exists()
    result = invoke(data, "large", "--rows-per-shard", 8, model="my_molecules:hungry")
    assert result.exit_code == 1 and list(Path("large").glob("part-*")) == there


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate "
                     "memory: you tried to allocate 9 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        OSError(12, os.strerror(12)),
    ],
)  # fmt: skip
def test_ways_to_say_that_memory_is_short(error):
    from hpme.errors import ModelError, short_of_memory

    wrapped = ModelError("the model failed")
    wrapped.__cause__ = error
    assert short_of_memory(error) and short_of_memory(wrapped)
    assert not short_of_memory(ModelError("the model failed"))
    assert not short_of_memory(RuntimeError("shapes cannot be multiplied"))


def test_every_row_left_out_is_a_failure(invoke, user):
    Path("bad.csv").write_text("smiles\nC1CC\nnothing\n")
    result = invoke("bad.csv")
    assert result.exit_code == 1
    assert re.search("every row is left out; 'out._skipped.csv' says why", words(result))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=odd_tables())
def test_every_row_of_an_odd_table_is_explained_or_listed(invoke, content):
    """Right, or refused by name."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "odd.csv"), Path(folder, "out")
        data.write_bytes(content)
        result = invoke(data, out, "--rows-per-shard", 3)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "\x1b" not in result.output and "\x9b" not in result.output
        if result.exit_code:
            assert re.search("error|Error|left out", result.output)
            return
        found = [row["id"] for row in rows(out)]
        if (out / "_skipped.csv").exists():
            with (out / "_skipped.csv").open(newline="") as file:
                listed = list(csv.DictReader(file))
            found += [int(row["row"]) for row in listed]
            assert not any(row["smiles"].startswith(("=", "+", "-", "@")) for row in listed)
    assert sorted(found) == rows_of(content)


# Interruptions ####################################################################################


def test_ctrl_c_while_workers_start_is_told_in_a_line(table, saved):
    data, _ = table(20_000)
    command = [sys.executable, "-c", "from hpme.cli import main; main()", "apply", str(saved)]
    command += ["-m", "my_molecules:build", "-d", str(data), "--out", "out", "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    while process.poll() is None and not Path("out/_apply.json").exists():
        time.sleep(0.01)
    time.sleep(0.1)  # until there are some
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=300)[1].decode().strip()
    assert process.returncode == 130, told
    assert told.startswith("interrupted;") and len(told.splitlines()) <= 2  # folded once


def test_settings_say_all_that_decides(invoke, table):
    data, _ = table(4, bad=False)
    assert invoke(data).exit_code == 0
    settings = json.loads(Path("out/_apply.json").read_text())
    assert settings["--model"] == "my_molecules:build" and settings["--call"] is None
    assert len(settings["model file"]) == 1
    assert ShardFolder(Path("out"), settings).done() == {0: 4}
    torch.set_num_threads(1)


def test_pooled_nodes_keep_a_guaranteed_risk(invoke, table):
    data, _ = table(30, bad=False)
    refused = invoke(data, "out", "--alpha", 0.5)
    assert refused.exit_code == 2 and "no guarantee yet" in refused.output
    assert invoke(data, "out", "--calibrate", data).exit_code == 2
    seen = invoke(data, "out", "--alpha", 0.5, "--calibrate", data)
    assert seen.exit_code == 2 and "not fitted on" in seen.output
    others = [f"{'C' * n}{end}" for n in range(5, 20) for end in ("O", "N", "C(=O)O")]
    Path("new.csv").write_text("\n".join(["smiles", *others]) + "\n")
    sizes = {}
    for alpha in (0.95, 0.99):
        result = invoke("new.csv", f"out {alpha}", "--alpha", alpha, "--calibrate", "new.csv")
        assert result.exit_code == 0, result.output
        assert f"on average at most {alpha} of a prediction" in result.stderr
        sizes[alpha] = sum(
            len(r["pooled_nodes"]) for r in pq.read_table(f"out {alpha}").to_pylist()
        )
    assert sizes[0.95] >= sizes[0.99]
