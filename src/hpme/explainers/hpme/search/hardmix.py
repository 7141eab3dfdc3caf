r"""Hard mixes of graphs: which :math:`G'` is drawn, and many selections in one forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.method.mixer import HostSampler, Mixer, Neighbor
from hpme.explainers.hpme.method.mixup import Attach
from hpme.explainers.hpme.method.pool import PoolSize, Selection, by_boundary, top_nodes
from hpme.explainers.shared.context import Context, batches
from hpme.graphs import GraphBatch
from hpme.graphs.transforms import elements_per_pass
from hpme.models.replicas import channels_of

Represent = Callable[[tuple[Tensor, ...], Tensor, GraphBatch], Tensor]
r"""What pools read ``[N, D]``, of the layers' outputs, H and the graphs."""


@dataclass(frozen=True)
class HardMix(Mixer):
    """A mixer that asks the model about many selections of all its graphs; all weights are one."""

    alone: bool = False  # whether the model is shown the inserted subgraph without a host
    known: tuple[Tensor, Tensor] | None = None  # what ``occlusion`` says, if the search should know

    @classmethod
    def build(
        cls,
        context: Context,
        size: PoolSize,
        neighbor: Neighbor,
        attach: Attach,
        generator: torch.Generator,
        represent: Represent = lambda layers, h, graphs: h,
    ) -> HardMix:
        r"""Prepares the graphs of a context; by default pools read :math:`\mathbf{H}`."""
        apart = context.adapter.view.contrast is not None
        seen = context.graph_embedding, context.values
        hosts = HostSampler(*seen, generator, neighbor, apart=apart)
        features = represent(context.layers, context.h, context.store.batch())
        return cls(context, features, size, hosts, generator, attach)

    def subset(self, ids: Tensor) -> HardMix:
        """The same for some of the graphs, which host one another; nothing is computed again."""
        context, rows = self.context.subset(ids), self.context.store.batch(ids).node_ids
        assert rows is not None
        hosts = replace(
            self.draw_hosts, graph_embedding=context.graph_embedding, values=context.values
        )
        features = self.features.index_select(0, rows)
        known = self.known and (self.known[0][rows], self.known[1][ids])
        return replace(self, context=context, features=features, draw_hosts=hosts, known=known)

    @cached_property
    def graphs(self) -> GraphBatch:
        """All graphs as one batch."""
        return self.context.store.batch()

    @cached_property
    def m(self) -> Tensor:
        """Preserved nodes of every graph."""
        return self.size(self.graphs.sizes)

    @torch.no_grad()
    def scores(self, pool: nn.Module) -> Tensor:
        """Scores ``[P, N]`` of all nodes."""
        score: Tensor = pool(self.features, self.graphs, self.m)
        return score

    def select(self, score: Tensor) -> Selection:
        """Pooled nodes ``[P, N]`` of all graphs, by scores of all nodes."""
        return by_boundary(top_nodes(score, self.graphs, self.m).keep, self.graphs, self.generator)

    def draw(self, draws: int) -> Tensor:
        """Hosts ``[draws, B]`` of all graphs."""
        ids = torch.arange(len(self.context.store), device=self.context.device)
        return torch.stack([self.draw_hosts(ids) for _ in range(draws)])

    @torch.no_grad()
    def predict(
        self,
        source: Tensor,
        chosen: Selection,
        host: Tensor,
        removed: Selection,
        *,
        drawn: bool = True,
    ) -> Tensor:
        """Outputs ``[R, B, C]`` of hard mixes.

        Args:
            source: Graph numbers ``[R, B]`` whose ``chosen`` nodes are inserted.
            chosen: Selections ``[R, N]`` over all nodes of the store.
            host: Graph numbers ``[R, B]`` whose ``removed`` nodes make room.
            removed: Selections ``[R, N]``.
            drawn: Whether boundary edges meet at random; if not, the mix of two graphs is always
                the same, whatever else is mixed.
        """
        row = torch.arange(len(source), device=source.device).repeat_interleave(source.shape[1])
        ids, others, start = source.flatten(), host.flatten(), row * self.graphs.num_nodes
        parts = batches(torch.arange(len(ids), device=ids.device), self.per_pass(source[0]))
        outputs = []
        for part in parts:
            give = self._batch("give", ids[part])
            assert give.node_ids is not None
            inserted = chosen.at(start[part].index_select(0, give.batch) + give.node_ids)
            if self.alone:
                outputs.append(self.context.predict(give.nodes(inserted.keep)))
                continue
            take = self._batch("take", others[part])
            assert take.node_ids is not None
            gap = removed.at(start[part].index_select(0, take.batch) + take.node_ids)
            mix = self.mixed(give, inserted, take, gap, self.generator if drawn else None)
            outputs.append(self.context.predict(mix.graphs))
        return torch.cat(outputs).view(*source.shape, -1)

    def per_pass(self, ids: Tensor) -> int:
        """How many graphs as large as these a forward pass may read: rows of them, or a share."""
        most = elements_per_pass(channels_of(self.context.adapter.model))
        total, count = int((self.graphs.sizes + self.graphs.edge_counts)[ids].sum()), len(ids)
        return most // max(1, total) * count or -(-count // -(-total // most))

    @cached_property
    def _batches(self) -> dict[str, tuple[Tensor, GraphBatch]]:
        return {}

    def _batch(self, role: str, ids: Tensor) -> GraphBatch:
        """The given graphs; the last ones of each role are kept, since they mostly come again."""
        last = self._batches.get(role)
        if last is None or not torch.equal(last[0], ids):
            last = self._batches[role] = ids, self.context.store.batch(ids, with_pairs=True)
        return last[1]
