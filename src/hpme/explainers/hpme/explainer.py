"""HPME, the Hard-Perturbation Mixup Explainer, its pool found by search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import torch
from torch import Tensor

from hpme.explainers.hpme.base import HPMEBase
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.refining import Local, Refine, chosen_weight, widened
from hpme.explainers.hpme.report import FitReport, report_on
from hpme.explainers.hpme.search.attributions import Attributions, attributions
from hpme.explainers.hpme.search.chains import SubsetSearch
from hpme.explainers.hpme.search.distil import LinearPool, fit_edge_mlp
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.ratio import (
    RATIOS,
    TRIAL_GRAPHS,
    RatioPoint,
    choose_ratio,
    ratio_curve,
)
from hpme.explainers.hpme.search.representation import (
    HeteroRepresentation,
    Representation,
    blocks_of,
    representation_of,
)
from hpme.explainers.hpme.transplants import Transplants, least_needed, spread_over
from hpme.explainers.shared.context import Context, batches, sampled
from hpme.explainers.shared.options import one_of, table, whole
from hpme.explainers.shared.parametric import Categories, read_features
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding
from hpme.progress import progress_bar

SEARCH_EDGES = 50_000
"""A scorer for all graphs needs no more to be found, and large graphs would take long."""
HELD_OUT, LEAST_GRAPHS = 64, 60
"""Graphs kept from the search for evidence, a fifth of all at most; of fewer none is held out."""


class HPMEExplainer(HPMEBase):
    r"""Explains models by hard-perturbation mixup.

    A pooling operator :math:`Q_\phi` picks :math:`m` nodes of :math:`G`; their subgraph replaces
    the pooled subgraph of another real graph :math:`G'`. The pool is found by searching hard
    selections under which the model predicts :math:`f(G)` on the mix, and an edge MLP
    :math:`P_\theta` is distilled from it. :attr:`report` says how good the evidence for the result
    is. Integer features are read as categories, and through the model's embeddings of them.
    :class:`HPMEPrintedExplainer` trains both together, as the paper does.

    Args:
        restarts: Chains of the search: the first begins where occlusion or gradients point, the
            others at random.
        rounds: Rounds of each chain, fewer where nothing is left to find, up to two more where
            predictions are not kept.
        subsets: Proposed subsets per graph and round.
        combine: Steps that combine the best pools into one, after up to six that look for better
            ones where predictions are not kept; with 0 the best one is taken alone.
        refine: What corrects the scores of nodes by interventions in the graph itself:
            ``"gradient"``, one pass back per graph; ``"occlusion"``, also a pass per node; or
            ``None``, nothing. :meth:`fit` finds out by hard mixes how much it should count;
            nothing is computed where that is 0.
        **options: Arguments of :class:`~hpme.explainers.hpme.base.HPMEBase`.
    """

    slug = "hpme"
    title = "HPME"
    summary = "Hard-perturbation mixup: a pooled subgraph that carries the prediction elsewhere."
    typical_seconds = 6.0
    hetero = True
    needs_edges = False
    constraints = table(
        restarts=whole(1),
        rounds=whole(1),
        subsets=whole(4),
        combine=whole(0),
        refine=one_of(*get_args(Refine), words=(None,)),
    )

    def __init__(
        self,
        *,
        restarts: int = 3,
        rounds: int = 2,
        subsets: int = 16,
        combine: int = 2,
        refine: Refine | None = "gradient",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.restarts, self.rounds, self.subsets = restarts, rounds, subsets
        self.combine, self.refine = combine, refine
        self.representation: Representation | HeteroRepresentation | None = None
        self.categories: Categories | None = None  # of integer features

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.pool = None
        self._keep(context)
        # A part of the nodes says enough about centres and scales.
        graphs = context.store.batch(
            next(batches(torch.arange(len(context.store)), self.batch_size))
        )
        layers = tuple(layer[graphs.node_ids] for layer in context.layers)
        self.categories = Categories.of(context.store)
        x = read_features(self.categories, graphs)
        blocks = blocks_of(x, layers, context.h[graphs.node_ids], graphs)
        self.representation = representation_of(blocks, graphs)
        searched, held_out = self._split(context, generator)
        automatic = self.ratio == "auto" and self.k is None
        if automatic:
            self.size = PoolSize(RATIOS[0])  # each trial has its own
        # All that is read of nodes is computed once; every step takes the graphs it needs.
        mix = super().hard_mix(context.subset(torch.cat([searched, held_out])), generator)
        fresh = None
        if len(held_out):
            fresh = mix.subset(torch.arange(len(searched), len(mix.context.store)))
            mix = mix.subset(torch.arange(len(searched)))
        few = replace(mix, alone=not self.mixup)
        known, curve = attributions(mix.context), None
        if automatic:
            curve = self._ratio_curve(few, known, progress)
            self.size = size = PoolSize(choose_ratio(curve))
            mix, few = replace(mix, size=size), replace(few, size=size)
            fresh = None if fresh is None else replace(fresh, size=size)
        report = self._search(few, known, fresh, progress)
        self._calibrate(mix)
        self._finish(replace(report, ratio_curve=curve))

    def _split(self, context: Context, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Numbers of graphs to search on, and of graphs of all predictions that are held out."""
        counts = context.store.edge_counts.cpu()

        def some(ids: Tensor, count: int) -> Tensor:
            chosen = sampled(counts[ids], count, SEARCH_EDGES, generator)
            return ids if chosen is None else ids[chosen]

        left = torch.ones(len(counts), dtype=torch.bool)
        held_out = torch.arange(0)
        if len(counts) >= LEAST_GRAPHS:
            held_out = spread_over(context.values, min(HELD_OUT, len(counts) // 5)).cpu()
            left[held_out] = False
            held_out = some(held_out, HELD_OUT)
        return some(left.nonzero().view(-1), self.search_graphs), held_out

    def _ratio_curve(self, few: HardMix, known: Attributions, progress: bool) -> list[RatioPoint]:
        trial = few.sample(TRIAL_GRAPHS, SEARCH_EDGES)
        # Gradients are rounded differently in other batches, so those of fewer graphs are not a
        # part of those of all.
        known = known if trial is few else attributions(trial.context)
        with progress_bar("choosing the ratio", len(RATIOS), enabled=progress) as advance:
            return ratio_curve(trial, known, advance=advance)

    def _search(
        self, few: HardMix, known: Attributions, fresh: HardMix | None, progress: bool
    ) -> FitReport:
        """Finds the pool on a few graphs, trains the edge MLP, reports on fresh graphs."""
        search = SubsetSearch(self.restarts, self.rounds, self.subsets, self.combine)
        with progress_bar("searching the pool", search.steps(), enabled=progress) as advance:
            candidates = search.find(few, known, advance=advance)
        pool, rival = candidates.pool(candidates.chosen()), candidates.rival()
        few = self._with_local(few)
        weight = 0.0 if self.refine is None else chosen_weight(few, pool)
        self.pool = widened(pool, few, weight)
        self.rival = None if rival is None else widened(candidates.pool(rival), few, weight)
        fresh = None if fresh is None else self._with_local(fresh)
        measured, count = (few, 0) if fresh is None else (fresh, fresh.graphs.num_graphs)
        report = report_on(measured, self.pool, candidates, "subsets", held_out=count)
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

    @torch.no_grad()
    def _calibrate(self, mix: HardMix) -> None:
        """Finds the importance from which on nodes are needed, from what some graphs need."""
        assert self.pool is not None
        self.needed = torch.zeros(())  # a new one: the old may be of inference mode
        trial = self._with_local(mix.sample(TRIAL_GRAPHS, SEARCH_EDGES))
        score = trial.scores(self.pool)
        importance, pooled = self._ranked(score, trial.graphs)
        prefix = Transplants.among(trial, score).smallest_prefix()
        self.needed = torch.tensor(least_needed(importance[pooled], prefix[pooled]))

    def _represent(self, layers: tuple[Tensor, ...], h: Tensor, graphs: GraphBatch) -> Tensor:
        assert self.representation is not None
        x = read_features(self.categories, graphs)
        features: Tensor = self.representation(blocks_of(x, layers, h, graphs), graphs)
        return features.unsqueeze(0)

    def _edge_input(self, features: Tensor, h: Tensor) -> Tensor:
        assert self.representation is not None
        return self.representation.summarised(features[0, :, : self.representation.channels])

    def _read_nodes(
        self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
    ) -> tuple[Embedding, Tensor, Tensor]:
        assert self.representation is not None and isinstance(self.pool, LinearPool)
        weight = self.pool.weight[0].detach()
        embedding, local = self._local(adapter, graphs, **model_kwargs)
        x = read_features(self.categories, graphs)
        given = x, embedding.layers, embedding.nodes, graphs
        read = self.representation.read(*given, weight[:-1])
        return embedding, (read[:, 0] + weight[-1] * local).unsqueeze(0), read[:, 1:]

    def _local(
        self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
    ) -> tuple[Embedding, Tensor]:
        """What the model computes, and the last feature of nodes, zeros if that does not count."""
        weight = (
            self.pool.weight.detach() if isinstance(self.pool, LinearPool) else torch.ones(1, 1)
        )
        if self.refine is None or float(weight[0, -1]) == 0:
            embedding = adapter.embed(graphs, **model_kwargs)
            return embedding, embedding.nodes.new_zeros(graphs.num_nodes)
        assert self.task is not None
        neutral = self.hosts.x.to(torch.get_default_dtype()).mean(0)
        return Local(self.refine, adapter, self.task, neutral)(graphs, **model_kwargs)

    def hard_mix(self, context: Context, generator: torch.Generator) -> HardMix:
        """As of the base; pools read one feature more, of interventions in the graph itself."""
        return self._with_local(super().hard_mix(context, generator))

    def _with_local(self, mix: HardMix) -> HardMix:
        store, adapter = mix.context.store, mix.context.adapter
        parts = batches(torch.arange(len(store)), self.batch_size)
        local = torch.cat([self._local(adapter, store.batch(ids))[1] for ids in parts])
        last = local.to(mix.features).view(1, -1, 1)
        return replace(mix, features=torch.cat([mix.features, last], dim=2))

    def _importance(self, score: Tensor, graphs: GraphBatch) -> Tensor:
        # A node counts by its place in its graph, and by what all graphs say about its like:
        # where nothing carries the prediction, the best of a graph should not look important.
        return (super()._importance(score, graphs) + (score / 2).sigmoid()) / 2

    def _pool_meta(self) -> dict[str, Any]:
        assert self.representation is not None
        meta: dict[str, Any] = {"widths": list(self.representation.widths)}
        if self.categories is not None:
            meta["codes"] = len(self.categories.code)
        return meta

    def _empty_pool(self, meta: dict[str, Any]) -> LinearPool:
        hetero, codes = self.schema is not None, meta.get("codes")
        self.categories = None if codes is None else Categories(codes)
        self.representation = (HeteroRepresentation if hetero else Representation)(meta["widths"])
        return LinearPool(torch.zeros(1, self.representation.channels + 1))
