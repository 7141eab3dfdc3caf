"""Experiments: a dataset, a target model, an explainer and a seed, to a record."""

from hpme.bench.experiment import ALL_EDGES as ALL_EDGES
from hpme.bench.experiment import GROUND_TRUTH as GROUND_TRUTH
from hpme.bench.experiment import MEAN_RANK as MEAN_RANK
from hpme.bench.experiment import Experiment as Experiment
from hpme.bench.experiment import parse_seeds as parse_seeds
from hpme.bench.measures import MEASURES as MEASURES
from hpme.bench.outcome import Outcome as Outcome
from hpme.bench.outcome import Target as Target
from hpme.bench.outcome import explain as explain
from hpme.bench.outcome import recipe_of as recipe_of
from hpme.bench.run import record_of as record_of
from hpme.bench.run import run_experiment as run_experiment
from hpme.bench.run import run_on as run_on
from hpme.bench.store import Plan as Plan
from hpme.bench.store import Record as Record
from hpme.bench.store import ResultStore as ResultStore
from hpme.execute import Failure as Failure
from hpme.explainers.registry import make_explainer as make_explainer
from hpme.explainers.registry import option_names as option_names
