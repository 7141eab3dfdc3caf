"""The template of explainers that learn one edge MLP for all graphs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.checks import at_least, positive
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.edge_mlp import EdgeMLP, binary_concrete
from hpme.explainers.shared.mask_descent import mask_penalty
from hpme.explainers.shared.masks import Masks
from hpme.graphs import GraphBatch
from hpme.graphs.segment import exclusive_cumsum
from hpme.models.adapter import ModelAdapter
from hpme.progress import progress_bar


class ParametricExplainer(GraphExplainer):
    r"""Edge probabilities :math:`\sigma(s_{ij})` from an MLP on frozen node embeddings.

    Subclasses say what a step minimises (:meth:`_loss`); what else they learn is created in
    :meth:`_start` and rebuilt in :meth:`_build`. Embeddings and targets are computed once, an
    epoch passes over the graphs in mini-batches of ``batch_size`` with one step of Adam each, and
    both directions of an edge share logit and noise. For node-level models the MLP reads the target
    node's embedding, too.

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
    sees_target: ClassVar[bool] = True
    """Whether the edge MLP reads the target node's embedding beside that of every node."""

    def __init__(
        self,
        *,
        epochs: int = 100,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        size_weight: float = 0.003,
        entropy_weight: float = 0.01,
        start_temperature: float = 5.0,
        end_temperature: float = 1.0,
        hidden: int = 64,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay
        self.size_weight, self.entropy_weight = size_weight, entropy_weight
        self.start_temperature, self.end_temperature = start_temperature, end_temperature
        self.hidden = hidden
        at_least("epochs", epochs, 1)
        at_least("hidden", hidden, 1)
        for name in ("lr", "start_temperature", "end_temperature"):
            positive(name, getattr(self, name))
        for name in ("weight_decay", "size_weight", "entropy_weight"):
            at_least(name, getattr(self, name), 0)

    # What subclasses implement or extend ########################################################

    @abstractmethod
    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        """What one step on the graphs ``ids`` of the store minimises."""

    def _start(self, context: Context, generator: torch.Generator) -> None:
        """Creates what is learned."""
        self.edge_mlp = EdgeMLP(context.h.shape[1], self.hidden, generator=generator)

    def _step(
        self,
        context: Context,
        ids: Tensor,
        temperature: float,
        generator: torch.Generator,
        optimiser: torch.optim.Optimizer,
    ) -> None:
        optimiser.zero_grad()
        self._loss(context, ids, temperature, generator).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def _trained(self) -> nn.Module:
        """What the optimiser of the steps trains."""
        return self

    def _optimiser(self) -> torch.optim.Optimizer:
        parameters = self._trained().parameters()
        return torch.optim.Adam(parameters, self.lr, weight_decay=self.weight_decay)

    # What subclasses use ########################################################################

    def _seen(self, context: Context) -> Context:
        r"""The context with node embeddings as the edge MLP reads them.

        Where a graph is about one of its nodes :math:`v`, they are :math:`[\mathbf{h}_i;
        \mathbf{h}_v]`: what matters in a neighbourhood depends on the node it is for.
        """
        anchors = context.store.anchors
        if not self.sees_target or anchors is None or anchors.shape[1] != 1:
            return context
        sizes = context.store.sizes
        target = (exclusive_cumsum(sizes) + anchors[:, 0]).repeat_interleave(sizes)
        return replace(context, h=_beside(context.h, target.to(context.h.device)))

    def _logits(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of pairs of nodes."""
        logits: Tensor = self.edge_mlp(h, edge_index)
        return logits

    def _sample(
        self, h: Tensor, graphs: GraphBatch, temperature: float, generator: torch.Generator
    ) -> Tensor:
        """Relaxed edge weights ``[E]`` of graphs, equal in both directions of an edge."""
        logits = self._logits(h, graphs.pairs.index)
        return graphs.pairs.per_edge(binary_concrete(logits, temperature, generator))

    def _penalty(self, mask: Tensor, graphs: GraphBatch) -> Tensor:
        """Size and entropy of the edge weights of every graph, weighted."""
        return mask_penalty(
            mask,
            graphs.edge_batch,
            graphs.num_graphs,
            size=self.size_weight,
            entropy=self.entropy_weight,
        )

    def _temperature(self, epoch: int) -> float:
        ratio = self.end_temperature / self.start_temperature
        return float(self.start_temperature * ratio ** (epoch / self.epochs))

    # GraphExplainer #############################################################################

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        context = self._seen(context)
        self._start(context, generator)
        self.to(context.device)
        optimiser = self._optimiser()
        description = f"training {type(self).__name__}"
        with progress_bar(description, self.epochs, enabled=progress) as advance:
            for epoch in range(self.epochs):
                order = torch.randperm(len(context.store), generator=generator)
                for ids in batches(order.to(context.device), self.batch_size):
                    self._step(context, ids, self._temperature(epoch), generator, optimiser)
                advance(1)
        self.requires_grad_(False)

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if graphs.num_nodes == 0:
            return Masks(graphs.x.new_zeros(0, dtype=torch.float32))
        h = adapter.embed(graphs, **model_kwargs).nodes
        if self.sees_target and graphs.anchors is not None and graphs.anchors_per_graph == 1:
            h = _beside(h, graphs.anchors[graphs.batch, 0])
        return Masks(self._logits(h, graphs.edge_index).sigmoid())

    def _meta(self) -> dict[str, Any]:
        return {"channels": self.edge_mlp.first.shape[0] // 2}

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
