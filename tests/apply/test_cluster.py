"""``hpme apply --ray`` on a real cluster of two machines; one of them is lost."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hpme.commands import apply as command
from hpme.execute import RayExecutor

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'hpme[cluster]'")
cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.fixture
def cluster(user):
    """A head without cores, and a function that adds a machine with one."""
    os.chdir("/")  # workers must not find the user's module by chance
    made = cluster_utils.Cluster()
    made.add_node(num_cpus=0, include_dashboard=False)

    def add():
        return made.add_node(num_cpus=1, env_vars={"OMP_NUM_THREADS": "1"})

    first, _ = add(), add()
    os.chdir(user)
    yield made, first
    ray.shutdown()
    made.shutdown()


def test_a_lost_machine_loses_no_row(cluster, table, saved, monkeypatch):
    made, first = cluster
    data, good = table(120)
    collect, ended = RayExecutor._collect, []

    def note(self, reference):
        ended.append(reference)
        if len(ended) == 2:
            made.remove_node(first, allow_graceful=False)
        return collect(self, reference)

    monkeypatch.setattr(RayExecutor, "_collect", note)
    command.apply(
        explainer=saved,
        model="my_molecules:build",
        data=data,
        out=Path("out"),
        ray=made.address,
        rows_per_shard=10,
        quiet=True,
    )
    assert len(ended) == len(list(Path("out").glob("part-*"))) > 2
    found = pq.read_table("out").to_pylist()
    assert [row["id"] for row in found] == good
    command.apply(
        explainer=saved,
        model="my_molecules:build",
        data=data,
        out=Path("here"),
        rows_per_shard=10,
        quiet=True,
    )
    here = pq.read_table("here").to_pylist()
    for ours, theirs in zip(here, found, strict=True):
        assert ours["id"] == theirs["id"]
        assert ours["pooled_nodes"] == theirs["pooled_nodes"]
        assert ours["node_weights"] == pytest.approx(theirs["node_weights"], abs=1e-6)
