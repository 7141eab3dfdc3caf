"""How good explanations are, and predictions; an undefined metric is NaN and says why."""

from hpme.metrics.deletion import DeletionOptions as DeletionOptions
from hpme.metrics.fidelity import Fidelity as Fidelity
from hpme.metrics.fidelity import SimOARReferences as SimOARReferences
from hpme.metrics.fidelity import fidelity as fidelity
from hpme.metrics.fidelity import robust_fidelity as robust_fidelity
from hpme.metrics.fidelity import simoar as simoar
from hpme.metrics.fidelity import simoar_references as simoar_references
from hpme.metrics.prediction import accuracy as accuracy
from hpme.metrics.prediction import macro_f1 as macro_f1
from hpme.metrics.prediction import mape as mape
from hpme.metrics.prediction import rmse as rmse
from hpme.metrics.shared import GraphScores as GraphScores
from hpme.metrics.shared import MetricValue as MetricValue
from hpme.metrics.shared import hard_masks as hard_masks
from hpme.metrics.shared import truth_sizes as truth_sizes
from hpme.metrics.shift import Shift as Shift
from hpme.metrics.shift import shift as shift
from hpme.metrics.shift import truth_shift as truth_shift
from hpme.metrics.truth import edge_auc as edge_auc
from hpme.metrics.truth import edge_auc_per_graph as edge_auc_per_graph
from hpme.metrics.truth import explanation_auc as explanation_auc
from hpme.metrics.truth import explanation_auc_per_graph as explanation_auc_per_graph
from hpme.metrics.truth import precision_at_k as precision_at_k
