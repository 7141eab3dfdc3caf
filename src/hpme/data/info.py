"""What a dataset is: its description, its builder, and which of its graphs are explained."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.data.sources import DataFile
from hpme.errors import InputError
from hpme.graphs import GraphStore

TaskKind = Literal["classification", "regression"]
DatasetLevel = Literal["graph", "node", "link"]
Level = Literal["graph", "node", "edge"]
Builder = Callable[..., GraphStore]
"""``(variant, seed, size)`` to graphs with ``x``, ``node_mask``, ``edge_mask`` and ``y``; the paths
of the dataset's files follow, if it has any."""

PAPER, PUBLISHED = "paper", "published"


@dataclass(frozen=True)
class GraphStats:
    """Counts of nodes, ground-truth nodes and directed ground-truth edges, and label, per graph."""

    sizes: Tensor
    truth_nodes: Tensor
    truth_edges: Tensor
    y: Tensor


def has_ground_truth(stats: GraphStats) -> Tensor:
    """Graphs with a ground-truth edge; without one no explanation can be right or wrong."""
    return stats.truth_edges > 0


def ground_truth_or_all(stats: GraphStats) -> Tensor:
    """The graphs with ground truth; where none has any, all of them."""
    truth = has_ground_truth(stats)
    return truth if bool(truth.any()) else torch.ones_like(truth)


@dataclass(frozen=True)
class DatasetInfo:
    """One entry of :data:`hpme.data.DATASETS`.

    Args:
        name: Slug, the name :func:`hpme.data.load_dataset` takes.
        title: Name as the paper prints it.
        task: ``"classification"`` or ``"regression"``.
        num_classes: Number of classes, ``None`` for regression.
        num_graphs: Documented number of graphs, the default size.
        description: One line on graphs and label.
        build: Makes the graphs from ``(variant, seed, size)``.
        variants: Valid variants, the default first.
        explainable: Which graphs the paper explains.
        explained_positions: Variants with a fixed explained set: its positions in the permutation
            that also defines the split.
        files: Published files the builder reads.
        rules: Variants whose label follows a rule worth naming: the rule.
        level: What has a label: every graph; or every node of a single graph, whose ego graphs
            are then the graphs of the dataset; or pairs of its nodes, as enclosing subgraphs.
        own_motif: Of nodes: whether the ground truth is the motif of the explained node alone.
            Published ones hold all motifs inside the ego graph.
    """

    name: str
    title: str
    task: TaskKind
    num_classes: int | None
    num_graphs: int
    description: str
    build: Builder
    variants: tuple[str, ...] = (PAPER, PUBLISHED)
    explainable: Callable[[GraphStats], Tensor] = has_ground_truth
    explained_positions: Mapping[str, tuple[range, ...]] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)
    level: DatasetLevel = "graph"
    own_motif: bool = False

    @property
    def own(self) -> bool:
        """Whether a user's own graphs are meant, not a set of the benchmark."""
        return isinstance(self.build, partial) and self.build.func is made_by

    @property
    def model_level(self) -> Level:
        """What a model has an output for; a link is judged by a graph, its subgraph."""
        return "node" if self.level == "node" else "graph"

    @property
    def num_outputs(self) -> int:
        """Number of values a model returns per graph."""
        return self.num_classes or 1


def made_by(function: str, *_: Any) -> GraphStore:
    """In place of the builder of a user's own dataset."""
    raise InputError(f"a dataset of your own is made by {function}, not by its name")


def entry(
    title: str,
    description: str,
    build: Builder,
    *,
    num_classes: int | None = None,
    level: DatasetLevel = "graph",
    **more: Any,
) -> DatasetInfo:
    """An entry whose slug is its title in small letters; without classes it is for regression."""
    return DatasetInfo(
        name=re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or f"{level}s",
        title=title,
        task="regression" if num_classes is None else "classification",
        num_classes=num_classes,
        description=description,
        build=build,
        level=level,
        **more,
    )
