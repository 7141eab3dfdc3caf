"""Hard mixes of the fitted graphs: many selections evaluated in one forward pass of the target."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.mixup import Attach, Selection, select, structural_mixup
from hpme.explainers.hpme.neighbor import Neighbor, NeighborSampler
from hpme.explainers.hpme.pool import Pool, PoolSize, hop_features, rank_nodes, top_nodes
from hpme.explainers.shared.context import TargetContext, batches
from hpme.graphs import GraphBatch


@dataclass(frozen=True)
class HardMix:
    r"""The frozen target, its graphs, and how they are mixed.

    Args:
        context: The frozen target on the graphs.
        features: :func:`hop_features` of all nodes.
        size: Number of pooled nodes.
        neighbors: How :math:`G'` is drawn.
        generator: Source of all randomness.
        attach: Where boundary edges go, see :func:`structural_mixup`.
        max_nodes: Nodes per forward pass; few enough for the processor's cache.
    """

    context: TargetContext
    features: Tensor
    size: PoolSize
    neighbors: NeighborSampler
    generator: torch.Generator
    attach: Attach = "swap"
    max_nodes: int = 20_000

    @classmethod
    def build(
        cls,
        context: TargetContext,
        size: PoolSize,
        neighbor: Neighbor,
        attach: Attach,
        generator: torch.Generator,
        batch_size: int,
    ) -> HardMix:
        """Prepares the graphs of a context, a part at a time."""
        parts = []
        for ids in batches(torch.arange(len(context.store)), batch_size):
            graphs = context.store.batch(ids)
            parts.append(hop_features(context.h[graphs.node_ids], graphs))
        neighbors = NeighborSampler(context.graph_embedding, context.values, generator, neighbor)
        return cls(context, torch.cat(parts, dim=1), size, neighbors, generator, attach)

    def score(self, pool: Pool, graphs: GraphBatch) -> Tensor:
        """Scores ``[P, N]`` of graphs taken from the store."""
        features = self.features[:, graphs.node_ids]
        score: Tensor = pool(features, graphs, self.size(graphs.sizes))
        return score

    def select(self, score: Tensor, graphs: GraphBatch) -> Selection:
        """Pooled nodes ``[P, N]`` of graphs with these scores."""
        keep = top_nodes(score.detach(), graphs, self.size(graphs.sizes))
        return select(keep, graphs, self.generator)

    def select_one(self, score: Tensor, graphs: GraphBatch) -> Selection:
        """Pooled nodes ``[N]`` for the first row of scores, at the least cost.

        Only ``attach="rank"`` reads the order by boundary degree; otherwise any order will do.
        """
        if self.attach == "rank":
            return self.select(score[:1], graphs)[0]
        rank = rank_nodes(score.detach()[:1], graphs)[0]
        return Selection(rank < self.size(graphs.sizes)[graphs.batch], rank)

    def draw(self, draws: int) -> Tensor:
        """Hosts ``[draws, B]`` of all graphs."""
        ids = torch.arange(len(self.context.store))
        return torch.stack([self.neighbors.draw(ids) for _ in range(draws)])

    @torch.no_grad()
    def predict(
        self, source: Tensor, chosen: Selection, host: Tensor, removed: Selection
    ) -> Tensor:
        """Outputs ``[R, B, C]`` of hard mixes, in as few forward passes as memory allows.

        Args:
            source: Graph numbers ``[R, B]`` whose ``chosen`` nodes are inserted.
            chosen: Selections ``[R, N]`` over all nodes of the store.
            host: Graph numbers ``[R, B]`` whose ``removed`` nodes make room.
            removed: Selections ``[R, N]``.
        """
        per_row = int(self.context.store.sizes[source[0]].sum())
        share = max(1, self.max_nodes // max(1, per_row))
        outputs = []
        for rows in batches(torch.arange(source.shape[0]), share):
            give = self.context.store.batch(source[rows].flatten(), with_pairs=True)
            take = self.context.store.batch(host[rows].flatten(), with_pairs=True)
            row_of_graph = rows.repeat_interleave(source.shape[1])
            mix = structural_mixup(
                give,
                chosen[row_of_graph[give.batch], give.node_ids],
                take,
                removed[row_of_graph[take.batch], take.node_ids],
                self.generator,
                self.attach,
            )
            outputs.append(self.context.predict(mix.graphs))
        output = torch.cat(outputs)
        return output.view(source.shape[0], source.shape[1], -1)
