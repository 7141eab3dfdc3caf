"""What the two HPMEs share: how much is pooled, what a mask holds, saving."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import asdict, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from hpme.errors import InputError
from hpme.explainers.hpme.grafting import Featuriser
from hpme.explainers.hpme.guarantee import Guarantee, guarantee_of
from hpme.explainers.hpme.method.mixer import Neighbor
from hpme.explainers.hpme.method.mixup import Attach, mix_mask
from hpme.explainers.hpme.method.pool import PoolSize, propagate, tied, top_nodes
from hpme.explainers.hpme.pairs import PairDifferences, check_pairs, differences
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.search.distil import standardise
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplanting import TransplantingExplainer
from hpme.explainers.shared.context import Context, frozen_context
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.options import Count, Share
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.explainers.shared.templates import MixupGraphs
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.segment import segment_mean, segment_sum
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding
from hpme.models.explained import Model
from hpme.models.output import Task

logger = logging.getLogger("hpme")
Score = Literal["edge", "node", "both"]
Self = TypeVar("Self", bound="HPMEBase")


class HPMEBase(TransplantingExplainer):
    r"""A pool :math:`Q_\phi` and an edge MLP :math:`P_\theta`; subclasses say how they are found.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`; ``"auto"`` chooses it without labels, see
            :func:`~hpme.explainers.hpme.search.ratio.choose_ratio`.
        k: Number of pooled nodes, in place of ``ratio``.
        score: What ``edge_mask`` holds: ``"node"``, the lower importance of an edge's two nodes;
            ``"edge"``, the probabilities :math:`p_{ij}` of an edge MLP, which is then trained; or
            ``"both"``, a mean of the two in which the former counts four times.
        neighbor: How :math:`G'` is drawn: a graph of another prediction (``"contrast"``), any
            (``"random"``), or the most (``"near"``) or least (``"far"``) similar of a few.
        attach: Where boundary edges go: ``"swap"``, ``"kind"`` or the paper's ``"rank"``, see
            :func:`~hpme.explainers.hpme.method.mixup.structural_mixup`.
        mixup: If false, the model is shown pooled subgraphs without a host (ablation w/o Mix),
            wherever something is searched, trained or chosen; the report still asks hard mixes.
        search_graphs: The pool is searched on at most this many of the graphs, and on fewer if
            they have very many edges together.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    chooses_size = True
    needs_weights = False  # the search asks about graphs, not about weights of edges
    promised = False
    """Whether regions are as large as a guarantee needs."""
    needed: Tensor
    """Nodes of more importance are needed to keep predictions; others are not shown as pooled."""

    def __init__(
        self,
        *,
        ratio: Share | Literal["auto"] | None = "auto",
        k: Count | None = None,
        score: Score = "node",
        neighbor: Neighbor = "contrast",
        attach: Attach = "swap",
        mixup: bool = True,
        search_graphs: Count = 512,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ratio, self.k, self.score = ratio, k, score
        self.neighbor, self.attach, self.mixup = neighbor, attach, mixup
        self.search_graphs = search_graphs
        self.size: PoolSize | None = None  # chosen by fit()
        if ratio != "auto" or k is not None:
            self.size = PoolSize(None if ratio == "auto" else ratio, k)
        self.task: Task | None = None
        self.pool: nn.Module | None = None
        self.rival: nn.Module | None = None
        self.edge_mlp: EdgeMLP | None = None
        self.report: FitReport | None = None
        self.molecules: list[str] = []
        self.register_buffer("needed", torch.zeros(()))

    # What the two do differently ################################################################

    def _represent(self, layers: tuple[Tensor, ...], h: Tensor, graphs: GraphBatch) -> Tensor:
        """What pools read ``[N, D]``; by default what the paper's do."""
        return propagate(h, graphs)

    def _scored(
        self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
    ) -> tuple[Embedding, Tensor]:
        """What the model computes, and scores ``[1, N]`` of what the pool reads of it."""
        assert self.pool is not None and self.size is not None
        embedding = adapter.embed(graphs, **model_kwargs)
        features = self._represent(embedding.layers, embedding.nodes, graphs)
        score: Tensor = self.pool(features, graphs, self.size(graphs.sizes))
        return embedding, score

    def _importance(self, score: Tensor, graphs: GraphBatch) -> Tensor:
        """Importance of nodes from 0 to 1, by scores ``[P, N]``; in a graph the order is theirs."""
        return (standardise(score, graphs) / 2).sigmoid()

    @abstractmethod
    def _pool_meta(self) -> dict[str, Any]:
        """What :meth:`_empty_pool` needs to know."""

    @abstractmethod
    def _empty_pool(self, meta: dict[str, Any]) -> nn.Module:
        """A pool ready for its tensors."""

    # Fitting ####################################################################################

    def context(
        self, model: Model, graphs: GraphStore, **facts: Any
    ) -> AbstractContextManager[Context]:
        """The frozen model on graphs, on which hard mixes of any selection can be asked about.

        Args:
            model: The model; it is left exactly as it was.
            graphs: The graphs.
            **facts: As for :meth:`fit`.
        """
        explained = self._leveled(model, graphs.anchors, **facts)
        return frozen_context(self, explained, graphs)

    def hard_mix(self, context: Context, generator: torch.Generator) -> HardMix:
        """Hard mixes of the graphs of a context, as this explainer pools and joins them."""
        assert self.size is not None
        form = self.size, self.neighbor, self.attach
        return HardMix.build(context, *form, generator, self._represent)

    def _finish(self, report: FitReport) -> None:
        self.report = report
        self.requires_grad_(False)
        logger.info(report.summary())
        for warning in report.warnings:
            logger.warning(warning)

    # Explaining #################################################################################

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        assert self.pool is not None and self.edge_mlp is not None and self.size is not None
        if graphs.num_nodes == 0:
            empty = torch.zeros(0, device=graphs.x.device)
            return Masks(empty, empty.view(0, 1), empty.bool())
        embedding, score = self._scored(adapter, graphs, **model_kwargs)
        importance, pooled = self._ranked(score, graphs)
        source, target = graphs.edge_index
        edge_mask = torch.minimum(
            importance.index_select(0, source), importance.index_select(0, target)
        )
        if self.score != "node":
            probability = self.edge_mlp.at_edges(embedding.nodes, graphs).sigmoid()
            edge_mask = probability if self.score == "edge" else (4 * edge_mask + probability) / 5
        return Masks(edge_mask, importance.unsqueeze(1), pooled, embedding.output)

    def _ranked(self, score: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """Importance of nodes, and which are pooled: of the ``m`` highest those that are needed."""
        assert self.size is not None
        chosen = top_nodes(score, graphs, self.size(graphs.sizes))
        # Nodes the model does not tell apart share their importance, and their place in the pool.
        twins = graphs.ptr.index_select(0, graphs.batch) + tied(score, chosen, graphs)
        importance = self._importance(score, graphs)[0]
        importance = segment_mean(importance, twins, graphs.num_nodes).index_select(0, twins)
        if graphs.anchors is not None:
            importance = importance.index_fill(0, graphs.anchors.flatten(), 1.0)
        needed = (importance > self.needed.to(importance)) | (chosen.order[0] == 0)
        pooled = (chosen.keep[0] & needed).to(importance)
        shared = segment_sum(pooled, twins, graphs.num_nodes).index_select(0, twins)
        return importance, shared > 0

    def _mixup_graphs(self, context: Context, generator: torch.Generator) -> MixupGraphs:
        assert self.pool is not None and self.edge_mlp is not None
        hard = self.hard_mix(context, generator)
        ids = torch.arange(len(context.store), device=context.device)
        partners = hard.draw_hosts(ids) if self.mixup else ids
        hosts = (lambda _: partners) if self.mixup else None
        pooled = hard.pooled_mixup(self.pool, ids, hosts)
        mix = pooled.mix
        probability = mix.transplanted.to(pooled.h)  # what the edge MLP would learn
        if self.score != "node":
            probability = self.edge_mlp(pooled.h, mix.pair_index).sigmoid()
        weight = mix_mask(probability, mix.transplanted, mixup=self.mixup)
        return MixupGraphs.of(
            mix.graphs, mix.per_edge(weight), mix.per_edge(mix.transplanted), partners
        )

    # Explaining with a stated risk ###############################################################

    def guarantee(
        self,
        model: Model,
        graphs: Iterable[Any],
        alpha: float = 0.1,
        *,
        truth: Sequence[Tensor] | None = None,
    ) -> Guarantee:
        """How large regions must be so that on new graphs they carry predictions but for ``alpha``.

        It stays with the explainer, in its report: :meth:`showing` gives explanations of that size,
        for any ``alpha`` that can be reached. Those of :meth:`explain` stay as they are.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader: graphs that :meth:`fit` was not
                given, of the kind that will be explained. Those it was given are left out.
            alpha: Largest share of the prediction that shown nodes may fail to carry, on average.
            truth: A mask of nodes for each graph, to guarantee instead that at most ``alpha`` of
                these nodes are not shown; graphs without any do not count.

        Raises:
            InputError: If ``alpha`` cannot be reached, or all graphs were fitted on.
        """
        found = guarantee_of(self, model, graphs, alpha, truth)
        assert self.report is not None
        self.report = replace(self.report, guarantee=found)
        return found

    def showing(self: Self, alpha: float | None = None) -> Self:
        """This explainer with regions as large as its guarantee needs.

        Args:
            alpha: Largest risk; by default that :meth:`guarantee` was asked for.

        Raises:
            InputError: If there is no guarantee, or none for ``alpha``.
        """
        self._check_one_target()
        assert self.report is not None
        known = self.report.guarantee
        if known is None:
            raise InputError("no guarantee yet: call explainer.guarantee(model, new_graphs, alpha)")
        found = known if alpha is None else known.at(alpha)
        other = self._with_needed(found.threshold)
        other.report, other.promised = replace(self.report, guarantee=found), True
        return other

    def explain(self, model: Model, graphs: Iterable[Any], **options: Any) -> list[Any]:
        """As of the base; warns of graphs unlike those that :meth:`showing` was calibrated on."""
        found = super().explain(model, graphs, **options)
        if self.promised and self.report is not None and self.report.guarantee is not None:
            unlike = self.report.guarantee.unlike(found)
            if unlike:
                logger.warning(unlike)
        return found

    def _with_needed(self: Self, threshold: float) -> Self:
        """A copy that shows nodes of the pool of more importance than a threshold."""
        other = copy(self)
        other._buffers = {**self._buffers, "needed": torch.tensor(threshold)}
        return other

    def pairs(self, model: Model, a: Iterable[Any], b: Iterable[Any]) -> PairDifferences:
        """Why outputs differ between graphs and others that are much like them.

        Both graphs of a pair have a common core: of molecules RDKit finds it, nodes of other graphs
        are matched by what is around them. What is left falls into parts; each of them is exchanged
        in place. Of molecules whose features are known to be made of SMILES, what results is a
        molecule that RDKit sanitises, and all features are made anew; where there is none, all
        parts count as one. It takes no fit.

        Args:
            model: The model; it is left exactly as it was.
            a: The first graphs of the pairs: a dataset, a list of ``Data`` or a loader.
            b: The second ones.

        Raises:
            InputError: If these are no pairs, or have types.
        """
        explained = self._leveled(model, None)
        first, second = explained.read(a), explained.read(b)
        check_pairs(first, second)
        order = torch.arange(2 * len(first)).view(2, -1).T.flatten()
        store = first.joined(second).subset(order)
        with frozen_context(self, explained, store, self.task) as context:
            return differences(context, store, Featuriser.of(explained, store))

    # Saving #####################################################################################

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
            "molecules": self.molecules,
        }

    def _build(self, meta: dict[str, Any]) -> None:
        generator, channels = torch.Generator(), meta["channels"]
        form = {"channels": channels, **meta["pool"]}
        self.pool = self._empty_pool(form)
        self.rival = self._empty_pool(form) if meta["rival"] else None
        self.edge_mlp = EdgeMLP(channels, generator=generator)
        self.report = FitReport.from_dict(meta["report"])
        self.report.summary()  # refuses what is not to be shown
        self.size = PoolSize(meta["ratio"], self.k)
        self.task = Task(**meta["task"])
        self.molecules = [str(smiles) for smiles in meta.get("molecules", ())]
        self.requires_grad_(False)
