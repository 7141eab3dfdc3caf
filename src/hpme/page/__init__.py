"""One HTML page with explanations of many graphs; it opens without a network."""

from hpme.page.page import report

__all__ = ["report"]
