"""HPME, the Hard-Perturbation Mixup Explainer, its pool found by search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.explainers.hpme.base import HPMEBase
from hpme.explainers.hpme.effects import Measured
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.method.training import EPOCHS, fit_edge_mlp
from hpme.explainers.hpme.quality import class_name
from hpme.explainers.hpme.refining import Local, Refine, chosen_weight, widened
from hpme.explainers.hpme.report import FitReport, report_on
from hpme.explainers.hpme.search.chains import ROUND_GRAPHS, Candidates, SubsetSearch
from hpme.explainers.hpme.search.distil import Distiller, LinearPool, importance
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.occlusion import occlusion
from hpme.explainers.hpme.search.ratio import LEAST, RATIOS, RatioPoint, choose_ratio, ratio_curve
from hpme.explainers.hpme.search.representation import NodeReader
from hpme.explainers.hpme.transplants import Transplants, least_needed, spread_over
from hpme.explainers.shared.context import Context, batches, sampled
from hpme.explainers.shared.options import FromZero, Positive
from hpme.graphs import GraphBatch
from hpme.graphs.patterns import equal_groups
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding
from hpme.models.explained import Model
from hpme.progress import progress_bar

SEARCH_EDGES = 50_000
"""A scorer for all graphs needs no more to be found, and large graphs would take long."""
UNSEARCHED = 24, RATIOS[::2], 1
"""Where nothing is searched: graphs and ratios that are tried, and pools to try them with."""
FEWEST_GRAPHS = 8
"""Searched on however few passes a fit may take."""
HELD_OUT, TELLING, LEAST_GRAPHS = 64, 40, 60
"""Different graphs kept from the search for evidence: at most a fifth of all; a third until they
are enough to tell. Of fewer each half is measured with what is found on the other half, if there
are at least as many as this:"""
LEAST_HALVES = 10


class HPMEExplainer(HPMEBase):
    r"""Explains models by hard-perturbation mixup.

    A pooling operator :math:`Q_\phi` picks :math:`m` nodes of :math:`G`; their subgraph replaces
    the pooled subgraph of another real graph :math:`G'`. The pool is found by searching hard
    selections under which the model predicts :math:`f(G)` on the mix, and an edge MLP
    :math:`P_\theta` is distilled from it. :attr:`report` says how good the evidence for the result
    is. Integer features are read as categories, and through the model's embeddings of them.
    :class:`HPMEPrintedExplainer` trains both together, as the paper does.

    Args:
        restarts: Chains of the search: the first begins where occlusion points, the others
            at random. With 0 nothing is searched: distilled occlusion and gradients compete.
        max_passes: How many forward passes over all given graphs a fit may take, about; for models
            that take long. The search then takes fewer graphs.
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

    def __init__(
        self,
        *,
        restarts: FromZero = 2,
        max_passes: Positive | None = None,
        refine: Refine | None = "gradient",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.restarts, self.max_passes, self.refine = restarts, max_passes, refine
        self.reader: NodeReader | None = None

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.pool = None
        self._keep(context)
        self.reader = NodeReader.of(context, self.batch_size)
        searched, held_out = self._split(context, generator)
        automatic = self.ratio == "auto" and self.k is None
        if automatic:
            self.size = PoolSize(RATIOS[len(RATIOS) // 2])  # each trial has its own
        # All that is read of nodes is computed once; every step takes the graphs it needs.
        mix = super().hard_mix(context.subset(torch.cat([searched, held_out])), generator)
        fresh = None
        if len(held_out):
            fresh = mix.subset(torch.arange(len(searched), len(mix.context.store)))
            mix = mix.subset(torch.arange(len(searched)))
        few = replace(mix, alone=not self.mixup, known=occlusion(mix.context))
        curve = None
        if automatic:
            curve = self._ratio_curve(few, progress)
            self.size = size = PoolSize(choose_ratio(curve))
            mix = replace(mix, size=size)
            few = replace(few, size=PoolSize(max(size.ratio or 1.0, LEAST)))
            fresh = None if fresh is None else replace(fresh, size=size)
        report = self._search(few, fresh, progress)
        self._calibrate(mix)
        said = set(context.prediction.tolist()) if context.task.classification else ()
        only = class_name(context, *said) if len(said) == 1 else None
        self._finish(replace(report, ratio_curve=curve, only=only, crossed=fresh is None))

    def _split(self, context: Context, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Numbers of graphs to search on, and of graphs of all predictions that are held out."""
        counts = context.store.edge_counts.cpu()

        def some(ids: Tensor, count: int) -> Tensor:
            chosen = sampled(counts[ids], count, SEARCH_EDGES, generator)
            return ids if chosen is None else ids[chosen]

        group, one = _different(context)
        left = torch.ones(len(counts), dtype=torch.bool)
        held_out = torch.arange(0)
        if len(one) >= LEAST_GRAPHS:
            count = min(HELD_OUT, max(len(one) // 5, min(TELLING, len(one) // 3)))
            held_out = one[spread_over(context.values[one], count).cpu()]
            left = ~torch.isin(group, group[held_out])
            held_out = some(held_out, HELD_OUT)
        return some(left.nonzero().view(-1), self._affordable(context)), held_out

    def _affordable(self, context: Context) -> int:
        """Number of graphs to search on."""
        if self.max_passes is None:
            return self.search_graphs
        store = context.store
        each = float(SubsetSearch(self.restarts).passes())
        each += float(store.sizes.sum() + store.edge_counts.sum() / 2) / len(store)  # occlusion
        if self.ratio == "auto" and self.k is None:
            each += 12 * len(RATIOS)
        count = int(self.max_passes * len(store) / each)
        return min(self.search_graphs, max(FEWEST_GRAPHS, count))

    def _ratio_curve(self, few: HardMix, progress: bool) -> list[RatioPoint]:
        count, ratios, pools = (2 * ROUND_GRAPHS, RATIOS, 3) if self.restarts else UNSEARCHED
        ids = torch.randperm(few.graphs.num_graphs, generator=few.generator)[:count]
        trial = few.subset(ids.to(few.context.device))
        # A scorer serves all ratios, so a short search with a middle one is enough.
        found = self._found(SubsetSearch(min(1, self.restarts)), trial)
        weights = torch.stack([found.weights[number] for number in found.order()[:pools]])
        # What corrects the scores later may hold predictions at sizes where these pools do not.
        trial, weights = self._with_local(trial), F.pad(weights, (0, 1))
        if found.telling and bool(trial.features[:, -1].any()):
            own = torch.zeros_like(weights[:1])
            own[:, -1] = 1.0
            weights = torch.cat([weights, own])
        with progress_bar("choosing the ratio", len(ratios), enabled=progress) as advance:
            return ratio_curve(trial, weights, ratios, advance=advance)

    def _search(self, few: HardMix, fresh: HardMix | None, progress: bool) -> FitReport:
        """Finds the pool on a few graphs, trains the edge MLP, reports on fresh graphs."""
        assert self.size is not None
        search = SubsetSearch(self.restarts)
        with progress_bar("searching the pool", search.steps(), enabled=progress) as advance:
            candidates = self._found(search, few, advance)
        parts = self._crossed(few) if fresh is None else [(fresh, candidates)]
        few = replace(few, size=self.size)
        few, parts = self._with_local(few), [(self._with_local(part), one) for part, one in parts]
        pool, rival = candidates.pool(candidates.chosen()), candidates.rival()
        refined = self.refine is not None and candidates.telling
        weight = chosen_weight(few, pool) if refined else 0.0

        def result(one: Candidates) -> LinearPool:
            """Interventions speak for the graph itself as occlusion does, and one is enough."""
            return widened(one.pool(one.chosen()) if weight else one.blended(), few, weight)

        self.pool = result(candidates)
        self.rival = None if rival is None else widened(candidates.pool(rival), few, weight)
        found = [(part, self.pool if one is candidates else result(one)) for part, one in parts]
        found = found or [(few, self.pool)]
        report = report_on(few, Measured.on(*found), candidates, held_out=bool(parts))
        epochs = EPOCHS if self.score != "node" else 0
        with progress_bar("training the edge MLP", epochs, enabled=progress) as advance:
            keep = few.select(few.scores(self.pool)).keep[0]
            self.edge_mlp = fit_edge_mlp(few, keep, epochs, advance)
        return report

    def _found(
        self,
        search: SubsetSearch,
        mix: HardMix,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Candidates:
        """What a search finds; where nothing is searched, gradients compete with occlusion."""
        found = search.find(mix, advance)
        if not self.restarts:
            slopes = Local("gradient", mix.context.adapter, mix.context.task)(mix.graphs)[1]
            if not slopes.any() and not found.weights:  # nothing matters, so any pool will do
                slopes = torch.rand(len(slopes), generator=mix.generator).to(slopes)
            distiller = Distiller(mix.features, mix.graphs)
            weights = distiller.fit(slopes, torch.ones_like(mix.m).to(slopes))
            if bool(weights.any()):
                found.add(weights)
        return found

    def _crossed(self, few: HardMix) -> list[tuple[HardMix, Candidates]]:
        """Each half of few graphs with what a short search finds on the other half."""
        assert self.size is not None
        group, one = _different(few.context)
        if len(one) < LEAST_HALVES:
            return []
        search = SubsetSearch(min(1, self.restarts))
        halves = spread_over(few.context.values[one], len(one)).cpu()
        found: list[tuple[HardMix, Candidates]] = []
        for half in (one[halves[::2]], one[halves[1::2]]):
            other = few.subset((~torch.isin(group, group[half])).nonzero().view(-1))
            found.append((replace(few.subset(half), size=self.size), self._found(search, other)))
        return found

    @torch.no_grad()
    def _calibrate(self, mix: HardMix) -> None:
        """Finds the importance from which on nodes are needed, from what some graphs need."""
        assert self.pool is not None
        self.needed = torch.zeros(())  # a new one: the old may be of inference mode
        counts = mix.context.store.edge_counts
        ids = sampled(counts, 2 * ROUND_GRAPHS, SEARCH_EDGES, mix.generator)
        trial = self._with_local(mix if ids is None else mix.subset(ids))
        score = trial.scores(self.pool)
        importance, pooled = self._ranked(score, trial.graphs)
        prefix = Transplants.among(trial, score).smallest_prefix()
        self.needed = torch.tensor(least_needed(importance[pooled], prefix[pooled]))

    def _represent(self, layers: tuple[Tensor, ...], h: Tensor, graphs: GraphBatch) -> Tensor:
        assert self.reader is not None
        features: Tensor = self.reader(layers, h, graphs)
        return features

    def _scored(
        self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
    ) -> tuple[Embedding, Tensor]:
        assert isinstance(self.pool, LinearPool) and self.reader is not None
        embedding, local = self._local(adapter, graphs, **model_kwargs)
        weight = self.pool.weight[0]
        score = self.reader.scores(weight[:-1], embedding.layers, embedding.nodes, graphs)
        return embedding, (score + weight[-1] * local).unsqueeze(0)

    def _local(
        self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
    ) -> tuple[Embedding, Tensor]:
        """What the model computes, and the last feature of nodes, zeros if that does not count."""
        pool = self.pool
        if self.refine is None or (isinstance(pool, LinearPool) and not float(pool.weight[0, -1])):
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
        return replace(mix, features=torch.column_stack([mix.features, local.to(mix.features)]))

    def _importance(self, score: Tensor, graphs: GraphBatch) -> Tensor:
        return importance(score, graphs)

    def _pool_meta(self) -> dict[str, Any]:
        assert self.reader is not None
        return self.reader.meta()

    def _empty_pool(self, meta: dict[str, Any]) -> LinearPool:
        self.reader = NodeReader(meta["widths"], meta["codes"], meta["widest"])
        return LinearPool(torch.zeros(1, self.reader.map.shape[1] + 1))


def _different(context: Context) -> tuple[Tensor, Tensor]:
    """Number of the group of equal graphs every graph is in, and one graph of each group."""
    group = equal_groups(context.store).cpu()
    order = group.argsort(stable=True)
    first = torch.cat([order.new_ones(1).bool(), group[order].diff() > 0])
    return group, order[first].sort().values


QUICK: dict[str, Any] = {"restarts": 0, "search_graphs": 24, "score": "node"}
"""Arguments of :class:`HPMEExplainer`: cheap attributions compete, on a few graphs."""


def quick(
    model: Model, graphs: Iterable[Any], *, progress: bool = True, seed: int = 0, **facts: Any
) -> HPMEExplainer:
    """A fitted explainer in seconds, for a first look; the full search takes minutes.

    Occlusion and gradients are distilled into a scorer each, and a few transplants choose one. All
    else is as of a full fit: the report on held-out graphs, verdicts, effects, pages, saving. For
    the full search, fit an :class:`HPMEExplainer`.

    Args:
        model: The model; it is left exactly as it was.
        graphs: Graphs to learn from: a dataset, a list of ``Data`` or a loader.
        progress: Whether to draw progress bars (on terminals only).
        seed: Seed of all that is drawn.
        **facts: As for :meth:`HPMEExplainer.fit`.
    """
    return HPMEExplainer(**QUICK, seed=seed).fit(model, graphs, progress=progress, **facts)
