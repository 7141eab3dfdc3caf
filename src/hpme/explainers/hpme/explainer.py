"""HPME, the Hard-Perturbation Mixup Explainer."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal, get_args

import torch

from hpme.errors import InputError
from hpme.explainers.hpme.distil import fit_edge_mlp
from hpme.explainers.hpme.gradient import GradientSearch, train_epoch
from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.mixup import Attach, structural_mixup
from hpme.explainers.hpme.neighbor import Neighbor
from hpme.explainers.hpme.objective import Objective
from hpme.explainers.hpme.pool import Pool, PoolSize, hop_features, rank_nodes
from hpme.explainers.hpme.quality import Quality, quality_of, spread_over
from hpme.explainers.hpme.ratio import (
    RATIOS,
    TRIAL_GRAPHS,
    RatioPoint,
    choose_ratio,
    ratio_curve,
)
from hpme.explainers.hpme.report import FitReport, report_on
from hpme.explainers.hpme.search import SubsetSearch, selection_of
from hpme.explainers.shared.base import Masks
from hpme.explainers.shared.checks import at_least, positive
from hpme.explainers.shared.context import TargetContext, batches
from hpme.explainers.shared.edge_mlp import EdgeMLP
from hpme.explainers.shared.mixing import MixingExplainer, MixupGraphs
from hpme.graphs import GraphBatch, GraphStore
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import Model
from hpme.models.task import Task
from hpme.progress import progress_bar

logger = logging.getLogger("hpme")
SEARCH_EDGES = 50_000
"""A scorer for all graphs needs no more to be found, and large graphs would take long."""
HOST_FIELDS = (
    "x",
    "local_edge_index",
    "sizes",
    "edge_counts",
    "edge_attr",
    "edge_weight",
    "anchors",
)


class HPMEExplainer(MixingExplainer):
    r"""Explains graph-level models by hard-perturbation mixup.

    A pooling operator :math:`Q_\phi` picks :math:`m` nodes of :math:`G`; their subgraph replaces
    the pooled subgraph of another real graph :math:`G'`; an edge MLP :math:`P_\theta` learns edge
    probabilities such that the model predicts :math:`f(G)` on the mix (Eqs. str_mixup, bce_loss,
    finall_loss of the paper). Works for classification and regression.

    By default the pool is found by searching hard selections under the hard mix and the edge MLP
    is distilled from it (``search="subsets"``). ``search="gradient"`` trains both together on the
    paper's objective. :attr:`report` says how good the evidence for the result is.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`; ``"auto"`` chooses it without labels, see
            :func:`~hpme.explainers.hpme.ratio.choose_ratio`.
        k: Number of pooled nodes, in place of ``ratio``.
        search: ``"subsets"`` or ``"gradient"``.
        score: What ``edge_mask`` holds: ``"edge"``, the probabilities :math:`p_{ij}` of the edge
            MLP; ``"node"``, the lower relative rank of an edge's two nodes in the pool; or
            ``"both"``, the mean of :math:`p_{ij}` and the indicator of the pooled subgraph.
        neighbor: How :math:`G'` is drawn: a graph of another prediction (``"contrast"``), any
            (``"random"``), or the most (``"near"``) or least (``"far"``) similar of a few.
        attach: Where boundary edges go: ``"swap"`` or the paper's ``"rank"``, see
            :func:`~hpme.explainers.hpme.mixup.structural_mixup`.
        restarts: Independent chains of the subset search.
        rounds: Rounds of each chain.
        subsets: Proposed subsets per graph and round.
        refine: Steps of the refinement that follows where the rounds leave disagreement; 0 for
            none.
        epochs: Epochs of the edge MLP on the chosen pool.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        search_graphs: The pool is searched on at most this many of the graphs, and on fewer if
            they have more than :data:`SEARCH_EDGES` edges together.
        mixup: Gradient search only. If false, the model sees the pooled subgraph alone (ablation
            w/o Mix).
        bce_weight: Gradient search only. Weight :math:`\beta` of the mean BCE on the chosen pool;
            while the pool is searched it grows from 3 % to 30 % of that. 0 is the ablation w/o BCE.
        pool_layers: Gradient search only. Pooling layers :math:`L`.
        gate: Gradient search only. ``"tanh"`` multiplies transplanted features by
            :math:`\tanh(s)`; ``None`` is the paper's equation to the letter, which leaves
            :math:`\phi` without a gradient.
        temperature: Gradient search only. :math:`\tau` of the binary concrete distribution.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    slug = "hpme"
    title = "HPME"
    summary = "Hard-perturbation mixup: a pooled subgraph that carries the prediction elsewhere."
    typical_seconds = 9.0
    chooses_size = True

    def __init__(
        self,
        *,
        ratio: float | Literal["auto"] | None = "auto",
        k: int | None = None,
        search: Literal["subsets", "gradient"] = "subsets",
        score: Literal["edge", "node", "both"] = "both",
        neighbor: Neighbor = "contrast",
        attach: Attach = "swap",
        restarts: int = 4,
        rounds: int = 4,
        subsets: int = 16,
        refine: int = 12,
        epochs: int = 80,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        search_graphs: int = 512,
        mixup: bool = True,
        bce_weight: float = 10.0,
        pool_layers: int = 1,
        gate: Literal["tanh"] | None = "tanh",
        temperature: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ratio, self.k, self.search, self.score = ratio, k, search, score
        self.neighbor, self.attach = neighbor, attach
        self.restarts, self.rounds, self.subsets, self.refine = restarts, rounds, subsets, refine
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay
        self.search_graphs = search_graphs
        self.mixup, self.bce_weight, self.pool_layers = mixup, bce_weight, pool_layers
        self.gate, self.temperature = gate, temperature
        self._check()
        self.size: PoolSize | None = None  # chosen by fit()
        if ratio != "auto" or k is not None:
            self.size = PoolSize(None if ratio == "auto" else ratio, k)
        self.task: Task | None = None
        self.pool: Pool | None = None
        self.rival: Pool | None = None
        self.edge_mlp: EdgeMLP | None = None
        self.report: FitReport | None = None

    def _check(self) -> None:
        choices = {
            "search": ("subsets", "gradient"),
            "score": ("edge", "node", "both"),
            "neighbor": get_args(Neighbor),
            "attach": get_args(Attach),
            "gate": ("tanh", None),
        }
        for name, valid in choices.items():
            if getattr(self, name) not in valid:
                raise InputError(f"{name} must be one of {valid}, got {getattr(self, name)!r}")
        for name in ("restarts", "rounds", "epochs", "search_graphs", "pool_layers"):
            at_least(name, getattr(self, name), 1)
        at_least("subsets", self.subsets, 4)
        at_least("refine", self.refine, 0)
        at_least("weight_decay", self.weight_decay, 0)
        for name in ("lr", "temperature"):
            positive(name, getattr(self, name))
        if self.search == "subsets":
            defaults = inspect.signature(type(self).__init__).parameters
            for name in ("mixup", "bce_weight", "pool_layers", "gate", "temperature"):
                if getattr(self, name) != defaults[name].default:
                    raise InputError(f"{name} belongs to search='gradient'; set that too")

    def _fit(self, context: TargetContext, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.task = context.task
        self._keep_hosts(context.store.subset(spread_over(context.values)))
        curve = None
        if self.ratio == "auto" and self.k is None:
            curve = self._choose_ratio(context, generator, progress)
        few = self._mix(context.sample(self.search_graphs, SEARCH_EDGES, generator), generator)
        everything = few if few.context is context else self._mix(context, generator)
        if self.search == "subsets":
            self._fit_by_subsets(few, everything, progress)
        else:
            self._fit_by_gradient(few, everything, progress)
        self.requires_grad_(False)
        assert self.report is not None
        self.report = replace(self.report, ratio_curve=curve)
        logger.info(self.report.summary())
        for warning in self.report.warnings:
            logger.warning(warning)

    def _choose_ratio(
        self, context: TargetContext, generator: torch.Generator, progress: bool
    ) -> list[RatioPoint]:
        self.size = PoolSize(RATIOS[0])  # each trial has its own
        trial = self._mix(context.sample(TRIAL_GRAPHS, SEARCH_EDGES, generator), generator)
        with progress_bar("choosing the ratio", len(RATIOS), enabled=progress) as advance:
            curve = ratio_curve(trial, advance=advance)
        self.size = PoolSize(choose_ratio(curve))
        return curve

    def _mix(self, context: TargetContext, generator: torch.Generator) -> HardMix:
        assert self.size is not None
        return HardMix.build(
            context, self.size, self.neighbor, self.attach, generator, self.batch_size
        )

    def _fit_by_subsets(self, few: HardMix, everything: HardMix, progress: bool) -> None:
        search = SubsetSearch(self.restarts, self.rounds, self.subsets, self.refine)
        with progress_bar("searching the pool", search.steps(), enabled=progress) as advance:
            candidates = search.find(few, advance=advance)
        self.pool = candidates.pools[candidates.order()[0]]
        self.rival = candidates.rival()
        self.report = report_on(few, self.pool, candidates, self.search)
        keep = selection_of(everything, self.pool).keep[0]
        with progress_bar("training the edge MLP", self.epochs, enabled=progress) as advance:
            self.edge_mlp = fit_edge_mlp(
                everything,
                keep,
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                batch_size=self.batch_size,
                advance=advance,
            )

    def _fit_by_gradient(self, few: HardMix, everything: HardMix, progress: bool) -> None:
        search = GradientSearch(
            beta=(0.03 * self.bce_weight, 0.3 * self.bce_weight),
            lr=self.lr,
            weight_decay=self.weight_decay,
        )
        total = search.steps() + self.epochs
        with progress_bar("training pool and edge MLP", total, enabled=progress) as advance:
            self.pool, self.edge_mlp = search.find(
                self._objective(few),
                layers=self.pool_layers,
                batch_size=self.batch_size,
                advance=advance,
            )
            self.report = report_on(few, self.pool, None, self.search)
            optimiser = torch.optim.Adam(
                self.edge_mlp.parameters(), lr=self.lr, weight_decay=self.weight_decay
            )
            objective = self._objective(everything)
            for _ in range(self.epochs):
                train_epoch(
                    objective, self.pool, self.edge_mlp, optimiser, self.bce_weight,
                    self.batch_size, gate=False,
                )  # fmt: skip
                advance(1)

    def _objective(self, mix: HardMix) -> Objective:
        return Objective(mix, self.mixup, self.gate is not None, self.temperature)

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        assert self.pool is not None and self.edge_mlp is not None and self.size is not None
        if graphs.num_nodes == 0:
            empty = graphs.x.new_zeros(0)
            return Masks(empty, empty.view(0, 1), empty.bool())
        h = adapter.embed(graphs, **model_kwargs).nodes
        m = self.size(graphs.sizes)
        rank = rank_nodes(self.pool(hop_features(h, graphs), graphs, m), graphs)[0]
        pooled = rank < m[graphs.batch]
        importance = 1 - rank / (graphs.sizes - 1).clamp(min=1)[graphs.batch].to(h.dtype)
        source, target = graphs.edge_index
        if self.score == "node":
            edge_mask = torch.minimum(importance[source], importance[target])
        else:
            edge_mask = self.edge_mlp(h, graphs.edge_index).sigmoid()
        if self.score == "both":
            edge_mask = (edge_mask + (pooled[source] & pooled[target]).to(h.dtype)) / 2
        return Masks(edge_mask, importance.unsqueeze(1), pooled)

    def _mixup_graphs(self, context: TargetContext, generator: torch.Generator) -> MixupGraphs:
        assert self.pool is not None and self.edge_mlp is not None
        hard, store = self._mix(context, generator), context.store
        partners = torch.arange(len(store))
        if self.mixup:
            partners = hard.neighbors.draw(partners)
        source, host = store.batch(with_pairs=True), store.batch(partners, with_pairs=True)
        chosen, removed = (
            hard.select_one(hard.score(self.pool, part), part) for part in (source, host)
        )
        mix = structural_mixup(source, chosen, host, removed, generator, self.attach)
        h = mix.per_node(context.h[host.node_ids], context.h[source.node_ids])
        probability = self.edge_mlp(h, mix.pair_index).sigmoid()
        outside = 1 - probability if self.mixup else torch.zeros_like(probability)
        weight = torch.where(mix.transplanted, probability, outside)
        return MixupGraphs.of(
            mix.graphs, mix.per_edge(weight), mix.per_edge(mix.transplanted), partners
        )

    def quality(self, model: Model, graphs: Iterable[Any]) -> list[Quality]:
        """What can be said about the explanation of every graph without ground truth.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or of explanations, or a loader.
        """
        self._check_fitted()
        assert self.pool is not None and self.task is not None
        store = GraphStore.from_graphs(graphs)
        generator = torch.Generator().manual_seed(self.seed)
        result: list[Quality] = []
        for ids in batches(torch.arange(len(store)), self.batch_size):
            mixed = store.subset(ids).joined(self._hosts())
            with self._context(model, mixed, task=self.task) as context:
                mix = self._mix(context, generator)
                result += quality_of(mix, ids.numel(), self.pool, self.rival)
        return result

    def _keep_hosts(self, store: GraphStore) -> None:
        """A few of the fitted graphs stay with the explainer, as hosts for :meth:`quality`."""
        for name in HOST_FIELDS:
            self.register_buffer(f"host_{name}", getattr(store, name))

    def _hosts(self) -> GraphStore:
        return GraphStore.of(**{name: getattr(self, f"host_{name}") for name in HOST_FIELDS})

    def _meta(self) -> dict[str, Any]:
        assert self.pool is not None and self.report is not None
        assert self.size is not None and self.task is not None
        return {
            "channels": self.pool.bias.shape[-1],
            "hops": self.pool.hops,
            "report": self.report.to_dict(),
            "ratio": self.size.ratio,
            "rival": self.rival is not None,
            "task": asdict(self.task),
        }

    def _build(self, meta: dict[str, Any]) -> None:
        generator, hops = torch.Generator(), tuple(meta["hops"])
        self.pool = Pool(meta["channels"], 1, self.pool_layers, hops, generator=generator)
        if meta["rival"]:
            self.rival = Pool(meta["channels"], 1, self.pool_layers, hops, generator=generator)
        self.edge_mlp = EdgeMLP(meta["channels"], generator=generator)
        self.report = FitReport.from_dict(meta["report"])
        self.size = PoolSize(meta["ratio"], self.k)
        self.task = Task(**meta["task"])
        self.requires_grad_(False)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Takes the sizes of the kept hosts from the saved tensors."""
        hosts = {name: state_dict.get(f"host_{name}") for name in HOST_FIELDS}
        for name, value in hosts.items():
            self.register_buffer(f"host_{name}", value)
        return super().load_state_dict(state_dict, *args, **kwargs)
