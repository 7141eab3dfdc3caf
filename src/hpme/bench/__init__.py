"""Experiments: a dataset, a target model, an explainer and a seed, to a record."""

from hpme.bench.experiment import ALL_EDGES, GROUND_TRUTH, MEAN_RANK, Experiment, parse_seeds
from hpme.bench.measures import MEASURES
from hpme.bench.outcome import Outcome, Target, explain, recipe_of
from hpme.bench.run import record_of, run_experiment, run_on
from hpme.bench.store import Plan, Record, ResultStore
from hpme.execute import Failure
from hpme.explainers.registry import make_explainer, option_names

__all__ = [
    "ALL_EDGES",
    "GROUND_TRUTH",
    "MEAN_RANK",
    "MEASURES",
    "Experiment",
    "Failure",
    "Outcome",
    "Plan",
    "Record",
    "ResultStore",
    "Target",
    "explain",
    "make_explainer",
    "option_names",
    "parse_seeds",
    "recipe_of",
    "record_of",
    "run_experiment",
    "run_on",
]
