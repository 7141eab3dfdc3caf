"""Where the embeddings of nodes and graphs come from: one forward pass, watched.

Hooks on the layers of any model note what each of them computes. The node embedding is the input of
the readout, a reduction of node rows over the batch vector; else the output of the last
message-passing layer. The graph embedding is the input of the first linear layer after the readout,
else the output of the model. Nothing has to be known about the model, and nothing stays on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import HeteroConv, MessagePassing

from hpme.data.info import Level
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.graphs.schema import NODE_TYPE
from hpme.models.freezing import removed_afterwards
from hpme.models.hooks import EdgeTypeProbe, edge_types_of
from hpme.models.readout import LINEAR, Marked, ReadoutProbe

ByType = dict[str, Tensor]


@dataclass(frozen=True)
class WatchPlan:
    """What it takes to watch a model again, once one pass of it was watched closely.

    Of a second pass the layers that told something are watched, and what becomes of the batch
    vector. It must tell as much as the first one did.
    """

    level: Level
    layer: str | None
    modules: Sequence[tuple[str, nn.Module]]
    told: tuple[Any, ...]


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
    embedding; it is found if ``None``. With a ``watch`` of an earlier pass watching costs less.
    """

    def __init__(
        self,
        model: nn.Module,
        graphs: GraphBatch,
        level: Level,
        layer: str | None,
        watch: WatchPlan | None = None,
    ) -> None:
        self.model, self.graphs, self.level, self.layer = model, graphs, level, layer
        plain = type(graphs.batch) is Tensor  # only these can be marked
        self.typed, self.watch = graphs.schema is not None, watch if plain else None
        batches = graphs.batch_dict if self.typed else {"": graphs.batch}
        self.sizes = {kind: len(batch) for kind, batch in batches.items()}
        self.layers: list[tuple[str, ByType]] = []
        self.passes = 0
        self.named: Tensor | None = None
        self.node_heads: list[tuple[int, Tensor]] = []
        self.readout = ReadoutProbe([*batches.values()], None if self.typed else graphs.x)
        self._sums: dict[tuple[str, int], ByType] = {}

    @contextmanager
    def watching(self) -> Iterator[GraphBatch]:
        """Call the model once inside, on the graphs that are given."""
        schema, graphs, watch = self.graphs.schema, self.graphs, self.watch
        modules = [*self.model.named_modules()] if watch is None else watch.modules
        known = {} if schema is None else edge_types_of(self.model, schema)
        layers = [m for _, m in modules if isinstance(m, MessagePassing | HeteroConv)]
        inner = {part for layer in layers for part in layer.modules()} if watch is None else ()
        covered = {part for m in layers if isinstance(m, HeteroConv) for part in m.modules()}
        with removed_afterwards() as handles, nullcontext() if watch else self.readout:
            for name, module in modules:
                probe = None
                if self.typed and isinstance(module, MessagePassing) and module not in covered:
                    edges = graphs.edge_index_dict
                    probe = EdgeTypeProbe(module, edges, known.get(module))
                    handles.append(probe)
                if name == self.layer or isinstance(module, MessagePassing | HeteroConv):
                    handles.append(module.register_forward_hook(self._on_layer(name, probe)))
                elif self.level == "graph" or self.typed or not isinstance(module, LINEAR):
                    handles += self.readout.hooks(module)
                elif self.level == "node" and module not in inner:
                    handles.append(module.register_forward_pre_hook(self._on_node_head))
            if watch is not None:
                graphs = replace(graphs, batch=Marked.of(graphs.batch, self.readout))
            yield graphs

    def next_watch(self) -> WatchPlan | None:
        """How to watch the next pass; ``None`` if as closely as this one."""
        if self.typed or self.level != "graph" or type(self.graphs.batch) is not Tensor:
            return None
        kinds = (MessagePassing, *LINEAR)
        modules = [
            (name, module)
            for name, module in self.model.named_modules()
            if name == self.layer or isinstance(module, kinds) or module in self.readout.telling
        ]
        return WatchPlan(self.level, self.layer, modules, self.told())

    def told(self) -> tuple[Any, ...]:
        """What was seen where, apart from the numbers."""
        layers, heads = [name for name, _ in self.layers], len(self.readout.heads)
        return layers, self.passes, self.readout.count, heads, self._nodes[1]

    def found(self, output: Tensor) -> Embedding:
        """What was computed on the way to an output, one row per graph."""
        nodes, source = self._nodes
        if self.level == "node":
            graph = nodes[target_nodes(self.graphs)]
        else:
            graph = self.readout.graph_embedding(self.graphs.num_graphs, output)
        layers = tuple(self._flat(by_type) for _, by_type in self.layers)
        return Embedding(nodes, graph, output, source, layers)

    @cached_property
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
