"""Which class or task is explained: one for all graphs, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.explain.config import ExplainerConfig, ExplanationType

from hpme.errors import InputError
from hpme.explainers.shared.context import batches
from hpme.graphs import GraphBatch, GraphStore
from hpme.models.explained import ExplainedModel
from hpme.models.output import Target, check_rows

if TYPE_CHECKING:
    from hpme.explainers.shared.base import GraphExplainer

Targets = Target | Sequence[Target] | Tensor
"""One class or task, or one for each graph."""


def is_several(target: Targets | None) -> bool:
    """Whether these are the targets of several graphs; a tuple is a task and its class."""
    if isinstance(target, Tensor):
        return target.dim() > 0
    return target is not None and not isinstance(target, str | int | tuple)


def as_list(target: Any) -> list[Target]:
    """Targets one by one."""
    if isinstance(target, Tensor):
        if target.is_floating_point() and not torch.equal(target, target.round()):
            raise InputError("targets are classes or tasks, that is whole numbers or names")
        return [int(value) for value in target.reshape(-1)]
    return [int(value) if isinstance(value, Tensor) else value for value in target]


def of_rows(target: Targets | None, rows: Tensor, total: int) -> Targets | None:
    """The targets of some rows of an output; given is one, or those of all rows, or of these."""
    if not is_several(target):
        return target
    listed = as_list(target)
    return [listed[row] for row in rows.tolist()] if len(listed) == total else listed


def groups(target: Targets | None, count: int) -> list[tuple[Target | None, Tensor]]:
    """The different targets, and the numbers of the graphs that each is for."""
    if not is_several(target):
        single = int(target) if isinstance(target, Tensor) else target
        return [(single, torch.arange(count))]  # type: ignore[list-item]
    listed = as_list(target)
    if len(listed) != count:
        raise InputError(f"{len(listed)} targets for {count} graphs; give one, or one for each")
    kinds = list(dict.fromkeys(listed))
    number = torch.tensor([kinds.index(value) for value in listed])
    return [(kind, (number == i).nonzero().view(-1)) for i, kind in enumerate(kinds)]


def asked(config: ExplainerConfig | None, explained: ExplainedModel, target: Any) -> Targets | None:
    """The target that PyG's ``Explainer`` passes, unless it is what the model predicts anyway."""
    own = config is not None and config.explanation_type == ExplanationType.model
    if target is None or own or explained.view.mode == "regression":
        return None
    result: Targets = target.view(-1) if isinstance(target, Tensor) else target
    return result


def numbered(target: Target | None, explained: ExplainedModel) -> Target | None:
    """The target by number, where the names of classes or tasks tell it."""
    if isinstance(target, tuple):
        task, chosen = target
        return _number(task, explained.tasks), _number(chosen, explained.classes)
    if target is not None and explained.tasks is not None and target in explained.tasks:
        return _number(target, explained.tasks)
    return None if target is None else _number(target, explained.classes)


def _number(name: int | str, names: Sequence[str] | None) -> int | str:
    return list(names).index(name) if isinstance(name, str) and names and name in names else name


def fitted_to(explainer: GraphExplainer, explained: ExplainedModel) -> GraphExplainer:
    """What was fitted to the target of a model: the explainer, or one of those it holds."""
    target = explained.target
    key = numbered(target, explained)
    if explainer.answers:
        if key not in explainer.answers:
            known = ", ".join(repr(one) for one in explainer.answers)
            raise InputError(
                f"the explainer was fitted to targets {known}, not to {target!r}; fit it to all "
                "that will be asked about: fit(..., target=[...])"
            )
        return explainer.answers[key]
    fitted = explainer.facts.get("target")
    if explainer.needs_fit and key != numbered(fitted, explained):
        raise InputError(
            f"the explainer was fitted to target {fitted!r}, not to {target!r}; fit it to both: "
            "fit(..., target=[...])"
        )
    return explainer


@torch.no_grad()
def predicted_classes(explained: ExplainedModel, graphs: GraphBatch, **model_kwargs: Any) -> Tensor:
    """The predicted class of every graph."""
    plain = replace(explained, target=None, contrast=None)
    with plain.frozen():
        output = plain.adapter().predict(graphs, **model_kwargs)
        check_rows(output, graphs.num_graphs)
        task = plain.task(output)
    if not task.classification:
        raise InputError("a regression model has no predicted class; name a task with target=")
    return task.prediction(output)


def check_predicted(
    explained: ExplainedModel, graphs: GraphBatch, target: Targets, **model_kwargs: Any
) -> None:
    """Refuses targets other than the predicted classes, for explainers that know only these."""
    predicted = predicted_classes(explained, graphs, **model_kwargs)
    for one, ids in groups(target, graphs.num_graphs):
        wanted = explained.view.class_number(one)
        other = ids[(predicted[ids] != wanted).to(ids.device)]
        if other.numel():
            raise InputError(
                f"the explainer was fitted to predicted classes, and graph {int(other[0])} is "
                f"predicted {int(predicted[other[0]])}, not {one!r}; fit it to the classes that "
                "will be asked about: fit(..., target=[...])"
            )


def of_either_class(explained: ExplainedModel, store: GraphStore) -> GraphStore:
    """The graphs that are predicted one of the two classes that ``contrast`` tells apart."""
    if explained.view.mode == "regression":
        return store  # refused where the output is read
    everything = store.detached(everything=True)
    parts = (everything.batch(ids) for ids in batches(torch.arange(len(store)), 512))
    predicted = torch.cat([predicted_classes(explained, part) for part in parts])
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
