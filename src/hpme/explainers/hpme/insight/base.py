"""Questions beyond one graph, as methods of HPME."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hpme.errors import InputError
from hpme.explainers.hpme.insight.audit import Audit, audited, pattern_nodes
from hpme.explainers.hpme.insight.candidates import LARGEST
from hpme.explainers.hpme.insight.counterfactual import (
    Counterfactual,
    Flip,
    graph_counterfactuals,
)
from hpme.explainers.hpme.insight.molecules import (
    Featurise,
    default_featurise,
    molecule_counterfactuals,
)
from hpme.explainers.hpme.insight.rulebook import RuleBook
from hpme.explainers.hpme.insight.rules import Learner
from hpme.explainers.hpme.insight.vocabulary import Vocabulary
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.sufficient import Trials
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.mixing import MixingExplainer
from hpme.explainers.shared.options import at_least
from hpme.graphs import GraphStore
from hpme.models.explained import Model
from hpme.progress import progress_bar

if TYPE_CHECKING:
    from hpme.models.task import Task

logger = logging.getLogger("hpme")
ONE_ANSWER = (
    "the model gives all graphs the same answer, so none has a region that could change it; give "
    "graphs with another answer as well (for molecules as donors), or another threshold"
)


class InsightExplainer(MixingExplainer):
    """Base of explainers that keep hosts, and can put any nodes of any graph into them."""

    pool: nn.Module | None
    task: Task | None

    @abstractmethod
    def _hosts(self) -> GraphStore:
        """Graphs of all predictions that stay with the explainer."""

    @abstractmethod
    def _mix(self, context: Context, generator: torch.Generator) -> HardMix:
        """Hard mixes of the graphs of a context."""

    @abstractmethod
    def _trials_of(self, mix: HardMix, count: int) -> Trials:
        """Trials of the first ``count`` graphs of a mix."""

    def _check_one_question(self) -> None:
        self._check_fitted()
        if self.answers:
            raise InputError(
                "the explainer was fitted to several targets; ask explainer.answers[target]"
            )

    @contextmanager
    def _trials(self, model: Model, store: GraphStore) -> Iterator[Trials]:
        """Transplants between graphs and the kept hosts, while the model is frozen."""
        self._check_one_question()
        assert self.pool is not None
        mixed = store.joined(self._hosts())
        with torch.no_grad(), self._context(model, mixed, task=self.task) as context:
            mix = self._mix(context, torch.Generator().manual_seed(self.seed))
            yield self._trials_of(mix, len(store))

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
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader; all of them are held at once.
            unseen: Share of the graphs that rules are not learned from, to measure them on.
            classes: Names of the classes; by default those the model is known with.
            progress: Whether to draw a progress bar (on terminals only).

        Raises:
            InputError: If there are fewer than two graphs to learn from.
        """
        if not 0 <= unseen < 1:
            raise InputError(f"unseen is a share from 0 to below 1, got {unseen}")
        explained = self._leveled(model, None)
        store = explained.read(graphs)
        learned = torch.ones(len(store), dtype=torch.bool)
        order = torch.randperm(len(store), generator=torch.Generator().manual_seed(self.seed))
        learned[order[: round(unseen * len(store))]] = False
        if int(learned.sum()) < 2:
            raise InputError(
                f"{len(store)} graphs are too few to learn rules from; give more, or a lower unseen"
            )
        with (
            self._trials(model, store) as trials,
            progress_bar("learning rules", LARGEST, enabled=progress) as advance,
        ):
            names = _classes(trials.mix.context, classes or explained.classes)
            learner = Learner(trials, store, Vocabulary.of(store), names, learned)
            return learner.learn(advance)

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
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader; all of them are held at once.
            n: How many different ones to return for each graph, the smallest change first.
            threshold: For values: the answer is on which side of it they are.
            donors: For molecules: others that may give regions; by default only ``graphs`` do.
                Regions come from molecules with another answer, so some are needed.
            featurise: For molecules: graphs of a list of SMILES, as the model was trained on them;
                by default hpme's own features.
            progress: Whether to draw a progress bar (on terminals only).

        Raises:
            InputError: If a threshold is missing or not needed, or molecules have features that
                are not hpme's own and no ``featurise`` is given.
        """
        at_least("n", n, 1)
        explained = self._leveled(model, None)
        store = explained.read(graphs)
        count = len(store)
        if donors is not None and Vocabulary.of(store).molecules:
            store = store.joined(explained.read(donors))
        with self._trials(model, store) as trials:
            context = trials.mix.context
            if context.task.classification == (threshold is not None):
                raise InputError(
                    "classes need no threshold" if threshold is not None
                    else "the model returns values; pass threshold=, the value to get past"
                )  # fmt: skip
            flip = Flip(context, threshold)
            molecules = Vocabulary.of(store).molecules
            made = featurise or default_featurise(store) if molecules else None
            if not flip.differ(len(store) if molecules else None):
                logger.warning(ONE_ANSWER)
                return [[] for _ in range(count)]
            if made is not None:
                score = trials.score[0, : len(store.x)].sigmoid().cpu()
                with progress_bar("editing molecules", count, enabled=progress) as advance:
                    return molecule_counterfactuals(store, count, score, flip, n, made, advance)
            return graph_counterfactuals(trials, flip, n)

    def audit(
        self,
        model: Model,
        graphs: Iterable[Any],
        should: str | Sequence[Tensor],
        should_not: str | Sequence[Tensor] | None = None,
    ) -> Audit:
        """Does the model read what it should? Transplants of given patterns say so.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader; all of them are held at once.
            should: What should matter: SMARTS for molecules, else a node mask for each graph.
            should_not: What should not.

        Raises:
            InputError: If a pattern is no SMARTS, or masks do not fit the graphs.
        """
        store = self._leveled(model, None).read(graphs)
        ours = _named(store, should, "should")
        other = None if should_not is None else _named(store, should_not, "should_not")
        with self._trials(model, store) as trials:
            return audited(trials, ours, other)


def _named(store: GraphStore, pattern: str | Sequence[Tensor], role: str) -> tuple[str, Tensor]:
    name = pattern if isinstance(pattern, str) else role
    return name, pattern_nodes(store, pattern, role)


def _classes(context: Context, names: Sequence[str] | None) -> list[str] | None:
    """Names of the classes, or of the two sides of a question; ``None`` for values."""
    if not context.task.classification:
        return None
    width = context.values.shape[1]
    view = context.adapter.view
    if view.asked and width == 2:
        ours, other = view.target, view.contrast
        return [
            f"not {ours}" if other is None else str(other),
            f"not {other}" if ours is None else str(ours),
        ]
    if names is not None and len(names) == width:
        return [str(name) for name in names]
    return [f"class {number}" for number in range(width)]
