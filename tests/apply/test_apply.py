"""``hpme apply``: every row once, whatever happens."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from rdkit import Chem

from hpme.apply import shards
from hpme.apply.shards import ShardFolder, apply
from hpme.data import from_smiles, save_graphs
from hpme.explainers import HPMEExplainer
from hpme.graphs.reading import read_graphs


def rows(out="out"):
    return pq.read_table(out).to_pylist()


def skipped(out="out"):
    with Path(out, "_skipped.csv").open(newline="") as file:
        return [int(row["row"]) for row in csv.DictReader(file)]


def test_rows_are_those_of_the_explainer(invoke, table, saved):
    data, good = table(30)
    result = invoke(data, "out", "--rows-per-shard", 8, "--name-column", "name")
    assert result.exit_code == 0, result.output
    found = rows()
    assert [row["id"] for row in found] == good
    lines = data.read_text().splitlines()
    assert sorted(good + skipped()) == list(range(2, len(lines) + 1))
    import my_molecules

    explainer, model = HPMEExplainer.load(saved), my_molecules.build()
    graphs = list(from_smiles([row["smiles"] for row in found], [0] * len(found), progress=False))
    for row, explanation in zip(found, explainer.explain(model, graphs), strict=True):
        line = lines[row["id"] - 1].split(",")
        assert [row["smiles"], row["name"]] == line
        nodes = explanation.node_mask[:, 0]
        assert torch.allclose(torch.tensor(row["node_weights"]), nodes, atol=0.01)
        assert row["pooled_nodes"] == explanation.pooled.nonzero().view(-1).tolist()
        ends = zip(*explanation.edge_index.tolist(), strict=True)
        weights = dict(zip(ends, explanation.edge_mask.tolist(), strict=True))
        adjacency = Chem.GetAdjacencyMatrix(Chem.MolFromSmiles(row["smiles"]))
        order = [tuple(pair) for pair in zip(*map(list, adjacency.nonzero()), strict=True)]
        assert row["edge_weights"] == pytest.approx([weights[pair] for pair in order], abs=0.01)
        one = torch.zeros(explanation.num_nodes, dtype=torch.long)
        output = model(explanation.x, explanation.edge_index, one).softmax(1)[0]
        assert row["prediction"] == pytest.approx(output.tolist(), abs=1e-5)
        assert row["class"] == int(output.argmax())
        assert row["verdict"] is None and row["rest_nodes"] is None


def test_verdicts_on_request(invoke, table, saved):
    data, _ = table(12, bad=False)
    assert invoke(data, "out", "--verdict", "-q").exit_code == 0
    import my_molecules

    explainer, model = HPMEExplainer.load(saved), my_molecules.build()
    found = rows()
    graphs = list(from_smiles([row["smiles"] for row in found], [0] * len(found), progress=False))
    wanted = explainer.quality(model, graphs)
    assert [row["verdict"] for row in found] == [q.verdict for q in wanted]
    assert [row["rest_nodes"] for row in found] == [
        q.rest.nonzero().view(-1).tolist() for q in wanted
    ]


class Killed(BaseException):
    """Ends everything at once, as a signal would."""


def die_after(patch, count):
    """Ends the run when some shards have been written, and the next one half."""
    put, written = ShardFolder.put, []

    def dying(self, number, content):
        if len(written) == count:
            (self.path / f"part-000007-{0:016}.parquet").write_bytes(content[: len(content) // 2])
            (self.path / f".part-000007-{0:016}.parquet.left").write_bytes(content[:10])
            raise Killed
        written.append(number)
        put(self, number, content)

    patch.setattr(ShardFolder, "put", dying)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_killed_run_goes_on_without_a_lost_or_doubled_row(invoke, table, count):
    data, good = table(40)
    assert invoke(data, "whole", "--rows-per-shard", 8).exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        die_after(patch, count)
        with pytest.raises(Killed):
            invoke(data, "out", "--rows-per-shard", 8)
    before = {file: file.stat().st_mtime_ns for file in sorted(Path("out").glob("part-*"))[:count]}
    result = invoke(data, "out", "--rows-per-shard", 8)
    assert result.exit_code == 0, result.output
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert rows() == rows("whole")
    assert [row["id"] for row in rows()] == good
    assert skipped() == skipped("whole")
    assert not list(Path("out").glob(".part*"))


def test_a_real_kill_in_the_middle(invoke, table, user, saved):
    data, good = table(4000)
    command = [sys.executable, "-c", "from hpme.cli import main; main()", "apply", str(saved)]
    command += ["-m", "my_molecules:build", "-d", str(data), "--out", "out"]
    command += ["--rows-per-shard", "60"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not list(Path("out").glob("part-*")):
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    there = len(list(Path("out").glob("part-*")))
    assert 0 < there < 4000 / 60
    result = invoke(data, "out", "--rows-per-shard", 60)
    assert result.exit_code == 0, result.output
    assert "from before" in result.output
    assert [row["id"] for row in rows()] == good


def test_damage_is_noticed_and_made_again(invoke, table):
    data, good = table(20)
    invoke(data, "out", "--rows-per-shard", 8)
    whole, (first, second, *_) = rows(), sorted(Path("out").glob("part-*"))
    content = bytearray(second.read_bytes())
    content[len(content) // 4] ^= 1
    second.write_bytes(content)
    first.write_bytes(first.read_bytes()[:-5])
    assert invoke(data, "out", "--rows-per-shard", 8).exit_code == 0
    assert rows() == whole
    assert [row["id"] for row in rows()] == good


def test_graphs_that_cannot_be_explained_are_listed(invoke, user, table):
    data, good = table(20, bad=False)
    Path(data).write_text(Path(data).read_text() + "[Na+].[Cl-],salt\n")
    result = invoke(data, model="my_molecules:picky")
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in rows()] == good
    assert skipped() == [len(good) + 2]
    assert "no sodium, please" in Path("out/_skipped.csv").read_text()


def test_graphs_of_a_file(invoke, user, table):
    molecules = list(from_smiles(["CCO", "c1ccccc1", "CCN", "CC"], [0] * 4, progress=False))
    molecules[2].x = molecules[2].x * float("nan")
    # As a damaged exporter would write it: save_graphs refuses such graphs.
    from hpme.data import graph_file
    from hpme.graphs.store import GraphStore
    from hpme.graphs.transforms import to_tensors
    from hpme.storage import write_tensors

    store = GraphStore(**read_graphs(molecules, "all"))
    header = {"kind": graph_file.KIND, "version": graph_file.VERSION, "graphs": 4}
    write_tensors("graphs.safetensors", to_tensors(store), header)
    result = invoke("graphs.safetensors", "out", "--rows-per-shard", 3)
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in rows()] == [0, 1, 3]
    assert [len(row["node_weights"]) for row in rows()] == [3, 6, 2]
    assert "NaN" in Path("out/_skipped.csv").read_text()
    assert skipped() == [2]


def test_two_workers_give_the_same_rows(invoke, table):
    data, _ = table(30)
    assert invoke(data, "one", "--rows-per-shard", 8, "-q").exit_code == 0
    result = invoke(data, "two", "--rows-per-shard", 8, "--workers", 2)
    assert result.exit_code == 0, result.output
    assert rows("two") == rows("one")
    assert skipped("two") == skipped("one")


def test_a_full_disk_is_named_and_loses_nothing(invoke, table):
    data, good = table(20)
    write, left = shards.write_atomically, [3]

    def full(path, content):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, os.strerror(28))
        write(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "write_atomically", full)
        result = invoke(data, "out", "--rows-per-shard", 8)
    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert "run the same command again" in " ".join(result.output.split())
    assert invoke(data, "out", "--rows-per-shard", 8).exit_code == 0
    assert [row["id"] for row in rows()] == good


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"explainer": "missing.safetensors"}, "no file 'missing.safetensors'"),
        ({"explainer": "foreign.safetensors"}, "damaged or was not written by hpme"),
        ({"explainer": "graphs.safetensors"}, "holds no explainer"),
        ({"model": "my_molecules:wide"}, "12"),
        ({"model": "my_molecules:deep"}, "have 66 channels together, those of this one have 74"),
    ],
)
def test_what_does_not_belong_together_is_named(invoke, table, change, message):
    data, _ = table(10)
    Path("foreign.safetensors").write_bytes(b"something else")
    save_graphs("graphs.safetensors", from_smiles(["CC"], [0], progress=False))
    result = invoke(data, **change)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not list(Path().glob("out/part-*"))


def test_other_settings_do_not_mix(invoke, table):
    data, _ = table(10)
    assert invoke(data).exit_code == 0
    result = invoke(data, "out", "--hydrogens")
    assert result.exit_code == 1
    assert "another hydrogens" in " ".join(result.output.split())
    data.write_text(data.read_text() + "C,more\n")
    assert "another data" in " ".join(invoke(data).output.split())


def test_wrong_usage(invoke, table, saved):
    data, _ = table(3)
    assert invoke(data, "out", "--workers", 2, "--ray", "localhost:1").exit_code == 2
    assert invoke("molecules.txt").exit_code == 2
    Path("empty.csv").write_text("smiles\n")
    assert "no rows" in invoke("empty.csv").output
    assert invoke(data, "out", "--smiles-column", "formula").exit_code == 2


def test_a_process_that_dies_again_and_again_ends_the_run(user, table, saved):
    from hpme.apply import open_rows
    from hpme.errors import HPMEError
    from hpme.execute import Done, Failure, InProcess

    data, _ = table(10)
    tried = []

    def die(part):
        tried.append(part.number)
        return Done(part, failure=Failure("WorkerDied", "SIGKILL"))

    folder = ShardFolder(Path("out"), {"a": 1})
    assert json.loads(Path("out/_apply.json").read_text()) == {"a": 1}
    with pytest.raises(HPMEError, match="SIGKILL"):
        apply(open_rows(data), folder, InProcess(die), rows_per_shard=50, progress=False)
    assert tried == [0, 0, 0]
