"""What the two HPMEs share: how much is pooled, what a mask holds, hosts, quality, saving."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.alternatives import Alternative, alternatives_of
from hpme.explainers.hpme.effects import Effect, effects_of
from hpme.explainers.hpme.insight.base import InsightExplainer
from hpme.explainers.hpme.kept_hosts import KeepsHosts
from hpme.explainers.hpme.method.mask import mix_mask
from hpme.explainers.hpme.method.mixup import Attach
from hpme.explainers.hpme.method.pool import PoolSize, hop_features
from hpme.explainers.hpme.method.selection import tied, top_nodes
from hpme.explainers.hpme.quality import Quality, quality_of, spread_over
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.search.distil import standardise
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.hosts import Neighbor
from hpme.explainers.hpme.search.ratio import (
    RATIOS,
    TRIAL_GRAPHS,
    RatioPoint,
    choose_ratio,
    ratio_curve,
)
from hpme.explainers.hpme.search.sufficient import Trials, least_needed, smallest_prefix
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.explanation import Explanation, HeteroExplanation
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.mixing import MixupGraphs
from hpme.explainers.shared.options import FLAG, at_least, one_of, real, table, whole
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.graphs import GraphBatch
from hpme.graphs.segment import segment_mean, segment_sum
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding
from hpme.models.explained import Model
from hpme.models.task import Task
from hpme.progress import progress_bar

logger = logging.getLogger("hpme")
T = TypeVar("T")
Score = Literal["edge", "node", "both"]
SEARCH_EDGES = 50_000
"""A scorer for all graphs needs no more to be found, and large graphs would take long."""
HELD_OUT, LEAST_TO_SPARE = 64, 60
"""Graphs kept from the search for evidence, a fifth of all at most; of fewer none is spared."""


class HPMEBase(KeepsHosts, InsightExplainer):
    r"""A pool :math:`Q_\phi` and an edge MLP :math:`P_\theta`; subclasses say how they are found.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`; ``"auto"`` chooses it without labels, see
            :func:`~hpme.explainers.hpme.search.ratio.choose_ratio`.
        k: Number of pooled nodes, in place of ``ratio``.
        score: What ``edge_mask`` holds: ``"edge"``, the probabilities :math:`p_{ij}` of the edge
            MLP; ``"node"``, the lower importance of an edge's two nodes; or ``"both"``, a mean of
            the two in which the latter counts four times.
        neighbor: How :math:`G'` is drawn: a graph of another prediction (``"contrast"``), any
            (``"random"``), or the most (``"near"``) or least (``"far"``) similar of a few.
        attach: Where boundary edges go: ``"swap"`` or the paper's ``"rank"``, see
            :func:`~hpme.explainers.hpme.method.mixup.structural_mixup`.
        mixup: If false, the model is shown pooled subgraphs without a host (ablation w/o Mix),
            wherever something is searched, trained or chosen; the report still asks hard mixes.
        epochs: Epochs of the edge MLP on the chosen pool.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        search_graphs: The pool is searched on at most this many of the graphs, and on fewer if
            they have more than :data:`SEARCH_EDGES` edges together.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    chooses_size = True
    needs_weights = False  # the search asks about graphs, not about weights of edges
    constraints = table(
        ratio=real(above=0, most=1, words=("auto", None)),
        k=whole(1, words=(None,)),
        score=one_of(*get_args(Score)),
        neighbor=one_of(*get_args(Neighbor)),
        attach=one_of(*get_args(Attach)),
        mixup=FLAG,
        epochs=whole(1),
        lr=real(above=0),
        weight_decay=real(least=0),
        search_graphs=whole(1),
    )
    needed: Tensor
    """Nodes of more importance are needed to keep predictions; others are not shown as pooled."""

    def __init__(
        self,
        *,
        ratio: float | Literal["auto"] | None = "auto",
        k: int | None = None,
        score: Score = "both",
        neighbor: Neighbor = "contrast",
        attach: Attach = "swap",
        mixup: bool = True,
        epochs: int = 50,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        search_graphs: int = 512,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ratio, self.k, self.score = ratio, k, score
        self.neighbor, self.attach, self.mixup = neighbor, attach, mixup
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay
        self.search_graphs = search_graphs
        self.size: PoolSize | None = None  # chosen by fit()
        if ratio != "auto" or k is not None:
            self.size = PoolSize(None if ratio == "auto" else ratio, k)
        self.task: Task | None = None
        self.pool: nn.Module | None = None
        self.rival: nn.Module | None = None
        self.edge_mlp: EdgeMLP | None = None
        self.report: FitReport | None = None
        self.register_buffer("needed", torch.zeros(()))

    def _prepare(self, context: Context) -> None:
        """Looks at all graphs before anything is searched."""

    def _represent(
        self, x: Tensor, layers: tuple[Tensor, ...], h: Tensor, graphs: GraphBatch
    ) -> Tensor:
        """What pools see ``[K, N, D]``; by default what the paper's do."""
        return hop_features(h, graphs)

    def _edge_input(self, features: Tensor, h: Tensor) -> Tensor:
        """What the edge MLP sees of nodes, given what pools see and H; by default H."""
        return h

    def _read_nodes(self, seen: Embedding, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """Scores ``[1, N]``, and what the edge MLP sees of nodes."""
        assert self.pool is not None and self.size is not None
        features = self._represent(graphs.x, seen.layers, seen.nodes, graphs)
        score: Tensor = self.pool(features, graphs, self.size(graphs.sizes))
        return score, self._edge_input(features, seen.nodes)

    def _importance(self, score: Tensor, graphs: GraphBatch) -> Tensor:
        """Importance of nodes from 0 to 1, by scores ``[P, N]``; in a graph the order is theirs."""
        return (standardise(score, graphs) / 2).sigmoid()

    @abstractmethod
    def _pool_meta(self) -> dict[str, Any]:
        """What :meth:`_empty_pool` needs to know."""

    @abstractmethod
    def _empty_pool(self, meta: dict[str, Any]) -> nn.Module:
        """A pool ready for its tensors."""

    @abstractmethod
    def _search(
        self, few: HardMix, everything: Context, fresh: HardMix | None, *, progress: bool
    ) -> FitReport:
        """Finds the pool on a few graphs, trains the edge MLP, reports on fresh graphs."""

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.task = context.task
        self._keep_hosts(context.store.subset(spread_over(context.values)))
        self._prepare(context)
        searched, held_out = self._split(context, generator)
        curve = None
        if self.ratio == "auto" and self.k is None:
            curve = self._choose_ratio(searched, generator, progress)
        few = replace(self._mix(searched, generator), alone=not self.mixup)
        fresh = None if held_out is None else self._mix(held_out, generator)
        report = self._search(few, context, fresh, progress=progress)
        self._calibrate(searched, generator)
        self.report = replace(report, ratio_curve=curve)
        self.requires_grad_(False)
        logger.info(self.report.summary())
        for warning in self.report.warnings:
            logger.warning(warning)

    def _split(
        self, context: Context, generator: torch.Generator
    ) -> tuple[Context, Context | None]:
        """Graphs to search on, and graphs of all predictions to measure evidence on."""
        total = len(context.store)
        if total < LEAST_TO_SPARE:
            return context.sample(self.search_graphs, SEARCH_EDGES, generator), None
        spare = spread_over(context.values, min(HELD_OUT, total // 5))
        left = torch.ones(total, dtype=torch.bool)
        left[spare] = False
        searched = context.subset(left.nonzero().view(-1))
        held_out = context.subset(spare).sample(HELD_OUT, SEARCH_EDGES, generator)
        return searched.sample(self.search_graphs, SEARCH_EDGES, generator), held_out

    def _choose_ratio(
        self, context: Context, generator: torch.Generator, progress: bool
    ) -> list[RatioPoint]:
        self.size = PoolSize(RATIOS[0])  # each trial has its own
        trial = self._mix(context.sample(TRIAL_GRAPHS, SEARCH_EDGES, generator), generator)
        trial = replace(trial, alone=not self.mixup)
        with progress_bar("choosing the ratio", len(RATIOS), enabled=progress) as advance:
            curve = ratio_curve(trial, advance=advance)
        self.size = PoolSize(choose_ratio(curve))
        return curve

    def _mix(self, context: Context, generator: torch.Generator) -> HardMix:
        assert self.size is not None
        mix = HardMix.build(
            context,
            self.size,
            self.neighbor,
            self.attach,
            generator,
            self.batch_size,
            self._represent,
        )
        return replace(mix, edge_input=self._edge_input(mix.features, context.h))

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        assert self.pool is not None and self.edge_mlp is not None and self.size is not None
        if graphs.num_nodes == 0:
            empty = graphs.x.new_zeros(0)
            return Masks(empty, empty.view(0, 1), empty.bool())
        seen = adapter.embed(graphs, **model_kwargs)
        score, h = self._read_nodes(seen, graphs)
        importance, pooled = self._ranked(score, graphs)
        source, target = graphs.edge_index
        edge_mask = torch.minimum(
            importance.index_select(0, source), importance.index_select(0, target)
        )
        if self.score != "node":
            probability = self.edge_mlp.at_edges(h, graphs).sigmoid()
            edge_mask = probability if self.score == "edge" else (4 * edge_mask + probability) / 5
        return Masks(edge_mask, importance.unsqueeze(1), pooled, seen.output)

    def _ranked(self, score: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """Importance of nodes, and which are pooled: of the ``m`` highest those that are needed."""
        assert self.size is not None
        chosen = top_nodes(score, graphs, self.size(graphs.sizes))
        # Nodes the model does not tell apart share their importance, and their place in the pool.
        twins = graphs.ptr.index_select(0, graphs.batch) + tied(score, chosen, graphs).first
        importance = self._importance(score, graphs)[0]
        importance = segment_mean(importance, twins, graphs.num_nodes).index_select(0, twins)
        if graphs.anchors is not None:
            importance = importance.index_fill(0, graphs.anchors.flatten(), 1.0)
        needed = (importance > self.needed.to(importance)) | (chosen.order[0] == 0)
        pooled = (chosen.keep[0] & needed).to(importance)
        shared = segment_sum(pooled, twins, graphs.num_nodes).index_select(0, twins)
        return importance, shared > 0

    @torch.no_grad()
    def _calibrate(self, context: Context, generator: torch.Generator) -> None:
        """Finds the importance from which on nodes are needed, from what some graphs need."""
        assert self.pool is not None
        self.needed = torch.zeros(())  # a new one: the old may be of inference mode
        mix = self._mix(context.sample(TRIAL_GRAPHS, SEARCH_EDGES, generator), generator)
        score = mix.scores(self.pool)
        importance, pooled = self._ranked(score, mix.graphs)
        prefix = smallest_prefix(Trials.among(mix, score))
        self.needed = torch.tensor(least_needed(importance[pooled], prefix[pooled]))

    def _mixup_graphs(self, context: Context, generator: torch.Generator) -> MixupGraphs:
        assert self.pool is not None and self.edge_mlp is not None
        hard = self._mix(context, generator)
        ids = torch.arange(len(context.store), device=context.device)
        partners = hard.draw_hosts(ids) if self.mixup else ids
        hosts = (lambda _: partners) if self.mixup else None
        pooled = hard.pooled_mixup(self.pool, ids, hosts)
        mix = pooled.mix
        probability = self.edge_mlp(pooled.h, mix.pair_index).sigmoid()
        weight = mix_mask(probability, mix.transplanted, mixup=self.mixup)
        return MixupGraphs.of(
            mix.graphs, mix.per_edge(weight), mix.per_edge(mix.transplanted), partners
        )

    def quality(self, model: Model, graphs: Iterable[Any]) -> list[Quality]:
        """What can be said about the explanation of every graph without ground truth.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or of explanations, or a loader.
        """
        parts = self._ask(model, graphs, lambda trials: quality_of(trials, self.rival))
        return [quality for part in parts for quality in part]

    def alternatives(
        self, model: Model, graphs: Iterable[Any], n: int = 3
    ) -> list[list[Alternative]]:
        """At most ``n`` distinct subgraphs of every graph that carry its prediction, best first.

        None where nothing in the graph carries it, as where it rests on something missing.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or of explanations, or a loader.
            n: How many to look for.
        """
        at_least("n", n, 1)
        parts = self._ask(model, graphs, lambda trials: alternatives_of(trials, n))
        return [found for part in parts for found in part]

    def effects(
        self, model: Model, graphs: Iterable[Any], *, draws: int = 16, nodes: bool = True
    ) -> list[Effect]:
        """Whether pooled regions and single nodes raise or lower the output, and by how much.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or of explanations, or a loader. Explanations in
                a list have their ``effect`` as an attribute afterwards.
            draws: Hosts per graph; more give narrower intervals.
            nodes: Whether single nodes are asked about; that takes a mix per node and host.
        """
        at_least("draws", draws, 1)
        result: list[Effect] = []
        with closing(self._mixes(model, graphs)) as mixes:
            for mix, count in mixes:
                assert self.pool is not None
                result += effects_of(mix, count, self.pool, draws=draws, nodes=nodes)
        if isinstance(graphs, list):
            for explanation, effect in zip(graphs, result, strict=True):
                if isinstance(explanation, Explanation | HeteroExplanation):
                    explanation.effect = effect
        return result

    @torch.no_grad()
    def _ask(self, model: Model, graphs: Any, question: Callable[[Trials], T]) -> list[T]:
        """Answers to interventions on graphs, a part at a time."""
        # Closed at once even on error: what freezes the model inside must not outlive what does so
        # outside.
        with closing(self._mixes(model, graphs)) as mixes:
            return [question(self._trials_of(mix, count)) for mix, count in mixes]

    def _trials_of(self, mix: HardMix, count: int) -> Trials:
        """Trials of the first graphs of a mix, with what explanations show of them."""
        assert self.pool is not None
        score = mix.scores(self.pool)
        return Trials.of(mix, count, score, self._ranked(score, mix.graphs)[1])

    def _mixes(
        self, model: Model, graphs: Iterable[Any]
    ) -> Generator[tuple[HardMix, int], None, None]:
        """Graphs a batch at a time, joined with the kept hosts, and the number of graphs."""
        self._check_one_question()
        store = self._read(self._leveled(model, None), graphs)
        for ids in batches(torch.arange(len(store)), self.batch_size):
            mixed = store.subset(ids).joined(self._hosts())
            with self._context(model, mixed, task=self.task) as context:
                generator = torch.Generator().manual_seed(self.seed)
                yield self._mix(context, generator), ids.numel()

    def _meta(self) -> dict[str, Any]:
        assert self.edge_mlp is not None and self.report is not None
        assert self.size is not None and self.task is not None
        return {
            "channels": self.edge_mlp.channels,
            "pool": self._pool_meta(),
            "report": self.report.to_dict(),
            "ratio": self.size.ratio,
            "rival": self.rival is not None,
            "task": asdict(self.task),
        }

    def _build(self, meta: dict[str, Any]) -> None:
        generator, channels = torch.Generator(), meta["channels"]
        form = {"channels": channels, **meta["pool"]}
        self.pool = self._empty_pool(form)
        self.rival = self._empty_pool(form) if meta["rival"] else None
        self.edge_mlp = EdgeMLP(channels, generator=generator)
        self.report = FitReport.from_dict(meta["report"])
        self.size = PoolSize(meta["ratio"], self.k)
        self.task = Task(**meta["task"])
        self.requires_grad_(False)
