"""Occlusion: what the prediction loses when one edge, or one node, is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.explainers.shared import replicas
from hpme.explainers.shared.masks import Masks, from_edges, from_nodes, nothing_in, squash
from hpme.explainers.shared.sources import passes_messages
from hpme.explainers.shared.templates import TrainingFreeExplainer
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.replicas import Change

Unit = Literal["edge", "node"]


class OcclusionExplainer(TrainingFreeExplainer):
    r"""How much the explained output changes when one part of the graph is gone.

    :math:`\delta_u = |t(G) - t(G \setminus u)|`, squashed to :math:`\delta / (1 + \delta)`, where
    :math:`t` is the log odds of the predicted class, which do not flatten where the model is sure;
    for regression the output, in units of the outputs' spread after :meth:`fit`, and changes are
    summed over outputs.

    Deletion is real: no model sees a deleted edge.

    Args:
        unit: ``"edge"``: both directions between two nodes are deleted together, and a node is as
            important as its heaviest edge. ``"node"``: the features of one node are zeroed, its
            edges stay (a deleted node would change the structure around it, and a target node
            cannot be deleted); an edge is as important as the less important of its ends. A node
            with codes is deleted, see :meth:`~hpme.graphs.batch.GraphBatch.without`. By default
            edges; nodes where there are none or the model reads none, and for models without PyG's
            message-passing layers, such as Chemprop's, whose features of atoms and bonds would
            contradict a deleted bond.
        signed: Whether parts of a class that speak against it are the least important ones, in
            place of as important as those for it.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
            Nothing is drawn at random.
    """

    slug = "occlusion"
    title = "Occlusion"
    summary = "Change of the prediction when one edge, or one node, is gone."
    typical_seconds = 0.5
    needs_weights = False
    hetero = True
    needs_edges = False

    def __init__(self, *, unit: Unit | None = None, signed: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.unit, self.signed = unit, signed

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if not graphs.num_nodes:
            return from_edges(nothing_in(graphs), graphs)
        model = replicas.ReplicaModel(adapter, graphs, model_kwargs)
        usual = "edge" if passes_messages(adapter.model) else "node"
        if (self.unit or usual) == "node" or not adapter.reads_edges(graphs):
            return from_nodes(self._scores(model, graphs.batch, replicas.without_node()), graphs)
        pairs = graphs.pairs
        scores = self._scores(model, pairs.graph, replicas.without_pair(pairs))
        masks = from_edges(pairs.per_edge(scores), graphs)
        loose = (graphs.edge_counts == 0)[graphs.batch].nonzero().view(-1)
        if not loose.numel():
            return masks
        assert masks.node_mask is not None
        nodes = self._scores(model, graphs.batch[loose], replicas.without_node(loose)).unsqueeze(1)
        return replace(masks, node_mask=masks.node_mask.index_copy(0, loose, nodes))

    def _scores(self, model: replicas.ReplicaModel, owner: Tensor, without: Change) -> Tensor:
        """Scores of parts that belong to the graphs ``owner``; replica ``i`` lacks part ``i``."""
        if not owner.numel():
            return torch.zeros(0, device=owner.device)
        ids, output = model.whole()
        task = self._task_of(model.adapter, output)
        row = torch.searchsorted(ids, owner)
        output = output[row]
        classes = replicas.predicted(task, output)
        before = replicas.explained_output(task, output, classes)
        fall = before - replicas.explained_output(task, model(owner, without), classes)
        if self.signed and task.classification:
            return (1 + fall.sum(1).sign() * squash(fall.sum(1).abs())) / 2
        return squash(fall.abs().sum(1))
