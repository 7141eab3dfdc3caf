import pytest
import torch
from hypothesis import settings

from hpme.bench import Experiment, Record

# Timings vary too much between machines for a deadline; the same examples in every run.
settings.register_profile("hpme", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("hpme")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small tensors: more threads only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_random_numbers():
    """A test that draws numbers draws the same ones in every run."""
    torch.default_generator.manual_seed(0)


@pytest.fixture
def make_record():
    """Makes results of experiments that nobody ran."""

    def make(dataset="ba-2motifs", explainer="hpme", seed=0, *, values=None, **more):
        parts = {name: more.pop(name, {}) for name in ("spread", "undefined", "context", "cost")}
        context = {
            "variant": more.get("variant") or "paper",
            "rule": "",
            "size": 1000,
            "graphs": more.get("graphs", 200),
            "pool_ratio_source": None,
            "config": {},
            "target_metrics": {"test": {"accuracy": 0.9}},
            "target_model_metrics": None,
        }
        cost = {"fit_seconds": 1.0, "explain_seconds": 0.5, "peak_memory_mib": 100.0}
        return Record(
            experiment=Experiment(dataset, explainer, seed, **more),
            values={"auc": 0.5} if values is None else values,
            spread=parts["spread"],
            undefined=parts["undefined"],
            context={**context, **parts["context"]},
            cost={**cost, **parts["cost"]},
            versions={"hpme": "0"},
        )

    return make
