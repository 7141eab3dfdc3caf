"""Pictures of explanations."""

from __future__ import annotations

from typing import Any

from hpme.viz.gallery import check_picture_path, gallery

__all__ = ["check_picture_path", "gallery", "report"]


def __getattr__(name: str) -> Any:
    # The page is built on pictures, so they cannot import it; users find both in one place.
    if name == "report":
        from hpme.page import report

        return report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
