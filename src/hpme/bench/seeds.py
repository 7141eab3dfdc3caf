"""Lists of seeds as people write them."""

from __future__ import annotations

import re

from hpme.errors import InputError

MAX_SEED = 2**63 - 1
"""What random generators take."""
MAX_SEEDS = 10_000
"""Each is a run of its own."""


def parse_seeds(text: str) -> list[int]:
    """Seeds of ``"0-4"``, ``"0,3,7"`` or ``"0-2,7"``, in the given order, each once.

    Raises:
        InputError: If the text is anything else.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip(), re.ASCII)
        if match is None:
            raise InputError(f"'{text}' is no list of seeds; write 0-4 or 0,3,7 or 0-2,7")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last > MAX_SEED:
            raise InputError(f"a seed is at most {MAX_SEED:,}, got {last}")
        if last < first:
            raise InputError(f"'{part.strip()}' runs backwards; write {last}-{first}")
        if last - first >= MAX_SEEDS - len(seeds):
            raise InputError(f"'{text}' is more than {MAX_SEEDS:,} seeds; name fewer")
        seeds.extend(range(first, last + 1))
    return list(dict.fromkeys(seeds))
