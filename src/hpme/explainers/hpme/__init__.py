"""HPME: pooling, structural mixup, objective, search."""

from hpme.explainers.hpme.explainer import HPMEExplainer

__all__ = ["HPMEExplainer"]
