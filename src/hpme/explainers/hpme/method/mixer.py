r"""Structural mixup of pooled graphs (Algorithm 2), and which real graph :math:`G'` is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.explainers.hpme.method.mixup import Attach, Mix, structural_mixup
from hpme.explainers.hpme.method.pool import PoolSize, Selection, by_boundary, top_nodes
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphBatch
from hpme.models.calling import recomputed

Neighbor = Literal["contrast", "random", "near", "far"]


@dataclass(frozen=True)
class HostSampler:
    r"""Draws one :math:`G'` for every graph.

    Args:
        graph_embedding: :math:`\mathbf{h}_G` of all graphs.
        values: Predictions of all graphs, see :meth:`~hpme.models.output.Task.values`.
        generator: Source of randomness.
        neighbor: ``"contrast"`` takes a graph of another prediction: on a host of the same one,
            every selection looks right. It is the one whose prediction is farthest of a few
            random graphs; few, lest extreme predictions host everything. ``"random"`` draws
            uniformly; ``"near"`` and ``"far"`` take the most and the least similar (cosine) of a
            few random graphs, so the cost stays linear.
        apart: Whether only graphs on the other side of a yes or no are drawn: a question "why this
            class, not that one" takes hosts of that one.
    """

    graph_embedding: Tensor
    values: Tensor
    generator: torch.Generator
    neighbor: Neighbor = "contrast"
    apart: bool = False

    def __call__(self, ids: Tensor) -> Tensor:
        """Graph numbers of the hosts of the graphs ``ids``."""
        ids = ids.to(self.values.device)
        drawn = self._random(ids, {"random": 1, "contrast": 4}.get(self.neighbor, 8))
        if self.neighbor == "random":
            return drawn[0]
        if self.neighbor == "contrast":
            preferred = (self.values[drawn] - self.values[ids]).norm(dim=-1)
        else:
            own, others = self.graph_embedding[ids].unsqueeze(0), self.graph_embedding[drawn]
            preferred = F.cosine_similarity(others, own, dim=-1)
            preferred = preferred if self.neighbor == "near" else -preferred
        return drawn.gather(0, preferred.argmax(0, keepdim=True)).squeeze(0)

    def _random(self, ids: Tensor, tries: int) -> Tensor:
        """Numbers ``[tries, B]`` of random graphs, of the other side if there are any."""
        form, side = (tries, ids.numel()), self.values.argmax(1)
        sizes = torch.bincount(side, minlength=2)
        if not self.apart or not bool(sizes.all()):
            return torch.randint(len(side), form, generator=self.generator).to(ids.device)
        other = 1 - side[ids]  # those of side 0 come first
        share = torch.rand(form, generator=self.generator).to(ids.device)
        return side.argsort(stable=True)[other * sizes[0] + (share * sizes[other]).long()]


DrawHosts = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PooledMix:
    r"""What Algorithm 2 returns, and what the training needs besides."""

    mix: Mix
    h: Tensor
    r""":math:`\mathbf{H}^{(mix)}`. Embeddings move with their nodes; computing them anew costs a
    forward pass and changes little."""
    gate: Tensor
    r""":math:`\tanh(s)` at inserted nodes, one elsewhere and at anchors, pooled at any score."""
    inserted: Tensor  # whether nodes come from G


@dataclass(frozen=True)
class Mixer:
    r"""The frozen model, its graphs, and how they are pooled and mixed."""

    context: Context
    features: Tensor  # what pools read of all nodes, [N, D]
    size: PoolSize
    draw_hosts: HostSampler
    generator: torch.Generator
    attach: Attach = "swap"  # where boundary edges go, see structural_mixup

    @property
    def h(self) -> Tensor:
        r""":math:`\mathbf{H}`, which the edge MLP reads."""
        return self.context.h

    def score(self, pool: nn.Module, graphs: GraphBatch) -> Tensor:
        """Scores ``[P, N]`` of graphs taken from the store (Eq. graph_pooling)."""
        assert graphs.node_ids is not None
        features = self.features.index_select(0, graphs.node_ids)
        score: Tensor = pool(features, graphs, self.size(graphs.sizes))
        return score

    def mixed(
        self,
        source: GraphBatch,
        chosen: Selection,
        host: GraphBatch,
        removed: Selection,
        generator: torch.Generator | None,
    ) -> Mix:
        """Structural mixup, features that are declared as derived computed again."""
        mix = structural_mixup(source, chosen, host, removed, generator, self.attach)
        derived = self.context.adapter.explained.derived
        return mix if derived is None else replace(mix, graphs=recomputed(mix.graphs, derived))

    def pooled_mixup(
        self, pool: nn.Module, ids: Tensor, draw: DrawHosts | None, *, learn: bool = False
    ) -> PooledMix:
        r"""Structural Mixup :math:`(G, G')` (Algorithm 2), of many graphs at once.

        Args:
            pool: :math:`Q_\phi`.
            ids: Graph numbers of :math:`G`.
            draw: Draws those of :math:`G'`. Without it every graph hosts its own subgraph.
            learn: Whether scores of :math:`G` keep their gradient.
        """
        store, h = self.context.store, self.h
        source = store.batch(ids, with_pairs=True)
        with torch.set_grad_enabled(learn):
            score = self.score(pool, source)
        chosen = self._pooled(score, source)
        host, removed = source, chosen
        if draw is not None:
            host = store.batch(draw(ids), with_pairs=True)
            with torch.no_grad():
                removed = self._pooled(self.score(pool, host), host)
        mix = self.mixed(source, chosen, host, removed, self.generator)
        assert source.node_ids is not None and host.node_ids is not None
        gate = score[0].tanh()
        if source.anchors is not None:
            gate = gate.index_fill(0, source.anchors.flatten(), 1.0)
        return PooledMix(
            mix,
            h=mix.per_node(h.index_select(0, host.node_ids), h.index_select(0, source.node_ids)),
            gate=mix.per_node(gate.new_ones(host.num_nodes), gate),
            inserted=mix.origin >= host.num_nodes,
        )

    def _pooled(self, score: Tensor, graphs: GraphBatch) -> Selection:
        """Only ``attach="rank"`` reads the order by boundary degree; else any order will do."""
        chosen = top_nodes(score.detach(), graphs, self.size(graphs.sizes))
        if self.attach == "rank":
            chosen = by_boundary(chosen.keep, graphs, self.generator)
        return chosen[0]
