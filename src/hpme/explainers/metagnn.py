"""MetaGNN, or MATE (Spinelli et al., IEEE TNNLS 2022)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from hpme.errors import InputError, ModelError, UnknownNameError
from hpme.explainers.gnnexplainer import GNNExplainer, MaskDescent, spread
from hpme.explainers.grad import GradExplainer
from hpme.explainers.metagnn_adaptation import AdaptationReport, report_on
from hpme.explainers.pgexplainer import PGExplainer
from hpme.explainers.shared.base import GraphExplainer, Self
from hpme.explainers.shared.context import Context, batches, frozen_context, read_graphs
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.options import Count, Positive, Weight, real
from hpme.explainers.shared.targets import is_several
from hpme.explainers.shared.templates import weighted_model
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter, check_gradient
from hpme.models.explained import Model
from hpme.progress import progress_bar

logger = logging.getLogger("hpme")

POSTHOC: dict[str, type[GraphExplainer]] = {
    explainer.slug: explainer for explainer in (PGExplainer, GNNExplainer, GradExplainer)
}
"""Explainers of the adapted copy."""
SETTINGS: dict[str, dict[str, Any]] = {
    PGExplainer.slug: {"size_weight": 0.1, "entropy_weight": 0.01, "epochs": 300}
}
"""Where they differ from what is best for the model itself."""
LARGEST_NORM = 2.0
"""Of the gradient of a task step."""

_DTYPES = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32,
                                           torch.float64)}  # fmt: skip


class MetaGNNExplainer(GraphExplainer):
    r"""Trains a copy of the model to be explainable, then explains the copy.

    For every mini-batch masks of a few random graphs are found by :class:`MaskDescent`, those of an
    epoch together, by the copy as it is when the epoch begins; :math:`T` steps of a fresh Adam
    teach it to predict under these masks what it predicts without; then one step lowers the task
    loss, from where these ended: no second-order term is involved. It stays in evaluation mode.
    Training needs labels ``y``: of the graphs of :meth:`fit`, or of others that it is given. The
    explanations are of the copy; :attr:`report` says how far it went from the given model.

    Args:
        posthoc: Explainer of the copy: ``"pgexplainer"``, ``"gnnexplainer"`` or ``"grad"``.
        posthoc_options: Its constructor arguments; by default those that suit copies.
        epochs: Passes over the labelled graphs.
        lr: Learning rate of the task steps.
        inner_steps: Explanation steps :math:`T` before every task step.
        inner_lr: Learning rate of the explanation steps.
        mask_graphs: Graphs that are masked for each mini-batch.
        mask_epochs: Steps of the search of their masks.
        mask_lr: Learning rate of this search.
        size_weight: :math:`c_s`, weight of the sum of a graph's edge weights in this search.
        entropy_weight: :math:`c_e`, weight of their mean entropy in this search.
        train_batch_size: Graphs per task step.
        holdout: Share of the graphs that is kept from training, if any, to measure the copy on.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    slug = "metagnn"
    title = "MetaGNN"
    summary = "MetaGNN (MATE): a copy of the model trained to be explainable, then explained."
    typical_seconds = 14.0
    needs_labels = True

    def __init__(
        self,
        *,
        posthoc: str = "pgexplainer",
        posthoc_options: dict[str, Any] | None = None,
        epochs: Count = 20,
        lr: Positive = 1e-3,
        inner_steps: Count = 3,
        inner_lr: Positive = 1e-4,
        mask_graphs: Count = 8,
        mask_epochs: Count = 10,
        mask_lr: Positive = 0.1,
        size_weight: Weight = 0.03,
        entropy_weight: Weight = 0.01,
        train_batch_size: Count = 64,
        holdout: Annotated[float, real(least=0, below=1)] = 0.2,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.posthoc, self.posthoc_options = posthoc, posthoc_options
        self.epochs, self.lr = epochs, lr
        self.inner_steps, self.inner_lr = inner_steps, inner_lr
        self.mask_graphs, self.mask_epochs, self.mask_lr = mask_graphs, mask_epochs, mask_lr
        self.size_weight, self.entropy_weight = size_weight, entropy_weight
        self.train_batch_size, self.holdout = train_batch_size, holdout
        if posthoc not in POSTHOC:
            raise UnknownNameError("post-hoc explainer", posthoc, list(POSTHOC))
        shared = {name: getattr(self, name) for name in ("seed", "batch_size", "embedding_layer")}
        others = SETTINGS.get(posthoc, {}) if posthoc_options is None else posthoc_options
        try:
            self.explainer = POSTHOC[posthoc](**{**shared, **others})
        except TypeError as error:
            raise InputError(f"posthoc_options do not fit '{posthoc}': {error}") from error
        self.weights = _Weights({})
        self.report: AdaptationReport | None = None
        self._labelled: Iterable[Any] | None = None

    def fit(
        self: Self,
        model: Model,
        graphs: Iterable[Any],
        *,
        labelled: Iterable[Any] | None = None,
        **options: Any,
    ) -> Self:
        """Trains the copy on labelled graphs, then learns to explain it from ``graphs``.

        ``labelled`` have ``y``, such as those the model was trained on; by default they are
        ``graphs``. The rest is as in :meth:`GraphExplainer.fit`.
        """
        if labelled is not None and is_several(options.get("target")):
            raise InputError("one copy answers for one target; fit once for each of them")
        self._labelled = labelled
        try:
            return super().fit(model, graphs, **options)
        finally:
            self._labelled = None

    def _fit(self, context: Context, *, progress: bool) -> None:
        explained = context.adapter.explained
        try:
            model = copy.deepcopy(context.adapter.model)
        except Exception as error:
            raise ModelError(
                f"'metagnn' trains a copy of the model, which cannot be copied: {error}; keep "
                "tensors with gradients out of its attributes"
            ) from error
        if not any(parameter.is_floating_point() for parameter in model.parameters()):
            raise ModelError("the model has no parameters, so 'metagnn' has nothing to train")
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
            parameter.grad = None
        if self._labelled is None:
            self._adapt(model, context, progress=progress)
        else:
            labelled = read_graphs(self, explained, self._labelled).store
            with frozen_context(self, explained, labelled) as training:
                self._adapt(model, training, progress=progress)
        self.weights = _Weights({name: p.detach() for name, p in model.named_parameters()})
        copied = replace(explained, model=model)
        with frozen_context(self.explainer, copied, context.store) as adapted:
            self.explainer._fit(adapted, progress=progress)

    def _adapt(self, model: nn.Module, context: Context, *, progress: bool) -> None:
        """Trains the copy on the graphs of a context, which has the labels."""
        labels = _labels(context).to(context.device)
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(context.store), generator=generator).to(context.device)
        held_out, train = order.tensor_split([int(self.holdout * order.numel())])
        adapter = context.adapter.on(model)
        before = self._outputs(adapter, context)
        with progress_bar("adapting a copy", self.epochs, enabled=progress) as advance:
            self._train(adapter, context, labels, train, generator, advance)
        after = self._outputs(adapter, context)
        scored = held_out if held_out.numel() else train
        self.report = report_on(context.task, before, after, labels, scored, held_out.numel() > 0)
        logger.info(self.report.summary())
        for warning in self.report.warnings:
            logger.warning(warning)

    def _train(
        self,
        adapter: ModelAdapter,
        context: Context,
        labels: Tensor,
        ids: Tensor,
        generator: torch.Generator,
        advance: Callable[[int], None],
    ) -> None:
        """Trains the adapter's model in place on the graphs ``ids`` of the context."""
        task, store = context.task, context.store
        descent = MaskDescent(self.mask_epochs, self.mask_lr, self.size_weight, self.entropy_weight)
        parameters = [p for p in adapter.model.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(parameters, lr=self.lr)
        for _ in range(self.epochs):
            order = ids[torch.randperm(ids.numel(), generator=generator).to(ids.device)]
            parts = list(batches(order, self.train_batch_size))
            count = self.mask_graphs * len(parts)
            drawn = ids[torch.randint(len(ids), (count,), generator=generator).to(ids.device)]
            graphs = store.batch(drawn)
            start = torch.randn(len(graphs.pairs), generator=generator).to(graphs.x.device)
            predict = weighted_model(adapter, graphs, {})
            mask = descent(predict, graphs, task, start * spread(graphs))
            edges = graphs.edge_counts.view(-1, self.mask_graphs).sum(1).tolist()
            steps = parts, batches(drawn, self.mask_graphs), mask.split(edges)  # type: ignore[no-untyped-call]
            for part, shown, weight in zip(*steps, strict=True):
                predict = weighted_model(adapter, store.batch(shown), {})
                with torch.no_grad():
                    target = task.prediction(predict(None))
                inner = torch.optim.Adam(parameters, lr=self.inner_lr)
                for _ in range(self.inner_steps):
                    _set_gradients(task.loss(predict(weight), target), parameters)
                    inner.step()
                output = adapter.predict(store.batch(part))
                _set_gradients(task.loss(output, labels[part]), parameters)
                nn.utils.clip_grad_norm_(parameters, LARGEST_NORM)
                optimiser.step()
            advance(1)

    @torch.no_grad()
    def _outputs(self, adapter: ModelAdapter, context: Context) -> Tensor:
        parts = batches(torch.arange(len(context.store)), self.batch_size)
        return torch.cat([adapter.predict(context.store.batch(ids)) for ids in parts])

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        with _lent(self.weights.tensors(), adapter.model):
            return self.explainer._explain(adapter, graphs, **model_kwargs)

    def _meta(self) -> dict[str, Any]:
        assert self.report is not None
        return {
            "posthoc": self.explainer._meta(),
            "weights": {
                name: [str(tensor.dtype), list(tensor.shape)]
                for name, tensor in self.weights.tensors().items()
            },
            "report": self.report.to_dict(),
        }

    def _build(self, meta: dict[str, Any]) -> None:
        self.explainer._build(meta["posthoc"])
        self.weights = _Weights({
            name: torch.zeros(shape, dtype=_DTYPES[dtype])
            for name, (dtype, shape) in meta["weights"].items()
        })  # fmt: skip
        self.report = AdaptationReport.from_dict(meta["report"])


class _Weights(nn.Module):
    """Parameters of another module by their dotted names, which a module may not use itself."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.names = sorted(tensors)  # as JSON objects come back
        for number, name in enumerate(self.names):
            self.register_buffer(str(number), tensors[name])

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.buffers(), strict=True))


def _set_gradients(losses: Tensor, parameters: list[nn.Parameter]) -> None:
    loss = losses.mean()
    check_gradient(loss)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _labels(context: Context) -> Tensor:
    """What :meth:`Task.loss` compares outputs with."""
    y, task = context.store.y, context.task
    if y is None:
        raise InputError(
            "'metagnn' trains a copy of the model and needs labels: give every graph a y with one "
            "value"
        )
    if not task.classification:
        if context.values.shape[1] != 1:
            raise InputError(
                f"'metagnn' needs as many labels as outputs, got 1 and {context.values.shape[1]}; "
                "it supports regression of one value"
            )
        return y.to(context.values.dtype).view(-1, 1) / task.scale
    classes = context.values.shape[1]
    labels = y.long()
    if bool((labels != y).any()) or not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise InputError(f"y must hold class numbers from 0 to {classes - 1} for this model")
    return labels


@contextmanager
def _lent(tensors: dict[str, Tensor], model: nn.Module) -> Iterator[None]:
    """Gives a model other weights for a while, without copying the model."""
    parameters = dict(model.named_parameters())
    if {n: p.shape for n, p in parameters.items()} != {n: t.shape for n, t in tensors.items()}:
        raise InputError(
            "the model has other parameters than the one 'metagnn' was fitted to; explain that "
            "model, or fit again"
        )
    lent = {
        parameter: nn.Parameter(tensors[name].to(parameter), requires_grad=False)
        for name, parameter in parameters.items()
    }
    places = [  # all of them: layers may share a parameter
        (module, name, parameter)
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    try:
        for module, name, parameter in places:
            module._parameters[name] = lent[parameter]
        yield
    finally:
        for module, name, parameter in places:
            module._parameters[name] = parameter
