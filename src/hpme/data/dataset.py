"""Graphs with ground truth as a PyG dataset that knows its split and its explained graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from hpme.data.info import DatasetInfo, GraphStats
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.hetero import flat_views
from hpme.graphs.schema import Schema
from hpme.graphs.segment import segment_sum

DEFAULT_POOL_RATIO = 0.2
"""Share of the nodes to pool where no ground truth says better."""
MAX_ALTERNATIVES = 100_000
TUNING, APART = 100, 400
"""Seeds below are for development; seeds from there on are for tables. See
:meth:`GraphDataset.explained`."""


class GraphDataset(InMemoryDataset):  # type: ignore[misc]
    r"""A graph-level dataset whose graphs carry ``x``, ``y``, ``edge_mask`` and ``node_mask``.

    Edges are stored in both directions; the masks mark the ground truth. Numbers returned by
    :attr:`split`, :attr:`explainable` and :meth:`explained` index this dataset. ``variant`` and
    ``seed`` are those the graphs were built with.
    """

    def __init__(self, store: GraphStore, info: DatasetInfo, variant: str, seed: int) -> None:
        super().__init__()
        self.info, self.variant, self.seed = info, variant, seed
        # PyG hands out the whole of a dataset of one graph without taking it apart.
        one = len(store) == 1
        texts = {name: t[0] if one else list(t) for name, t in store.text.items()}
        attributes = {**store.node, **store.edge, **store.graph, **store.match, **texts}
        self._data = Data(edge_index=store.local_edge_index, **attributes)
        self.slices = store.slices()
        self._hetero = None if store.schema is None else store
        self._developed: Tensor | None = None

    @property
    def schema(self) -> Schema | None:
        """Types of nodes and edges, if the graphs have any."""
        return None if self._hetero is None else self._hetero.schema

    @property
    def flat(self) -> GraphStore | None:
        """Heterogeneous graphs with edges in the order in which models are trained on them."""
        if self._hetero is None or self.slices is None:
            return None
        return self._hetero.detached().subset(torch.as_tensor(list(self.indices())))

    def get(self, idx: int) -> Any:
        """The graph with a number; a heterogeneous one is a ``HeteroData``."""
        return super().get(idx) if self._hetero is None else self._hetero[idx]

    @property
    def num_classes(self) -> int:
        """Number of classes; 1, the width of a model's output, for regression."""
        return self.info.num_outputs

    @property
    def rule(self) -> str:
        """What the label says: the rule in force for the variant, else the description."""
        return self.info.rules.get(self.variant, self.info.description)

    @property
    def has_ground_truth(self) -> bool:
        """Whether any edge of any graph is ground truth; without one no AUC is defined."""
        return bool(self.stats.truth_edges.any())

    def alternatives(self, number: int, *, unions: bool = False) -> list[Tensor]:
        """Node masks each of which would do as an explanation of a graph; none without a truth.

        Where a label asks for several patterns, an alternative has one match of each, with
        ``unions`` also several, as in the published molecules. A graph of a dataset without
        patterns has its ``node_mask`` as the only one. The edges of an alternative are those with
        both ends in it. Nodes of several types follow each other, type by type.

        Raises:
            InputError: If there are more than 100,000.
        """
        ((graph,),) = flat_views([self[number]])
        if not bool(graph.node_mask.any()):
            return []
        if "match_index" not in graph:
            return [graph.node_mask]
        return combine_matches(
            graph.match_index, graph.match_id, graph.match_rule, graph.num_nodes, unions=unions
        )

    @property
    def split(self) -> dict[str, Tensor]:
        """Graph numbers of ``train``, ``val`` and ``test``: 80/10/10 of a fixed permutation."""
        order = self._permutation()
        train, val = int(0.8 * len(order)), int(0.9 * len(order))
        return {"train": order[:train], "val": order[train:val], "test": order[val:]}

    @property
    def stats(self) -> GraphStats:
        """Sizes, ground-truth counts and label of every graph."""
        data, slices = self._data, self.slices
        if slices is None:  # PyG keeps a copy of a single graph without slices
            sizes, edge_counts = torch.tensor([data.num_nodes]), torch.tensor([data.num_edges])
        else:
            sizes, edge_counts = slices["x"].diff(), slices["edge_index"].diff()
        count = sizes.numel()
        node_mask, edge_mask = data.node_mask.long(), data.edge_mask.long()
        chosen = torch.as_tensor(list(self.indices()), dtype=torch.long)
        return GraphStats(
            sizes=sizes[chosen],
            truth_nodes=segment_sum(node_mask, torch.repeat_interleave(sizes), count)[chosen],
            truth_edges=segment_sum(edge_mask, torch.repeat_interleave(edge_counts), count)[chosen],
            y=data.y[chosen],
        )

    @property
    def explainable(self) -> Tensor:
        """Numbers of the graphs the paper explains.

        Those with at least one ground-truth edge, since without one AUC is undefined; of
        BA-HouseAndGrid class 1 alone, of SPMotif graphs under 100 nodes, as in the paper.
        """
        return self.info.explainable(self.stats).nonzero().view(-1)

    def explained(self, seed: int, count: int = 200) -> Tensor:
        """Numbers of the graphs to explain, drawn at random from :attr:`explainable`.

        All of them if there are fewer than ``count``. Of the benchmark's sets, some are set apart.
        The published BA-2Motifs has a fixed set for seeds below 400: positions 0-99 and 500-599 of
        the permutation behind :attr:`split`. Seeds from 400 on draw from its other graphs.
        """
        if count < 1:
            raise InputError(f"count must be at least 1, got {count}")
        numbers = self._require_explainable()
        ranges = self.info.explained_positions.get(self.variant)
        if ranges is not None:
            share = len(self) if seed >= APART else -(-count // len(ranges))
            positions = [i for part in ranges for i in part[:share] if i < len(self)]
            fixed = self._permutation()[positions]
            if seed < APART:
                return fixed[:count]
            numbers = numbers[~torch.isin(numbers, fixed)]
        return self._draw(numbers, seed, count)

    def drawn_before(self, numbers: Sequence[int]) -> int:
        """How many of some numbers development draws with any seed; none of a user's own graphs."""
        if self.info.own:
            return 0
        if self._developed is None:
            every = (self.explained(seed) for seed in range(TUNING))
            self._developed = torch.unique(torch.cat([*every]))
        return int(torch.isin(torch.tensor(numbers), self._developed).sum())

    def companions(self, seed: int, count: int = 200) -> Tensor:
        """Numbers of graphs to fit on besides: of other classes, where only one is explained."""
        y = self._data.y[: len(self)]
        if self.info.task == "regression" or len(y[self.explainable].unique()) != 1:
            return torch.empty(0, dtype=torch.long)
        others = (y != y[self.explainable[0]]).nonzero().view(-1)
        return self._draw(others, seed, count)

    @property
    def pool_ratio(self) -> float:
        r"""Pooling ratio :math:`r`: 0.9-quantile of the share of ground-truth nodes in a graph.

        It is all that HPME takes from the ground truth; 0.2 where there is none.
        """
        explainable, stats = self._require_explainable(), self.stats
        if not self.has_ground_truth:
            return DEFAULT_POOL_RATIO
        share = stats.truth_nodes[explainable].double() / stats.sizes[explainable]
        return float(torch.quantile(share, 0.9))

    def training_store(self) -> GraphStore:
        """What models are trained on: all graphs."""
        return GraphStore.from_graphs(self)

    def _permutation(self) -> Tensor:
        return torch.from_numpy(np.random.RandomState(42).permutation(len(self)))

    def _draw(self, numbers: Tensor, seed: int, count: int) -> Tensor:
        """At most ``count`` of the numbers, at random; what 3 divides is for tables alone."""
        apart = numbers % 3 == 0
        if not self.info.own and bool(apart.any()) and not bool(apart.all()):
            known = seed < TUNING
            numbers = numbers[apart] if seed >= APART else numbers[~apart] if known else numbers
        return draw(numbers, seed, count)

    def _require_explainable(self) -> Tensor:
        explainable = self.explainable
        if explainable.numel() == 0:
            raise InputError(
                f"none of the {len(self)} graphs of '{self.info.name}' can be explained; use a "
                "larger size"
            )
        return explainable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name}, {self.variant}, {len(self)})"


def draw(numbers: Tensor, seed: int, count: int) -> Tensor:
    """At most ``count`` of the numbers, at random."""
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed))
    return numbers[order[:count]]


def combine_matches(
    index: Tensor, match: Tensor, rule: Tensor, num_nodes: int, *, unions: bool = False
) -> list[Tensor]:
    """All ways to take a match of every rule, with ``unions`` several, each as one node mask."""
    masks = torch.zeros(int(match.max()) + 1, num_nodes, dtype=torch.bool)
    masks[match, index] = True
    rule_of = torch.zeros(len(masks), dtype=torch.long)
    rule_of[match] = rule
    groups = [masks[rule_of == number] for number in sorted(set(rule.tolist()))]
    total = math.prod(2 ** len(group) - 1 if unions else len(group) for group in groups)
    if total > MAX_ALTERNATIVES:
        raise InputError(
            f"the graph has {total:,} alternative ground truths, more than {MAX_ALTERNATIVES:,}; "
            + ("leave unions out" if unions else "use its node_mask, the union of all")
        )
    result = torch.zeros(1, num_nodes, dtype=torch.bool)
    for group in groups:
        options = group
        if unions:  # of all non-empty sets of masks
            sets = torch.arange(1, 2 ** len(group))
            member = (sets[:, None] >> torch.arange(len(group)) & 1).float()
            options = member @ group.float() > 0
        result = (result[:, None] | options[None]).flatten(0, 1)
    different = {mask.numpy().tobytes(): mask for mask in result}
    return list(different.values())
