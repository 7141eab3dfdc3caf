"""What an explainer says about a batch of graphs; how scores become masks of nodes and edges."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain.config import ExplainerConfig, MaskType

from hpme.errors import InputError
from hpme.explainers.shared.replicas import explained_output, integrate, predicted
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import WholeGraph
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import ExplainedModel

STEPS = 16
"""Points on the way of descriptors from their means to their values."""
ADD_UP = 0.1
"""Of all shares of descriptors: what they may miss without a warning."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Masks:
    """What an explainer says about a batch of graphs: importance of edges, nodes, pooled nodes."""

    edge_mask: Tensor
    node_mask: Tensor | None = None
    pooled: Tensor | None = None
    output: Tensor | None = None  # what the model says, where that was computed on the way

    def given(self) -> dict[str, Tensor]:
        """Masks that the explainer gives."""
        named = {"edge_mask": self.edge_mask, "node_mask": self.node_mask, "pooled": self.pooled}
        return {name: value for name, value in named.items() if value is not None}

    def to(self, device: torch.device) -> Masks:
        """The masks on another device."""
        output = None if self.output is None else self.output.to(device)
        return Masks(**{n: v.to(device) for n, v in self.given().items()}, output=output)


def joined_masks(parts: list[tuple[Masks, Tensor]], graphs: GraphBatch) -> Masks:
    """Masks of a batch, where different ones count for the graphs of different numbers."""
    if len(parts) == 1:
        return parts[0][0]
    number = torch.zeros(graphs.num_graphs, dtype=torch.long, device=graphs.x.device)
    for place, (_, ids) in enumerate(parts):
        number[ids] = place
    columns = {}
    for name, first in parts[0][0].given().items():
        rows = number[graphs.edge_batch if name == "edge_mask" else graphs.batch]
        stacked = torch.stack([masks.given()[name] for masks, _ in parts])
        columns[name] = stacked[rows, torch.arange(len(first), device=rows.device)]
    return Masks(**columns)  # without outputs, which are about different targets


def spread(
    masks: Masks, store: GraphStore, whole: GraphBatch | WholeGraph, columns: dict[str, Tensor]
) -> None:
    """Puts masks of parts where their ``node_ids`` and ``edge_ids`` are; the highest stays."""
    for name, value in masks.given().items():
        per_edge = name == "edge_mask"
        place = store.edge["edge_ids"] if per_edge else store.node["node_ids"]
        rows = whole.edge_index.shape[1] if per_edge else len(whole.x)
        if name not in columns:
            columns[name] = value.new_zeros((rows, *value.shape[1:]))
        place = place.view(-1, *[1] * (value.dim() - 1)).expand_as(value)
        columns[name].scatter_reduce_(0, place, value, "amax")


def nothing_in(graphs: GraphBatch) -> Tensor:
    """The importance of no edges, or of no nodes."""
    return graphs.x.new_zeros(0, dtype=torch.float32)


def squash(score: Tensor) -> Tensor:
    """Scores of at least 0 in [0, 1), in the same order, in the default precision."""
    return (score / (1 + score)).to(torch.get_default_dtype())


def from_edges(edge_mask: Tensor, graphs: GraphBatch) -> Masks:
    """Every node is as important as its heaviest edge; without edges 0."""
    return Masks(edge_mask, edge_to_node(edge_mask, graphs))


def from_nodes(node_mask: Tensor, graphs: GraphBatch) -> Masks:
    """Every edge is as important as the less important of its two ends.

    An edge belongs to a set of nodes if both ends do. On BA-2Motifs (three seeds) nodes' occlusion
    has an edge AUC of .98 this way, and of .93 with the mean of both ends.
    """
    return Masks(node_mask[graphs.edge_index].amin(0), node_mask.unsqueeze(1))


def edge_to_node(edge_mask: Tensor, graphs: GraphBatch) -> Tensor:
    """Importance ``[N, 1]`` of nodes: that of their most important edge."""
    ends = graphs.edge_index.flatten()
    nodes = edge_mask.new_zeros(graphs.num_nodes)
    return nodes.scatter_reduce(0, ends, edge_mask.repeat(2), "amax").unsqueeze(1)


@torch.no_grad()
def feature_importance(
    adapter: ModelAdapter, graphs: GraphBatch, nodes: Tensor, **model_kwargs: Any
) -> Tensor:
    """Importance ``[N, F]`` of every feature of every node, by one forward pass per feature.

    It counts as much as the output changes when it is set to zero at all nodes of the graph,
    relative to the feature that changes it most; and only at nodes that have it, as much as these
    count themselves. Of codes, zero is the neutral one.
    """
    if not graphs.has_x:
        raise InputError(
            "the graphs have no x, so no feature of theirs has an importance; ask for "
            "node_mask_type='object'"
        )
    output = adapter.predict(graphs, **model_kwargs)
    task = adapter.view.task(output)
    before = task.values(output)
    # Column 0 of one type has nothing to do with column 0 of another.
    kinds = [None] if graphs.schema is None else graphs.type_rows.nodes
    x = graphs.kinds
    widths = [x.shape[1]] if graphs.schema is None else graphs.schema.widths
    change = nodes.new_zeros(len(widths), graphs.num_graphs, x.shape[1])
    for kind, (rows, width) in enumerate(zip(kinds, widths, strict=True)):
        for column in range(width):
            changed = graphs.x.clone()
            changed.view(len(x), -1)[slice(None) if rows is None else rows, column] = 0
            after = task.values(adapter.predict(replace(graphs, x=changed), **model_kwargs))
            change[kind, :, column] = (after - before).abs().sum(1).to(change)
    share = change / change.amax((0, 2), keepdim=True).clamp(min=torch.finfo(change.dtype).tiny)
    kind_of = torch.zeros_like(graphs.batch) if graphs.node_type is None else graphs.node_type
    return nodes * share[kind_of, graphs.batch] * (x != 0)


def descriptor_means(explained: ExplainedModel, source: Any) -> list[float] | None:
    """Mean of every descriptor over graphs; ``None`` if the model or these have none."""
    store = getattr(source, "store", source) if explained.descriptors is not None else None
    values = None if store is None else store.graph.get(explained.descriptors)
    return None if values is None else values.double().mean(0).tolist()


@torch.no_grad()
def share_descriptors(
    explanations: Sequence[Any],
    explained: ExplainedModel,
    graphs: GraphBatch,
    target: Any,
    means: Sequence[float] | None,
) -> None:
    """Tells explanations what the descriptors do that the model takes besides the graph.

    The shares are integrated gradients on the straight way from ``means``, those of the background,
    by :data:`STEPS` passes; see :class:`~hpme.explainers.shared.explanation.Explanation`.
    """
    name = explained.descriptors
    if means is None or name is None:
        return
    if target is not None:
        explained = replace(explained, target=target)
    given = graphs.graph[name]
    neutral = torch.tensor(means).to(given).expand_as(given)
    with explained.frozen():
        adapter = explained.adapter()
        output = adapter.predict(graphs)
        task = replace(adapter.view.task(output), scale=1.0)
        classes = predicted(task, output)
        before = explained_output(task, output, classes)

        def fall(changed: GraphBatch) -> Tensor:
            change = before - explained_output(task, adapter.predict(changed), classes)
            return change[:, 0] if change.shape[1] == 1 else change.abs().sum(1)

        def having(values: Tensor) -> GraphBatch:
            return replace(graphs, graph={**graphs.graph, name: values})

        def on_the_way(part: Tensor) -> Tensor:
            return explained_output(task, adapter.predict(having(neutral + part)), classes)

        with torch.enable_grad():
            shares = integrate(on_the_way, (given - neutral).detach(), STEPS).detach()
        single = shares[0] if len(shares) == 1 else shares.abs().sum(0)
        together = fall(having(neutral))
        gap = float((single.sum(1) - together).abs().max()) if len(shares) == 1 else 0.0
        if gap > ADD_UP * float(single.abs().sum(1).max()):
            logger.warning("shares of descriptors miss their effect by %.2g: there is a jump", gap)
        alone = torch.full_like(together, torch.nan)  # codes have no zero
        if not graphs.coded:
            alone = fall(replace(graphs, x=torch.zeros_like(graphs.x)))
    for number, explanation in enumerate(explanations):
        explanation.descriptors = single[number]
        explanation.descriptors_together = float(together[number])
        explanation.graph_alone = float(alone[number])


def with_node_masks(
    masks: Masks, config: Any, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any
) -> Masks:
    """The masks with those of nodes and features that a PyG ``Explainer`` is configured for."""
    wanted = None if config is None else config.node_mask_type
    if wanted is None:
        return masks
    nodes = masks.node_mask
    if nodes is None:
        nodes = edge_to_node(masks.edge_mask, graphs)
    if wanted != MaskType.object:
        nodes = feature_importance(adapter, graphs, nodes, **model_kwargs)
    return replace(masks, node_mask=nodes)


def wanted(
    masks: Masks, config: ExplainerConfig | None, *, typed: bool = False
) -> dict[str, Tensor]:
    """The masks that a PyG ``Explainer`` is configured for; without one all."""
    given = masks.given()
    if common(config) and not typed and len(given["node_mask"]):  # by_type does so for each type
        given["node_mask"] = given["node_mask"].amax(0, keepdim=True)
    if config is not None and config.edge_mask_type is None:
        del given["edge_mask"]
    return given


def common(config: ExplainerConfig | None) -> bool:
    """Whether a PyG ``Explainer`` wants one importance per feature, not per node."""
    return config is not None and config.node_mask_type == MaskType.common_attributes
