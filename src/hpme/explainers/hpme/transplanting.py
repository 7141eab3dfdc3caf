"""Explainers that keep real graphs as hosts, and what transplants into them tell."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from hpme.errors import InputError
from hpme.explainers.hpme import quality as qualities
from hpme.explainers.hpme import transplants as hosting
from hpme.explainers.hpme.audit import Audit, audit_of
from hpme.explainers.hpme.counterfactuals import Counterfactual, Flip, graph_counterfactuals
from hpme.explainers.hpme.effects import Effect, effects_of
from hpme.explainers.hpme.grafting import Featurise, Featuriser, Grafting, default_featurise
from hpme.explainers.hpme.judging import By, Judgement, judge_regions, judgement, named_masks
from hpme.explainers.hpme.molecules import molecule_counterfactuals
from hpme.explainers.hpme.pattern_effects import NamedPattern
from hpme.explainers.hpme.patterns import LARGEST, Vocabulary
from hpme.explainers.hpme.quality import Alternative, Quality
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.rulebook import RuleBook
from hpme.explainers.hpme.rules import Learner, learned_part
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import HOST, SEEN, Transplants
from hpme.explainers.shared.context import Context, batches, frozen_context, read_graphs
from hpme.explainers.shared.explanation import Explanation, HeteroExplanation, set_quality
from hpme.explainers.shared.options import at_least
from hpme.explainers.shared.sources import nothing
from hpme.explainers.shared.templates import MixingExplainer
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.patterns import graph_codes
from hpme.models.explained import Model
from hpme.models.output import Task
from hpme.progress import progress_bar

logger = logging.getLogger("hpme")
T = TypeVar("T")
Ask = Callable[[Transplants, GraphStore, Tensor], list[T]]
MOLECULES = 128
"""Molecules kept as text: more than graphs, since a region does not fit every one."""
UNPROVEN = "Unclear: the fit found no evidence that such regions carry predictions."
ONE_ANSWER = (
    "the model gives all graphs the same answer, so none has a region that could change it; give "
    "graphs with another answer as well (for molecules as donors), or another threshold"
)


class TransplantingExplainer(MixingExplainer):
    """Base of explainers with a pool, which can put nodes of any graph into the hosts they keep.

    Each public method takes the model the explainer was fitted to, which is left exactly as it was,
    makes :class:`~hpme.explainers.hpme.transplants.Transplants` of the graphs (a dataset, a list of
    ``Data`` or of explanations, or a loader), and hands them to the function that knows.
    """

    molecules: list[str]
    """SMILES of molecules of all predictions that stay with the explainer, as hosts of grafts."""
    task: Task | None
    pool: nn.Module | None
    rival: nn.Module | None
    report: FitReport | None

    @abstractmethod
    def hard_mix(self, context: Context, generator: torch.Generator) -> HardMix:
        """Hard mixes of the graphs of a context, as this explainer pools and joins them."""

    @abstractmethod
    def _ranked(self, score: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """Importance of nodes, and which are pooled, by scores ``[P, N]``."""

    def quality(self, model: Model, graphs: Iterable[Any], *, proofs: bool = True) -> list[Quality]:
        """What can be said about the explanation of every graph without ground truth.

        Args:
            model: The model.
            graphs: Explanations in a list have it as ``quality`` afterwards, and the rest of their
                reason as ``rest``.
            proofs: Whether the transplants are kept, so that ``explanation.proof()`` draws them.
        """

        def ask(transplants: Transplants, store: GraphStore, _: Tensor) -> list[Quality]:
            grafting = self._grafting(transplants.context, store)
            return qualities.quality_of(transplants, self.rival, grafting, proofs=proofs)

        found = self._by_parts(model, graphs, ask)
        if self.report is not None and self.report.evidence == "none":
            found = [one.doubted(UNPROVEN) for one in found]
        if isinstance(graphs, list):
            for explanation, quality in zip(graphs, found, strict=True):
                set_quality(explanation, quality)
        return found

    def judge(
        self,
        model: Model,
        graphs: Iterable[Any],
        masks: Any,
        *,
        hosts: Iterable[Any] | None = None,
        by: By | None = None,
    ) -> Judgement:
        """What transplants say about masks of any explainer, beside HPME's own and random ones.

        Args:
            model, graphs: The model, and graphs that are held at once.
            masks: For each graph a value per node or edge, or an ``Explanation``; or one tensor for
                all of them, or a table in a file, see
                :func:`~hpme.explainers.hpme.judging.read_masks`; or several of these by name. What
                is 0 and 1 alone marks a region, of others the best nodes count, as many as pooled.
            hosts: Graphs that regions are put into; by default those kept by :meth:`fit`. Give
                graphs that no explainer has seen to compare explainers.
            by: Whether masks are about nodes or edges; by default what their lengths say.
        """
        store = self._read(model, graphs)
        scores = named_masks(masks, store, by)
        others = None if hosts is None else self._read(model, hosts)

        def ask(transplants: Transplants, part: GraphStore, rows: Tensor) -> list[Any]:
            grafting = self._grafting(transplants.context, part, others)
            some = {name: score[rows] for name, score in scores.items()}
            return [judge_regions(transplants, some, grafting)]

        return judgement(self._by_parts(model, store, ask, others), store)

    def _grafting(
        self, context: Context, store: GraphStore, hosts: GraphStore | None = None
    ) -> Grafting | None:
        """Grafts between molecules; ``None`` if it is not known how the model reads them."""
        kept = self.molecules if hosts is None else hosts.text.get("smiles", ())
        known = all(kept) and kept and Featuriser.of(context.adapter.explained, store)
        return Grafting(context, known, kept, self.seed) if known else None

    def alternatives(
        self, model: Model, graphs: Iterable[Any], n: int = 3
    ) -> list[list[Alternative]]:
        """At most ``n`` distinct subgraphs of every graph that carry its prediction, best first.

        None where nothing in the graph carries it, as where it rests on something missing.
        """
        at_least("n", n, 1)
        return self._by_parts(model, graphs, lambda part, *_: qualities.alternatives_of(part, n))

    def effects(
        self, model: Model, graphs: Iterable[Any], *, draws: int = 16, nodes: bool = True
    ) -> list[Effect]:
        """Whether pooled regions and single nodes raise or lower the output, and by how much.

        Args:
            model: The model.
            graphs: Explanations in a list have their ``effect`` as an attribute afterwards.
            draws: Hosts per graph; more give narrower intervals.
            nodes: Whether single nodes are asked about; that takes a mix per node and host.
        """
        at_least("draws", draws, 1)

        def ask(transplants: Transplants, store: GraphStore, _: Tensor) -> list[Effect]:
            grafting = self._grafting(transplants.context, store)
            pooled = transplants.pooled[: len(store.x)]
            left = grafting.without(store, pooled, draws, nodes=nodes) if grafting else None
            return effects_of(transplants, draws=draws, nodes=nodes, without=left)

        found = self._by_parts(model, graphs, ask)
        if isinstance(graphs, list):
            for explanation, effect in zip(graphs, found, strict=True):
                if isinstance(explanation, Explanation | HeteroExplanation):
                    explanation.effect = effect
        return found

    def rules(
        self,
        model: Model,
        graphs: Iterable[Any],
        *,
        unseen: float = 0.3,
        classes: Sequence[str] | None = None,
        progress: bool = True,
    ) -> RuleBook:
        """What the model has learned, as a short ordered list of rules about subgraphs.

        Pooled subgraphs of the graphs are grouped; those that tell predictions apart become
        conditions, alone or together. Among conditions that do so equally well, the one is taken
        that carries the prediction when it is transplanted, and is pooled as a whole.

        Args:
            model, graphs: The model, and graphs that are held at once.
            unseen: Share of the graphs that rules are not learned from, to measure them on.
            classes: Names of the classes; by default those the model is known with.
            progress: Whether to draw a progress bar (on terminals only).
        """
        store = self._leveled(model, None).read(graphs)
        learned = learned_part(len(store), unseen, self.seed)
        with (
            self._transplants(model, store) as transplants,
            progress_bar("learning rules", LARGEST, enabled=progress) as advance,
        ):
            names = qualities.class_names(transplants.context, classes)
            grafting = self._grafting(transplants.context, store)
            return Learner(transplants, store, names, learned, grafting).learn(advance)

    def counterfactuals(
        self,
        model: Model,
        graphs: Iterable[Any],
        n: int = 3,
        *,
        threshold: float | None = None,
        donors: Iterable[Any] | None = None,
        featurise: Featurise | None = None,
        progress: bool = True,
    ) -> list[list[Counterfactual]]:
        """What would change the answer: small regions replaced by regions of other real graphs.

        Graphs with ``smiles`` give molecules that RDKit sanitises, and what counts is the model's
        prediction for these. Of a graph for which nothing was found, the list is empty; if all
        graphs get the same answer, all lists are, and a warning says so.

        Args:
            model, graphs: The model, and graphs that are held at once.
            n: How many different ones to return for each graph, the smallest change first.
            threshold: For values: the answer is on which side of it they are.
            donors: For molecules: others, with another answer, that may give regions.
            featurise: For molecules: graphs of a list of SMILES, as the model was trained on them;
                by default as the model is known to be, else hpme's own features.
            progress: Whether to draw a progress bar (on terminals only).
        """
        at_least("n", n, 1)
        explained = self._leveled(model, None)
        store = explained.read(graphs)
        if store.anchors is not None:
            raise InputError(
                "counterfactuals are graphs with another answer, and these are asked about nodes or"
                " links; explain a model of whole graphs, or ask quality() what a node depends on"
            )
        count, molecules = len(store), Vocabulary.of(store).molecules
        if donors is not None and molecules:
            others = explained.read(donors)
            if not Vocabulary.of(others).molecules:
                raise InputError(
                    "the graphs are molecules and the donors are not; give donors with smiles that "
                    "RDKit reads, or none"
                )
            store = store.joined(others)
        with self._transplants(model, store) as transplants:
            flip = Flip(transplants.context, threshold)
            made = None
            if molecules:
                made = featurise or explained.featurise or default_featurise(store)
            if not flip.differ(len(store) if molecules else None):
                logger.warning(ONE_ANSWER)
                return [[] for _ in range(count)]
            if made is None:
                return graph_counterfactuals(transplants, flip, n)
            score = transplants.score[0, : len(store.x)].sigmoid().cpu()
            with progress_bar("editing molecules", count, enabled=progress) as advance:
                return molecule_counterfactuals(store, count, score, flip, n, made, advance)

    def audit(
        self,
        model: Model,
        graphs: Iterable[Any],
        should: str | Sequence[Tensor],
        should_not: str | Sequence[Tensor] | None = None,
    ) -> Audit:
        """Does the model read what it should? Average effects of moving given patterns say so.

        Args:
            model, graphs: The model, and graphs that are held at once.
            should: What should matter: SMARTS for molecules, else a node mask for each graph.
            should_not: What should not.
        """
        store = self._leveled(model, None).read(graphs)
        ours = NamedPattern.of(store, should, "should")
        other = None if should_not is None else NamedPattern.of(store, should_not, "should_not")
        with self._transplants(model, store) as transplants:
            grafting = self._grafting(transplants.context, store, store)
            return audit_of(transplants, ours, other, grafting)

    def _read(self, model: Model, graphs: Iterable[Any]) -> GraphStore:
        return read_graphs(self, self._leveled(model, None), graphs).store

    def _by_parts(
        self, model: Model, graphs: Iterable[Any], ask: Ask[T], hosts: GraphStore | None = None
    ) -> list[T]:
        """Answers about a batch at a time; ``ask`` is told which nodes of the store are in it."""
        store = graphs if isinstance(graphs, GraphStore) else self._read(model, graphs)
        found: list[T] = []
        for ids in batches(torch.arange(len(store)), self.batch_size):
            part, rows = store.subset(ids), torch.isin(store.node_graph.cpu(), ids)
            with self._transplants(model, part, hosts) as transplants:
                found += ask(transplants, part, rows)
        return found

    @contextmanager
    def _transplants(
        self, model: Model, store: GraphStore, hosts: GraphStore | None = None
    ) -> Iterator[Transplants]:
        """Transplants between graphs and hosts, the kept ones, while the model is frozen."""
        self._check_one_target()
        assert self.pool is not None
        hosts = self.hosts if hosts is None else hosting.hosts_from(hosting.host_tensors(hosts))
        if hosts.x.shape[1:] == (0,):  # the model reads no x
            store = store.with_attributes(node={"x": nothing(store.x)})
        mixed = store.joined(hosts)
        explained = self._leveled(model, mixed.anchors)
        known = (self.task, self.weighting)  # mixes are asked about without weights of edges
        with torch.no_grad(), frozen_context(self, explained, mixed, *known) as context:
            mix = self.hard_mix(context, torch.Generator().manual_seed(self.seed))
            score = mix.scores(self.pool)
            yield Transplants.of(mix, len(store), score, self._ranked(score, mix.graphs)[1])

    def _check_one_target(self) -> None:
        self._check_fitted()
        if self.answers:
            raise InputError(
                "the explainer was fitted to several targets; ask explainer.answers[target]"
            )

    def _keep(self, context: Context) -> None:
        """What the model's output means, and a few graphs as hosts, stay with the explainer."""
        self.task = context.task
        hosts = hosting.host_tensors(context.store.subset(hosting.spread_over(context.values)))
        self._set_hosts({**hosts, SEEN: graph_codes(context.store)})
        smiles = context.store.text.get("smiles", ())
        chosen = hosting.spread_over(context.values, MOLECULES).tolist() if all(smiles) else ()
        self.molecules = [smiles[i] for i in chosen] if smiles else []

    @property
    def hosts(self) -> GraphStore:
        """Graphs of all predictions that stay with the explainer, as hosts of transplants."""
        return hosting.hosts_from(dict(self.named_buffers()))

    def _set_hosts(self, tensors: Mapping[str, Tensor]) -> None:
        for name in [name for name in self._buffers if name.startswith((HOST, SEEN))]:
            del self._buffers[name]
        for name, value in tensors.items():
            self.register_buffer(name, value)

    def _check_learned(self) -> None:
        self.hosts.check()

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Takes the sizes of the kept hosts from the saved tensors."""
        kept = {name: v for name, v in state_dict.items() if name.startswith((HOST, SEEN))}
        self._set_hosts(kept)
        return super().load_state_dict(state_dict, *args, **kwargs)
