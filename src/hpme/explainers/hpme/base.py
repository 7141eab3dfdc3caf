"""What the two HPMEs share: how much is pooled, what a mask holds, hosts, quality, saving."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.effects import Effect, effects_of
from hpme.explainers.hpme.method.mask import mix_mask
from hpme.explainers.hpme.method.mixup import Attach
from hpme.explainers.hpme.method.pool import Pool, PoolSize, hop_features
from hpme.explainers.hpme.method.selection import tied, top_nodes
from hpme.explainers.hpme.quality import Quality, quality_of, spread_over
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.hosts import Neighbor
from hpme.explainers.hpme.search.ratio import (
    RATIOS,
    TRIAL_GRAPHS,
    RatioPoint,
    choose_ratio,
    ratio_curve,
)
from hpme.explainers.shared.checks import at_least, positive
from hpme.explainers.shared.context import TargetContext, batches
from hpme.explainers.shared.edge_mlp import EdgeMLP
from hpme.explainers.shared.explanation import Explanation
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.mixing import MixingExplainer, MixupGraphs
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.tensors import from_tensors, to_tensors
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import Model
from hpme.models.task import Task
from hpme.progress import progress_bar

logger = logging.getLogger("hpme")
Score = Literal["edge", "node", "both"]
SEARCH_EDGES = 50_000
"""A scorer for all graphs needs no more to be found, and large graphs would take long."""
HOST = "host_"
"""What names of tensors of kept hosts begin with."""


class HPMEBase(MixingExplainer):
    r"""A pool :math:`Q_\phi` and an edge MLP :math:`P_\theta`; subclasses say how they are found.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`; ``"auto"`` chooses it without labels, see
            :func:`~hpme.explainers.hpme.search.ratio.choose_ratio`.
        k: Number of pooled nodes, in place of ``ratio``.
        score: What ``edge_mask`` holds: ``"edge"``, the probabilities :math:`p_{ij}` of the edge
            MLP; ``"node"``, the lower relative rank of an edge's two nodes in the pool; or
            ``"both"``, the mean of :math:`p_{ij}` and the indicator of the pooled subgraph.
        neighbor: How :math:`G'` is drawn: a graph of another prediction (``"contrast"``), any
            (``"random"``), or the most (``"near"``) or least (``"far"``) similar of a few.
        attach: Where boundary edges go: ``"swap"`` or the paper's ``"rank"``, see
            :func:`~hpme.explainers.hpme.method.mixup.structural_mixup`.
        epochs: Epochs of the edge MLP on the chosen pool.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        search_graphs: The pool is searched on at most this many of the graphs, and on fewer if
            they have more than :data:`SEARCH_EDGES` edges together.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    chooses_size = True
    needs_weights = False  # the search asks about graphs, not about weights of edges
    mixup: bool = True
    """Whether the model is shown mixups; the ablation w/o Mix shows it the pooled subgraph."""

    def __init__(
        self,
        *,
        ratio: float | Literal["auto"] | None = "auto",
        k: int | None = None,
        score: Score = "both",
        neighbor: Neighbor = "contrast",
        attach: Attach = "swap",
        epochs: int = 80,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        search_graphs: int = 512,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ratio, self.k, self.score = ratio, k, score
        self.neighbor, self.attach = neighbor, attach
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay
        self.search_graphs = search_graphs
        for name, choices in (("score", Score), ("neighbor", Neighbor), ("attach", Attach)):
            if getattr(self, name) not in get_args(choices):
                given = getattr(self, name)
                raise InputError(f"{name} must be one of {get_args(choices)}, got {given!r}")
        for name, least in (("epochs", 1), ("search_graphs", 1), ("weight_decay", 0)):
            at_least(name, getattr(self, name), least)
        positive("lr", lr)
        self.size: PoolSize | None = None  # chosen by fit()
        if ratio != "auto" or k is not None:
            self.size = PoolSize(None if ratio == "auto" else ratio, k)
        self.task: Task | None = None
        self.pool: Pool | None = None
        self.rival: Pool | None = None
        self.edge_mlp: EdgeMLP | None = None
        self.report: FitReport | None = None

    @abstractmethod
    def _search(self, few: HardMix, everything: HardMix, *, progress: bool) -> FitReport:
        """Finds the pool on a few graphs, trains the edge MLP on all of them."""

    def _fit(self, context: TargetContext, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.task = context.task
        self._keep_hosts(context.store.subset(spread_over(context.values)))
        curve = None
        if self.ratio == "auto" and self.k is None:
            curve = self._choose_ratio(context, generator, progress)
        few = self._mix(context.sample(self.search_graphs, SEARCH_EDGES, generator), generator)
        everything = few if few.context is context else self._mix(context, generator)
        report = self._search(few, everything, progress=progress)
        self.report = replace(report, ratio_curve=curve)
        self.requires_grad_(False)
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

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        assert self.pool is not None and self.edge_mlp is not None and self.size is not None
        if graphs.num_nodes == 0:
            empty = graphs.x.new_zeros(0)
            return Masks(empty, empty.view(0, 1), empty.bool())
        h = adapter.embed(graphs, **model_kwargs).nodes
        m = self.size(graphs.sizes)
        score = self.pool(hop_features(h, graphs), graphs, m)
        # Nodes the model does not tell apart share their ranks, and their places in the pool.
        ties = tied(score, top_nodes(score, graphs, m), graphs)
        share = ((m[graphs.batch] - ties.first) / ties.count).clamp(0, 1)
        importance = 1 - ties.rank / (graphs.sizes - 1).clamp(min=1)[graphs.batch].to(h.dtype)
        source, target = graphs.edge_index
        if self.score == "node":
            edge_mask = torch.minimum(importance[source], importance[target])
        else:
            edge_mask = self.edge_mlp(h, graphs.edge_index).sigmoid()
        if self.score == "both":
            inside = torch.minimum(share[source], share[target])
            edge_mask = (edge_mask + inside.to(h.dtype)) / 2
        return Masks(edge_mask, importance.unsqueeze(1), share > 0)

    def _mixup_graphs(self, context: TargetContext, generator: torch.Generator) -> MixupGraphs:
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
        result: list[Quality] = []
        for mix, count in self._mixes(model, graphs):
            assert self.pool is not None
            result += quality_of(mix, count, self.pool, self.rival)
        return result

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
        for mix, count in self._mixes(model, graphs):
            assert self.pool is not None
            result += effects_of(mix, count, self.pool, draws=draws, nodes=nodes)
        if isinstance(graphs, list):
            for explanation, effect in zip(graphs, result, strict=True):
                if isinstance(explanation, Explanation):
                    explanation.effect = effect
        return result

    def _mixes(self, model: Model, graphs: Iterable[Any]) -> Iterator[tuple[HardMix, int]]:
        """Graphs a batch at a time, joined with the kept hosts, and the number of graphs."""
        self._check_fitted()
        if self.answers:
            raise InputError(
                "the explainer was fitted to several targets; ask explainer.answers[target]"
            )
        store = self._leveled(model, None).read(graphs)
        generator = torch.Generator().manual_seed(self.seed)
        for ids in batches(torch.arange(len(store)), self.batch_size):
            mixed = store.subset(ids).joined(self._hosts())
            with self._context(model, mixed, task=self.task) as context:
                yield self._mix(context, generator), ids.numel()

    def _keep_hosts(self, store: GraphStore) -> None:
        """A few of the fitted graphs stay with the explainer, as hosts for :meth:`quality`."""
        node, graph = (
            {k: v for k, v in level.items() if k != "y"} for level in (store.node, store.graph)
        )
        kept = GraphStore(
            store.sizes, store.edge_counts, store.local_edge_index, node, store.edge, graph
        )
        tensors = to_tensors(kept)
        self._set_hosts({HOST + name.replace(".", "__"): v for name, v in tensors.items()})

    def _set_hosts(self, tensors: Mapping[str, Tensor]) -> None:
        for name in [name for name in self._buffers if name.startswith(HOST)]:
            del self._buffers[name]
        for name, value in tensors.items():
            self.register_buffer(name, value)

    def _hosts(self) -> GraphStore:
        kept = {name: value for name, value in self._buffers.items() if name.startswith(HOST)}
        return from_tensors(
            {name.removeprefix(HOST).replace("__", ".", 1): v for name, v in kept.items()}
        )

    def _meta(self) -> dict[str, Any]:
        assert self.pool is not None and self.report is not None
        assert self.size is not None and self.task is not None
        return {
            "channels": self.pool.bias.shape[-1],
            "layers": self.pool.layers,
            "hops": self.pool.hops,
            "report": self.report.to_dict(),
            "ratio": self.size.ratio,
            "rival": self.rival is not None,
            "task": asdict(self.task),
        }

    def _build(self, meta: dict[str, Any]) -> None:
        generator, channels = torch.Generator(), meta["channels"]
        form = (channels, 1, meta["layers"], tuple(meta["hops"]))
        self.pool = Pool(*form, generator=generator)
        self.rival = Pool(*form, generator=generator) if meta["rival"] else None
        self.edge_mlp = EdgeMLP(channels, generator=generator)
        self.report = FitReport.from_dict(meta["report"])
        self.size = PoolSize(meta["ratio"], self.k)
        self.task = Task(**meta["task"])
        self.requires_grad_(False)

    def _check_learned(self) -> None:
        self._hosts().check()

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Takes the sizes of the kept hosts from the saved tensors."""
        self._set_hosts({name: v for name, v in state_dict.items() if name.startswith(HOST)})
        return super().load_state_dict(state_dict, *args, **kwargs)
