"""Explainers that learn one edge MLP for all graphs: their template, the MLP, its samples.

Also what learned parts read of integer features.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.masks import Masks, nothing_in
from hpme.explainers.shared.options import Count, Positive, Weight
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.segment import exclusive_cumsum, segment_mean, segment_sum
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import check_channels
from hpme.progress import progress_bar

CHUNK = 2048
"""Edges at a time without gradients: small temporaries are reused, large ones are paged in anew."""
NARROW = 32
"""Where embeddings are no wider, learning from what edges see costs less than from nodes."""
MOST_CODES = 64
"""Columns with more codes are left to the model's embeddings."""


class ParametricExplainer(GraphExplainer):
    r"""Edge probabilities :math:`\sigma(s_{ij})` from an MLP on frozen node embeddings.

    Subclasses say what a step minimises (:meth:`_loss`); what else they learn is created in
    :meth:`_start` and rebuilt in :meth:`_build`. An epoch has a step of Adam for every
    ``batch_size`` graphs; both directions of an edge share logit and noise. For node-level models
    the MLP reads the target node's embedding, too.

    Args:
        epochs: Passes over the graphs.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        size_weight: :math:`c_s`, weight of the sum of a graph's edge weights.
        entropy_weight: :math:`c_e`, weight of the mean entropy of a graph's edge weights.
        start_temperature: :math:`t_0` of the binary concrete distribution.
        end_temperature: :math:`t_1`; epoch :math:`e` uses :math:`t_0 (t_1/t_0)^{e/epochs}`.
        hidden: Width of the hidden layer of the edge MLP.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    edge_mlp: EdgeMLP
    reads_target_node: ClassVar[bool] = True
    """Whether the edge MLP reads the target node's embedding beside that of every node."""

    def __init__(
        self,
        *,
        epochs: Count = 100,
        lr: Positive = 0.01,
        weight_decay: Weight = 5e-4,
        size_weight: Weight = 0.003,
        entropy_weight: Weight = 0.01,
        start_temperature: Positive = 5.0,
        end_temperature: Positive = 1.0,
        hidden: Count = 64,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay
        self.size_weight, self.entropy_weight = size_weight, entropy_weight
        self.start_temperature, self.end_temperature = start_temperature, end_temperature
        self.hidden = hidden

    # What subclasses implement or extend ########################################################

    @abstractmethod
    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        """What one step on the graphs ``ids`` of the store minimises."""

    def _before_step(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> None:
        """What else is trained, and comes first."""

    def _start(self, context: Context, generator: torch.Generator) -> None:
        """Creates what is learned."""
        self.edge_mlp = EdgeMLP(context.h.shape[1], self.hidden, generator=generator)

    def _optimiser(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), self.lr, weight_decay=self.weight_decay)

    # What subclasses use ########################################################################

    def _beside_target(self, context: Context) -> Context:
        r"""The context with :math:`[\mathbf{h}_i; \mathbf{h}_v]` in graphs about one node."""
        anchors = context.store.anchors
        if not self.reads_target_node or anchors is None or anchors.shape[1] != 1:
            return context
        sizes = context.store.sizes
        target = (exclusive_cumsum(sizes) + anchors[:, 0]).repeat_interleave(sizes)
        return replace(context, h=_beside(context.h, target.to(context.h.device)))

    def _sample(
        self, h: Tensor, graphs: GraphBatch, temperature: float, generator: torch.Generator
    ) -> Tensor:
        """Relaxed edge weights ``[E]`` of graphs, equal in both directions of an edge."""
        logits = self.edge_mlp(h, graphs.pairs.index)
        return graphs.pairs.per_edge(binary_concrete(logits, temperature, generator))

    def _penalty(self, mask: Tensor, graphs: GraphBatch) -> Tensor:
        """Size and entropy of the edge weights of every graph, weighted."""
        charged = self.size_weight, self.entropy_weight
        return mask_penalty(mask, graphs.edge_batch, graphs.num_graphs, *charged)

    def _temperature(self, epoch: int) -> float:
        ratio = self.end_temperature / self.start_temperature
        return float(self.start_temperature * ratio ** (epoch / self.epochs))

    # GraphExplainer #############################################################################

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        context = self._beside_target(context)
        self._start(context, generator)
        self.to(context.device)
        optimiser = self._optimiser()
        description = f"training {type(self).__name__}"
        with progress_bar(description, self.epochs, enabled=progress) as advance:
            for epoch in range(self.epochs):
                order = torch.randperm(len(context.store), generator=generator)
                for ids in batches(order.to(context.device), self.batch_size):
                    step = context, ids, self._temperature(epoch), generator
                    self._before_step(*step)
                    optimiser.zero_grad()
                    self._loss(*step).backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                advance(1)
        self.requires_grad_(False)

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if graphs.num_nodes == 0:
            return Masks(nothing_in(graphs))
        h = adapter.embed(graphs, **model_kwargs).nodes
        beside = self.reads_target_node and h.shape[1] != self.edge_mlp.channels
        if beside and graphs.anchors is not None and graphs.anchors_per_graph == 1:
            h = _beside(h, graphs.anchors[graphs.batch, 0])
        check_channels("nodes", h, self.edge_mlp.channels)
        return Masks(self.edge_mlp(h, graphs.edge_index).sigmoid())

    def _meta(self) -> dict[str, Any]:
        return {"channels": self.edge_mlp.channels}

    def _build(self, meta: dict[str, Any]) -> None:
        self.edge_mlp = EdgeMLP(meta["channels"], self.hidden, generator=torch.Generator())
        self.requires_grad_(False)


def _beside(h: Tensor, target: Tensor) -> Tensor:
    """Rows of nodes, each beside the row of its target node."""
    return torch.cat([h, h[target]], dim=1)


def seeded_linear(in_channels: int, out_channels: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer initialised as PyTorch does, leaving the global random state alone."""
    layer = nn.Linear(in_channels, out_channels, device="meta")
    layer.to_empty(device=torch.get_default_device())
    bound = in_channels**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


class EdgeMLP(nn.Module):
    r"""Edge logits :math:`w_{ij}` from node embeddings :math:`[\mathbf{h}_i; \mathbf{h}_j]`.

    A two-layer MLP, averaged over both directions: a pair of nodes has one logit.
    """

    def __init__(self, channels: int, hidden: int = 64, *, generator: torch.Generator) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(2 * channels, hidden))
        self.first_bias = nn.Parameter(torch.empty(hidden))
        self.second = nn.Parameter(torch.empty(hidden))
        self.second_bias = nn.Parameter(torch.empty(()))
        for name, parameter in self.named_parameters():  # as torch.nn.Linear
            width = 2 * channels if name.startswith("first") else hidden
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5, generator)

    @property
    def channels(self) -> int:
        """Width of the node embeddings."""
        return int(self.first.shape[0]) // 2

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """One logit per column of ``edge_index``, equal for ``(i, j)`` and ``(j, i)``."""
        width = self.channels
        if torch.is_grad_enabled() and width <= NARROW:
            # Gradients of the hidden layer then need not be gathered at the nodes.
            i, j = h.index_select(0, edge_index[0]), h.index_select(0, edge_index[1])
            ways = torch.cat([i, j], dim=1), torch.cat([j, i], dim=1)
            return self._last(*(torch.addmm(self.first_bias, way, self.first) for way in ways))
        # The first layer is a sum over both ends, so it is computed once per node, not per edge.
        if torch.is_grad_enabled():
            near, far = torch.addmm(self.first_bias, h, self.first[:width]), h @ self.first[width:]
            i, j = edge_index
            there = near.index_select(0, i).add_(far.index_select(0, j))
            return self._last(there, near.index_select(0, j).add_(far.index_select(0, i)))
        rows = self._rows(h)
        return self._one_way(rows, edge_index) + self._one_way(rows, edge_index.flip(0))

    @torch.no_grad()
    def at_edges(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """One logit per edge of graphs; what every direction says is computed once."""
        rows, reverse = self._rows(h), graphs.reverse
        there = self._one_way(rows, graphs.edge_index)
        alone = (reverse == torch.arange(len(reverse), device=h.device)).nonzero().view(-1)
        back = there.index_select(0, reverse)
        way = graphs.edge_index.index_select(1, alone).flip(0)
        return there + back.index_copy_(0, alone, self._one_way(rows, way))

    def _rows(self, h: Tensor) -> Tensor:
        """What nodes add to the hidden layer as sources of edges, and then as targets."""
        width, count = self.channels, len(h)
        rows = h.new_empty(2 * count, self.first.shape[1])
        torch.addmm(self.first_bias, h, self.first[:width], out=rows[:count])
        torch.mm(h, self.first[width:], out=rows[count:])
        return rows

    def _one_way(self, rows: Tensor, edge_index: Tensor) -> Tensor:
        """Half of the logits, those of one direction."""
        ends = torch.stack([edge_index[0], edge_index[1] + len(rows) // 2], dim=1)
        logits, half = rows.new_empty(len(ends)), self.second / 2
        for part, out in zip(ends.split(CHUNK), logits.split(CHUNK), strict=True):  # type: ignore[no-untyped-call]
            hidden = F.embedding_bag(part, rows, mode="sum")  # gathers and adds at once
            torch.mv(hidden.relu_(), half, out=out)
        return logits.add_(self.second_bias / 2)

    def _last(self, there: Tensor, back: Tensor) -> Tensor:
        """Logits from what enters the hidden layer in both directions, which is overwritten."""
        return (there.relu_() + back.relu_()) @ (self.second / 2) + self.second_bias


def binary_concrete(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    r"""Relaxed Bernoulli sample :math:`\sigma((\log\epsilon - \log(1-\epsilon) + w) / \tau)`."""
    epsilon = torch.rand(logits.shape, generator=generator).to(logits).clamp(1e-4, 1 - 1e-4)
    return ((epsilon.logit() + logits) / temperature).sigmoid()


def mask_penalty(
    mask: Tensor, segment: Tensor, num_segments: int, size: float, entropy: float
) -> Tensor:
    r"""Penalty :math:`c_s \sum_e w_e + c_e \, \mathrm{mean}_e H(w_e)` of every graph.

    Of a sum over a batch, the balance with predictions would shift with the number of graphs.
    """
    safe = mask.clamp(1e-6, 1 - 1e-6)  # the slope of the entropy is infinite at 0 and 1
    binary_entropy = -safe * safe.log() - (1 - safe) * (1 - safe).log()
    return size * segment_sum(mask, segment, num_segments) + entropy * segment_mean(
        binary_entropy, segment, num_segments
    )


class Categories(nn.Module):
    """Ones and zeros in place of integer features: a column per code met, zeros for unknown ones.

    Every type of nodes has codes of its own; numbers that other types have come behind.
    """

    column: Tensor
    code: Tensor
    kind: Tensor

    def __init__(self, count: int = 0) -> None:
        super().__init__()
        self.register_buffer("column", torch.zeros(count, dtype=torch.long))
        self.register_buffer("code", torch.zeros(count, dtype=torch.long))
        self.register_buffer("kind", torch.zeros(count, dtype=torch.long))

    @classmethod
    def of(cls, store: GraphStore) -> Categories | None:
        """The codes of some graphs; ``None`` if their features are numbers."""
        if store.schema is None:
            rows = {} if store.kinds.is_floating_point() else {0: store.kinds}
        else:
            rows = {k: store.kinds[store.node[NODE_TYPE] == k] for k in store.schema.coded}
        if not rows:
            return None
        made = cls()
        few: list[tuple[Tensor, int, int]] = []
        for kind, values in rows.items():
            width = values.shape[1] if store.schema is None else store.schema.widths[kind]
            met = [torch.unique(column) for column in values[:, :width].long().unbind(1)]
            few += [(codes, n, kind) for n, codes in enumerate(met) if len(codes) <= MOST_CODES]
        if few:
            made.code = torch.cat([codes for codes, _, _ in few])
            made.column = torch.cat([torch.full_like(codes, number) for codes, number, _ in few])
            made.kind = torch.cat([torch.full_like(codes, kind) for codes, _, kind in few])
        return made.to(store.batch_device or store.device)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Categories ``[N, count]`` of nodes, in the default precision."""
        schema, dtype = graphs.schema, torch.get_default_dtype()
        same = graphs.kinds.long().index_select(1, self.column) == self.code
        if schema is None:
            return same.to(dtype)
        kind = graphs.node[NODE_TYPE].unsqueeze(1)
        found = (same & (kind == self.kind)).to(dtype)
        if len(schema.coded) == len(schema.node_types):
            return found
        codes = (kind == torch.tensor(schema.coded, device=kind.device)).any(1, keepdim=True)
        return torch.cat([found, graphs.x.masked_fill(codes, 0).to(dtype)], dim=1)


def read_features(categories: Categories | None, graphs: GraphBatch) -> Tensor:
    """Features as numbers: as they are, or as categories."""
    return graphs.x if categories is None else categories(graphs)
