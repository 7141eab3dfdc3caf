"""Embeddings of nodes of several types: one forward pass of a heterogeneous model, watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import HeteroConv, MessagePassing

from hpme.data.info import Level
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.models.embedding import Embedding, ReadoutProbe, target_nodes
from hpme.models.message_mask import EdgeTypeProbe, edge_types_of

ByType = dict[str, Tensor]


class HeteroEmbeddingProbe:
    """:class:`~hpme.models.embedding.EmbeddingProbe` for heterogeneous graphs.

    A layer is one of PyG's that returns a dictionary by node type (``HeteroConv``, ``HGTConv``), or
    all of them that stand in one dictionary of modules (``to_hetero``), whose outputs are added up;
    else a single layer. Embeddings of types of different widths are filled with zeros.
    """

    def __init__(
        self, model: nn.Module, graphs: GraphBatch, level: Level, layer: str | None
    ) -> None:
        assert graphs.schema is not None
        self.model, self.graphs, self.level, self.layer = model, graphs, level, layer
        self.sizes = {kind: len(batch) for kind, batch in graphs.batch_dict.items()}
        self.layers: list[tuple[str, ByType]] = []
        self.named: Tensor | None = None
        self.readout = ReadoutProbe(list(graphs.batch_dict.values()))
        self._calls: dict[tuple[str, int], ByType] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Call the model once inside."""
        assert self.graphs.schema is not None
        known = edge_types_of(self.model, self.graphs.schema)
        covered = {
            part
            for module in self.model.modules()
            if isinstance(module, HeteroConv)
            for part in module.modules()
        }
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                hooks = [*self._hooks(name, module)]
                if isinstance(module, MessagePassing) and module not in covered:
                    probe = EdgeTypeProbe(module, self.graphs.edge_index_dict, known.get(module))
                    stack.callback(probe.remove)
                    hooks.append(module.register_forward_hook(self._on_passing(name, probe)))
                for handle in hooks:
                    stack.callback(handle.remove)
            with self.readout:
                yield

    def _hooks(self, name: str, module: nn.Module) -> Iterator[Any]:
        if isinstance(module, MessagePassing | HeteroConv) or (name and name == self.layer):
            yield module.register_forward_hook(self._on_layer(name))
        yield from self.readout.hooks(module)

    def found(self, output: Tensor) -> Embedding:
        """What was computed on the way."""
        rows = self.graphs.type_rows
        layers = tuple(
            flat for _, by_type in self.layers if (flat := rows.flat(by_type)) is not None
        )
        nodes, source = self._nodes()
        if self.level == "node":
            return Embedding(nodes, nodes[target_nodes(self.graphs)], output, source, layers)
        graph = self.readout.graph_embedding(self.graphs.num_graphs, output)
        return Embedding(nodes, graph, output, source, layers)

    def _nodes(self) -> tuple[Tensor, str]:
        """Embeddings of nodes, and where they come from."""
        if self.layer is not None:
            named = [by_type for name, by_type in self.layers if name == self.layer]
            flat = self.graphs.type_rows.flat(named[-1]) if named else self.named
            if flat is None:
                raise InputError(
                    f"layer '{self.layer}' gives no [nodes, channels] tensors by type; name another"
                )
            return flat, f"output of layer '{self.layer}'"
        by_type = dict(self.layers[-1][1]) if self.layers else {}
        kinds = list(self.sizes)
        pooled = {kinds[place]: rows for place, rows in self.readout.found.items()}
        if self.level == "graph":
            by_type.update(pooled)
        flat = self.graphs.type_rows.flat(by_type)
        if flat is None:
            raise ModelError(
                "found neither a readout over the batch vectors by type nor a message-passing "
                "layer with one row per node of a type; name the layer to use with "
                "embedding_layer='...'"
            )
        if pooled and self.level == "graph":
            return flat, "input of the readout"
        return flat, f"output of the last message-passing layer '{self.layers[-1][0]}'"

    def _on_layer(self, name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            by_type = self._by_type(value)
            if by_type:
                self.layers.append((name, by_type))
            elif name == self.layer and isinstance(value, Tensor) and value.dim() == 2:
                self.named = value if len(value) == self.graphs.num_nodes else None

        return hook

    def _on_passing(self, name: str, probe: EdgeTypeProbe) -> Callable[..., None]:
        """Adds up what layers of one dictionary of modules say about nodes of a type."""
        group = name.rpartition(".")[0] if probe.known is not None else name
        calls = 0

        def hook(_: nn.Module, __: Any, output: Any) -> None:
            nonlocal calls
            value = output[0] if isinstance(output, tuple) else output
            if probe.kind is None or not isinstance(value, Tensor) or value.dim() != 2:
                return
            target = probe.kind[2]
            if len(value) != self.sizes[target]:
                return
            key = (group, calls)
            calls += 1
            if key not in self._calls:
                self._calls[key] = {}
                self.layers.append((group, self._calls[key]))
            rows = self._calls[key]
            rows[target] = rows[target] + value if target in rows else value

        return hook

    def _by_type(self, value: Any) -> ByType:
        """The rows of nodes by type, if that is what it is."""
        if not isinstance(value, Mapping):
            return {}
        found = {kind: rows for kind, rows in value.items() if rows is not None}
        fits = all(
            isinstance(rows, Tensor) and rows.dim() == 2 and len(rows) == self.sizes.get(kind)
            for kind, rows in found.items()
        )
        return found if fits else {}
