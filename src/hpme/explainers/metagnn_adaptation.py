"""Training a model further so that explanations of it keep its predictions (MATE)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hpme.explainers.gnnexplainer import MaskDescent, spread
from hpme.explainers.shared.context import batches
from hpme.explainers.shared.templates import weighted_model
from hpme.graphs import GraphBatch, GraphStore
from hpme.models.adapter import ModelAdapter, check_gradient
from hpme.models.output import Task

LARGE_LOSS = 0.02
LARGE_SHIFT = 0.05


@dataclass(frozen=True)
class Adaptation:
    r"""Alternates steps towards explainability with steps on the task.

    For every mini-batch masks of a few random graphs are found by :class:`MaskDescent`, those of an
    epoch together, by the model as it is when the epoch begins; :math:`T` steps of a fresh Adam
    teach the model to predict under these masks what it predicts without; then one step lowers the
    task loss. No second-order term is involved: the task step starts from where the explanation
    steps ended. The model stays in evaluation mode. Fields are described at
    :class:`~hpme.explainers.MetaGNNExplainer`; ``grad_clip`` is the largest norm of the gradient of
    a task step.
    """

    descent: MaskDescent
    epochs: int
    lr: float
    inner_steps: int
    inner_lr: float
    mask_graphs: int
    batch_size: int
    grad_clip: float = 2.0

    def __call__(
        self,
        adapter: ModelAdapter,
        task: Task,
        store: GraphStore,
        labels: Tensor,
        ids: Tensor,
        generator: torch.Generator,
        advance: Callable[[int], None],
    ) -> None:
        """Trains the adapter's model in place on the graphs ``ids`` of the store.

        ``labels`` are what :meth:`Task.loss` compares outputs with, for all graphs.
        """
        parameters = [p for p in adapter.model.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(parameters, lr=self.lr)
        for _ in range(self.epochs):
            order = ids[torch.randperm(ids.numel(), generator=generator).to(ids.device)]
            parts = list(batches(order, self.batch_size))
            count = self.mask_graphs * len(parts)
            drawn = torch.randint(ids.numel(), (count,), generator=generator).to(ids.device)
            masks = self._masks(adapter, task, store, ids[drawn], generator)
            masked = ids[drawn].split(self.mask_graphs)  # type: ignore[no-untyped-call]
            for part, shown, mask in zip(parts, masked, masks, strict=True):
                self._explanation_steps(adapter, task, store.batch(shown), mask, parameters)
                loss = task.loss(adapter.predict(store.batch(part)), labels[part]).mean()
                _set_gradients(loss, parameters)
                nn.utils.clip_grad_norm_(parameters, self.grad_clip)
                optimiser.step()
            advance(1)

    def _masks(
        self,
        adapter: ModelAdapter,
        task: Task,
        store: GraphStore,
        ids: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, ...]:
        """Edge weights of the graphs, ``mask_graphs`` of them at a time."""
        graphs = store.batch(ids)
        start = torch.randn(len(graphs.pairs), generator=generator).to(graphs.x.device)
        predict = weighted_model(adapter, graphs, {})
        mask = self.descent(predict, graphs, task, start * spread(graphs))
        counts = torch.bincount(graphs.edge_batch, minlength=graphs.num_graphs)
        counts = counts.view(-1, self.mask_graphs).sum(1)
        parts: tuple[Tensor, ...] = mask.split(counts.tolist())  # type: ignore[no-untyped-call]
        return parts

    def _explanation_steps(
        self,
        adapter: ModelAdapter,
        task: Task,
        graphs: GraphBatch,
        mask: Tensor,
        parameters: list[nn.Parameter],
    ) -> None:
        predict = weighted_model(adapter, graphs, {})
        with torch.no_grad():
            target = task.prediction(predict(None))
        optimiser = torch.optim.Adam(parameters, lr=self.inner_lr)
        for _ in range(self.inner_steps):
            _set_gradients(task.loss(predict(mask), target).mean(), parameters)
            optimiser.step()


def _set_gradients(loss: Tensor, parameters: list[nn.Parameter]) -> None:
    check_gradient(loss)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


@dataclass(frozen=True)
class AdaptationReport:
    """What the adaptation did: accuracy or RMSE of the given model and of the adapted copy.

    They are of ``graphs`` graphs, not trained on if ``held_out``. ``shift`` is the share of all
    graphs whose predicted class differs between the two models; for regression the root mean
    squared difference in units of the outputs' spread.
    """

    metric: str
    before: float
    after: float
    held_out: bool
    graphs: int
    shift: float

    @property
    def warnings(self) -> list[str]:
        """Reasons not to take the explanations for explanations of the given model."""
        found = []
        accuracy = self.metric == "accuracy"
        loss = self.before - self.after if accuracy else self.after / max(self.before, 1e-12) - 1
        if loss > LARGE_LOSS:
            found.append(
                f"the adapted copy is worse than the given model ({self.metric} "
                f"{self.before:.4g} -> {self.after:.4g}); lower lr or inner_lr, or fit on more "
                "graphs"
            )
        if self.shift > LARGE_SHIFT:
            found.append(
                f"explanations are of the adapted copy, which is another model: predictions differ "
                f"by {self.shift:.2f} > {LARGE_SHIFT}; do not compare its fidelity with that of "
                "other explainers"
            )
        return found

    def summary(self) -> str:
        """The numbers in one line."""
        where = "held-out" if self.held_out else "training"
        return (
            f"adapted copy: {self.metric} {self.before:.4g} -> {self.after:.4g} on {self.graphs} "
            f"{where} graphs, predictions shifted by {self.shift:.2f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the derived ones."""
        return {**asdict(self), "warnings": self.warnings}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> AdaptationReport:
        """The report :meth:`to_dict` came from."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})


def report_on(
    task: Task, before: Tensor, after: Tensor, labels: Tensor, chosen: Tensor, held_out: bool
) -> AdaptationReport:
    """Compares outputs before and after on all graphs, and with the labels of the chosen ones."""
    first, second = task.prediction(before), task.prediction(after)
    if task.classification:
        metric, shift = "accuracy", float((first != second).float().mean())
        scores = [float((t == labels)[chosen].float().mean()) for t in (first, second)]
    else:
        metric, shift = "rmse", float((first - second).square().mean().sqrt())
        errors = [(t - labels)[chosen].square().mean().sqrt() for t in (first, second)]
        scores = [task.scale * float(error) for error in errors]
    return AdaptationReport(metric, scores[0], scores[1], held_out, chosen.numel(), shift)
