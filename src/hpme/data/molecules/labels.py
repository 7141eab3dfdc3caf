"""Labels of anybody's table: numbers to be predicted, or names of classes; some are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.data.info import TaskKind
from hpme.errors import InputError

MAX_CLASSES = 100
"""More different labels than this are taken for numbers by mistake."""
MISSING = {"nan", "na", "n/a", "#n/a", "<na>", "none", "null", "inf", "infinity"}
"""What tables write where there is no label, in small letters and without sign."""


@dataclass(frozen=True)
class Labels:
    """Labels as numbers."""

    task: TaskKind
    values: list[float | int | None]  # a number or that of a class; None if there is none
    classes: list[str]

    @classmethod
    def read(cls, labels: Sequence[Any], task: TaskKind | None) -> Labels:
        """Labels as a table gives them; without a ``task``, decimals mean regression."""
        texts = [_text(label) for label in labels]
        numbers = [_number(text) for text in texts]
        if task is None:
            decimals = any(number is not None and number % 1 for number in numbers)
            task = "regression" if decimals else "classification"
        if task == "regression":
            return cls(task, [*numbers], [])
        names = [  # '1' and '1.0' are one class, also among words
            text if number is None else f"{number:.15g}"
            for text, number in zip(texts, numbers, strict=True)
        ]
        numeric = all(n is not None for n, t in zip(numbers, texts, strict=True) if t is not None)
        present = sorted(
            {name for name in names if name is not None}, key=float if numeric else str
        )
        if len(present) > MAX_CLASSES:
            raise InputError(
                f"{len(present):,} different labels are too many for classes; for numbers to be "
                "predicted, choose the task 'regression'"
            )
        code = {name: number for number, name in enumerate(present)}
        return cls(task, [None if name is None else code[name] for name in names], present)

    def problems(self) -> dict[int, str]:
        """What is wrong with the rows that have no usable label, by their positions."""
        why = "no label" if self.task == "classification" else "its label is no finite number"
        return {number: why for number, value in enumerate(self.values) if value is None}

    def tensor(self, ids: Sequence[int]) -> Tensor:
        """The labels of some rows, all of which have one."""
        kind = torch.long if self.task == "classification" else torch.float
        return torch.tensor([self.values[i] for i in ids], dtype=kind)


def _text(label: Any) -> str | None:
    """A label as text, ``None`` if it is missing; numbers of any type are read as Python's."""
    if label is None:
        return None
    if hasattr(label, "item"):  # of NumPy or PyTorch
        label = label.item()
    text = str(int(label) if isinstance(label, bool) else label).strip()
    return None if not text or text.lower().lstrip("+-") in MISSING else text


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None
