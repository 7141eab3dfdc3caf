"""ProxyExplainer (Chen et al., ICML 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hpme.explainers.shared import parametric
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import Count, Positive, Weight
from hpme.explainers.shared.parametric import Categories, ParametricExplainer
from hpme.explainers.shared.templates import MixingExplainer, MixupGraphs
from hpme.graphs import GraphBatch
from hpme.graphs.segment import segment_mean, segment_sum
from hpme.graphs.transforms import with_edges


class ProxyExplainer(MixingExplainer, ParametricExplainer):
    r"""Learns edge probabilities that keep the prediction on proxies like the original graphs.

    A :class:`GraphAutoencoder` rebuilds the graph from the explanation and its complement; the
    model shall predict :math:`f(G)` on that proxy, which unlike the masked graph is of the kind it
    was trained on. Every step trains the autoencoder on samples of the current explanations, then
    the edge MLP through it. For regression the loss is the squared error in units of the outputs'
    spread. Proxies live on :class:`SampledPairs` of nodes within each graph; new edges have the
    features of random ones.

    Args:
        proxy_steps: Steps of the autoencoder per step of the edge MLP, each on half of the graphs.
        proxy_lr: Learning rate of the autoencoder.
        divergence_weight: Weight of the Kullback-Leibler divergence beside the reconstruction.
        epochs, **options: As in :class:`ParametricExplainer`.
    """

    slug = "proxyexplainer"
    title = "ProxyExplainer"
    summary = "ProxyExplainer: an edge MLP trained on graphs rebuilt by an autoencoder."
    typical_seconds = 6.0

    autoencoder: GraphAutoencoder

    def __init__(
        self,
        *,
        proxy_steps: Count = 5,
        proxy_lr: Positive = 0.01,
        divergence_weight: Weight = 0.01,
        epochs: Count = 30,
        **options: Any,
    ) -> None:
        super().__init__(epochs=epochs, **options)
        self.proxy_steps, self.proxy_lr = proxy_steps, proxy_lr
        self.divergence_weight = divergence_weight

    def _start(self, context: Context, generator: torch.Generator) -> None:
        super()._start(context, generator)
        categories = Categories.of(context.store)
        x = parametric.read_features(categories, context.store.batch())
        scale = float(x.square().mean().sqrt()) if x.numel() else 1.0
        self.autoencoder = GraphAutoencoder(
            x.shape[1], feature_scale=scale, categories=categories, generator=generator
        ).to(context.device)
        parameters = self.autoencoder.parameters()
        self._proxy_optimiser = torch.optim.Adam(parameters, lr=self.proxy_lr)

    def _optimiser(self) -> torch.optim.Optimizer:
        parameters = self.edge_mlp.parameters()
        return torch.optim.Adam(parameters, self.lr, weight_decay=self.weight_decay)

    def _before_step(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> None:
        """Trains the autoencoder."""
        for _ in range(self.proxy_steps):
            # Half of the graphs are enough for a step, others for the next.
            order = torch.randperm(ids.numel(), generator=generator)[: (ids.numel() + 1) // 2]
            graphs = context.store.batch(ids[order.to(ids.device)], with_pairs=True)
            pairs = SampledPairs.of(graphs, generator)
            with torch.no_grad():
                mask = self._sample(context.embedded(graphs), graphs, temperature, generator)
            self._proxy_optimiser.zero_grad()
            proxy = self.autoencoder(graphs, pairs, mask, generator, self.divergence_weight)
            proxy.loss.mean().backward()
            self._proxy_optimiser.step()

    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        graphs = context.store.batch(ids, with_pairs=True)
        pairs = SampledPairs.of(graphs, generator)
        mask = self._sample(context.embedded(graphs), graphs, temperature, generator)
        proxy = self.autoencoder(graphs, pairs, mask, generator)
        weight = pairs.per_edge(proxy.adjacency)
        output = context.predict(pairs.joined(graphs, generator), weight)
        prediction = context.task.loss(output, context.prediction[ids])
        return (prediction + self._penalty(mask, graphs)).mean()

    def _mixup_graphs(self, context: Context, generator: torch.Generator) -> MixupGraphs:
        """The proxy graphs; they have no other graph."""
        context = self._beside_target(context)
        graphs = context.store.batch()
        pairs = SampledPairs.of(graphs, generator)
        mask = self.edge_mlp(context.embedded(graphs), graphs.edge_index).sigmoid()
        proxy = self.autoencoder(graphs, pairs, mask, generator)
        weights = pairs.per_edge(proxy.adjacency), pairs.per_edge(proxy.explained)
        partners = torch.arange(graphs.num_graphs)
        return MixupGraphs.of(pairs.joined(graphs, generator), *weights, partners)

    def _meta(self) -> dict[str, Any]:
        features = self.autoencoder.first.in_features - self.autoencoder.coordinates
        scale = self.autoencoder.feature_scale
        meta = {**super()._meta(), "features": features, "feature_scale": scale}
        if self.autoencoder.categories is not None:
            meta["codes"] = len(self.autoencoder.categories.code)
        return meta

    def _build(self, meta: dict[str, Any]) -> None:
        self.autoencoder = GraphAutoencoder(
            meta["features"],
            feature_scale=meta["feature_scale"],
            categories=Categories(meta["codes"]) if "codes" in meta else None,
            generator=torch.Generator(),
        )
        super()._build(meta)


@dataclass(frozen=True)
class SampledPairs:  # all unconnected ones are alike, so that a sample of them does
    """The connected pairs of nodes of every graph, and about as many random unconnected ones."""

    index: Tensor  # the smaller node first, in the order of the nodes
    of_edge: Tensor  # the pair of every edge, -1 for self-loops
    connected: Tensor  # whether there is an edge, in any direction
    graph: Tensor  # graph number of every pair

    @classmethod
    def of(cls, graphs: GraphBatch, generator: torch.Generator) -> SampledPairs:
        """The pairs of a batch of graphs, the unconnected ones drawn anew."""
        links = graphs.pairs.proper
        stride = max(1, graphs.num_nodes)
        linked = links.index[0] * stride + links.index[1]
        wanted = torch.bincount(links.graph, minlength=graphs.num_graphs).clamp(min=1)
        graph = torch.repeat_interleave(wanted)
        graph = graph[graphs.sizes[graph] > 1]
        share = torch.rand(2, graph.numel(), generator=generator).to(graph.device)
        size = graphs.sizes[graph]
        first = (share[0] * size).long().clamp(max=size - 1)
        other = (share[1] * (size - 1)).long().clamp(max=size - 2)
        second = other + (other >= first).long()  # any node but the first
        ends = torch.stack([first, second]) + graphs.ptr[graph]
        drawn = ends.amin(0) * stride + ends.amax(0)
        key, place = torch.unique(torch.cat([linked, drawn]), return_inverse=True)
        connected = torch.zeros_like(key, dtype=torch.bool)
        connected[place[: linked.numel()]] = True
        index = torch.stack([key // stride, key % stride])
        padded = torch.cat([place[: linked.numel()], place.new_full((1,), -1)])  # -1 is the last
        return cls(index, padded[links.of_edge], connected, graphs.batch[index[0]])

    def joined(self, graphs: GraphBatch, generator: torch.Generator) -> GraphBatch:
        """The graphs with unconnected pairs joined by edges like random ones, behind theirs."""
        new = self.index[:, ~self.connected]
        return with_edges(graphs, torch.cat([new, new.flip(0)], dim=1), generator)

    def per_edge(self, pair_values: Tensor) -> Tensor:
        """Values of pairs at the edges of :meth:`joined`; self-loops weigh 1."""
        padded = torch.cat([pair_values, pair_values.new_ones(1)])  # -1 is the last
        last = pair_values.numel()
        new = (~self.connected).nonzero().view(-1)
        # The backward pass of index_select is an index_add, that of indexing is much slower.
        of_edge = torch.where(self.of_edge < 0, last, self.of_edge)
        return padded.index_select(0, torch.cat([of_edge, new, new]))


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
    of both. Nodes also have random coordinates, drawn anew each time, which tell nodes that look
    alike apart; features are divided by ``feature_scale``, lest they drown them.
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int = 32,
        latent: int = 8,
        coordinates: int = 8,
        *,
        feature_scale: float = 1.0,
        categories: Categories | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.categories = categories  # of integer features
        self.coordinates = coordinates
        self.feature_scale = feature_scale or 1.0
        self.first = parametric.seeded_linear(in_channels + coordinates, hidden, generator)
        self.second = parametric.seeded_linear(hidden, hidden, generator)
        self.mean = parametric.seeded_linear(hidden, latent, generator)
        self.log_variance = parametric.seeded_linear(hidden, latent, generator)
        self.bias = nn.Parameter(torch.zeros(()))

    def encode(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        """Hidden rows of nodes, which :attr:`mean` and :attr:`log_variance` are made of."""
        source, target = edge_index
        scale = (1 + segment_sum(weight, target, len(x))).rsqrt()
        norm = scale.index_select(0, source) * weight * scale.index_select(0, target)
        norm, own = norm.unsqueeze(1), scale.square().unsqueeze(1)
        # Neighbours are summed before each layer: without a gradient of the weights, which training
        # the autoencoder does not need, the first sum then has no backward pass.
        for layer in (self.first, self.second):
            x = layer((own * x).index_add(0, target, x.index_select(0, source) * norm)).relu()
        return x

    def decode(self, z: Tensor, index: Tensor) -> Tensor:
        """Probability of an edge for every pair of nodes."""
        # index_select has a cheaper backward pass than indexing.
        product = z.index_select(0, index[0]) * z.index_select(0, index[1])
        return (product.sum(1) + self.bias).sigmoid()

    def forward(
        self,
        graphs: GraphBatch,
        pairs: SampledPairs,
        mask: Tensor,
        generator: torch.Generator,
        divergence_weight: float = 1.0,
    ) -> Proxy:
        """The proxy graphs of explanations given by edge weights ``mask``."""
        place = torch.randn(graphs.num_nodes, self.coordinates, generator=generator).to(mask)
        x = parametric.read_features(self.categories, graphs).to(mask)
        x = torch.cat([x / self.feature_scale, place], dim=1)
        kept = self.mean(self.encode(x, graphs.edge_index, mask))
        hidden = self.encode(x, graphs.edge_index, 1 - mask)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        noise = torch.randn(mean.shape, generator=generator).to(mean)
        rest = mean + noise * (log_variance / 2).exp()
        parts = [self.decode(z, pairs.index) for z in (kept, rest)]
        adjacency = torch.maximum(*parts)
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss = reconstruction_error(adjacency, pairs, graphs.num_graphs)
        loss = loss + divergence_weight * segment_mean(divergence, graphs.batch, graphs.num_graphs)
        return Proxy(adjacency, parts[0] >= parts[1], loss)


def reconstruction_error(adjacency: Tensor, pairs: SampledPairs, num_graphs: int) -> Tensor:
    """Cross entropy of every graph; connected and unconnected pairs weigh alike in total."""
    safe = adjacency.clamp(1e-6, 1 - 1e-6)
    link, gap = pairs.connected, ~pairs.connected
    of_links = segment_mean(-safe[link].log(), pairs.graph[link], num_graphs)
    return of_links + segment_mean(-(1 - safe[gap]).log(), pairs.graph[gap], num_graphs)
