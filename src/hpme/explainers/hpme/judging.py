"""Masks of any origin, put through the same transplants as HPME's own regions."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """What transplants say about the masks of one origin; shares are as in ``Quality``.

    Args:
        name: What they are called.
        accepted: Whether their regions carry a good share of predictions beyond random regions as
            large and as connected, over all graphs.
        carried, carried_low, carried_high: Mean over graphs, and its 95 % confidence interval.
        p: Chance of that or more if regions did no more than random ones.
        lost, lost_low, lost_high: The same for what graphs lose without the regions.
        size: Mean number of nodes of a region.
        quality: For each graph; ``None`` where the mask marks no node.
        regions: Nodes that were transplanted, all graphs end to end.
        scores: The masks by node, all graphs end to end.
    """

    name: str
    accepted: bool
    carried: float
    carried_low: float
    carried_high: float
    p: float
    lost: float
    lost_low: float
    lost_high: float
    size: float
    quality: list[Quality | None] = field(repr=False)
    regions: Tensor = field(repr=False)
    scores: Tensor = field(repr=False)

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of graphs by verdict."""
        return dict(Counter(one.verdict for one in self.quality if one is not None).most_common())

    def row(self) -> dict[str, Any]:
        """All but single graphs."""
        names = ("carried", "carried_low", "carried_high", "p", "lost", "lost_low", "lost_high")
        found = {"masks": self.name, "accepted": self.accepted}
        found |= {name: getattr(self, name) for name in names}
        words = " ".join(f"{word}:{count}" for word, count in self.verdicts.items())
        graphs = sum(one is not None for one in self.quality)
        return found | {"size": self.size, "graphs": graphs, "verdicts": words}

    def __str__(self) -> str:
        word = "accepted" if self.accepted else "rejected"
        shares = ", ".join(
            f"{name} {mean:+.2f} [{low:+.2f}, {high:+.2f}]"
            for name, mean, low, high in (
                ("carried", self.carried, self.carried_low, self.carried_high),
                ("lost", self.lost, self.lost_low, self.lost_high),
            )
        )
        return f"{self.name}: {word}; {shares}, p {self.p:.2g}, {self.size:.1f} nodes"


@dataclass(frozen=True)
class Judgement:
    """Masks of several origins beside each other.

    Args:
        masks: The given ones, then HPME's own, then random regions of the size of the latter.
        store: The graphs.
    """

    masks: list[JudgedMasks]
    store: GraphStore = field(repr=False)

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
        return table_of(
            [
                {"masks": one.name, "graph": number}
                | {name: getattr(quality, name) for name in names}
                for one in self.masks
                for number, quality in enumerate(one.quality)
                if quality is not None
            ]
        )

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

    Args:
        masks: A file, a tensor, a sequence with something for each graph, or several of these by
            name.
        store: The graphs.
        by: Whether tensors are about nodes or edges; by default what their lengths say.
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
    nodes, edges = store.sizes.tolist(), store.edge_counts.tolist()
    if hasattr(given, "shape"):
        parts, per = [torch.as_tensor(given)], _kind(len(given), sum(nodes), sum(edges), by)
        if per is None:
            raise InputError(
                f"masks '{name}' have {len(given)} rows; {len(store)} graphs have {sum(nodes)} "
                f"nodes and {sum(edges)} edges"
            )
        return _by_node([_one_column(parts[0])], per, store)
    if len(given) != len(store):
        raise InputError(f"{len(store)} graphs need as many masks, '{name}' has {len(given)}")
    parts, kinds = [], set()
    for number, (one, size, count) in enumerate(zip(given, nodes, edges, strict=True)):
        mask = _mask_of(one, size, by)
        per = _kind(len(mask), size, count, by)
        if per is None:
            raise InputError(
                f"mask {number} of '{name}' has {len(mask)} values; the graph has {size} nodes and "
                f"{count} edges"
            )
        parts.append(_one_column(mask))
        kinds.add((per, size == count))
    sure = {per for per, either in kinds if not either} or {"node"}
    if len(sure) > 1:
        raise InputError(f"masks '{name}' are by node for some graphs and by edge for others")
    return _by_node(parts, sure.pop(), store)


def _mask_of(one: Any, size: int, by: By | None) -> Tensor:
    """What an explanation, or anything like a tensor, says about nodes or else about edges."""
    if not hasattr(one, "get"):
        return torch.as_tensor(one).detach().cpu()
    if hasattr(one, "node_types"):
        one = flattened([one])[1][0]
    node_mask, edge_mask = one.get("node_mask"), one.get("edge_mask")
    if node_mask is not None and len(node_mask) == size and by != "edge":
        return torch.as_tensor(node_mask).detach().cpu()
    if edge_mask is None:
        raise InputError("an explanation has neither a node_mask with a row per node nor edge_mask")
    return torch.as_tensor(edge_mask).detach().cpu()


def _kind(rows: int, nodes: int, edges: int, by: By | None) -> By | None:
    known: dict[By, int] = {"node": nodes, "edge": edges}
    return next((per for per in known if by in (None, per) and known[per] == rows), None)


def _one_column(mask: Tensor) -> Tensor:
    """Features of a node count together, with their signs."""
    return mask.detach().cpu().double().reshape(len(mask), -1).sum(1)


def _by_node(parts: list[Tensor], per: str, store: GraphStore) -> Tensor:
    values = torch.cat(parts)
    if per == "node":
        return values
    return edge_to_node(values.to(store.device), store.batch())[:, 0].cpu()


def read_masks(path: str | Path, store: GraphStore, numbers: Sequence[int] | None = None) -> Tensor:
    """Importance of nodes of a table (``.csv``, ``.tsv``, ``.parquet``).

    A row has ``graph``, the number of the graph, ``node`` or ``source`` and ``target``, and
    ``importance``; what is not listed has the lowest there is, and 0 at most.

    Args:
        path: The file.
        store: The graphs.
        numbers: Their numbers in the file; rows about others are ignored. By default their places.
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

    Masks of 0 and 1 mark regions themselves; of others the best nodes count, as many as HPME
    pools, equal ones in an order that says nothing.

    Args:
        transplants: The graphs and their hosts.
        scores: Importance of the graphs' own nodes by name.
        grafting: Transplants of molecules, if the graphs are such.
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
        found.append(judged(name, every, torch.cat(region), torch.cat(score)))
    return Judgement(found, store)


def judged(name: str, quality: list[Quality | None], region: Tensor, score: Tensor) -> JudgedMasks:
    """Masks of one origin over all graphs."""
    some = [one for one in quality if one is not None]
    columns = torch.tensor([[q.carried, q.lost, q.size] for q in some], dtype=torch.double)
    columns = columns.view(-1, 3)
    shares = columns[:, :2].clamp(-1, 1)  # of a short way, more than all of it says nothing
    (carried, low, high), (lost, lost_low, lost_high) = interval(shares).tolist()
    return JudgedMasks(
        name,
        accepted=len(some) >= FEWEST and carried >= CONTRIBUTES and low > 0,
        carried=carried,
        carried_low=low,
        carried_high=high,
        p=float(p_value(shares)[0]),
        lost=lost,
        lost_low=lost_low,
        lost_high=lost_high,
        size=float(columns[:, 2].mean()),
        quality=quality,
        regions=region,
        scores=score,
    )
