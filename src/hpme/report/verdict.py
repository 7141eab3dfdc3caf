"""What an explainer says about its own fit, in words for someone who has not read the paper."""

from __future__ import annotations

from typing import Any

from hpme.explainers.hpme.report import FitReport


def verdict(report: Any) -> dict[str, Any]:
    """A line to show (``evidence``), its warnings, and whether it is ``good``.

    Args:
        report: A :class:`~hpme.explainers.hpme.report.FitReport`, anything else with ``summary()``
            and ``warnings``, or ``None`` for an explainer that does not check itself.
    """
    if report is None:
        return {"evidence": None, "warnings": [], "good": None}
    text = _plain(report) if isinstance(report, FitReport) else str(report.summary())
    warnings = [str(warning) for warning in report.warnings]
    return {"evidence": text, "warnings": warnings, "good": not warnings}


def _plain(report: FitReport) -> str:
    parts = [
        "Planted in other graphs, the nodes it chose should carry the prediction with them. They "
        f"fail to in {report.disagreement:.2f} of a scale where 0 means never and 1 that the nodes "
        f"say nothing; random nodes score {report.random_disagreement:.2f}, the nodes it ranks "
        f"lowest {report.complement_disagreement:.2f}."
    ]
    if report.agreement is not None:
        parts.append(
            f"Independent searches agree on the nodes by {report.agreement:.2f} (0 is chance, 1 "
            "the same nodes)."
        )
    where = f"{report.held_out} graphs it had not seen" if report.held_out else "its own graphs"
    parts.append(
        f"Measured on {where}, they save {report.effect:.0%} of what random nodes lose "
        f"(p = {report.p_value:.2g})."
    )
    return " ".join(parts)
