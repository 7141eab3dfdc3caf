"""Edge weights as masks on the messages of PyG layers, for models that take no edge weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from hpme.graphs import GraphBatch
from hpme.graphs.schema import EdgeType, Schema
from hpme.models.freezing import removed_afterwards

Explain = Callable[[Tensor, int | None], Tensor]


@contextmanager
def message_mask(
    model: nn.Module, mask: Tensor, edge_index: Tensor, num_nodes: int | None = None
) -> Iterator[None]:
    """Multiplies every message by the weight of its edge; masks of others are put back afterwards.

    The differences to PyG's ``set_masks``: a mask left behind as a parameter by another explainer
    does not cut the gradient, an exception leaves nothing on the model, and layers that work on
    other than ``num_nodes`` nodes, because a pooling layer came before, are left alone.
    """

    def on_all_nodes(layer: Any, explain_message: Explain) -> Explain:
        layer._edge_mask, layer._loop_mask = mask, edge_index[0] != edge_index[1]

        def explain(inputs: Tensor, dim_size: int | None) -> Tensor:
            whole = num_nodes is None or dim_size == num_nodes
            return explain_message(inputs, dim_size) if whole else inputs

        return explain

    with _explaining(model, on_all_nodes):
        yield


@contextmanager
def hetero_message_mask(model: nn.Module, mask: Tensor, graphs: GraphBatch) -> Iterator[None]:
    """:func:`message_mask` for heterogeneous graphs: every layer gets the mask of its edges' type.

    A layer is known by the edges it gets, else by the type under which ``HeteroConv`` and
    ``to_hetero`` keep it. One that gets all edges at once, such as ``HGTConv``, has them in the
    order of the types.
    """
    assert graphs.schema is not None
    masks = graphs.type_rows.per_edge(mask)
    edges = graphs.edge_index_dict
    everything = torch.cat([*masks.values(), mask[:0]])
    known = edge_types_of(model, graphs.schema)

    def on_type(layer: Any, explain_message: Explain) -> Explain:
        probe = EdgeTypeProbe(layer, edges, known.get(layer))
        watched.append(probe)

        def explain(inputs: Tensor, dim_size: int | None) -> Tensor:
            fitting, mask, proper = [len(everything)], everything, None
            if probe.kind is not None:
                source, target = edges[probe.kind]
                mask, proper = masks[probe.kind], source != target
                fitting = [len(mask), int(proper.sum()) + (dim_size or 0)]
            if inputs.shape[layer.node_dim] not in fitting:
                return inputs
            layer._edge_mask, layer._loop_mask = mask, proper
            return explain_message(inputs, dim_size)

        return explain

    with removed_afterwards() as watched, _explaining(model, on_type):
        yield


class EdgeTypeProbe:
    """Watches which of the types of edges, as a model gets them, a layer passes messages along.

    ``known`` is the type the layer is kept under, if any.
    """

    def __init__(
        self, layer: Any, edges: dict[EdgeType, Tensor], known: EdgeType | None = None
    ) -> None:
        self.kind = self.known = known
        self._types = {index.data_ptr(): kind for kind, index in edges.items() if index.numel()}
        self._handle = layer.register_propagate_forward_pre_hook(self._enter)

    def _enter(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        index = inputs[0]
        given = isinstance(index, Tensor) and index.numel()
        self.kind = (self._types.get(index.data_ptr()) if given else None) or self.known

    def remove(self) -> None:
        """Stops watching."""
        self._handle.remove()


def edge_types_of(model: nn.Module, schema: Schema) -> dict[nn.Module, EdgeType]:
    """The edge type under which every layer is kept in a dictionary of modules, if it is."""
    found: dict[nn.Module, EdgeType] = {}
    for module in model.modules():
        if isinstance(module, nn.ModuleDict):
            kept: Any = module  # PyG's takes types as keys
            for kind in schema.edge_types:
                for key in (kind, "__".join(kind)):
                    if key in kept:
                        found.update(dict.fromkeys(kept[key].modules(), kind))
    return found


@contextmanager
def _explaining(model: nn.Module, explain: Callable[[Any, Explain], Explain]) -> Iterator[None]:
    """Lets layers explain their messages with what ``explain`` makes of their own way."""
    layers = [
        m for m in model.modules() if isinstance(m, MessagePassing) and m.explain is not False
    ]
    before = [(dict(layer.__dict__), dict(layer._parameters)) for layer in layers]
    try:
        for layer in layers:
            layer._parameters.pop("_edge_mask", None)
            layer.explain = True
            layer._apply_sigmoid = False
            layer.explain_message = explain(layer, layer.explain_message)
        yield
    finally:
        for layer, (attributes, parameters) in zip(layers, before, strict=True):
            # All of it: PyG's switch also puts a method and argument names on the layer.
            for current, saved in ((layer.__dict__, attributes), (layer._parameters, parameters)):
                current.clear()
                current.update(saved)
