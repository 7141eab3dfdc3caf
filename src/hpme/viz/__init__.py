"""Pictures of explanations."""

from __future__ import annotations

from typing import Any

from hpme.viz.gallery import gallery

__all__ = ["gallery", "write_page"]


def __getattr__(name: str) -> Any:
    # The page is built on pictures, so they cannot import it; users find both in one place.
    if name == "write_page":
        from hpme.page import write_page

        return write_page
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
