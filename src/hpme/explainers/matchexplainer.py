"""MatchExplainer: the nodes of a graph that find their like in other graphs of its class."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.options import Count, Share
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.segment import TIE, exclusive_cumsum
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding, check_channels
from hpme.models.output import Task

_CELLS = 2**22
"""Entries of the distance matrices held at once."""
_MOST = 2**27
"""Entries of one distance matrix; each step of a match looks at all of them."""
_NUMBER = "matched edge"
"""No attribute of a graph has a name with a blank."""


class MatchExplainer(GraphExplainer):
    r"""Explains a graph by the part it shares with references of the same prediction.

    References are the fitted graphs of the same predicted class, nearest graph embeddings first;
    for regression, those of the nearest predictions. Nodes of the graph and of each reference are
    matched one to one by their embeddings: the closest pair first, both removed, until :math:`K`
    nodes are matched. Each reference gives one hard subgraph, the one induced by the matched nodes.

    ``edge_mask`` and ``node_mask`` hold the share of references whose subgraph contains the edge or
    node. ``pooled`` are the nodes of the one on which the prediction changes least.

    A subgraph that holds one of several nodes with equal embeddings, twins, holds all, and may have
    more than :math:`K` nodes. Anchors are matched with each other before all else; they have no
    twins. A reference with the embedding of the graph itself is a copy and is left out. Graphs of
    fewer than :math:`K` nodes, and then those of other classes, serve if there are no better ones.

    Args:
        ratio: Share of nodes that are matched.
        k: Number of matched nodes :math:`K`, in place of ``ratio``.
        references: At most this many references per graph.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
            Nothing is drawn at random.
    """

    slug = "matchexplainer"
    title = "MatchExplainer"
    summary = "Nodes whose embeddings match those of other graphs with the same prediction."
    typical_seconds = 0.3
    needs_weights = False

    task: Task
    h: Tensor
    graph_embedding: Tensor
    values: Tensor
    sizes: Tensor
    anchors: Tensor | None

    def __init__(
        self,
        *,
        ratio: Share | None = None,
        k: Count | None = None,
        references: Count = 16,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ratio, self.k, self.references = ratio, k, references
        self.size = PoolSize(ratio, k)
        self.register_buffer("anchors", None)

    def _fit(self, context: Context, *, progress: bool) -> None:
        self.task = context.task
        self.register_buffer("h", context.h)
        self.register_buffer("graph_embedding", _rows(context.graph_embedding))
        self.register_buffer("values", context.values.to(context.h.dtype))
        self.register_buffer("sizes", context.store.sizes)
        self.register_buffer("anchors", context.store.anchors)

    def _meta(self) -> dict[str, Any]:
        shapes = {name: list(buffer.shape) for name, buffer in self.named_buffers()}
        return {"task": asdict(self.task), "shapes": shapes}

    def _build(self, meta: dict[str, Any]) -> None:
        self.task = Task(**meta["task"])
        for name, shape in meta["shapes"].items():
            dtype = torch.long if name in ("sizes", "anchors") else None
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))

    def _check_learned(self) -> None:
        rows = {len(self.sizes), len(self.graph_embedding), len(self.values)}
        anchors = self.sizes.new_zeros(1, 1) if self.anchors is None else self.anchors
        fits = len(rows) == 1 and len(self.sizes) > 0 and int(self.sizes.min()) > 0
        inside = (anchors >= 0) & (anchors < self.sizes.view(-1, 1)[: len(anchors)])
        if not fits or int(self.sizes.sum()) != len(self.h) or not bool(inside.all()):
            raise ValueError("its references do not fit together")

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        nodes = graphs.x.new_zeros(graphs.num_nodes, dtype=torch.get_default_dtype())
        edges = nodes.new_zeros(graphs.edge_index.shape[1])
        pooled = torch.zeros_like(nodes, dtype=torch.bool)
        if graphs.num_nodes == 0:
            return Masks(edges, nodes.unsqueeze(1), pooled)
        embedding = adapter.embed(graphs, **model_kwargs)
        target = self.task.prediction(embedding.output)
        graph, reference = self._references(embedding, graphs)
        choices, losses = [], []
        cells = int(graphs.sizes.max()) * int(self.sizes.max())
        if cells > _MOST:
            raise InputError(
                f"MatchExplainer compares all nodes of two graphs, here {cells:.1e} pairs, more "
                f"than {_MOST:.1e}; fit and explain smaller ones, such as ego graphs (index=...)"
            )
        for part in batches(torch.arange(graph.numel()), max(1, _CELLS // cells)):
            owner = graph[part]
            chosen = self._match(embedding.nodes, graphs, owner, reference[part])
            induced = Induced.by(chosen, owner, graphs)
            nodes += torch.bincount(induced.nodes, minlength=nodes.numel())
            edges += torch.bincount(induced.edges, minlength=edges.numel())
            output = adapter.predict(induced.graphs, **model_kwargs)
            choices.append(chosen)
            # A subgraph to which the model has no answer is the last choice.
            losses.append(self.task.loss(output, target[owner]).nan_to_num(torch.inf))
        count = torch.bincount(graph, minlength=graphs.num_graphs)
        loss = torch.cat(losses)
        lowest = loss.new_full((len(count),), torch.inf).scatter_reduce(0, graph, loss, "amin")
        low = (loss <= (lowest + TIE * lowest.abs())[graph]).nonzero().squeeze(1)
        first = exclusive_cumsum(torch.bincount(graph[low], minlength=len(count)))
        best = low[first[count > 0]]  # of equal ones the first; matches come graph by graph
        pooled[Induced.by(torch.cat(choices)[best], graph[best], graphs).nodes] = True
        share = count.clamp(min=1)
        nodes, edges = nodes / share[graphs.batch], edges / share[graphs.edge_batch]
        return Masks(edges, nodes.unsqueeze(1), pooled)

    def _references(self, embedding: Embedding, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """Graph number and reference number of every match to make, graph by graph."""
        h, values = _rows(embedding.graph), self.task.values(embedding.output).to(self.values)
        check_channels("graphs", h, self.graph_embedding.shape[1])
        distance = _distance(h, self.graph_embedding)
        copy = distance <= 1e-4 * h.norm(dim=1, keepdim=True)
        small = self.sizes < self.size(graphs.sizes).unsqueeze(1)
        if self.task.classification:
            other = values.argmax(1, keepdim=True) != self.values.argmax(1)
        else:
            other, distance = torch.zeros_like(copy), _distance(values, self.values)
        level = 4 * copy.long() + 2 * other.long() + small.long()
        # In double precision the order of the distances survives the sum.
        key = distance.double() / (1 + distance.amax()) + level
        reference = key.topk(min(self.references, len(self.sizes)), largest=False).indices
        level = level.gather(1, reference)
        usable = (level == level[:, :1]) & (graphs.sizes > 0).unsqueeze(1)
        graph, place = usable.nonzero(as_tuple=True)
        return graph, reference[graph, place]

    def _match(self, h: Tensor, graphs: GraphBatch, graph: Tensor, reference: Tensor) -> Tensor:
        ours, real = _padded(h, graphs.ptr[graph], graphs.sizes[graph], int(graphs.sizes.max()))
        start = exclusive_cumsum(self.sizes)[reference]
        theirs, also = _padded(self.h, start, self.sizes[reference], int(self.sizes.max()))
        distance = _distance(ours, theirs)
        distance.masked_fill_(~(real.unsqueeze(2) & also.unsqueeze(1)), torch.inf)
        twins = Twins.of(ours, real)
        if graphs.anchors is not None and self.anchors is not None:
            own = (graphs.anchors - graphs.ptr.unsqueeze(1))[graph]
            row = torch.arange(graph.numel(), device=graph.device).unsqueeze(1)
            distance[row, own, self.anchors[reference]] = -1.0  # no distance is lower
            twins = twins.without(own)
        tie = TIE * ours.norm(dim=2).amax(1, keepdim=True)
        order = twins.order.unsqueeze(2).expand_as(distance)
        chosen = greedy_match(distance.gather(1, order), self.size(graphs.sizes)[graph], tie)
        return twins.all_of(torch.zeros_like(chosen).scatter(1, twins.order, chosen))


def greedy_match(distance: Tensor, count: Tensor, tie: Tensor) -> Tensor:
    """Rows ``[P, N]`` of matrices that are matched to columns one to one, the closest pair first.

    ``distance`` ``[P, N, M]``, infinite where nothing may be matched, is overwritten; ``count``
    rows are matched, if there are so many. Of pairs that differ by no more than ``tie`` the first
    comes first: what is left of rounding must not decide.
    """
    every = torch.arange(distance.shape[0], device=distance.device)
    chosen = torch.zeros(distance.shape[:2], dtype=torch.bool, device=distance.device)
    for step in range(int(count.max()) if count.numel() else 0):
        lowest = distance.flatten(1).amin(dim=1, keepdim=True)
        best = (distance.flatten(1) <= lowest + tie).int().argmax(1)
        row, column = best // distance.shape[2], best % distance.shape[2]
        open_ = (step < count) & lowest[:, 0].isfinite()
        chosen[every[open_], row[open_]] = True
        distance[every, row] = torch.inf
        distance[every, :, column] = torch.inf
    return chosen


@dataclass(frozen=True)
class Twins:
    """Nodes of graphs with equal embeddings."""

    order: Tensor  # nodes [P, N] of each graph by their embeddings, twins side by side
    group: Tensor  # the group of twins of every node

    @classmethod
    def of(cls, h: Tensor, real: Tensor) -> Twins:
        """The twins among nodes with embeddings :math:`[P, N, d]`, those that are real."""
        # In a direction this odd, embeddings that differ have different lengths.
        direction = torch.arange(1, h.shape[2] + 1, device=h.device, dtype=torch.double).cos()
        length = (h.double() @ direction).masked_fill(~real, torch.inf)
        ordered, order = length.sort(dim=1)
        size = length.abs().masked_fill(~real, 0.0).amax(1, keepdim=True)
        new = (ordered[:, 1:] - ordered[:, :-1]) > TIE * size
        group = torch.zeros_like(order)
        group[:, 1:] = new.cumsum(1)
        return cls(order, torch.zeros_like(order).scatter(1, order, group))

    def without(self, nodes: Tensor) -> Twins:
        """The same, but some nodes :math:`[P, c]` of each graph are nobody's twins."""
        own = self.group.shape[1] + nodes  # no other group has this number
        return Twins(self.order, self.group.scatter(1, nodes, own))

    def all_of(self, chosen: Tensor) -> Tensor:
        """Chosen nodes with all their twins."""
        width = 2 * chosen.shape[1]
        some = chosen.new_zeros(chosen.shape[0], width, dtype=torch.long)
        some.scatter_add_(1, self.group, chosen.long())
        return some.gather(1, self.group) > 0


@dataclass(frozen=True)
class Induced:
    """Subgraphs of the graphs of a batch, and their nodes and edges in the batch.

    The subgraphs have no isolated nodes, unless these are anchors or a subgraph has no others.
    """

    graphs: GraphBatch
    nodes: Tensor
    edges: Tensor

    @classmethod
    def by(cls, chosen: Tensor, owner: Tensor, graphs: GraphBatch) -> Induced:
        """The subgraphs on chosen nodes ``[P, N]`` of the graphs with numbers ``owner``."""
        number = torch.arange(graphs.num_edges, device=graphs.x.device)
        numbered = replace(graphs, edge={**graphs.edge, _NUMBER: number})
        copies = GraphStore.from_graphs(numbered).batch(owner)
        place = torch.arange(copies.num_nodes, device=owner.device) - copies.ptr[copies.batch]
        inside = chosen[copies.batch, place]
        induced = copies.edges(inside[copies.edge_index].all(0))
        kept = inside & (induced.edge_counts == 0)[copies.batch]
        kept[induced.edge_index.flatten()] = True
        if copies.anchors is not None:
            kept[copies.anchors.flatten()] = True
        nodes = graphs.ptr[owner[copies.batch[inside]]] + place[inside]
        edge = dict(induced.edge)
        edges = edge.pop(_NUMBER)
        return cls(replace(induced, edge=edge).nodes(kept), nodes, edges)


def _rows(graph_embedding: Tensor) -> Tensor:
    return graph_embedding.view(graph_embedding.shape[0], -1)


def _distance(a: Tensor, b: Tensor) -> Tensor:
    # The shortcut by matrix products rounds differently from batch to batch.
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _padded(h: Tensor, start: Tensor, sizes: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Rows of each block side by side, ``[P, width, d]``, and which of them are real."""
    place = torch.arange(width, device=h.device)
    real = place < sizes.unsqueeze(1)
    return h[torch.where(real, start.unsqueeze(1) + place, 0)], real
