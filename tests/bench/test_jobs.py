"""Many experiments: each once, targets first, failures apart."""

import pytest

from hpme.bench import Failure, Plan, ResultStore, run_experiment
from hpme.bench.jobs import Job, run_plan
from hpme.execute import Done
from hpme.explainers import RandomExplainer


@pytest.fixture
def store(tmp_path, own_cache):
    return ResultStore(tmp_path / "out")


def test_a_plan_knows_what_is_done(store, tiny):
    first, second, other = tiny(), tiny(seed=1), tiny(model="gat")
    store.put(run_experiment(first))
    plan = Plan.of([first, second, other, second], store)
    assert plan.experiments == [first, second, other]
    assert [record.experiment for record in plan.done] == [first]
    assert plan.todo == [second, other]
    assert plan.targets == [second, other]


def test_a_result_with_more_metrics_will_do(store, tiny):
    more, less, other = tiny(metrics=("auc", "precision")), tiny(), tiny(metrics=("fidelity",))
    store.put(run_experiment(more))
    plan = Plan.of([less, other], store)
    assert [record.experiment for record in plan.done] == [more]
    assert plan.todo == [other]


def test_targets_are_prepared_once_and_before_their_experiments(store, tiny, inline):
    experiments = [tiny(seed=seed, dataset=name) for name in ("ba-2motifs", "triangles")
                   for seed in (0, 1)]  # fmt: skip
    executor, ended = inline(), []
    assert run_plan(Plan.of(experiments, store), store, executor, ended=ended.append) == []
    assert executor.log == [
        Job("target", experiments[0]),
        Job("experiment", experiments[0]),
        Job("experiment", experiments[1]),
        Job("target", experiments[2]),
        Job("experiment", experiments[2]),
        Job("experiment", experiments[3]),
    ]
    assert [done.job for done in ended] == executor.log
    assert {r.experiment.key for r in store.records()} == {e.key for e in experiments}
    again = inline()
    run_plan(Plan.of(experiments, store), store, again)
    assert again.log == []


def test_a_failure_stops_nothing_and_is_tried_again(store, tiny, inline, monkeypatch):
    fit = RandomExplainer.fit

    def fail_at_one(self, *args, **kwargs):
        if self.seed == 1:
            raise ValueError("no luck")
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(RandomExplainer, "fit", fail_at_one)
    experiments = [tiny(seed=seed) for seed in range(3)]
    ((failed, failure),) = run_plan(Plan.of(experiments, store), store, inline())
    assert (failed, failure.error, failure.message) == (experiments[1], "ValueError", "no luck")
    assert "fail_at_one" in failure.trace
    assert [f["key"] for f in store.failures()] == [failed.key]
    monkeypatch.undo()
    monkeypatch.setenv("HPME_CACHE_DIR", str(store.folder / "cache"))
    plan = Plan.of(experiments, store)
    assert plan.todo == [failed]
    assert run_plan(plan, store, inline()) == []
    assert list(store.failures()) == []


def test_without_a_target_its_experiments_fail_and_others_do_not(store, tiny, inline):
    def no_gat(job):
        if job.kind == "target" and job.experiment.model == "gat":
            return Done(job, failure=Failure("ModelError", "too large"))
        return None

    experiments = [tiny(), tiny(model="gat"), tiny(seed=1, model="gat")]
    failures = run_plan(Plan.of(experiments, store), store, inline(no_gat))
    assert [experiment for experiment, _ in failures] == experiments[1:]
    assert [record.experiment for record in store.records()] == experiments[:1]
