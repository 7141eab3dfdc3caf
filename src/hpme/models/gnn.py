"""The graph neural networks to be explained: GCN, GIN and GAT, for graphs and for nodes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, MessagePassing, global_max_pool, global_mean_pool
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.typing import OptTensor

from hpme.data.info import Level, TaskKind
from hpme.errors import InputError
from hpme.graphs import GraphBatch
from hpme.models.freezing import removed_afterwards


def normalise_rows(h: Tensor) -> Tensor:
    """Divides every row by its Euclidean norm; a zero row stays zero, with a finite gradient."""
    return h / positive(h.norm(dim=1, keepdim=True))


def positive(scale: Tensor) -> Tensor:
    """Scales to divide by: 1 in place of 0."""
    return torch.where(scale > 0, scale, 1.0)


def output_bias(conv: nn.Module) -> nn.Parameter:
    """The bias added to a layer's output: its last one."""
    return [p for name, p in conv.named_parameters() if name.endswith("bias")][-1]


class TargetGNN(nn.Module):
    r"""Message-passing layers, a readout of two pools, and a linear head.

    Every layer is followed by row-wise L2 normalisation and ReLU. The readout joins the maximum
    and the mean over the nodes of a graph. The head is linear; for regression two linear layers
    follow each other with nothing between them. Features are scaled on the way in and, for
    regression, predictions are brought back to the unit of the labels (see :meth:`fit_scales`).

    Biases of the layers start at random values, not at zero as in PyG: where all nodes have the
    same features, normalisation would make all rows equal. Training starts from biases that suit
    the data (see :meth:`place_biases`).

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or 1 for regression.
        task: ``"classification"`` or ``"regression"``.
        hidden_channels: Width of every layer.
        num_layers: Number of message-passing layers.
    """

    level: ClassVar[Level] = "graph"
    hetero: ClassVar[bool] = False
    """Whether it is made for heterogeneous graphs."""
    all_layers: ClassVar[bool] = False
    """Whether node embeddings are the outputs of all layers side by side, not that of the last."""
    x_scale: Tensor
    y_mean: Tensor
    y_scale: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: TaskKind = "classification",
        *,
        hidden_channels: int = 20,
        num_layers: int = 3,
    ) -> None:
        super().__init__()
        if task not in get_args(TaskKind):
            raise InputError(f"task must be 'classification' or 'regression', got {task!r}")
        if task == "regression" and out_channels != 1:
            raise InputError(f"a regression model has out_channels=1, got {out_channels}")
        shape = {"in_channels": in_channels, "out_channels": out_channels}
        shape |= {"hidden_channels": hidden_channels, "num_layers": num_layers}
        if min(shape.values()) < 1:
            raise InputError(
                "in_channels, out_channels, hidden_channels and num_layers must be at least 1, got "
                + ", ".join(map(str, shape.values()))
            )
        self.task: TaskKind = task
        self.hidden_channels, self.num_layers = hidden_channels, num_layers
        self.hyper_parameters: dict[str, Any] = {**shape, "task": task}
        """Arguments that build an untrained model of the same shape."""
        self.convs = nn.ModuleList(
            self.make_conv(in_channels if layer == 0 else hidden_channels, hidden_channels)
            for layer in range(num_layers)
        )
        readout = 2 * hidden_channels
        self.out: nn.Module = (
            nn.Linear(readout, out_channels)
            if task == "classification"
            else nn.Sequential(nn.Linear(readout, hidden_channels), nn.Linear(hidden_channels, 1))
        )
        self.register_buffer("x_scale", torch.ones(1))
        if task == "regression":
            self.register_buffer("y_mean", torch.zeros(1))
            self.register_buffer("y_scale", torch.ones(1))
        for conv in self.convs:
            nn.init.uniform_(output_bias(conv), -1.0, 1.0)

    @abstractmethod
    def make_conv(self, in_channels: int, out_channels: int) -> Any:
        """One message-passing layer."""

    def prepare(self, graphs: GraphBatch, y: Tensor, generator: torch.Generator) -> None:
        """Scales and first biases that suit training graphs and their labels."""
        self.fit_scales(graphs.x, y)
        self.place_biases(graphs.x, graphs.edge_index, generator)

    def run(self, graphs: GraphBatch) -> Tensor:
        """Predictions for graphs; those of a node-level model for all their nodes."""
        kwargs: dict[str, Any] = {"batch": graphs.batch, "batch_size": graphs.num_graphs}
        kwargs = {} if self.level == "node" else kwargs
        output: Tensor = self(graphs.x, graphs.edge_index, **kwargs)
        return output

    @classmethod
    def suited_to(cls, sizes: Tensor) -> dict[str, Any]:
        """Arguments that depend on the numbers of nodes of the training graphs; here none."""
        return {}

    @torch.no_grad()
    def fit_scales(self, x: Tensor, y: Tensor) -> None:
        """Takes the scales of features and, for regression, labels from training data."""
        # Features and biases then weigh alike in a normalised row. The mean of features is left:
        # it is what tells degrees in the first layer.
        self.x_scale.copy_(positive(x.square().mean().sqrt()))
        if self.task == "regression":
            y = y.to(self.y_mean.dtype)
            self.y_mean.copy_(y.mean())
            self.y_scale.copy_(positive(y.std(unbiased=False)))

    @torch.no_grad()
    def place_biases(self, x: Tensor, edge_index: Tensor, generator: torch.Generator) -> None:
        """Starts every channel of every layer with its zero at a random node of the data."""
        # Else graph embeddings start almost equal, and training may stay where it began.

        def place(conv: nn.Module, _: Any, out: Tensor) -> Tensor:
            bias = output_bias(conv)
            nodes = torch.randint(len(out), (bias.numel(),), generator=generator)
            at_node = out[nodes.to(out.device), torch.arange(bias.numel(), device=out.device)]
            bias.sub_(at_node)
            return out - at_node

        with removed_afterwards() as handles:
            handles += [conv.register_forward_hook(place) for conv in self.convs]
            self.node_embeddings(x, edge_index)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: OptTensor = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Predictions :math:`[B, C]`; ``batch=None`` means a single graph."""
        return self.head(self.graph_embedding(x, edge_index, batch, batch_size=batch_size))

    def node_embeddings(
        self, x: Tensor, edge_index: Tensor, edge_weight: OptTensor = None
    ) -> Tensor:
        """Output of the last layer, or of all of them, for every node."""
        weights = {} if edge_weight is None else {"edge_weight": edge_weight}
        h, layers = x / self.x_scale, []
        for conv in self.convs:
            h = self.activated(conv(h, edge_index, **weights))
            layers.append(h)
        return torch.cat(layers, dim=1) if self.all_layers else h

    def activated(self, h: Tensor) -> Tensor:
        """What follows every layer."""
        return normalise_rows(h).relu()

    def graph_embedding(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor:
        """Input of the head for every graph."""
        return self.pooled(self.node_embeddings(x, edge_index, edge_weight), batch, batch_size)

    def pooled(self, h: Tensor, batch: Tensor | None, num_graphs: int | None) -> Tensor:
        """Maximum and mean of the node embeddings of every graph."""
        return readout(h, batch, num_graphs)

    def head(self, graph_embedding: Tensor) -> Tensor:
        """Predictions from graph embeddings: class scores, or values in the unit of the labels."""
        out: Tensor = self.out(graph_embedding)
        return out * self.y_scale + self.y_mean if self.task == "regression" else out


class EdgeWeightedGNN(TargetGNN):
    """A model whose layers take edge weights; weight 0 equals deleting the edge."""

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Predictions :math:`[B, C]`; ``batch=None`` means a single graph."""
        h = self.graph_embedding(x, edge_index, batch, edge_weight, batch_size=batch_size)
        return self.head(h)


class GCN(EdgeWeightedGNN):
    """Graph convolutional network, the target model of the paper.

    Edge weights enter before the degree normalisation, which therefore changes with them.
    """

    def make_conv(self, in_channels: int, out_channels: int) -> Any:
        """A graph convolution; normalisation is left to :meth:`node_embeddings`."""
        return GCNConv(in_channels, out_channels, normalize=False)

    def node_embeddings(
        self, x: Tensor, edge_index: Tensor, edge_weight: OptTensor = None
    ) -> Tensor:
        """As of every model, with degrees normalised before."""
        # Once for all layers: the layers share edges and weights, and normalising costs as much
        # as a convolution of this width.
        edge_index, edge_weight = gcn_norm(edge_index, edge_weight, x.shape[0], dtype=x.dtype)
        return super().node_embeddings(x, edge_index, edge_weight)


class WeightedGINConv(MessagePassing):  # type: ignore[misc]
    """PyG's ``GINConv`` with a weighted sum over the neighbours."""

    def __init__(self, perceptron: nn.Module) -> None:
        super().__init__(aggr="add")
        self.nn = perceptron

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """New features of every node."""
        out: Tensor = self.nn(x + self.propagate(edge_index, x=x, edge_weight=edge_weight))
        return out

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        """What a node sends along an edge."""
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j


class GIN(EdgeWeightedGNN):
    """Graph isomorphism network with a two-layer perceptron per layer."""

    def make_conv(self, in_channels: int, out_channels: int) -> Any:
        """A sum over neighbours followed by a perceptron."""
        layers = nn.Linear(in_channels, out_channels), nn.Linear(out_channels, out_channels)
        return WeightedGINConv(nn.Sequential(layers[0], nn.ReLU(), layers[1]))


class GAT(TargetGNN):
    """Graph attention network; the heads of a layer share its width.

    It takes no edge weights, which have no agreed meaning in attention.

    Args:
        in_channels, out_channels, task, **options: As in :class:`TargetGNN`.
        heads: Attention heads of every layer; ``hidden_channels`` must be a multiple.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: TaskKind = "classification",
        *,
        heads: int = 4,
        **options: Any,
    ) -> None:
        self.heads = heads  # layers are made while the model is
        if heads < 1:
            raise InputError(f"heads must be at least 1, got {heads}")
        super().__init__(in_channels, out_channels, task, **options)
        self.hyper_parameters["heads"] = heads

    def make_conv(self, in_channels: int, out_channels: int) -> Any:
        """An attention layer."""
        if out_channels % self.heads:
            raise InputError(
                f"hidden_channels must be a multiple of heads, got {out_channels} and {self.heads}"
            )
        return GATConv(in_channels, out_channels // self.heads, heads=self.heads)


class NodeLevel(TargetGNN):
    """Makes a model node-level: the outputs of all layers side by side, and a linear head."""

    level: ClassVar[Level] = "node"
    all_layers: ClassVar[bool] = True

    def __init__(
        self, in_channels: int, out_channels: int, task: TaskKind = "classification", **options: Any
    ) -> None:
        super().__init__(in_channels, out_channels, task, **options)
        self.out = nn.Linear(self.num_layers * self.hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        r"""Predictions :math:`[N, C]`."""
        return self.head(self.node_embeddings(x, edge_index))


class _EdgeWeightedNodes(NodeLevel):
    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        return self.head(self.node_embeddings(x, edge_index, edge_weight))


class NodeGCN(_EdgeWeightedNodes, GCN):  # type: ignore[misc]
    """Graph convolutional network with a prediction for every node."""


class NodeGIN(_EdgeWeightedNodes, GIN):  # type: ignore[misc]
    """Graph isomorphism network with a prediction for every node."""


class NodeGAT(NodeLevel, GAT):
    """Graph attention network with a prediction for every node."""


def readout(node_embeddings: Tensor, batch: Tensor | None, num_graphs: int | None) -> Tensor:
    """Maximum and mean over the nodes of every graph, side by side."""
    if batch is None:
        batch = node_embeddings.new_zeros(node_embeddings.shape[0], dtype=torch.long)
        num_graphs = 1
    pools = (global_max_pool, global_mean_pool)
    return torch.cat([pool(node_embeddings, batch, num_graphs) for pool in pools], dim=1)
