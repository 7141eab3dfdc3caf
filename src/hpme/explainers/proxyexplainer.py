"""ProxyExplainer (Chen et al., ICML 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.shared.autoencoder import AllPairs, GraphAutoencoder
from hpme.explainers.shared.checks import at_least, positive
from hpme.explainers.shared.context import TargetContext
from hpme.explainers.shared.mixing import MixingExplainer, MixupGraphs
from hpme.explainers.shared.parametric import ParametricExplainer
from hpme.graphs.segment import exclusive_cumsum

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
        size_weight: See :class:`~hpme.explainers.shared.parametric.ParametricExplainer`.
        entropy_weight: See :class:`~hpme.explainers.shared.parametric.ParametricExplainer`.
        **options: Other arguments of :class:`ParametricExplainer`.
    """

    slug = "proxyexplainer"
    title = "ProxyExplainer"
    summary = "ProxyExplainer: an edge MLP trained on graphs rebuilt by an autoencoder."
    typical_seconds = 116.0

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
        self.autoencoder: GraphAutoencoder | None = None

    def _start(self, context: TargetContext, generator: torch.Generator) -> None:
        super()._start(context, generator)
        x = context.store.x
        self.autoencoder = GraphAutoencoder(
            x.shape[1], feature_scale=float(x.square().mean().sqrt()), generator=generator
        ).to(context.device)
        self._proxy_optimiser = torch.optim.Adam(self.autoencoder.parameters(), lr=self.proxy_lr)

    def _optimiser(self) -> torch.optim.Optimizer:
        assert self.edge_mlp is not None
        parameters = self.edge_mlp.parameters()
        return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)

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
        assert self.autoencoder is not None
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
        assert self.autoencoder is not None
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
        assert self.autoencoder is not None
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
        assert self.autoencoder is not None
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
