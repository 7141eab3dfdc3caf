"""A real Ray cluster of two machines, each with a cache of its own; one of them is lost."""

import pytest

from hpme.bench import Plan, ResultStore, run_experiment
from hpme.bench.jobs import ExperimentCluster, run_plan
from hpme.bench.run import dataset_and_target
from hpme.errors import ClusterError, InputError

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'hpme[cluster]'")
cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.fixture
def cluster(tmp_path):
    """A head without cores, and a function that adds a machine with one."""
    made = cluster_utils.Cluster()
    _patiently(lambda: made.add_node(num_cpus=0, include_dashboard=False))

    def add(name):
        variables = {"HPME_CACHE_DIR": str(tmp_path / name), "OMP_NUM_THREADS": "1"}
        return _patiently(lambda: made.add_node(num_cpus=1, env_vars=variables))

    yield made, add
    ray.shutdown()
    made.shutdown()


def _patiently(start, attempts=3):
    """Ray gives a machine 30 seconds to start, which is short when this one is busy."""
    for attempt in range(attempts):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error) or attempt == attempts - 1:
                raise
    return None


def test_a_lost_machine_loses_nothing(cluster, tiny, tmp_path, monkeypatch):
    made, add = cluster
    first, _ = add("first"), add("second")
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "driver"))
    experiments = [tiny(name, seed) for name in ("random", "gnnexplainer") for seed in range(4)]
    store, ended = ResultStore(tmp_path / "out"), []

    def note(done):
        ended.append(done)
        if len(ended) == 3:
            made.remove_node(first, allow_graceful=False)

    executor = ExperimentCluster(made.address)
    try:
        assert executor.cores == 2
        assert run_plan(Plan.of(experiments, store), store, executor, ended=note) == []
    finally:
        executor.close()
    assert len(ended) == 1 + len(experiments)
    trained = [sorted(p.name for p in (tmp_path / name / "models").glob("*.safetensors"))
               for name in ("second", "driver")]  # fmt: skip
    assert len(trained[0]) == 1
    assert trained[0] == trained[1]
    dataset_and_target.cache_clear()
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "local"))
    for experiment in experiments:
        local, remote = run_experiment(experiment), store.get(experiment)
        for name in ("values", "spread", "undefined", "context"):
            assert getattr(remote, name) == getattr(local, name), name
    dataset_and_target.cache_clear()


def test_a_wrong_address_is_explained():
    with pytest.raises(ClusterError, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        ExperimentCluster("127.0.0.1:1")
    with pytest.raises(InputError, match="write HOST:PORT"):
        ExperimentCluster("somewhere")
