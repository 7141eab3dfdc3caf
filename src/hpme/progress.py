"""One progress bar for all long work, silent where nobody looks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

EVERY = 30.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def progress_bar(
    description: str, total: int, *, enabled: bool = True, done: int = 0, rate: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yields a function that moves a bar forward; without a terminal there are lines if ``rate``."""
    console = Console(stderr=True)
    if enabled and (console.is_jupyter or console.is_terminal):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing widgets: then the bar is text
            from tqdm.auto import tqdm
        with tqdm(desc=description, total=total, initial=done, leave=False) as bar:
            yield bar.update
    elif enabled and rate:
        yield _Lines(description, total, done, console)
    else:
        yield lambda _: None


class _Lines:
    """Says how far it is, as lines."""

    def __init__(self, description: str, total: int, done: int, console: Console) -> None:
        self.description, self.total, self.console = description, total, console
        self.done, self.before = done, done
        self.start = self.said = time.monotonic()

    def __call__(self, steps: int) -> None:
        self.done += steps
        now = time.monotonic()
        if now - self.said < EVERY:
            return
        self.said = now
        rate = (self.done - self.before) / max(now - self.start, 1e-9)
        left = max(0, self.total - self.done) / max(rate, 1e-9)
        far = f"{self.description}: {self.done:,} of {self.total:,}"
        line = f"{far}, {rate:,.0f}/s, about {left:,.0f} s left"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
