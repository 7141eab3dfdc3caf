"""HPME: ``method`` is the paper, equation by equation, ``search`` is how the pool is found."""

from hpme.explainers.hpme.explainer import HPMEExplainer
from hpme.explainers.hpme.printed import HPMEPrintedExplainer

__all__ = ["HPMEExplainer", "HPMEPrintedExplainer"]
