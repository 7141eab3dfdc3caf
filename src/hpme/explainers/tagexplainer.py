"""TAGE, the task-agnostic explainer (Xie et al., NeurIPS 2022)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.explainers.shared.context import Context
from hpme.explainers.shared.masks import Masks, nothing_in
from hpme.explainers.shared.options import Count, Positive, Weight
from hpme.explainers.shared.parametric import ParametricExplainer, mask_penalty, seeded_linear
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter, check_gradient
from hpme.models.embedding import check_channels
from hpme.models.output import Task

Contrast = Literal["jse", "nce"]


class TAGExplainer(ParametricExplainer):
    r"""Learns, without a task, to explain any direction of the graph embedding.

    *Learning.* Each step draws a condition :math:`\mathbf{p} = \mathrm{ReLU}(\mathrm{Laplace}(0,
    b))` in the space of the graph embedding. It gates the node embeddings the edge MLP sees,
    :math:`\mathbf{h}_i \odot \mathrm{ReLU}(\mathbf{W}\mathbf{p} + \mathbf{b})`, and the MLP's
    samples shall preserve the graph embedding in the directions of :math:`\mathbf{p}`: a contrast
    of :math:`\mathbf{p} \odot \mathbf{h}_G` and :math:`\mathbf{p} \odot \tilde{\mathbf{h}}_G`
    over the mini-batch, plus :math:`c_s\,\mathrm{mean}_e w_e + c_e\,\mathrm{mean}_e H(w_e)`.
    Neither labels nor predictions are used.

    *Explaining.* The condition of a graph is the gradient of the predicted class's output with
    respect to the graph embedding, :math:`b\,\mathrm{ReLU}(\nabla / \mathrm{mean}|\nabla|)`: its
    mean magnitude is that of the conditions learned from. For regression both signs count.

    Args:
        contrast: ``"nce"``, InfoNCE on cosines, or ``"jse"``, the Jensen-Shannon estimator on dot
            products, which suits embeddings that have negative entries.
        scale: :math:`b` of the Laplace distribution.
        size_weight: :math:`c_s`; in this method of the mean of the edge weights, not their sum.
        epochs, **options: As in :class:`ParametricExplainer`.
    """

    slug = "tagexplainer"
    title = "TAGExplainer"
    summary = "TAGE: an edge MLP conditioned on directions of the graph embedding, task-agnostic."
    typical_seconds = 11.0
    reads_target_node = False  # the condition says what is explained

    gate: nn.Linear
    task: Task

    def __init__(
        self,
        *,
        contrast: Contrast = "nce",
        scale: Positive = 0.2,
        epochs: Count = 300,
        size_weight: Weight = 0.03,
        **options: Any,
    ) -> None:
        super().__init__(epochs=epochs, size_weight=size_weight, **options)
        self.contrast, self.scale = contrast, scale

    def _start(self, context: Context, generator: torch.Generator) -> None:
        super()._start(context, generator)
        width = context.graph_embedding[0].numel()
        self.gate = seeded_linear(width, context.h.shape[1], generator)
        self.task = context.task

    def _gated(self, h: Tensor, condition: Tensor) -> Tensor:
        gate: Tensor = self.gate(condition)
        return h * gate.relu()

    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        graphs = context.store.batch(ids, with_pairs=True)
        whole = context.graph_embedding[ids].view(len(ids), -1)
        condition = laplace(whole.shape[1:], self.scale, generator).to(whole).relu()
        h = self._gated(context.embedded(graphs), condition)
        mask = self._sample(h, graphs, temperature, generator)
        part = context.adapter.trace(graphs, mask).graph.to(whole).view(len(ids), -1)
        charged = self.size_weight / max(1, mask.numel()), self.entropy_weight
        penalty = mask_penalty(mask, torch.zeros_like(graphs.edge_batch), 1, *charged)
        return CONTRASTS[self.contrast](condition * whole, condition * part) + penalty.sum()

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if graphs.num_nodes == 0:
            return Masks(nothing_in(graphs))
        condition, h = self._condition(adapter, graphs, **model_kwargs)
        check_channels("graphs", condition, self.gate.in_features)
        with torch.no_grad():
            h = self._gated(h, condition[graphs.batch])
            return Masks(self.edge_mlp(h, graphs.edge_index).sigmoid())

    def _condition(
        self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The downstream condition of every graph, and the node embeddings."""
        # Only tensors that depend on a leaf can be differentiated by; the copy is for models that
        # write to their input.
        leaf = adapter.node_input(graphs, **model_kwargs).detach().requires_grad_()
        traced = adapter.trace(graphs, node_input=leaf.clone(), **model_kwargs)
        # A node-level model computes its output from all node rows, among them the anchor's.
        at_node = adapter.level == "node"
        rows = traced.nodes if at_node else traced.graph
        adapter.check(traced.output, graphs)
        check_gradient(traced.output)
        score = _predicted(self.task, traced.output).sum()
        found = None
        if rows.requires_grad:  # constants do not
            found = torch.autograd.grad(score, rows, allow_unused=True)[0]
        slope = torch.zeros_like(rows) if found is None else found
        if at_node and graphs.anchors is not None:
            slope = slope[graphs.anchors[:, 0]]
        dtype = torch.get_default_dtype()
        slope = slope.flatten(1).to(dtype)
        slope = slope / slope.abs().mean(dim=1, keepdim=True).clamp(min=1e-12)
        slope = slope.relu() if self.task.classification else slope.abs()
        return self.scale * slope, traced.nodes.detach().to(dtype)

    def _meta(self) -> dict[str, Any]:
        width = self.gate.in_features
        return {**super()._meta(), "graph_channels": width, "task": asdict(self.task)}

    def _build(self, meta: dict[str, Any]) -> None:
        self.gate = seeded_linear(meta["graph_channels"], meta["channels"], torch.Generator())
        self.task = Task(**meta["task"])
        super()._build(meta)


def laplace(shape: torch.Size, scale: float, generator: torch.Generator) -> Tensor:
    """Samples of the Laplace distribution around 0."""
    uniform = torch.rand(shape, generator=generator) - 0.5
    return -scale * uniform.sign() * torch.log1p(-2 * uniform.abs())


def jse_contrast(a: Tensor, b: Tensor) -> Tensor:
    """Negated Jensen-Shannon estimate of the mutual information of rows of the same number."""
    similarity = a @ b.T
    matched = similarity.diagonal()
    of_matched = (math.log(2) - F.softplus(-matched)).mean()
    apart = F.softplus(-similarity) + similarity - math.log(2)
    off_diagonal = ~torch.eye(len(a), dtype=torch.bool, device=a.device)
    of_apart = apart[off_diagonal].sum() / max(1, len(a) * (len(a) - 1))
    return of_apart - of_matched


def nce_contrast(a: Tensor, b: Tensor, temperature: float = 0.5) -> Tensor:
    """InfoNCE on cosines: each row finds its own among all, in both directions."""
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / temperature
    own = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


CONTRASTS = {"jse": jse_contrast, "nce": nce_contrast}


def _predicted(task: Task, output: Tensor) -> Tensor:
    """What the model says for its own prediction; one output speaks for two classes."""
    if task.mode == "multiclass_classification":
        return output.amax(dim=1)
    if task.mode == "binary_classification":
        return (output if task.return_type == "raw" else output - 0.5).abs()
    return output
