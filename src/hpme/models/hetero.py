"""Models for heterogeneous graphs: a convolution for every type of edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv, HeteroConv

from hpme.data.info import Level, TaskKind
from hpme.graphs import GraphBatch
from hpme.graphs.schema import EdgeType, Schema
from hpme.models.gnn import TargetGNN, normalise_rows, positive, readout

ByNode = dict[str, Tensor]
ByEdge = dict[EdgeType, Tensor]


class HeteroGNN(TargetGNN):
    """A linear layer per node type, layers of a convolution per edge type, and a linear head.

    As :class:`TargetGNN`; what reaches a node along edges of all types is added up.
    """

    hetero: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: TaskKind = "classification",
        *,
        node_types: Mapping[str, int],
        edge_types: Sequence[Sequence[str]],
        **options: Any,
    ) -> None:
        self.node_types = dict(node_types)
        self.edge_types: list[EdgeType] = [(a, b, c) for a, b, c in edge_types]
        super().__init__(in_channels, out_channels, task, **options)
        self.register_buffer("x_scale", torch.ones(len(self.node_types)))
        self.inputs = nn.ModuleList(
            nn.Linear(width, self.hidden_channels) for width in self.node_types.values()
        )
        kinds = [list(kind) for kind in self.edge_types]
        self.hyper_parameters |= {"node_types": self.node_types, "edge_types": kinds}
        self.out = nn.Linear(self._head_width(), out_channels)

    def _head_width(self) -> int:
        return 2 * self.hidden_channels * len(self.node_types)

    def make_conv(self, in_channels: int, out_channels: int) -> Any:
        """Sums over the neighbours of every edge type; all layers are as wide as their output."""
        convs = {kind: GraphConv(out_channels, out_channels) for kind in self.edge_types}
        for conv in convs.values():
            nn.init.uniform_(conv.lin_rel.bias, -1.0, 1.0)
        return HeteroConv(convs)

    @classmethod
    def shape_of(cls, schema: Schema) -> dict[str, Any]:
        """Arguments that depend on the types of the graphs."""
        widths = zip(schema.node_types, schema.widths, strict=True)
        return {"node_types": dict(widths), "edge_types": [list(k) for k in schema.edge_types]}

    @torch.no_grad()
    def prepare(self, graphs: GraphBatch, y: Tensor, generator: torch.Generator) -> None:
        """Takes the scales of features, type by type, and of labels from training data."""
        self.fit_scales(graphs.x, y)
        squares = [x.square().mean() for x in graphs.type_rows.features(graphs.x).values()]
        scale = torch.stack(squares).nan_to_num(1.0).sqrt()
        self.x_scale.copy_(positive(scale))

    def run(self, graphs: GraphBatch) -> Tensor:
        """Predictions for graphs."""
        given = graphs.type_rows.features(graphs.x), graphs.edge_index_dict, graphs.batch_dict
        output: Tensor = self(*given, batch_size=graphs.num_graphs)
        return output

    def forward(  # type: ignore[override]
        self,
        x_dict: ByNode,
        edge_index_dict: ByEdge,
        batch_dict: ByNode | None = None,
        edge_weight_dict: ByEdge | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Predictions :math:`[B, C]`; ``batch_dict=None`` means a single graph."""
        last = self._layers(x_dict, edge_index_dict, edge_weight_dict)[-1]
        batches = batch_dict or {}
        if batch_size is None and batches:
            batch_size = 1 + max(int(batch.max()) for batch in batches.values() if len(batch))
        pooled = [readout(last[kind], batches.get(kind), batch_size) for kind in self.node_types]
        return self.head(torch.cat(pooled, dim=1))

    def _layers(
        self, x_dict: ByNode, edge_index_dict: ByEdge, edge_weight_dict: ByEdge | None
    ) -> list[ByNode]:
        weights = {} if edge_weight_dict is None else {"edge_weight_dict": edge_weight_dict}
        h: ByNode = {
            kind: linear(x_dict[kind] / scale).relu()
            for kind, linear, scale in zip(self.node_types, self.inputs, self.x_scale, strict=True)
        }
        layers = []
        for conv in self.convs:
            found = conv(h, edge_index_dict, **weights)
            # A type that no edge ends in stays as it is.
            h = {
                kind: normalise_rows(found[kind]).relu() if kind in found else rows
                for kind, rows in h.items()
            }
            layers.append(h)
        return layers


class NodeHeteroGNN(HeteroGNN):
    """:class:`HeteroGNN` with a prediction for every node of one type, by default the first."""

    level: ClassVar[Level] = "node"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: TaskKind = "classification",
        *,
        node_type: str | None = None,
        **options: Any,
    ) -> None:
        self.node_type = node_type or next(iter(options["node_types"]))
        super().__init__(in_channels, out_channels, task, **options)
        self.hyper_parameters["node_type"] = self.node_type

    def _head_width(self) -> int:
        return self.num_layers * self.hidden_channels

    def run(self, graphs: GraphBatch) -> Tensor:
        """Predictions for all nodes of the type."""
        output: Tensor = self(graphs.type_rows.features(graphs.x), graphs.edge_index_dict)
        return output

    def forward(  # type: ignore[override]
        self, x_dict: ByNode, edge_index_dict: ByEdge, edge_weight_dict: ByEdge | None = None
    ) -> Tensor:
        r"""Predictions :math:`[N, C]` for the nodes of the type."""
        layers = self._layers(x_dict, edge_index_dict, edge_weight_dict)
        return self.head(torch.cat([layer[self.node_type] for layer in layers], dim=1))
