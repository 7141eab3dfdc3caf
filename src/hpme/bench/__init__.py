"""Experiments: a dataset, a target model, an explainer and a seed, to a record."""

from hpme.bench.experiment import Experiment
from hpme.bench.measures import MEASURES
from hpme.bench.options import make_explainer, option_names
from hpme.bench.outcome import Outcome, Target, explain, recipe_of
from hpme.bench.record import Record
from hpme.bench.run import record_of, run_experiment
from hpme.bench.seeds import parse_seeds
from hpme.bench.store import ResultStore
from hpme.bench.suites import SUITES, Suite
from hpme.bench.summary import Summary

__all__ = [
    "MEASURES",
    "SUITES",
    "Experiment",
    "Outcome",
    "Record",
    "ResultStore",
    "Suite",
    "Summary",
    "Target",
    "explain",
    "make_explainer",
    "option_names",
    "parse_seeds",
    "recipe_of",
    "record_of",
    "run_experiment",
]
