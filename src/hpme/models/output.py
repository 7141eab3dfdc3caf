"""What a model's output means, and what of it is explained: an entry, a task, a class."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.errors import InputError, ModelError

Mode = Literal["multiclass_classification", "binary_classification", "regression"]
ReturnType = Literal["raw", "probs", "log_probs"]


@dataclass(frozen=True)
class Task:
    r"""Interprets the output of a frozen model :math:`f`.

    Regression losses are in units of ``scale``, so that one setting serves labels of any unit.
    """

    mode: Mode  # as in PyG's ModelConfig
    return_type: ReturnType = "raw"  # always that for regression
    scale: float = 1.0  # the spread of the outputs over the fitted graphs

    def __post_init__(self) -> None:
        check_word("mode", self.mode, get_args(Mode))
        check_word("return_type", self.return_type, get_args(ReturnType))
        if (self.mode, self.return_type) == ("binary_classification", "log_probs"):
            raise InputError("a binary classifier returns 'raw' or 'probs', one value per graph")
        if not 0 < self.scale < math.inf:
            raise InputError(f"the spread of outputs must be positive and finite, got {self.scale}")

    @classmethod
    def resolve(
        cls, output: Tensor, mode: Mode | None = None, return_type: ReturnType = "raw"
    ) -> Task:
        """The task of a model with this ``output``: as it is known, or inferred where safe."""
        if mode is None and (output.dim() != 2 or output.shape[1] < 2):
            raise InputError(
                "the model returns one value per graph, which may be regression or a binary "
                "logit; pass mode='regression' or mode='binary_classification' to fit()"
            )
        if mode != "regression":
            return cls(mode or "multiclass_classification", return_type)
        scale = float(output.float().std()) if output.numel() > 1 else 1.0
        return cls(mode, scale=scale if scale > 0 else 1.0)

    @property
    def classification(self) -> bool:
        """Whether the output is a class distribution."""
        return self.mode != "regression"

    def log_prob(self, output: Tensor) -> Tensor:
        """Log class probabilities ``[B, C]``; a binary output becomes two columns."""
        if self.mode == "binary_classification":
            if self.return_type == "raw":
                logit = output.view(-1)
                return torch.stack([F.logsigmoid(-logit), F.logsigmoid(logit)], dim=1)
            prob = output.view(-1).clamp(1e-7, 1 - 1e-7)
            return torch.stack([1 - prob, prob], dim=1).log()
        if self.return_type == "raw":
            return output.log_softmax(dim=1)
        return output if self.return_type == "log_probs" else output.clamp(min=1e-12).log()

    def values(self, output: Tensor) -> Tensor:
        """What an explanation should keep: probabilities, or outputs in units of ``scale``."""
        if self.classification:
            return self.log_prob(output).exp()
        return output.view(output.shape[0], -1) / self.scale

    def prediction(self, output: Tensor) -> Tensor:
        """Predicted class, or the predicted value in units of ``scale``."""
        values = self.values(output)
        return values.argmax(dim=1) if self.classification else values

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        r""":math:`\mathcal{L}_{pred}` of every graph: CE, or MSE in units of ``scale``."""
        if self.classification:
            return F.nll_loss(self.log_prob(output), target, reduction="none")
        return ((self.values(output) - target) ** 2).mean(dim=1)

    def check(self, output: Tensor) -> None:
        """Raises :class:`ModelError` unless the columns fit the mode and are finite."""
        width = 1 if output.dim() == 1 else output.shape[1]
        if self.mode == "multiclass_classification" and width < 2:
            raise ModelError("multiclass classification needs at least two output columns")
        if self.mode == "binary_classification" and width != 1:
            raise ModelError(
                f"binary classification expects one output column, got {width}; two columns of "
                "logits are mode='multiclass_classification'"
            )
        check_output(output)


def check_word(name: str, value: Any, words: tuple[str, ...]) -> None:
    """Raises :class:`InputError` unless a fact about a model is one of the words for it."""
    if value is not None and value not in words:
        raise InputError(f"unknown {name} {value!r}; use one of: {', '.join(words)}")


def check_probabilities(output: Tensor, return_type: ReturnType, *, several: bool) -> None:
    """Raises :class:`ModelError` if an output is not what a classifier is said to return."""
    if return_type == "raw" or not output.is_floating_point() or not output.numel():
        return
    prob = output.detach().float()
    prob = prob.exp() if return_type == "log_probs" else prob
    slack = 1e-3 if output.dtype in (torch.float, torch.double) else 2e-2  # rounding of halves
    total = prob.sum(-1) if several else prob.new_ones(1)
    if bool((prob < -slack).any() | (prob > 1 + slack).any() | ((total - 1).abs() > slack).any()):
        low, high = float(output.min()), float(output.max())
        raise ModelError(
            f"return_type='{return_type}' says that the model returns probabilities, and its "
            f"output does not: it lies in [{low:.3g}, {high:.3g}]"
            + (f", and classes sum to {float(total.max()):.3g}" if several else "")
            + "; of logits say return_type='raw'"
        )


def check_output(output: Tensor, model: nn.Module | None = None) -> None:
    """Raises :class:`ModelError` unless an output holds finite numbers; a model may be to blame."""
    if output.dtype.is_complex or not output.is_floating_point():
        raise ModelError(
            f"the model's output is of {output.dtype}; it must return the scores of the classes, "
            "or values, as floating-point numbers"
        )
    finite = torch.isfinite(output)
    if bool(finite.all()):
        return
    tensors = () if model is None else (*model.named_parameters(), *model.named_buffers())
    bad = [name for name, tensor in tensors if not bool(torch.isfinite(tensor).all())]
    blame = f"; so does '{bad[0]}' of the model" if bad else "; check it, and the features"
    if any(tensor.dtype is torch.half for _, tensor in tensors):
        blame += "; torch.float16 ends at 65504: explain a copy in single precision, model.float()"
    row = int((~finite.view(len(finite), -1).all(1)).nonzero()[0])
    raise ModelError(
        f"the model's output contains NaN or infinite values (first for graph {row} of the "
        f"batch){blame}"
    )


def check_answers(answers: Tensor, what: str) -> None:
    """Raises :class:`ModelError` if outputs on changed graphs, or their scores, are not finite."""
    finite = torch.isfinite(answers)
    if not bool(finite.all()):
        lost = int((~finite.view(len(finite), -1).all(1)).sum())
        raise ModelError(
            f"{lost} of {len(finite)} {what} are NaN or infinite: the model has no answer when "
            "parts of a graph are changed or gone. It may divide by the number of a node's "
            "neighbours, which is 0 at an isolated one: guard it, as in total / count.clamp(min=1)"
        )


def check_rows(output: Any, num_graphs: int) -> None:
    """Raises :class:`ModelError` unless a model's output has one row per graph."""
    if not isinstance(output, Tensor):
        entry = "; choose one with output=" if isinstance(output, Mapping | list | tuple) else ""
        raise ModelError(
            f"the model returned {type(output).__name__}, {described(output)}; it must return one "
            f"tensor with a row per graph{entry}"
        )
    rows = output.shape[0] if output.dim() else 0
    if output.dim() not in (1, 2) or rows != num_graphs:
        raise ModelError(
            f"the model returned shape {tuple(output.shape)} for {num_graphs} graphs; expected "
            f"[{num_graphs}, outputs]: does it pool nodes with the given batch vector?"
        )


def described(output: Any) -> str:
    """An output in words, for messages."""
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    if isinstance(output, Mapping):
        return f"a dictionary with {', '.join(map(repr, output))}"
    if isinstance(output, list | tuple):
        return f"a {type(output).__name__} of {len(output)}: " + ", ".join(map(described, output))
    return f"of type {type(output).__name__}"


Name = int | str
Target = Name | tuple[Name, Name]
"""A class of a classifier, a task of a model with several, or both as ``(task, class)``."""


@dataclass(frozen=True)
class OutputView:
    r"""Reads the part of an output that a question is about.

    A question about one class of a classifier becomes one about a binary logit: the log odds of the
    class against all others, :math:`\log p_c - \log(1 - p_c)`, or against the class ``contrast``,
    :math:`\log p_c - \log p_b`. One task of several becomes the only one.

    Args:
        entry: Key or position, for models that return a dictionary, an object with attributes, or a
            tuple.
        mode: What one task of the output means; by default several columns are classes.
        return_type, tasks, classes: As in :class:`~hpme.models.explained.ExplainedModel`.
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
        """The part of an output that is explained, ``[G, columns]`` or ``[G]``; others unread."""
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
