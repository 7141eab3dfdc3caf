"""Explainers; each is a PyG ``ExplainerAlgorithm`` with ``fit(model, graphs)``."""

from hpme.errors import UnknownNameError
from hpme.explainers.att import AttentionExplainer
from hpme.explainers.base import GraphExplainer
from hpme.explainers.gnnexplainer import GNNExplainer
from hpme.explainers.grad import GradExplainer
from hpme.explainers.hpme import HPMEExplainer
from hpme.explainers.matchexplainer import MatchExplainer
from hpme.explainers.metagnn import MetaGNNExplainer
from hpme.explainers.mixing import MixingExplainer, MixupGraphs
from hpme.explainers.mixupexplainer import MixupExplainer
from hpme.explainers.pgexplainer import PGExplainer
from hpme.explainers.proxyexplainer import ProxyExplainer
from hpme.explainers.random import RandomExplainer
from hpme.explainers.regexplainer import RegExplainer
from hpme.explainers.tagexplainer import TAGExplainer

EXPLAINERS: dict[str, type[GraphExplainer]] = {
    explainer.slug: explainer
    for explainer in (
        HPMEExplainer,
        RandomExplainer,
        GradExplainer,
        AttentionExplainer,
        GNNExplainer,
        PGExplainer,
        MetaGNNExplainer,
        TAGExplainer,
        MatchExplainer,
        MixupExplainer,
        ProxyExplainer,
        RegExplainer,
    )
}


def explainer_class(name: str) -> type[GraphExplainer]:
    """The explainer registered under a slug."""
    if name not in EXPLAINERS:
        raise UnknownNameError("explainer", name, list(EXPLAINERS))
    return EXPLAINERS[name]


__all__ = [
    "EXPLAINERS",
    "AttentionExplainer",
    "GNNExplainer",
    "GradExplainer",
    "GraphExplainer",
    "HPMEExplainer",
    "MatchExplainer",
    "MetaGNNExplainer",
    "MixingExplainer",
    "MixupExplainer",
    "MixupGraphs",
    "PGExplainer",
    "ProxyExplainer",
    "RandomExplainer",
    "RegExplainer",
    "TAGExplainer",
    "explainer_class",
]
