"""Masks of any origin, put through the same transplants as HPME's own regions."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.errors import InputError, optional_module
from hpme.explainers.hpme.evidence import CONTRIBUTES, interval, p_value
from hpme.explainers.hpme.grafting import Grafting
from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.quality import Quality, quality_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.explanation import Explanations, table_of
from hpme.explainers.shared.masks import edge_to_node, from_nodes
from hpme.graphs import GraphStore
from hpme.graphs.hetero import flattened

By = Literal["node", "edge"]
OWN, RANDOM = "hpme", "random"
"""What is always judged beside given masks: HPME's own regions, and random ones of their size."""
FEWEST = 3
"""Graphs with a region that it takes to accept masks."""
FILE_VALUES = ("importance", "weight", "score", "value", "mask")
"""Names that columns of importance have in files."""


@dataclass(frozen=True)
class JudgedMasks:
    """What transplants say about the masks of one origin; shares are as in ``Quality``."""

    name: str  # what they are called
    quality: list[Quality | None] = field(repr=False)  # None where no node is marked
    regions: Tensor = field(repr=False)  # transplanted nodes of all graphs in a row
    scores: Tensor = field(repr=False)  # the masks by node, likewise

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Means over graphs of ``carried`` and ``lost`` with 95 % intervals, ``p`` and ``size``."""
        some = [(q.carried, q.lost, q.size) for q in self.quality if q is not None]
        table = torch.tensor(some, dtype=torch.double).view(-1, 3)
        shares = table[:, :2].clamp(-1, 1)  # of a short way, more than all of it says nothing
        names = [f"{name}{end}" for name in ("carried", "lost") for end in ("", "_low", "_high")]
        found = dict(zip(names, interval(shares).flatten().tolist(), strict=True))
        return found | {"p": float(p_value(shares)[0]), "size": float(table[:, 2].mean())}

    @property
    def carried(self) -> float:
        """Share of predictions that regions carry beyond random ones, the mean over graphs."""
        return self.numbers["carried"]

    @property
    def accepted(self) -> bool:
        """Whether that is a good share, and certainly more than none."""
        enough = sum(one is not None for one in self.quality) >= FEWEST
        return enough and self.carried >= CONTRIBUTES and self.numbers["carried_low"] > 0

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of graphs by verdict."""
        return dict(Counter(one.verdict for one in self.quality if one is not None).most_common())

    def row(self) -> dict[str, Any]:
        """All but single graphs."""
        words = " ".join(f"{word}:{count}" for word, count in self.verdicts.items())
        graphs = {"graphs": sum(self.verdicts.values()), "verdicts": words}
        known = {k: v if math.isfinite(v) else None for k, v in self.numbers.items()}
        return {"masks": self.name, "accepted": self.accepted, **known, **graphs}

    def __str__(self) -> str:
        word, known = "accepted" if self.accepted else "rejected", self.numbers
        shares = ", ".join(
            f"{name} {known[name]:+.2f} [{known[f'{name}_low']:+.2f}, {known[f'{name}_high']:+.2f}]"
            if math.isfinite(known[name])
            else f"{name} unknown: regions cannot be moved"
            for name in ("carried", "lost")
        )
        return f"{self.name}: {word}; {shares}, p {known['p']:.2g}, {known['size']:.1f} nodes"


@dataclass(frozen=True)
class Judgement:
    """Masks of several origins beside each other."""

    masks: list[JudgedMasks]  # given ones, HPME's own, then random regions of their size
    store: GraphStore = field(repr=False)  # the graphs

    def __getitem__(self, name: str) -> JudgedMasks:
        return {one.name: one for one in self.masks}[name]

    def __str__(self) -> str:
        return "\n".join(map(str, self.masks))

    def to_frame(self, rows: Literal["masks", "graphs"] = "masks") -> Any:
        """A pandas table with a row per origin, or per origin and graph."""
        if rows == "masks":
            return table_of([one.row() for one in self.masks])
        if rows != "graphs":
            raise InputError(f"rows must be one of masks, graphs, got {rows!r}")
        names = ("verdict", "carried", "carried_low", "carried_high", "p", "lost", "size")
        found = [
            {"masks": one.name, "graph": number} | {name: getattr(quality, name) for name in names}
            for one in self.masks
            for number, quality in enumerate(one.quality)
            if quality is not None
        ]
        return table_of(found)

    def explanations(self) -> dict[str, Explanations]:
        """Explanations by origin, with their quality: what a page shows."""
        found, graphs = {}, self.store.batch()
        for one in self.masks:
            masks = from_nodes(one.scores.to(torch.get_default_dtype()), graphs).given()
            shown = Explanations.of(self.store, {**masks, "pooled": one.regions})
            for explanation, quality in zip(shown, one.quality, strict=True):
                if quality is not None:
                    explanation.quality = quality
            found[one.name] = shown
        return found


# Masks as they are given ##########################################################################


def named_masks(masks: Any, store: GraphStore, by: By | None = None) -> dict[str, Tensor]:
    """Importance of all nodes ``[N]`` by name of its origin.

    Masks are a file, a tensor, a sequence with something for each graph, or several of these by
    name. ``by`` says whether tensors are about nodes or edges; by default their lengths do.
    """
    if not isinstance(masks, Mapping):
        name = Path(masks).stem if isinstance(masks, str | Path) else "given"
        masks = {name: masks}
    found = {}
    for name, given in masks.items():
        if name in (OWN, RANDOM):
            raise InputError(f"masks called '{name}' are judged anyway; use another name")
        if isinstance(given, str | Path):
            given = read_masks(given, store)
        scores = _scores(given, store, by, str(name))
        if not bool(scores.isfinite().all()):
            raise InputError(f"masks '{name}' have values that are NaN or infinite")
        found[str(name)] = scores
    if not found:
        raise InputError("no masks to judge; give those of at least one origin")
    return found


def _scores(given: Any, store: GraphStore, by: By | None, name: str) -> Tensor:
    """One tensor for all nodes, of one for all nodes or edges, or of something for each graph."""
    counts: dict[By, list[int]] = {"node": store.sizes.tolist(), "edge": store.edge_counts.tolist()}
    asked: list[By] = [by] if by else ["node", "edge"]
    if hasattr(given, "shape"):
        whole = torch.as_tensor(given)
        per = next((one for one in asked if sum(counts[one]) == len(whole)), None)
        if per is not None:
            parts = whole.split(counts[per])  # type: ignore[no-untyped-call]
            given, asked = parts, [per]
    if len(given) != len(store):
        raise InputError(
            f"{len(store)} graphs need as many masks, or one with a row per node or edge of all of "
            f"them; '{name}' has {len(given)}"
        )
    masks = [_mask_of(one, size, by) for one, size in zip(given, counts["node"], strict=True)]
    rows = [len(mask) for mask in masks]
    per = next((one for one in asked if counts[one] == rows), None)
    if per is None:
        known = counts[asked[0]]
        number = next(i for i in range(len(rows)) if rows[i] != known[i])
        sizes = ", ".join(f"{counts[one][number]} {one}s" for one in counts)
        raise InputError(f"mask {number} of '{name}' has {rows[number]} values for {sizes}")
    # Features of a node count together, with their signs.
    values = torch.cat([mask.double().reshape(len(mask), -1).sum(1) for mask in masks])
    if per == "node":
        return values
    return edge_to_node(values.to(store.device), store.batch())[:, 0].cpu()


def _mask_of(one: Any, size: int, by: By | None) -> Tensor:
    """What an explanation, or anything like a tensor, says about nodes or else about edges."""
    if hasattr(one, "node_types"):
        one = flattened([one])[1][0]
    if hasattr(one, "get"):
        node_mask, edge_mask = one.get("node_mask"), one.get("edge_mask")
        one = (
            edge_mask if node_mask is None or len(node_mask) != size or by == "edge" else node_mask
        )
    if one is None:
        raise InputError("an explanation has neither a node_mask with a row per node nor edge_mask")
    return torch.as_tensor(one).detach().cpu()


def read_masks(path: str | Path, store: GraphStore, numbers: Sequence[int] | None = None) -> Tensor:
    """Importance of nodes of a table (``.csv``, ``.tsv``, ``.parquet``).

    A row has ``graph``, its number, ``node`` or ``source`` and ``target``, and ``importance``; what
    is not listed has the lowest, 0 at most. ``numbers`` are those of the graphs in the file.
    """
    path = Path(path)
    columns = _columns(path)
    value = next((name for name in FILE_VALUES if name in columns), None)
    ends = ("node",) if "node" in columns else ("source", "target")
    missing = [name for name in ("graph", *ends) if name not in columns]
    if missing or value is None:
        raise InputError(
            f"'{path}' has no column {' or '.join(missing or FILE_VALUES[:1])}; it needs graph, "
            "node (or source and target) and importance"
        )
    try:
        graph, *nodes = (torch.tensor([int(v) for v in columns[n]]) for n in ("graph", *ends))
        weight = torch.tensor([float(v) for v in columns[value]], dtype=torch.double)
    except (ValueError, TypeError) as error:
        raise InputError(f"'{path}' has a value that is no number: {error}") from error
    sizes, known = store.sizes.cpu(), torch.tensor(numbers or range(len(store)))
    chosen = torch.isin(graph, known)
    if not bool(chosen.any()) or (numbers is None and not bool(chosen.all())):
        raise InputError(f"'{path}' needs rows about graphs {known.min()} to {known.max()} alone")
    graph, weight = torch.searchsorted(known, graph[chosen]), weight[chosen]
    lowest = float(weight.min().clamp(max=0))
    scores = torch.full((int(sizes.sum()),), lowest, dtype=torch.double)
    for node in (one[chosen] for one in nodes):
        if bool(((node < 0) | (node >= sizes[graph])).any()):
            raise InputError(f"'{path}' names nodes that the graphs do not have")
        scores.scatter_reduce_(0, store.node_start.cpu()[graph] + node, weight, "amax")
    return scores


def _columns(path: Path) -> dict[str, Sequence[Any]]:
    ending = path.suffix.lower()
    try:
        if ending == ".parquet":
            need = "Parquet files need PyArrow ({error})"
            read = optional_module("pyarrow.parquet", need, "parquet").read_table(path)
            return {name: read.column(name).to_pylist() for name in read.column_names}
        if ending not in (".csv", ".tsv"):
            raise InputError(f"'{path}' must end in .csv, .tsv or .parquet")
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = csv.reader(file, delimiter="\t" if ending == ".tsv" else ",")
        return dict(zip(header, zip(*rows, strict=True), strict=True))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as a table with a header: {error}") from error


# Judging ##########################################################################################


@torch.no_grad()
def judge_regions(
    transplants: Transplants, scores: Mapping[str, Tensor], grafting: Grafting | None = None
) -> dict[str, tuple[list[Quality | None], Tensor, Tensor]]:
    """Quality, region and scores of masks of the graphs, and of HPME's own and random regions.

    Masks of 0 and 1 mark regions themselves; of others the best nodes count, as many as HPME pools,
    equal ones in an order that says nothing. ``scores`` are of the graphs' own nodes.
    """
    graphs, pooled = transplants.graphs, transplants.pooled
    sizes, own = transplants.sizes(pooled), graphs.batch < transplants.count
    random = transplants.random_regions(pooled, beside=False)[0]
    noise = transplants.noise()[0]
    regions = {}
    for name, given in scores.items():
        score = transplants.with_hosts(given.to(pooled.device))
        if bool(((given == 0) | (given == 1)).all()):
            regions[name] = (score > 0, score)
        else:
            place = torch.unique(score, return_inverse=True)[1].double()
            best = top_nodes((place + noise).unsqueeze(0), graphs, sizes).keep[0]
            regions[name] = (best, score)
    regions[OWN] = (pooled, transplants.score[0].sigmoid())
    regions[RANDOM] = (random, noise)
    found = {}
    for name, (region, score) in regions.items():
        some = transplants.sizes(region) > 0
        keep = torch.where(some[graphs.batch], region, pooled) & own
        asked = quality_of(replace(transplants, pooled=keep), None, grafting, rest=False)
        there = some[: transplants.count].tolist()
        quality = [one if has else None for one, has in zip(asked, there, strict=True)]
        found[name] = quality, region[own].cpu(), score[own].cpu()
    return found


def judgement(parts: Sequence[Mapping[str, Any]], store: GraphStore) -> Judgement:
    """All graphs together, of what :func:`judge_regions` said about parts of them."""
    found = []
    for name in parts[0]:
        quality, region, score = zip(*(part[name] for part in parts), strict=True)
        every = list(chain.from_iterable(quality))
        found.append(JudgedMasks(name, every, torch.cat(region), torch.cat(score)))
    return Judgement(found, store)
