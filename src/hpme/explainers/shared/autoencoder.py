"""A graph autoencoder over all pairs of nodes of each graph, for graphs of any size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from hpme.explainers.shared.pairing import borrow_edge_attr
from hpme.explainers.shared.seeded import seeded_linear
from hpme.graphs import GraphBatch
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum, segment_mean


@dataclass(frozen=True)
class AllPairs:
    """Every two nodes of the same graph once, connected or not.

    Args:
        index: :math:`[2, Q]` with the smaller node first.
        of_edge: Pair of every edge, -1 for self-loops.
        connected: Whether the two nodes of a pair are joined, in any direction.
        graph: Graph number of every pair.
    """

    index: Tensor
    of_edge: Tensor
    connected: Tensor
    graph: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch) -> AllPairs:
        """The pairs of a batch of graphs."""
        node = torch.arange(graphs.num_nodes, device=graphs.x.device)
        later = (graphs.ptr + graphs.sizes)[graphs.batch] - node - 1
        second, first = concatenated_ranges(node + 1, later)
        low, high = graphs.edge_index.min(0).values, graphs.edge_index.max(0).values
        of_edge = exclusive_cumsum(later)[low] + high - low - 1
        of_edge = torch.where(low == high, -1, of_edge)
        connected = torch.zeros_like(first, dtype=torch.bool)
        connected[of_edge[of_edge >= 0]] = True
        return cls(torch.stack([first, second]), of_edge, connected, graphs.batch[first])

    def complete(self, graphs: GraphBatch, generator: torch.Generator) -> GraphBatch:
        """The graphs with unconnected pairs joined too, in both directions, after the old edges.

        New edges have the features of random edges, and weigh 1 if the graphs have weights.
        """
        new = self.index[:, ~self.connected]
        new = torch.cat([new, new.flip(0)], dim=1)
        attr, weight = graphs.edge_attr, graphs.edge_weight
        if attr is not None:
            attr = torch.cat([attr, borrow_edge_attr(attr, new.shape[1], generator)])
        if weight is not None:
            weight = torch.cat([weight, weight.new_ones(new.shape[1])])
        return GraphBatch(
            x=graphs.x,
            edge_index=torch.cat([graphs.edge_index, new], dim=1),
            batch=graphs.batch,
            num_graphs=graphs.num_graphs,
            edge_attr=attr,
            edge_weight=weight,
            anchors=graphs.anchors,
        )

    def per_edge(self, pair_values: Tensor) -> Tensor:
        """Values of pairs at the edges of :meth:`complete`; self-loops weigh 1."""
        padded = torch.cat([pair_values, pair_values.new_ones(1)])  # -1 is the last
        new = pair_values[~self.connected]
        return torch.cat([padded[self.of_edge], new, new])


@dataclass(frozen=True)
class Proxy:
    r"""Proxy graphs and how well they stand in for the originals.

    Args:
        adjacency: Probability :math:`\tilde{\mathbf{A}}` of every pair.
        explained: Boolean mask of the pairs whose probability comes from the explanation.
        loss: Reconstruction error plus weighted divergence of every graph.
    """

    adjacency: Tensor
    explained: Tensor
    loss: Tensor


class GraphAutoencoder(nn.Module):
    r"""Rebuilds graphs from an explanation and its complement.

    Both are encoded by the same two GCN layers: the explanation, with edge weights :math:`w`, to
    latent means; the complement, with :math:`1 - w`, to samples of a Gaussian. The adjacency of
    each is :math:`\sigma(\mathbf{z}_i \cdot \mathbf{z}_j + b)`, that of the proxy graph the larger
    of both.

    Besides their features nodes have random coordinates, drawn anew each time: an inner product
    could not tell apart the neighbours of nodes that look alike.

    Args:
        in_channels: Number of node features.
        hidden: Width of the GCN layers.
        latent: Width of :math:`\mathbf{z}`.
        coordinates: Number of random coordinates.
        feature_scale: Features are divided by it, lest they drown the coordinates.
        generator: Source of the initial weights.
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int = 32,
        latent: int = 16,
        coordinates: int = 16,
        *,
        feature_scale: float = 1.0,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.coordinates = coordinates
        self.feature_scale = feature_scale or 1.0
        self.first = seeded_linear(in_channels + coordinates, hidden, generator)
        self.second = seeded_linear(hidden, hidden, generator)
        self.mean = seeded_linear(hidden, latent, generator)
        self.log_variance = seeded_linear(hidden, latent, generator)
        self.bias = nn.Parameter(torch.zeros(()))

    def encode(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of the latent rows of nodes."""
        edge_index, norm = gcn_norm(edge_index, weight, len(x))
        h = _propagate(self.first(x), edge_index, norm).relu()
        h = _propagate(self.second(h), edge_index, norm).relu()
        return self.mean(h), self.log_variance(h)

    def decode(self, z: Tensor, index: Tensor) -> Tensor:
        """Probability of an edge for every pair of nodes."""
        # index_select has a cheaper backward pass than indexing.
        product = z.index_select(0, index[0]) * z.index_select(0, index[1])
        return (product.sum(1) + self.bias).sigmoid()

    def forward(
        self,
        graphs: GraphBatch,
        pairs: AllPairs,
        mask: Tensor,
        generator: torch.Generator,
        divergence_weight: float = 1.0,
    ) -> Proxy:
        """The proxy graphs of explanations given by edge weights ``mask``."""
        place = torch.randn(graphs.num_nodes, self.coordinates, generator=generator).to(mask)
        x = torch.cat([graphs.x.to(mask) / self.feature_scale, place], dim=1)
        kept, _ = self.encode(x, graphs.edge_index, mask)
        mean, log_variance = self.encode(x, graphs.edge_index, 1 - mask)
        noise = torch.randn(mean.shape, generator=generator).to(mean)
        rest = mean + noise * (log_variance / 2).exp()
        parts = [self.decode(z, pairs.index) for z in (kept, rest)]
        adjacency = torch.maximum(*parts)
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss = reconstruction_error(adjacency, pairs, graphs.num_graphs)
        loss = loss + divergence_weight * segment_mean(divergence, graphs.batch, graphs.num_graphs)
        return Proxy(adjacency, parts[0] >= parts[1], loss)


def reconstruction_error(adjacency: Tensor, pairs: AllPairs, num_graphs: int) -> Tensor:
    """Cross entropy of every graph; connected and unconnected pairs weigh alike in total."""
    safe = adjacency.clamp(1e-6, 1 - 1e-6)
    link, gap = pairs.connected, ~pairs.connected
    of_links = segment_mean(-safe[link].log(), pairs.graph[link], num_graphs)
    return of_links + segment_mean(-(1 - safe[gap]).log(), pairs.graph[gap], num_graphs)


def _propagate(h: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    return torch.zeros_like(h).index_add(
        0, edge_index[1], h.index_select(0, edge_index[0]) * weight.unsqueeze(1)
    )
