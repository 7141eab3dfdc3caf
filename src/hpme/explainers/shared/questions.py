"""Which class or task is explained: one for all graphs, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.models.explained import ExplainedModel
from hpme.models.output import Target

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


def groups(target: Targets | None, count: int) -> list[tuple[Target | None, Tensor]]:
    """The different targets, and for each the numbers of the graphs that it is asked about.

    Args:
        target: One for all graphs, or one for each.
        count: Number of graphs.

    Raises:
        InputError: If the numbers of targets and graphs differ.
    """
    if not is_several(target):
        single = int(target) if isinstance(target, Tensor) else target
        return [(single, torch.arange(count))]  # type: ignore[list-item]
    listed = as_list(target)
    if len(listed) != count:
        raise InputError(f"{len(listed)} targets for {count} graphs; give one, or one for each")
    kinds = list(dict.fromkeys(listed))
    number = torch.tensor([kinds.index(value) for value in listed])
    return [(kind, (number == i).nonzero().view(-1)) for i, kind in enumerate(kinds)]


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
