"""ProxyExplainer (Chen et al., ICML 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from hpme.explainers.shared.checks import at_least, positive
from hpme.explainers.shared.context import TargetContext
from hpme.explainers.shared.mixing import MixingExplainer, MixupGraphs
from hpme.explainers.shared.parametric import ParametricExplainer, seeded_linear
from hpme.graphs import GraphBatch
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum, segment_mean
from hpme.graphs.union import with_edges

_PAIRS = 2**19
"""Pairs of nodes per step: a proxy graph is complete, whatever the graph."""


class ProxyExplainer(MixingExplainer, ParametricExplainer):
    r"""Learns edge probabilities that keep the prediction on proxies like the original graphs.

    An autoencoder rebuilds the graph from the explanation and its complement (see
    :class:`GraphAutoencoder`); the model shall predict :math:`f(G)`
    on that proxy, which unlike the masked graph is of the kind it was trained on. Every step
    trains the autoencoder on samples of the current explanations, then the edge MLP through the
    autoencoder. For regression the loss is the squared error in units of the outputs' spread.

    Proxies live on the pairs of nodes within each graph, so sizes may differ and features be
    anything. Models with edge features see those of random edges on pairs the graph does not
    connect.

    Args:
        proxy_steps: Steps of the autoencoder per step of the edge MLP.
        proxy_lr: Learning rate of the autoencoder.
        divergence_weight: Weight of the Kullback-Leibler divergence beside the reconstruction.
        size_weight, entropy_weight, **options: As in :class:`ParametricExplainer`.
    """

    slug = "proxyexplainer"
    title = "ProxyExplainer"
    summary = "ProxyExplainer: an edge MLP trained on graphs rebuilt by an autoencoder."
    typical_seconds = 116.0

    autoencoder: GraphAutoencoder

    def __init__(
        self,
        *,
        proxy_steps: int = 5,
        proxy_lr: float = 0.01,
        divergence_weight: float = 0.01,
        size_weight: float = 3e-4,
        entropy_weight: float = 0.3,
        **options: Any,
    ) -> None:
        super().__init__(size_weight=size_weight, entropy_weight=entropy_weight, **options)
        self.proxy_steps, self.proxy_lr = proxy_steps, proxy_lr
        self.divergence_weight = divergence_weight
        at_least("proxy_steps", proxy_steps, 1)
        positive("proxy_lr", proxy_lr)
        at_least("divergence_weight", divergence_weight, 0)

    def _start(self, context: TargetContext, generator: torch.Generator) -> None:
        super()._start(context, generator)
        x = context.store.x
        self.autoencoder = GraphAutoencoder(
            x.shape[1], feature_scale=float(x.square().mean().sqrt()), generator=generator
        ).to(context.device)
        self._proxy_optimiser = torch.optim.Adam(self.autoencoder.parameters(), lr=self.proxy_lr)

    def _trained(self) -> nn.Module:
        return self.edge_mlp

    def _step(
        self,
        context: TargetContext,
        ids: Tensor,
        temperature: float,
        generator: torch.Generator,
        optimiser: torch.optim.Optimizer,
    ) -> None:
        for part in bounded(ids, context.store.sizes.to(ids.device)[ids], _PAIRS):
            self._train_autoencoder(context, part, temperature, generator)
            super()._step(context, part, temperature, generator, optimiser)

    def _train_autoencoder(
        self, context: TargetContext, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> None:
        graphs = context.store.batch(ids)
        pairs = AllPairs.of(graphs)
        h = context.h[graphs.node_ids]
        for _ in range(self.proxy_steps):
            with torch.no_grad():
                mask = self._sample(h, graphs, temperature, generator)
            self._proxy_optimiser.zero_grad()
            proxy = self.autoencoder(graphs, pairs, mask, generator, self.divergence_weight)
            proxy.loss.mean().backward()
            self._proxy_optimiser.step()

    def _loss(
        self, context: TargetContext, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        graphs = context.store.batch(ids)
        pairs = AllPairs.of(graphs)
        mask = self._sample(context.h[graphs.node_ids], graphs, temperature, generator)
        proxy = self.autoencoder(graphs, pairs, mask, generator)
        weight = pairs.per_edge(proxy.adjacency)
        output = context.predict(pairs.complete(graphs, generator), weight)
        prediction = context.task.loss(output, context.target[ids])
        return (prediction + self._penalty(mask, graphs)).mean()

    def _mixup_graphs(self, context: TargetContext, generator: torch.Generator) -> MixupGraphs:
        """The proxy graphs, which are complete; they have no other graph."""
        graphs = context.store.batch()
        pairs = AllPairs.of(graphs)
        mask = self._logits(context.h[graphs.node_ids], graphs.edge_index).sigmoid()
        proxy = self.autoencoder(graphs, pairs, mask, generator)
        return MixupGraphs.of(
            pairs.complete(graphs, generator),
            pairs.per_edge(proxy.adjacency),
            pairs.per_edge(proxy.explained),
            torch.arange(graphs.num_graphs),
        )

    def _meta(self) -> dict[str, Any]:
        features = self.autoencoder.first.in_features - self.autoencoder.coordinates
        scale = self.autoencoder.feature_scale
        return {**super()._meta(), "features": features, "feature_scale": scale}

    def _build(self, meta: dict[str, Any]) -> None:
        self.autoencoder = GraphAutoencoder(
            meta["features"], feature_scale=meta["feature_scale"], generator=torch.Generator()
        )
        super()._build(meta)


def bounded(ids: Tensor, sizes: Tensor, limit: int) -> Iterator[Tensor]:
    """Consecutive parts of graph numbers with about ``limit`` pairs of nodes in each."""
    group = exclusive_cumsum(sizes * (sizes - 1) // 2) // limit
    counts = torch.unique_consecutive(group, return_counts=True)[1]
    yield from ids.split(counts.tolist())  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class AllPairs:
    """Every two nodes of the same graph once, smaller first, connected (in any direction) or not.

    ``of_edge`` is the pair of every edge, -1 for self-loops.
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

        New edges have the attributes of random edges, and weigh 1 if the graphs have weights.
        """
        new = self.index[:, ~self.connected]
        return with_edges(graphs, torch.cat([new, new.flip(0)], dim=1), generator)

    def per_edge(self, pair_values: Tensor) -> Tensor:
        """Values of pairs at the edges of :meth:`complete`; self-loops weigh 1."""
        padded = torch.cat([pair_values, pair_values.new_ones(1)])  # -1 is the last
        new = pair_values[~self.connected]
        return torch.cat([padded[self.of_edge], new, new])


@dataclass(frozen=True)
class Proxy:
    r"""Probability :math:`\tilde{\mathbf{A}}` of every pair, whether it comes from the explanation.

    The loss of every graph is its reconstruction error plus weighted divergence.
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
    could not tell apart the neighbours of nodes that look alike. Features are divided by
    ``feature_scale``, lest they drown the coordinates.
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
