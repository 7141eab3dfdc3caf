"""Experiments: a dataset, a target model, an explainer and a seed, to a record."""

from hpme.bench.experiment import Outcome, Record, Target, run_experiment
from hpme.bench.options import make_explainer, option_names
from hpme.bench.seeds import parse_seeds
from hpme.bench.summary import Summary

__all__ = [
    "Outcome",
    "Record",
    "Summary",
    "Target",
    "make_explainer",
    "option_names",
    "parse_seeds",
    "run_experiment",
]
