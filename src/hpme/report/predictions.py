"""What a model says about graphs and about their parts, as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphStore, Pairs
from hpme.models.explained import ExplainedModel
from hpme.models.task import Task
from hpme.progress import progress_bar
from hpme.report.subgraphs import Sizes, predict_all, predict_parts
from hpme.report.template import Column, decimals, shares


@dataclass(frozen=True)
class Predictions:
    """Class probabilities, or values in their own unit.

    Args:
        task: What the model's output means.
        full: One row per graph.
        alone: For every explainer one row per graph and size: the heaviest edges alone.
        without: The same for the graph without these edges.
    """

    task: Task
    full: Tensor
    alone: dict[str, Tensor]
    without: dict[str, Tensor]

    @classmethod
    def of(
        cls,
        explained: ExplainedModel,
        store: GraphStore,
        pairs: Pairs,
        ranks: Mapping[str, Tensor],
        sizes: Sizes,
        *,
        progress: bool,
    ) -> Predictions:
        """Runs the model on all graphs, and on the parts that each ranking of pairs makes."""
        alone, without = {}, {}
        adapter = explained.adapter()
        with explained.frozen():
            output = predict_all(adapter, store)
            task = explained.task(output)
            if not task.classification and output.numel() != len(store):
                raise InputError(
                    f"the model returns {output.shape[1]} values per graph; the page shows one: "
                    "wrap the model in a module that returns the one to look at"
                )
            with progress_bar("deleting edges", len(ranks), enabled=progress) as advance:
                for name, rank in ranks.items():
                    parts = predict_parts(adapter, store, pairs, rank, sizes)
                    alone[name], without[name] = (_values(task, part) for part in parts)
                    advance(1)
        return cls(task, _values(task, output), alone, without)

    def column(self, values: Tensor) -> Column:
        """Predictions for the page."""
        return shares(values, 0.0, 1.0) if self.task.classification else decimals(values)

    def classes(self, given: Sequence[str] | None) -> list[str] | None:
        """Names of classes, ``None`` in regression.

        Raises:
            InputError: If the given names are not those of the classes.
        """
        count = self.full.shape[1]
        if not self.task.classification:
            if given is not None:
                raise InputError("class_names are given, but the model is a regression")
            return None
        if given is not None and len(given) != count:
            raise InputError(f"{count} classes need as many class_names, got {len(given)}")
        return [f"class {i}" for i in range(count)] if given is None else [str(n) for n in given]


def _values(task: Task, output: Tensor) -> Tensor:
    return task.log_prob(output).exp() if task.classification else output.view(len(output), 1)
