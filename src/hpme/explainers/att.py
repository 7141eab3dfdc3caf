"""ATT: the attention coefficients of a model that has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from hpme.errors import ModelError
from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.masks import Masks, nothing_in
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.freezing import removed_afterwards

Reduce = Literal["max", "mean"]


class AttentionExplainer(GraphExplainer):
    r"""Attention of the model's own layers (``GATConv``, ``GATv2Conv``, ``TransformerConv``, ...).

    As PyG's ``AttentionExplainer``, with two differences: scores stay aligned with their edges if
    the graph has self-loops, and an edge gets the mean over both directions. Attention sums to one
    over the neighbours of a node, so an edge to a node of degree one always scores high.

    It can only explain models with attention; to compare it with other explainers, train a GAT.

    Args:
        reduce: How heads and then layers are joined, ``"max"`` or ``"mean"``.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
            Nothing is drawn at random.
    """

    slug = "att"
    title = "ATT"
    summary = "Attention coefficients, for models with attention layers."
    typical_seconds = 0.2
    needs_weights = False
    default_model = "gat"
    needs_fit = False

    def __init__(self, *, reduce: Reduce = "max", **options: Any) -> None:
        super().__init__(**options)
        self.reduce = reduce

    def _fit(self, context: Context, *, progress: bool) -> None:
        """Learns nothing; says at once if the model has no attention."""
        self._attention(context.adapter, context.store.batch(torch.tensor([0])), {})

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if graphs.num_nodes == 0:
            return Masks(nothing_in(graphs))
        alpha = self._attention(adapter, graphs, model_kwargs).to(torch.get_default_dtype())
        return Masks(graphs.pairs.per_edge(graphs.pairs.mean(alpha)))

    def _attention(
        self, adapter: ModelAdapter, graphs: GraphBatch, model_kwargs: dict[str, Any]
    ) -> Tensor:
        """Attention of every edge, heads and layers joined."""
        # Layers that add self-loops drop those of the graph and append one per node. With the
        # graph's own loops last, all layers agree on where the other edges are.
        order = graphs.loops_last
        sorted_graphs = graphs.edges(order)
        with _recorded(adapter.model) as alphas:
            adapter.embed(sorted_graphs, **model_kwargs)
        if not alphas:
            raise ModelError(
                "the model has no attention coefficients to read; 'att' explains models with "
                "attention layers such as torch_geometric.nn.GATConv: train one, or choose another "
                "explainer"
            )
        layers = [self._join(_aligned(alpha, sorted_graphs)) for alpha in alphas]
        mask = torch.empty_like(layers[0])
        mask[order] = self._join(torch.stack(layers, dim=1))
        return mask

    def _join(self, values: Tensor) -> Tensor:
        return values.amax(dim=1) if self.reduce == "max" else values.mean(dim=1)


def _aligned(alpha: Tensor, graphs: GraphBatch) -> Tensor:
    """Attention ``[E, heads]`` of edges of which self-loops come last."""
    num_edges = graphs.num_edges
    others = num_edges - int(graphs.loops.sum())
    alpha = alpha.detach().view(alpha.shape[0], -1)
    if alpha.shape[0] == others + graphs.num_nodes:  # one loop per node was added
        return torch.cat([alpha[:others], alpha[others + graphs.edge_index[0, others:]]])
    if alpha.shape[0] == num_edges:
        return alpha
    raise ModelError(
        f"a layer computed {alpha.shape[0]} attention coefficients for {num_edges} edges; 'att' "
        "needs layers that attend along the edges of the graph"
    )


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collects the attention coefficients of all layers while the model runs."""
    alphas: list[Tensor] = []

    def hook(layer: nn.Module, inputs: Any, _: Any) -> None:
        # Layers pass attention to their messages, or compute it there and keep it for a moment.
        alpha = inputs[0].get("alpha")
        alpha = getattr(layer, "_alpha", None) if alpha is None else alpha
        if isinstance(alpha, Tensor):
            alphas.append(alpha)

    layers = [module for module in model.modules() if isinstance(module, MessagePassing)]
    with removed_afterwards() as handles:
        handles += [layer.register_message_forward_hook(hook) for layer in layers]
        yield alphas
