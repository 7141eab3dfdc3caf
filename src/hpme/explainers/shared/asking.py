"""How an explainer asks the model about a batch: which class or task, which masks."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.explain.config import ExplanationType, MaskType

from hpme.errors import InputError
from hpme.explainers.shared.features import edge_to_node, feature_importance
from hpme.explainers.shared.questions import Targets, groups, numbered
from hpme.graphs import GraphBatch, GraphStore
from hpme.models.adapter import ModelAdapter, Weighting
from hpme.models.explained import ExplainedModel
from hpme.models.output import Target
from hpme.models.task import check_rows

if TYPE_CHECKING:
    from hpme.explainers.shared.masks import Masks

logger = logging.getLogger("hpme")
NO_EFFECT = (
    "the model's output does not change with edge weights on the given graphs; explanations of "
    "edges will be arbitrary"
)


class Asking:
    """What :class:`~hpme.explainers.shared.base.GraphExplainer` does for every batch."""

    needs_fit: ClassVar[bool]
    needs_weights: ClassVar[bool]
    weighting: Weighting | None
    width: int | None
    facts: dict[str, Any]
    answers: dict[Any, Any]

    @abstractmethod
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        """Masks of a batch of graphs, all at once."""

    def _masks(
        self,
        explained: ExplainedModel,
        graphs: GraphBatch,
        target: Targets | None = None,
        **model_kwargs: Any,
    ) -> Masks:
        """Masks of a batch, each graph asked about its own target."""
        if target is None:
            target = explained.target
        if target is None and self.answers:
            target = self._predicted(explained, graphs, **model_kwargs)
        asked = groups(target, graphs.num_graphs)
        if (
            target is not None
            and self.needs_fit
            and not self.answers
            and "target" not in self.facts
        ):
            self._check_predicted(explained, graphs, asked, **model_kwargs)
            asked = groups(None, graphs.num_graphs)
        answers = [self._answer(explained, graphs, one, **model_kwargs) for one, _ in asked]
        if len(answers) == 1:
            return answers[0]
        number = torch.zeros(graphs.num_graphs, dtype=torch.long, device=graphs.x.device)
        for place, (_, ids) in enumerate(asked):
            number[ids] = place
        return _joined(answers, graphs, number)

    def _answer(
        self,
        explained: ExplainedModel,
        graphs: GraphBatch,
        target: Target | None,
        **model_kwargs: Any,
    ) -> Masks:
        """Masks of a batch, all graphs asked about the same target."""
        key = numbered(target, explained)
        if self.answers:
            if key not in self.answers:
                known = ", ".join(repr(one) for one in self.answers)
                raise InputError(
                    f"the explainer was fitted to targets {known}, not to {target!r}; fit it to "
                    "all that will be asked about: fit(..., target=[...])"
                )
            masks: Masks = self.answers[key]._answer(explained, graphs, target, **model_kwargs)
            return masks
        fitted = self.facts.get("target")
        if self.needs_fit and key != numbered(fitted, explained):
            raise InputError(
                f"the explainer was fitted to target {fitted!r}, not to {target!r}; fit it to "
                "both: fit(..., target=[...])"
            )
        explained = replace(explained, target=target)
        with explained.frozen(), torch.enable_grad():
            adapter = explained.adapter(weighting=self.weighting)
            adapter.width = self.width
            there = graphs.to(adapter.device or graphs.x.device)
            self.to(there.x.device)  # type: ignore[attr-defined]
            masks = self._explain(adapter, there, **model_kwargs)
            untold = self.weighting is None and self.needs_weights
            if untold and adapter.weighting == "none" and graphs.num_edges:
                logger.warning(NO_EFFECT)
            masks = self._with_nodes(adapter, there, masks, **model_kwargs)
        return masks.to(graphs.x.device)

    @torch.no_grad()
    def _predicted(
        self, explained: ExplainedModel, graphs: GraphBatch, **model_kwargs: Any
    ) -> Tensor:
        """The predicted class of every graph."""
        plain = replace(explained, target=None, contrast=None)
        with plain.frozen():
            output = plain.adapter().predict(graphs, **model_kwargs)
            check_rows(output, graphs.num_graphs)
            task = plain.task(output)
        if not task.classification:
            raise InputError("a regression model has no predicted class; name a task with target=")
        return task.prediction(output)

    def _check_predicted(
        self,
        explained: ExplainedModel,
        graphs: GraphBatch,
        asked: list[tuple[Target | None, Tensor]],
        **model_kwargs: Any,
    ) -> None:
        """Refuses targets an explainer knows nothing about: it was fitted to predicted classes."""
        predicted = self._predicted(explained, graphs, **model_kwargs)
        for target, ids in asked:
            wanted = explained.view.class_number(target)
            other = ids[(predicted[ids] != wanted).to(ids.device)]
            if other.numel():
                raise InputError(
                    f"the explainer was fitted to predicted classes, and graph {int(other[0])} is "
                    f"predicted {int(predicted[other[0]])}, not {target!r}; fit it to the classes "
                    "that will be asked about: fit(..., target=[...])"
                )

    def _told_apart(self, explained: ExplainedModel, store: GraphStore) -> GraphStore:
        """The graphs that are predicted one of the two classes that are told apart."""
        if explained.view.mode == "regression":
            return store  # refused where the output is read
        predicted = torch.cat(
            [self._predicted(explained, store.detached(everything=True).batch(ids))
             for ids in torch.arange(len(store)).split(512)]  # type: ignore[no-untyped-call]
        )  # fmt: skip
        against = predicted == explained.view.class_number(explained.contrast)
        ours = ~against
        if explained.target is not None:
            ours = predicted == explained.view.class_number(explained.target)
        for name, found in (("contrast", against), ("target", ours)):
            if not bool(found.any()):
                raise InputError(
                    f"no graph is predicted to be of class {getattr(explained, name)!r} ({name}); "
                    "give some that are"
                )
        return store.subset((ours | against).nonzero().view(-1))

    def _with_nodes(
        self, adapter: ModelAdapter, graphs: GraphBatch, masks: Masks, **model_kwargs: Any
    ) -> Masks:
        """The masks with those of nodes and features that a PyG ``Explainer`` wants."""
        config = getattr(self, "_explainer_config", None)
        wanted = None if config is None else config.node_mask_type
        if wanted is None:
            return masks
        nodes = masks.node_mask
        if nodes is None:
            nodes = edge_to_node(masks.edge_mask, graphs)
        if wanted != MaskType.object:
            nodes = feature_importance(adapter, graphs, nodes, **model_kwargs)
        if wanted == MaskType.common_attributes and graphs.schema is None:
            nodes = nodes.amax(0, keepdim=True)
        elif wanted == MaskType.common_attributes:  # the same for all nodes of a type
            for rows in graphs.type_rows.nodes:
                if len(rows):
                    nodes = nodes.index_copy(0, rows, nodes[rows].amax(0).expand(len(rows), -1))
        return replace(masks, node_mask=nodes)

    @property
    def _common(self) -> bool:
        """Whether a PyG ``Explainer`` wants one importance per feature, not per node."""
        config = getattr(self, "_explainer_config", None)
        return config is not None and config.node_mask_type == MaskType.common_attributes

    def _wanted(self, masks: Masks) -> dict[str, Tensor]:
        """The masks that a PyG ``Explainer`` wants, or all."""
        given = masks.given()
        config = getattr(self, "_explainer_config", None)
        if config is not None and config.edge_mask_type is None:
            del given["edge_mask"]
        return given

    def _given_target(self, explained: ExplainedModel, target: Any) -> Targets | None:
        """What PyG's ``Explainer`` gives as target, if it is a question."""
        config = getattr(self, "_explainer_config", None)
        own = config is not None and config.explanation_type == ExplanationType.model
        if target is None or own or explained.view.mode == "regression":
            return None
        result: Targets = target.view(-1) if isinstance(target, Tensor) else target
        return result

    def supports(self) -> bool:
        """All settings of PyG's ``Explainer``."""
        return True


def _joined(answers: list[Masks], graphs: GraphBatch, number: Tensor) -> Masks:
    """For every graph the masks of the answer with its number."""
    columns = {}
    for name, first in answers[0].given().items():
        rows = number[graphs.edge_batch if name == "edge_mask" else graphs.batch]
        stacked = torch.stack([answer.given()[name] for answer in answers])
        columns[name] = stacked[rows, torch.arange(len(first), device=rows.device)]
    return replace(answers[0], output=None, **columns)  # of different questions
