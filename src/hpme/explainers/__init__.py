"""Explainers; each is a PyG ``ExplainerAlgorithm`` with ``fit(model, graphs)``.

A line below is all that makes an explainer of this package known: to :data:`EXPLAINERS`, commands,
benchmarks and tests. Tables list them in this order.
"""

# ruff: noqa: I001
from hpme.explainers.shared.base import GraphExplainer as GraphExplainer
from hpme.explainers.shared.explanation import Explanation as Explanation
from hpme.explainers.shared.masks import Masks as Masks
from hpme.explainers.shared.templates import MixingExplainer as MixingExplainer
from hpme.explainers.shared.templates import MixupGraphs as MixupGraphs
from hpme.explainers.shared.options import describe_options as describe_options
from hpme.explainers.registry import EXPLAINERS as EXPLAINERS
from hpme.explainers.registry import explainer_class as explainer_class
from hpme.explainers.registry import load_explainer as load_explainer

from hpme.explainers.hpme.explainer import HPMEExplainer as HPMEExplainer
from hpme.explainers.hpme.explainer import quick as quick
from hpme.explainers.hpme.printed import HPMEPrintedExplainer as HPMEPrintedExplainer
from hpme.explainers.random import RandomExplainer as RandomExplainer
from hpme.explainers.grad import GradExplainer as GradExplainer
from hpme.explainers.att import AttentionExplainer as AttentionExplainer
from hpme.explainers.gnnexplainer import GNNExplainer as GNNExplainer
from hpme.explainers.pgexplainer import PGExplainer as PGExplainer
from hpme.explainers.metagnn import MetaGNNExplainer as MetaGNNExplainer
from hpme.explainers.tagexplainer import TAGExplainer as TAGExplainer
from hpme.explainers.matchexplainer import MatchExplainer as MatchExplainer
from hpme.explainers.mixupexplainer import MixupExplainer as MixupExplainer
from hpme.explainers.proxyexplainer import ProxyExplainer as ProxyExplainer
from hpme.explainers.regexplainer import RegExplainer as RegExplainer
from hpme.explainers.occlusion import OcclusionExplainer as OcclusionExplainer
from hpme.explainers.distilled_occlusion import (
    DistilledOcclusionExplainer as DistilledOcclusionExplainer,
)
from hpme.explainers.best_attribution import BestAttributionExplainer as BestAttributionExplainer
from hpme.explainers.integratedgradients import (
    IntegratedGradientsExplainer as IntegratedGradientsExplainer,
)
from hpme.explainers.subgraphx import SubgraphXExplainer as SubgraphXExplainer
from hpme.explainers.myerson import MyersonExplainer as MyersonExplainer
