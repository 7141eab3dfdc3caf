"""Where the embeddings of nodes and graphs come from: one forward pass, watched.

Hooks on the layers of any model note what each of them computes. The node embedding is the input of
the readout, a reduction of node rows over the batch vector; else the output of the last
message-passing layer. The graph embedding is the input of the first linear layer after the readout,
else the output of the model. Nothing has to be known about the model, and nothing stays on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import Aggregation, HeteroConv, MessagePassing
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from hpme.data.info import Level
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.graphs.schema import NODE_TYPE
from hpme.models.freezing import removed_afterwards
from hpme.models.hooks import EdgeTypeProbe, edge_types_of

ByType = dict[str, Tensor]

_REDUCTIONS = {
    getattr(where, f"{how}{end}")
    for how in ("scatter_add", "scatter_reduce", "index_add", "index_reduce")
    for where, end in ((torch, ""), (Tensor, ""), (Tensor, "_"))
}
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

    On heterogeneous graphs a layer is one of PyG's that returns a dictionary by node type
    (``HeteroConv``, ``HGTConv``), or all of them that stand in one dictionary of modules
    (``to_hetero``), whose outputs are added up; else a single layer. Embeddings of types of
    different widths are filled with zeros. ``layer`` names the layer whose output is the node
    embedding; it is found if ``None``.
    """

    def __init__(
        self, model: nn.Module, graphs: GraphBatch, level: Level, layer: str | None
    ) -> None:
        self.model, self.graphs, self.level, self.layer = model, graphs, level, layer
        self.typed = graphs.schema is not None
        batches = graphs.batch_dict if self.typed else {"": graphs.batch}
        self.sizes = {kind: len(batch) for kind, batch in batches.items()}
        self.layers: list[tuple[str, ByType]] = []
        self.passes = 0
        self.named: Tensor | None = None
        self.node_heads: list[tuple[int, Tensor]] = []
        self.readout = ReadoutProbe([*batches.values()], None if self.typed else graphs.x)
        self._sums: dict[tuple[str, int], ByType] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Call the model once inside."""
        schema, modules = self.graphs.schema, dict(self.model.named_modules())
        known = {} if schema is None else edge_types_of(self.model, schema)
        layers = [m for m in modules.values() if isinstance(m, MessagePassing | HeteroConv)]
        inner = {part for layer in layers for part in layer.modules()}
        covered = {part for m in layers if isinstance(m, HeteroConv) for part in m.modules()}
        with removed_afterwards() as handles, self.readout:
            for name, module in modules.items():
                probe = None
                if self.typed and isinstance(module, MessagePassing) and module not in covered:
                    edges = self.graphs.edge_index_dict
                    probe = EdgeTypeProbe(module, edges, known.get(module))
                    handles.append(probe)
                if name == self.layer or isinstance(module, MessagePassing | HeteroConv):
                    handles.append(module.register_forward_hook(self._on_layer(name, probe)))
                elif self.level == "graph" or self.typed or not isinstance(module, LINEAR):
                    handles += self.readout.hooks(module)
                elif self.level == "node" and module not in inner:
                    handles.append(module.register_forward_pre_hook(self._on_node_head))
            yield

    def found(self, output: Tensor) -> Embedding:
        """What was computed on the way to an output, one row per graph."""
        nodes, source = self._nodes()
        if self.level == "node":
            graph = nodes[target_nodes(self.graphs)]
        else:
            graph = self.readout.graph_embedding(self.graphs.num_graphs, output)
        layers = tuple(self._flat(by_type) for _, by_type in self.layers)
        return Embedding(nodes, graph, output, source, layers)

    def _nodes(self) -> tuple[Tensor, str]:
        """Embeddings of nodes, and where they come from."""
        if self.layer is not None:
            rows = [by_type for name, by_type in self.layers if name == self.layer]
            named = self._flat(rows[-1]) if rows else self.named
            if named is None:
                by_type = "tensors by type" if self.typed else "tensor"
                raise InputError(
                    f"layer '{self.layer}' gives no [nodes, channels] {by_type}; name another"
                )
            return named, f"output of layer '{self.layer}'"
        heads = [h for n, h in self.node_heads if n == self.passes and self.layers]
        if heads and self.level == "node":
            return heads[0], "input of the head"
        # A pooling layer may score nodes by message passing; one number is no embedding.
        wide = [layer for layer in self.layers if any(v.shape[1] > 1 for v in layer[1].values())]
        name, last = (wide or self.layers or [("", {})])[-1]
        kinds, pooled = list(self.sizes), {}
        for place, value in self.readout.found.items() if self.level != "node" else ():
            if kinds[place] not in last or self.readout.worth(value):
                pooled[kinds[place]] = value
        if not last and not pooled:
            raise ModelError(
                "found neither a readout over the batch vector nor a message-passing layer with "
                "one row per node; name the layer to use with embedding_layer='...'"
            )
        nodes = self._flat({**last, **pooled})
        if not pooled:
            return nodes, f"output of the last message-passing layer '{name}'"
        widest = self.readout.widest(self.graphs.num_nodes) if nodes.shape[1] == 1 else None
        if widest is not None:
            return widest, "input of the widest of the last layers (the readout has one channel)"
        return nodes, "input of the readout"

    def _on_layer(self, name: str, probe: EdgeTypeProbe | None) -> Callable[..., None]:
        # Layers of one dictionary of modules say together what a layer says about nodes of a type.
        group = name.rpartition(".")[0] if probe is not None and probe.known is not None else name
        calls = 0

        def hook(module: nn.Module, _: Any, output: Any) -> None:
            nonlocal calls
            value = output[0] if isinstance(output, tuple) else output
            by_type = self._by_type(value)
            if name == self.layer and _has_rows(value, self.graphs.num_nodes):
                self.named = value
            if not isinstance(module, MessagePassing | HeteroConv):
                self.named = self._flat(by_type) if by_type else self.named
                return
            self.passes += 1
            if by_type:
                self.layers.append((name, by_type))
                return
            target = None if probe is None or probe.kind is None else probe.kind[2]
            if target is None or not _has_rows(value, self.sizes[target]):
                return
            if (group, calls) not in self._sums:
                self._sums[group, calls] = {}
                self.layers.append((group, self._sums[group, calls]))
            rows = self._sums[group, calls]
            rows[target] = rows[target] + value if target in rows else value
            calls += 1

        return hook

    def _on_node_head(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and _has_rows(inputs[0], self.graphs.num_nodes):
            self.node_heads.append((self.passes, inputs[0]))

    def _by_type(self, value: Any) -> ByType:
        """The rows of nodes by type, if that is what it is."""
        given = value if self.typed else {"": value}
        if not isinstance(given, Mapping):
            return {}
        found = {kind: rows for kind, rows in given.items() if rows is not None}
        fits = all(_has_rows(rows, self.sizes.get(kind)) for kind, rows in found.items())
        return found if fits else {}

    def _flat(self, by_type: ByType) -> Tensor:
        return self.graphs.type_rows.flat(by_type) if self.typed else by_type[""]


def _has_rows(value: Any, count: int | None) -> bool:
    return isinstance(value, Tensor) and value.dim() == 2 and len(value) == count


def check_channels(what: str, rows: Tensor, channels: int) -> None:
    """Refuses embeddings of another width than an explainer was fitted to."""
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
    """The type of the nodes that heterogeneous graphs are about, if it is one."""
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
        if func in _REDUCTIONS and self.inside == 0:
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
        if rows.numel() and bool(rows[0, 0] == 1) and bool((rows == 1).all()):
            return 0
        return 1 if rows.untyped_storage().data_ptr() == self.x else 2
