"""Explainers; each is a PyG ``ExplainerAlgorithm`` with ``fit(model, graphs)``."""

from hpme.explainers.att import AttentionExplainer
from hpme.explainers.gnnexplainer import GNNExplainer
from hpme.explainers.grad import GradExplainer
from hpme.explainers.hpme import HPMEExplainer, HPMEPrintedExplainer
from hpme.explainers.integratedgradients import IntegratedGradientsExplainer
from hpme.explainers.matchexplainer import MatchExplainer
from hpme.explainers.metagnn import MetaGNNExplainer
from hpme.explainers.mixupexplainer import MixupExplainer
from hpme.explainers.myerson import MyersonExplainer
from hpme.explainers.occlusion import OcclusionExplainer
from hpme.explainers.pgexplainer import PGExplainer
from hpme.explainers.proxyexplainer import ProxyExplainer
from hpme.explainers.random import RandomExplainer
from hpme.explainers.regexplainer import RegExplainer
from hpme.explainers.registry import EXPLAINERS, explainer_class, load_explainer
from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.explanation import Explanation
from hpme.explainers.shared.mixing import MixingExplainer, MixupGraphs
from hpme.explainers.subgraphx import SubgraphXExplainer
from hpme.explainers.tagexplainer import TAGExplainer

__all__ = [
    "EXPLAINERS",
    "AttentionExplainer",
    "Explanation",
    "GNNExplainer",
    "GradExplainer",
    "GraphExplainer",
    "HPMEExplainer",
    "HPMEPrintedExplainer",
    "IntegratedGradientsExplainer",
    "MatchExplainer",
    "MetaGNNExplainer",
    "MixingExplainer",
    "MixupExplainer",
    "MixupGraphs",
    "MyersonExplainer",
    "OcclusionExplainer",
    "PGExplainer",
    "ProxyExplainer",
    "RandomExplainer",
    "RegExplainer",
    "SubgraphXExplainer",
    "TAGExplainer",
    "explainer_class",
    "load_explainer",
]
