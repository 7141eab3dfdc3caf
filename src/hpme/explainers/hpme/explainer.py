"""HPME, the Hard-Perturbation Mixup Explainer, its pool found by search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.explainers.hpme.base import HPMEBase
from hpme.explainers.hpme.report import FitReport, evidence
from hpme.explainers.hpme.search.chains import SubsetSearch
from hpme.explainers.hpme.search.distil import fit_edge_mlp
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.hetero import HeteroRepresentation, hetero_blocks_of
from hpme.explainers.hpme.search.representation import Representation, blocks_of
from hpme.explainers.hpme.search.scorer import LinearPool
from hpme.explainers.hpme.search.starts import attributions
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.options import table, whole
from hpme.graphs import GraphBatch
from hpme.models.embedding import Embedding
from hpme.progress import progress_bar


class HPMEExplainer(HPMEBase):
    r"""Explains models by hard-perturbation mixup.

    A pooling operator :math:`Q_\phi` picks :math:`m` nodes of :math:`G`; their subgraph replaces
    the pooled subgraph of another real graph :math:`G'`. The pool is found by searching hard
    selections under which the model predicts :math:`f(G)` on the mix, and an edge MLP
    :math:`P_\theta` is distilled from it. :attr:`report` says how good the evidence for the result
    is. :class:`HPMEGradientExplainer` trains both together, as the paper does.

    Args:
        restarts: Chains of the search: the first begins where occlusion or gradients point, the
            others at random.
        rounds: Rounds of each chain, fewer where nothing is left to find, up to two more where
            predictions are not kept.
        subsets: Proposed subsets per graph and round.
        refine: Steps that combine the best pools into one, after up to six that look for better
            ones where predictions are not kept; with 0 the best one is taken alone.
        **options: Arguments of :class:`~hpme.explainers.hpme.base.HPMEBase`.
    """

    slug = "hpme"
    title = "HPME"
    summary = "Hard-perturbation mixup: a pooled subgraph that carries the prediction elsewhere."
    typical_seconds = 6.0
    hetero = True
    constraints = table(
        restarts=whole(1),
        rounds=whole(1),
        subsets=whole(4),
        refine=whole(0),
    )

    def __init__(
        self,
        *,
        restarts: int = 3,
        rounds: int = 2,
        subsets: int = 16,
        refine: int = 2,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.restarts, self.rounds, self.subsets, self.refine = restarts, rounds, subsets, refine
        self.representation: Representation | HeteroRepresentation | None = None

    def _prepare(self, context: Context) -> None:
        # A part of the nodes says enough about centres and scales.
        ids = next(batches(torch.arange(len(context.store)), self.batch_size))
        graphs = context.store.batch(ids)
        rows = graphs.node_ids
        layers = tuple(layer[rows] for layer in context.layers)
        seen = graphs.x, layers, context.h[rows], graphs
        if graphs.schema is None:
            self.representation = Representation.of(blocks_of(*seen))
        else:
            self.representation = HeteroRepresentation.of(hetero_blocks_of(*seen), graphs)

    def _represent(
        self, x: Tensor, layers: tuple[Tensor, ...], h: Tensor, graphs: GraphBatch
    ) -> Tensor:
        assert self.representation is not None
        seen: Tensor
        if isinstance(self.representation, HeteroRepresentation):
            seen = self.representation(hetero_blocks_of(x, layers, h, graphs), graphs)
        else:
            seen = self.representation(blocks_of(x, layers, h, graphs))
        return seen.unsqueeze(0)

    def _edge_input(self, features: Tensor, h: Tensor) -> Tensor:
        assert self.representation is not None
        return self.representation.summarised(features[0])

    def _read_nodes(self, seen: Embedding, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        assert self.representation is not None and isinstance(self.pool, LinearPool)
        given = graphs.x, seen.layers, seen.nodes, graphs
        if isinstance(self.representation, HeteroRepresentation):
            blocks = hetero_blocks_of(*given)
            read = self.representation.read(blocks, graphs, self.pool.weight[0])
        else:
            summary = self.representation.get_buffer("summary")
            weights = torch.cat([self.pool.weight.T, summary], dim=1)
            read = self.representation.reading(weights)(*given)
        return read[:, :1].T, read[:, 1:]

    def _importance(self, score: Tensor, graphs: GraphBatch) -> Tensor:
        # A node counts by its place in its graph, and by what all graphs say about its like:
        # where nothing carries the prediction, the best of a graph should not look important.
        return (super()._importance(score, graphs) + (score / 2).sigmoid()) / 2

    def _search(
        self, few: HardMix, everything: Context, fresh: HardMix | None, *, progress: bool
    ) -> FitReport:
        search = SubsetSearch(self.restarts, self.rounds, self.subsets, self.refine)
        with progress_bar("searching the pool", search.steps(), enabled=progress) as advance:
            candidates = search.find(few, attributions(few.context), advance=advance)
        self.pool, rival = candidates.pool(candidates.chosen()), candidates.rival()
        # Scores of all nodes together have unit variance, for :meth:`_importance`.
        spread = float(few.scores(self.pool).std(unbiased=False))
        self.pool.weight.data /= spread if spread > 0 else 1.0
        self.rival = None if rival is None else candidates.pool(rival)
        report = evidence(few, fresh, self.pool, candidates, "subsets")
        with progress_bar("training the edge MLP", self.epochs, enabled=progress) as advance:
            self.edge_mlp = fit_edge_mlp(
                few,
                few.select(few.scores(self.pool)).keep[0],
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                advance=advance,
            )
        return report

    def _pool_meta(self) -> dict[str, Any]:
        assert self.representation is not None
        return {"widths": list(self.representation.widths)}

    def _empty_pool(self, meta: dict[str, Any]) -> LinearPool:
        hetero = self.schema is not None
        self.representation = (HeteroRepresentation if hetero else Representation)(meta["widths"])
        return LinearPool(torch.zeros(1, self.representation.channels))
