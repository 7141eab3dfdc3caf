"""What of a model's output is explained: an entry, a task, a class, one class against another."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from hpme.errors import InputError, ModelError
from hpme.models.task import Mode, ReturnType, Task, check_probabilities, described

Name = int | str
Target = Name | tuple[Name, Name]
"""A class of a classifier, a task of a model with several, or both as ``(task, class)``."""


@dataclass(frozen=True)
class OutputView:
    r"""Reads the part of an output that a question is about.

    A question about one class of a classifier becomes one about a binary logit: the log odds of the
    class against all others, :math:`\log p_c - \log(1 - p_c)`, or against the class ``contrast``,
    :math:`\log p_c - \log p_b`. One task of several becomes the only one. All that works for binary
    classification and for regression then works for these.

    Args:
        entry: Key or position, for models that return a dictionary, an object with attributes, or a
            tuple.
        mode: What one task of the output means; by default several columns are classes.
        return_type: What a classifier returns.
        tasks: Names of the tasks, by which ``target`` may name them.
        classes: Names of the classes.
        target: What is explained; by default the predicted class, or all values.
        contrast: The class that ``target`` is compared with. Without ``target``: why is it not
            this class?
    """

    _: KW_ONLY
    entry: Name | None = None
    mode: Mode | None = None
    return_type: ReturnType = "raw"
    tasks: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    target: Target | None = None
    contrast: Name | None = None

    @property
    def asked(self) -> bool:
        """Whether a class or task was named."""
        return self.target is not None or self.contrast is not None

    def pick(self, output: Any) -> Any:
        """The entry of the output that is explained, whatever it is."""
        if self.entry is None:
            return output
        try:
            if isinstance(self.entry, str) and not isinstance(output, Mapping):
                return getattr(output, self.entry)
            return output[self.entry]
        except (KeyError, IndexError, AttributeError, TypeError) as error:
            raise ModelError(
                f"the model's output has no entry {self.entry!r}; it is {described(output)}"
            ) from error

    def read(self, output: Any) -> Any:
        """The part of an output ``[G, ...]`` that is explained: ``[G, columns]`` or ``[G]``.

        What is no such output is returned as it is, to be refused where models are checked.
        """
        if not isinstance(output, Tensor) or output.dim() not in (1, 2, 3):
            return output
        if output.dim() == 3 and self.mode is None and not self.asked:
            return output  # nothing says that there are tasks
        if output.dim() == 3 and output.shape[1] == 1 and not isinstance(self.target, tuple):
            output = output[:, 0]  # one task, as multi-task classifiers return it
        if self.mode == "regression":
            return self._value(output)
        classes = self.mode != "binary_classification" and output.dim() > 1 and output.shape[-1] > 1
        check_probabilities(output, self.return_type, several=classes)
        several = output.dim() == 3 or self.mode == "binary_classification"
        if several and output.dim() > 1 and output.shape[1] > 1:
            return self._of_task(output)
        chosen = self.target
        if chosen is not None and self.tasks and [chosen] == list(self.tasks):
            # The only task: a yes or no is about yes, several classes about the predicted one.
            chosen = 1 if self.mode == "binary_classification" else None
        return self._of_class(output, chosen)

    def task(self, output: Tensor) -> Task:
        """What :meth:`read` returned; regression losses are in units of its spread."""
        if self.asked and self.mode != "regression":
            if output.dim() == 2 and output.shape[1] > 1:
                return Task("multiclass_classification", self.return_type)
            return Task("binary_classification")
        return Task.resolve(output, self.mode, self.return_type)

    def of_all_classes(self, output: Tensor) -> OutputView:
        """This view without the class that is asked about; of several tasks it keeps the one."""
        several = output.dim() == 3 or self.mode == "binary_classification"
        several = several and output.dim() > 1 and output.shape[1] > 1
        target = self.target[0] if isinstance(self.target, tuple) else self.target
        mode = self.mode or ("multiclass_classification" if self.asked else None)
        kept = target if several or mode == "regression" else None
        return replace(self, mode=mode, target=kept, contrast=None)

    def class_number(self, name: Target | None) -> int:
        """Number of a class of a classifier with one task."""
        if isinstance(name, int) and not isinstance(name, bool):
            return name
        classes = self.classes or ()
        return position(cast(Name, name), len(classes), self.classes, "class")

    def _value(self, output: Tensor) -> Tensor:
        """One of several values per graph, or all of them."""
        if self.contrast is not None:
            raise InputError("regression has no classes; contrast needs a classifier")
        if self.target is None:
            return output
        wide = output.flatten(1) if output.dim() > 1 else output.unsqueeze(1)
        column = position(self.target, wide.shape[1], self.tasks, "task")
        return wide[:, column : column + 1]

    def _of_task(self, output: Tensor) -> Tensor:
        """From ``[G, tasks, classes]``, or from ``[G, tasks]`` where each is a yes or no."""
        if self.target is None:
            raise InputError(
                f"the model has {output.shape[1]} tasks; name the one to explain with target= (in "
                f"commands --target): {_listed(self.tasks, output.shape[1])}"
            )
        task, chosen = self.target if isinstance(self.target, tuple) else (self.target, None)
        column = position(task, output.shape[1], self.tasks, "task")
        if output.dim() == 3:
            return self._of_class(output[:, column], chosen)
        return self._of_class(output[:, column, None], 1 if chosen is None else chosen)

    def _of_class(self, output: Tensor, chosen: Target | None) -> Tensor:
        """The log odds of a class; the output as it is if none is asked for."""
        if chosen is None and self.contrast is None:
            return output
        wide = output.unsqueeze(1) if output.dim() == 1 else output
        if wide.shape[1] == 1 and self.mode != "binary_classification":
            raise InputError(
                "the model returns one value per graph, which may be regression or a binary logit; "
                "pass mode='regression' or mode='binary_classification'"
            )
        mode: Mode = "binary_classification" if wide.shape[1] == 1 else "multiclass_classification"
        log_prob = Task(mode, self.return_type).log_prob(wide)
        every = torch.arange(log_prob.shape[1], device=wide.device)
        ours, theirs = (
            None if name is None else every == position(name, len(every), self.classes, "class")
            for name in (chosen, self.contrast)
        )
        ours = ~cast(Tensor, theirs) if ours is None else ours
        theirs = ~ours if theirs is None else theirs
        if bool((ours & theirs).any()):
            raise InputError(f"target and contrast are the same class, {chosen!r}")
        odds = log_prob[:, ours].logsumexp(1) - log_prob[:, theirs].logsumexp(1)
        return odds.unsqueeze(1)


def position(name: Target, count: int, names: Sequence[str] | None, kind: str) -> int:
    """Number of a class or task given by name or number; lists those there are if it is none."""
    if names is not None and len(names) != count:
        raise InputError(f"{len(names)} names for {count} {_plural(kind)}: {', '.join(names)}")
    if isinstance(name, str):
        if names is not None and name in names:
            return list(names).index(name)
    elif isinstance(name, int) and not isinstance(name, bool) and 0 <= name < count:
        return int(name)
    hint = f"; name them with {_plural(kind)}=[...]" if isinstance(name, str) and not names else ""
    close = difflib.get_close_matches(str(name), names or (), n=1)
    hint = f"; did you mean '{close[0]}'?" if close else hint
    raise InputError(f"unknown {kind} {name!r}; valid: {_listed(names, count)}{hint}")


def _plural(kind: str) -> str:
    return "classes" if kind == "class" else f"{kind}s"


def _listed(names: Sequence[str] | None, count: int) -> str:
    return ", ".join(names) if names else f"0 to {count - 1}"
