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
    """Yields a function that moves a bar forward, where there is no terminal lines if ``rate``."""
    console = Console(stderr=True)
    if enabled and (console.is_jupyter or console.is_terminal):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing widgets: then the bar is text
            from tqdm.auto import tqdm
        with tqdm(desc=description, total=total, initial=done, leave=False) as bar:
            yield bar.update
    elif enabled and rate:
        begun = said = time.monotonic()
        before = done

        def lines(steps: int) -> None:
            nonlocal done, said
            done, now = done + steps, time.monotonic()
            if now - said >= EVERY:
                said, pace = now, (done - before) / max(now - begun, 1e-9)
                left = max(0, total - done) / max(pace, 1e-9)
                far = f"{description}: {done:,} of {total:,}"
                line = f"{far}, {pace:,.0f}/s, about {left:,.0f} s left"
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield lines
    else:
        yield lambda _: None
