"""HPME, the Hard-Perturbation Mixup Explainer."""

from __future__ import annotations

from typing import Any

import torch

from hpme.data.batch import GraphBatch
from hpme.explainers.base import GraphExplainer, Masks
from hpme.explainers.context import TargetContext
from hpme.explainers.edge_mlp import EdgeMLP
from hpme.explainers.hpme.gradient import GradientSearch, train_epoch
from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.neighbor import Neighbor
from hpme.explainers.hpme.objective import Objective
from hpme.explainers.hpme.pool import Pool, PoolSize, hop_features, top_nodes
from hpme.models.adapter import ModelAdapter
from hpme.progress import progress_bar


class HPMEExplainer(GraphExplainer):
    r"""Explains graph-level models by hard-perturbation mixup.

    A pooling operator :math:`Q_\phi` picks :math:`m` nodes of :math:`G`; their subgraph replaces
    the pooled subgraph of another real graph :math:`G'`; an edge MLP :math:`P_\theta` learns edge
    probabilities such that the model predicts :math:`f(G)` on the mix (Eqs. str_mixup, bce_loss,
    finall_loss of the paper). Works for classification and regression.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`.
        k: Number of pooled nodes, in place of ``ratio``.
        mixup: If false, the model sees the pooled subgraph alone (ablation w/o Mix).
        bce_weight: Weight :math:`\beta` of the mean BCE while the edge MLP is trained on the
            chosen pool. 0 removes the BCE everywhere (ablation w/o BCE).
        pool_layers: Pooling layers :math:`L`.
        gate: ``"tanh"`` multiplies transplanted features by :math:`\tanh(s)` while the pool is
            trained; ``None`` is the paper's equation to the letter, which leaves :math:`\phi`
            without a gradient.
        neighbor: How :math:`G'` is drawn: ``"random"``, or the most (``"near"``) or least
            (``"far"``) similar of a few.
        epochs: Epochs of the edge MLP on the chosen pool.
        lr: Learning rate.
        weight_decay: Weight decay of Adam.
        temperature: :math:`\tau` of the binary concrete distribution.
        search_graphs: The pool is searched on at most this many of the graphs.
        seed, batch_size, embedding_layer: See :class:`~hpme.explainers.base.GraphExplainer`.
    """

    slug = "hpme"
    summary = "Hard-perturbation mixup: a pooled subgraph that carries the prediction elsewhere."

    def __init__(
        self,
        *,
        ratio: float | None = None,
        k: int | None = None,
        mixup: bool = True,
        bce_weight: float = 10.0,
        pool_layers: int = 1,
        gate: str | None = "tanh",
        neighbor: Neighbor = "random",
        epochs: int = 80,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        temperature: float = 1.0,
        search_graphs: int = 512,
        seed: int = 0,
        batch_size: int = 512,
        embedding_layer: str | None = None,
    ) -> None:
        super().__init__(seed=seed, batch_size=batch_size, embedding_layer=embedding_layer)
        self.ratio, self.k = ratio, k
        self.mixup, self.bce_weight, self.neighbor = mixup, bce_weight, neighbor
        self.pool_layers, self.gate = pool_layers, gate
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay
        self.temperature, self.search_graphs = temperature, search_graphs
        self.size = PoolSize(ratio, k)
        self.pool: Pool | None = None
        self.edge_mlp: EdgeMLP | None = None

    def _fit(self, context: TargetContext, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        beta = (0.3, 3.0) if self.bce_weight else (0.0, 0.0)
        search = GradientSearch(beta=beta, lr=self.lr, weight_decay=self.weight_decay)
        few = context.sample(self.search_graphs, generator)
        total = search.steps() + self.epochs
        with progress_bar("fitting HPME", total, enabled=progress) as advance:
            self.pool, self.edge_mlp = search.find(
                self._objective(few, generator),
                layers=self.pool_layers,
                batch_size=self.batch_size,
                advance=advance,
            )
            self._train_edge_mlp(self._objective(context, generator), advance)
        self.requires_grad_(False)

    def _objective(self, context: TargetContext, generator: torch.Generator) -> Objective:
        mix = HardMix.build(context, self.size, self.neighbor, generator, self.batch_size)
        return Objective(mix, self.mixup, self.gate is not None, self.temperature)

    def _train_edge_mlp(self, objective: Objective, advance: Any) -> None:
        assert self.pool is not None and self.edge_mlp is not None
        optimiser = torch.optim.Adam(
            self.edge_mlp.parameters(), lr=self.lr, weight_decay=self.weight_decay
        )
        for _ in range(self.epochs):
            train_epoch(
                objective, self.pool, self.edge_mlp, optimiser, self.bce_weight,
                self.batch_size, gate=False,
            )  # fmt: skip
            advance(1)

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        assert self.pool is not None and self.edge_mlp is not None
        if graphs.num_nodes == 0:
            empty = graphs.x.new_zeros(0)
            return Masks(empty, empty.view(0, 1), empty.bool())
        h = adapter.embed(graphs, **model_kwargs).nodes
        m = self.size(graphs.sizes)
        score = self.pool(hop_features(h, graphs), graphs, m)
        pooled = top_nodes(score, graphs, m)[0]
        edge_mask = self.edge_mlp(h, graphs.edge_index).sigmoid()
        return Masks(edge_mask, pooled.to(h.dtype).unsqueeze(1), pooled)

    def _meta(self) -> dict[str, Any]:
        assert self.pool is not None
        return {"channels": self.pool.bias.shape[-1], "hops": self.pool.hops}

    def _build(self, meta: dict[str, Any]) -> None:
        generator = torch.Generator()
        self.pool = Pool(
            meta["channels"], 1, self.pool_layers, tuple(meta["hops"]), generator=generator
        )
        self.edge_mlp = EdgeMLP(meta["channels"], generator=generator)
        self.requires_grad_(False)
