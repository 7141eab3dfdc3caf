"""One HTML page with explanations of many graphs; it opens without a network."""

from hpme.page.page import payload, write_page

__all__ = ["payload", "write_page"]
