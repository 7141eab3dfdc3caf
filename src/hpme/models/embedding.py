"""Where the embeddings of nodes and graphs come from: one forward pass, watched.

Hooks on the layers of any model note what each of them computes. The node embedding is the input of
the readout, a reduction of node rows over the batch vector; else the output of the last
message-passing layer. The graph embedding is the input of the first linear layer after the readout,
else the output of the model. Nothing has to be known about the model, and nothing stays on it. For
heterogeneous graphs see :mod:`hpme.models.hetero_embedding`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import Aggregation, MessagePassing
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from hpme.data.info import Level
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.graphs.schema import NODE_TYPE
from hpme.models.freezing import removed_afterwards

_REDUCTIONS = {
    "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_",
    "index_add", "index_add_", "index_reduce", "index_reduce_",
}  # fmt: skip
_NORMS = "torch_geometric.nn.norm"
LINEAR = (nn.Linear, PyGLinear)
LAST = 4
"""Linear layers that count as the last ones, where a readout sums one number per node."""


@dataclass(frozen=True)
class Embedding:
    r"""What a frozen model computes on the way to its output.

    Args:
        nodes: :math:`\mathbf{H}`, one row per node.
        graph: :math:`\mathbf{h}_G`, one row per graph; the output itself if no head was found. At
            node level the row of ``nodes`` at the anchor.
        output: The model's output, one row per graph.
        source: Where ``nodes`` was taken from, in words.
        layers: Outputs of the message-passing layers that have one row per node, in the order in
            which the model called them.
    """

    nodes: Tensor
    graph: Tensor
    output: Tensor
    source: str
    layers: tuple[Tensor, ...] = ()


class EmbeddingProbe:
    """Watches one forward pass of a model on graphs.

    Args:
        model: The model.
        graphs: What it is called with.
        level: ``"graph"`` or ``"node"``.
        layer: Name of the layer whose output is the node embedding; found if ``None``.
    """

    def __init__(
        self, model: nn.Module, graphs: GraphBatch, level: Level, layer: str | None
    ) -> None:
        self.model, self.graphs, self.level, self.layer = model, graphs, level, layer
        self.layers: list[tuple[str, Tensor]] = []
        self.passed: list[Tensor] = []
        self.node_heads: list[tuple[int, Tensor]] = []
        self.readout = ReadoutProbe([graphs.batch], graphs.x)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Call the model once inside."""
        layers = [m for m in self.model.modules() if isinstance(m, MessagePassing)]
        inner = {part for layer in layers for part in layer.modules() if self.level == "node"}
        with removed_afterwards() as handles, self.readout:
            for name, module in self.model.named_modules():
                wanted = self.layer
                if isinstance(module, MessagePassing):
                    handles.append(module.register_forward_hook(self._on_passing))
                if name == wanted or (wanted is None and isinstance(module, MessagePassing)):
                    handles.append(module.register_forward_hook(self._on_layer(name)))
                elif self.level != "graph" and isinstance(module, LINEAR):
                    if module not in inner:
                        handles.append(module.register_forward_pre_hook(self._on_node_head))
                else:
                    handles += self.readout.hooks(module)
            yield

    def found(self, output: Tensor) -> Embedding:
        """What was computed on the way.

        Args:
            output: What the model returned, one row per graph.
        """
        passed = tuple(self.passed)
        if self.level == "node":
            heads = [h for n, h in self.node_heads if n == len(self.layers) and self.layers]
            if heads and self.layer is None:
                nodes, source = heads[0], "input of the head"
            else:
                nodes, source = self._nodes(None)
            return Embedding(nodes, nodes[target_nodes(self.graphs)], output, source, passed)
        pooled = self.readout.found.get(0)
        if pooled is not None and self.layers and not self.readout.worth(pooled):
            pooled = None
        nodes, source = self._nodes(pooled)
        graph = self.readout.graph_embedding(self.graphs.num_graphs, output)
        return Embedding(nodes, graph, output, source, passed)

    def _nodes(self, pooled: Tensor | None) -> tuple[Tensor, str]:
        """Embeddings of nodes, and where they come from."""
        full = [
            (name, value) for name, value in self.layers if value.shape[0] == self.graphs.num_nodes
        ]
        if self.layer is not None:
            if full:
                return full[-1][1], f"output of layer '{self.layer}'"
            raise InputError(
                f"layer '{self.layer}' gives no [nodes, channels] tensor; name another"
            )
        if pooled is not None and pooled.shape[1] == 1:
            wide = self.readout.widest(self.graphs.num_nodes)
            if wide is not None:
                return wide, "input of the widest of the last layers (the readout has one channel)"
        if pooled is not None:
            return pooled, "input of the readout"
        # A pooling layer may score nodes by message passing; one number is no embedding.
        full = [(name, value) for name, value in full if value.shape[1] > 1] or full
        if full:
            return full[-1][1], f"output of the last message-passing layer '{full[-1][0]}'"
        raise ModelError(
            "found neither a readout over the batch vector nor a message-passing layer with one "
            "row per node; name the layer to use with embedding_layer='...'"
        )

    def _on_layer(self, name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            if isinstance(value, Tensor) and value.dim() == 2:
                self.layers.append((name, value))

        return hook

    def _on_passing(self, _: nn.Module, __: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple) else output
        if self._per_node(value):
            self.passed.append(value)

    def _on_node_head(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and self._per_node(inputs[0]):
            self.node_heads.append((len(self.layers), inputs[0]))

    def _per_node(self, value: Any) -> bool:
        return (
            isinstance(value, Tensor) and value.dim() == 2 and len(value) == self.graphs.num_nodes
        )


def check_channels(what: str, rows: Tensor, channels: int) -> None:
    """Refuses embeddings of another width than an explainer was fitted to.

    Args:
        what: What they are embeddings of.
        rows: The embeddings.
        channels: The width it was fitted to.
    """
    if rows.shape[1] != channels:
        raise InputError(
            f"embeddings of {what} have {rows.shape[1]} channels here, and {channels} where the "
            "explainer was fitted: rows of another kind are explained; fit it to such, or choose "
            "an explainer that needs no fit"
        )


def target_nodes(graphs: GraphBatch) -> Tensor:
    """The node every graph is about: its first anchor."""
    if graphs.anchors is None:
        raise InputError(
            "a node-level model needs to know the target nodes: pass index, or graphs with "
            "'anchors', the number of the target node in each"
        )
    return graphs.anchors[:, 0]


def target_type(graphs: GraphBatch) -> str:
    """The type of the nodes that heterogeneous graphs are about.

    Raises:
        InputError: If there are several.
    """
    assert graphs.schema is not None
    kinds = set(graphs.node[NODE_TYPE][target_nodes(graphs)].tolist())
    names = [name for number, name in enumerate(graphs.schema.node_types) if number in kinds]
    if len(names) != 1:
        raise InputError(
            f"graphs are about nodes of types {', '.join(names)}; explain those of each type apart"
        )
    return names[0]


class ReadoutProbe(TorchFunctionMode):
    """Watches for reductions of node rows over batch vectors; the last one of each is a readout.

    Unless it says less than one before: of ones, which counts nodes, or of the features the model
    was given. Sums of a batch vector count as it does. Reductions inside a normalisation are none;
    inside a PyG aggregation, which may weigh nodes before it sums them, what entered it counts. A
    linear layer after the last readout is the head.
    """

    def __init__(self, batches: Sequence[Tensor], x: Tensor | None = None) -> None:
        super().__init__()
        self.x = None if x is None else x.untyped_storage().data_ptr()
        self.places = {v.untyped_storage().data_ptr(): i for i, v in enumerate(batches)}
        self.sizes = [batch.numel() for batch in batches]
        self.found: dict[int, Tensor] = {}
        self.heads: list[tuple[int, Tensor]] = []
        self.count = 0
        self.inside = 0
        self._sums: list[Tensor] = []  # kept, so that nothing else comes to stand in their place

    def hooks(self, module: nn.Module) -> Iterator[Any]:
        """Hooks that a linear layer, an aggregation or a normalisation needs; others need none."""
        if isinstance(module, LINEAR):
            yield module.register_forward_pre_hook(self._on_head)
        elif isinstance(module, Aggregation) or type(module).__module__.startswith(_NORMS):
            yield module.register_forward_pre_hook(self._enter, with_kwargs=True)
            yield module.register_forward_hook(self._leave)

    def graph_embedding(self, num_graphs: int, output: Tensor) -> Tensor:
        """Input of the head, one row per graph; the output itself if no head was found."""
        shape = (2, num_graphs)
        found = [h for n, h in self.heads if n == self.count and (h.dim(), h.shape[0]) == shape]
        return found[0] if found else output

    def widest(self, rows: int) -> Tensor | None:
        """Input of the widest of the last linear layers on so many rows, of equals the last."""
        wide = [h for _, h in self.heads if h.dim() == 2 and len(h) == rows and h.shape[1] > 1]
        return max(reversed(wide[-LAST:]), key=lambda h: h.shape[1], default=None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.inside == 0 and getattr(func, "__name__", "") in _REDUCTIONS:
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
            self._see(tensors[1:])
        result = func(*args, **kwargs)
        if func is torch.add:
            self._know(args, result)
        return result

    def _know(self, args: Any, result: Tensor) -> None:
        """A batch vector to which something is added tells graphs apart, too."""
        for place in {self._place(a) for a in args if isinstance(a, Tensor)} - {None}:
            if result.shape == (self.sizes[cast(int, place)],) and not result.is_floating_point():
                self.places[result.untyped_storage().data_ptr()] = cast(int, place)
                self._sums.append(result)

    def _place(self, value: Tensor) -> int | None:
        return self.places.get(value.untyped_storage().data_ptr())

    def _on_head(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.inside == 0 and inputs and isinstance(inputs[0], Tensor):
            self.heads.append((self.count, inputs[0]))

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self.inside == 0 and isinstance(module, Aggregation):
            self._see([a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)])
        self.inside += 1

    def _leave(self, *_: Any) -> None:
        self.inside -= 1

    def _see(self, tensors: list[Tensor]) -> None:
        over = {self._place(t) for t in tensors if not t.is_floating_point()} - {None}
        for place in cast(set[int], over):
            rows = [
                t for t in tensors
                if t.is_floating_point() and t.dim() == 2 and t.shape[0] == self.sizes[place]
            ]  # fmt: skip
            known = self.found.get(place)
            if rows and (known is None or self.worth(rows[-1]) >= self.worth(known)):
                self.found[place], self.count = rows[-1], self.count + 1

    def worth(self, rows: Tensor) -> int:
        """How much rows of nodes tell: 0 if they only count, 1 if they are the given features."""
        if rows.numel() and bool((rows == 1).all()):
            return 0
        return 1 if rows.untyped_storage().data_ptr() == self.x else 2
