"""What an experiment is: everything that decides its result, as plain values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from hpme.errors import InputError
from hpme.limits import MAX_SEED, MAX_SEEDS
from hpme.storage import canonical_json

RESULT_VERSION = 3
"""Part of every key; raise it when a change to explainers or metrics alters results."""
CHANGED = {"hpme": 8, "distilled-occlusion": 5, "best-attribution": 5}
"""Versions of explainers whose results alone have changed since. Tables show their earlier results
until there are new ones, and say so."""
GROUND_TRUTH = "ground-truth"
"""In place of an explainer: the ground truth is taken for the explanation."""
ALL_EDGES = "all-edges"
"""In place of an explainer: all edges are the explanation, so that deletion leaves none."""
MEAN_RANK = "mean-rank"
"""In place of an explainer: mean rank by what costs next to nothing."""


@dataclass(frozen=True)
class Experiment:
    """Explain a trained model on a dataset with one explainer and one seed.

    Two experiments with the same :attr:`key` have the same result, so a result is stored under its
    key and never computed twice.

    Args:
        explainer: Name of the explainer; ``None`` to look at the target alone.
        seed: Seed of the explainer and of the choice of explained graphs.
        variant: Variant of the dataset; by default its first.
        size: Number of graphs in the dataset; by default the documented one.
        target_seed: Seed the target is trained with.
        graphs: Number of graphs to explain.
        options: Constructor arguments of the explainer, JSON values.
        metrics: Names of metric sets, keys of :obj:`hpme.bench.MEASURES`.
        train_steps: Longest training of the target; by default that of its recipe.
        fit_graphs: Number of other graphs to fit on; by default the explained ones.
    """

    dataset: str
    explainer: str | None
    seed: int
    model: str = "gcn"
    variant: str | None = None
    size: int | None = None
    target_seed: int = 0
    graphs: int = 200
    options: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("auc",)
    train_steps: int | None = None
    fit_graphs: int | None = None

    @cached_property
    def key(self) -> str:
        """Digest of all fields."""
        return self._key(CHANGED.get(self.explainer or "", RESULT_VERSION))

    @property
    def earlier_key(self) -> str:
        """The key before the explainer was changed, see :data:`CHANGED`."""
        return self._key(RESULT_VERSION)

    def _key(self, version: int) -> str:
        content = {**self.to_dict(), "result_version": version}
        return hashlib.sha256(canonical_json(content)).hexdigest()[:20]

    @property
    def target(self) -> tuple[str | int | None, ...]:
        """What decides the target model; equal for experiments that share it."""
        data = self.dataset, self.variant, self.size
        return *data, self.model, self.target_seed, self.train_steps

    @cached_property
    def cell(self) -> tuple[str | int | None, ...]:
        """What it is about, whatever the seeds: all that tells the cells of a suite apart."""
        options = canonical_json(dict(self.options)).decode()
        return self.dataset, self.variant, self.model, self.explainer, self.fit_graphs, options

    @property
    def run(self) -> tuple[int, int]:
        """Seeds of the target and of the explainer: what tells the results of a cell apart."""
        return self.target_seed, self.seed

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        values = {**asdict(self), "options": dict(self.options), "metrics": list(self.metrics)}
        if self.fit_graphs is None:  # keys are those of before there was a choice
            del values["fit_graphs"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Experiment:
        """The experiment :meth:`to_dict` came from."""
        try:
            return cls(**{**values, "metrics": tuple(values["metrics"])})
        except (KeyError, TypeError) as error:
            raise InputError(f"not an experiment of this version of hpme: {error}") from error

    def __str__(self) -> str:
        variant = "" if self.variant is None else f" ({self.variant})"
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        explainer = "" if self.explainer is None else f", {self.explainer}{options}"
        return f"{self.dataset}{variant}, {self.model}{explainer}, seed {self.seed}"


def parse_seeds(text: str) -> list[int]:
    """Seeds of ``"0-4"``, ``"0,3,7"`` or ``"0-2,7"``, in the given order, each once."""
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
