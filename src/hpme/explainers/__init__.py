"""Explainers; each is a PyG ``ExplainerAlgorithm`` with ``fit(model, graphs)``."""

from hpme.errors import UnknownNameError
from hpme.explainers.base import GraphExplainer
from hpme.explainers.hpme import HPMEExplainer
from hpme.explainers.random import RandomExplainer

EXPLAINERS: dict[str, type[GraphExplainer]] = {
    explainer.slug: explainer for explainer in (HPMEExplainer, RandomExplainer)
}


def explainer_class(name: str) -> type[GraphExplainer]:
    """The explainer registered under a slug."""
    if name not in EXPLAINERS:
        raise UnknownNameError("explainer", name, list(EXPLAINERS))
    return EXPLAINERS[name]


__all__ = ["EXPLAINERS", "GraphExplainer", "HPMEExplainer", "RandomExplainer", "explainer_class"]
