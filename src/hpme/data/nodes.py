"""One graph with labelled nodes as a dataset of ego graphs."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from hpme.data.dataset import DEFAULT_POOL_RATIO, GraphDataset
from hpme.data.info import DatasetInfo, GraphStats
from hpme.graphs import GraphStore
from hpme.graphs.ego import NUM_HOPS, WholeGraph
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE
from hpme.graphs.segment import segment_sum

MAX_POOL_RATIO = 0.5
_PART = 256


class NodeDataset(GraphDataset):
    """A node-level dataset: graph ``i`` is the ego graph of node ``i``, cut out when asked for.

    An ego graph has ``y`` (the label of its target node), ``anchors`` (the target node),
    ``edge_mask`` and ``node_mask`` (the ground truth inside it: all motif edges, or those of the
    target's own motif), and ``node_ids`` (its nodes in the whole graph). Numbers returned by
    :attr:`split`, :attr:`explainable` and :meth:`explained` are nodes of :attr:`graph`.

    Args:
        store: The whole graph, with node attributes ``y`` and ``explained``.
        num_hops: Radius of the ego graphs.
    """

    def __init__(
        self,
        store: GraphStore,
        info: DatasetInfo,
        variant: str,
        seed: int,
        num_hops: int = NUM_HOPS,
    ) -> None:
        super().__init__(store, info, variant, seed)
        # The tensors are of one graph, not of the graphs of this dataset.
        self.slices = None  # type: ignore[assignment]
        self.num_hops = num_hops

    @property
    def graph(self) -> Any:
        """The whole graph, with ``y`` per node; node-level models are trained on it."""
        return self._data if self._hetero is None else self._hetero[0]

    def len(self) -> int:
        """Number of nodes, in a heterogeneous graph of the first type: they have labels."""
        if self.schema is not None:
            return int((self._data[NODE_TYPE] == 0).sum())
        return int(self._data.x.shape[0])

    def get(self, idx: int) -> Data:
        """The ego graph of a node."""
        return self.ego_graphs(torch.tensor([idx]))[0]

    def ego_graphs(self, nodes: Tensor) -> list[Data]:
        """The ego graphs of nodes, in their order."""
        result: list[Data] = []
        for store in self._whole.parts(nodes, _PART):
            truth = self._truth(store)
            node_mask = index_to_mask(store.edge_index[:, truth].flatten(), len(store.x))
            types = {name: store.edge[name] for name in (EDGE_TYPE,) if store.schema is not None}
            store = replace(store, edge={"edge_mask": truth, **types})
            store = self._whole.numbered(store.with_attributes(node={"node_mask": node_mask}))
            result += store.to_data_list()
        return result

    @property
    def has_ground_truth(self) -> bool:
        """Whether any edge is ground truth."""
        return bool(self._data.edge_mask.any())

    @property
    def stats(self) -> GraphStats:
        """Sizes, ground-truth counts and label of every ego graph."""
        return self._stats(torch.arange(len(self)))

    @property
    def explainable(self) -> Tensor:
        """Nodes the paper explains: the first of most houses of one half, those of first grids."""
        explained: Tensor = self._data.explained.nonzero().view(-1)
        return explained

    def companions(self, seed: int, count: int = 200) -> Tensor:
        """Nodes of other classes, at most as many as are explained, where those are of one."""
        return super().companions(seed, min(count, len(self.explainable)))

    @cached_property
    def pool_ratio(self) -> float:
        r"""Pooling ratio :math:`r`: 0.9-quantile of the share of ground-truth nodes, at most 0.5.

        Ego graphs are cut out around the ground truth, and may hold nothing else (Tree-Grid: a
        share of 1 in three of ten, so that the quantile is 1): a pool of the whole says nothing.
        """
        if not self.has_ground_truth:
            return DEFAULT_POOL_RATIO
        stats = self._stats(self._require_explainable())
        share = torch.quantile(stats.truth_nodes.double() / stats.sizes, 0.9)
        return min(float(share), MAX_POOL_RATIO)

    def training_store(self) -> GraphStore:
        """The whole graph, with the label of every node: models are trained on all of it."""
        store = GraphStore.from_graphs([self._data]) if self._hetero is None else self._hetero
        return store.with_attributes(node={"y": self._data.y})

    @cached_property
    def _whole(self) -> WholeGraph:
        return WholeGraph(self.training_store().detached(), self.num_hops)

    def _truth(self, egos: GraphStore) -> Tensor:
        truth: Tensor = self._data.edge_mask[egos.edge["edge_ids"]]
        if self.info.own_motif:
            graphs = egos.batch()
            assert graphs.anchors is not None
            own = index_to_mask(graphs.anchors.flatten(), graphs.num_nodes)
            source, target = graphs.edge_index[:, truth]
            for _ in range(self.num_hops):
                own[target[own[source]]] = True
            truth = truth & own[graphs.edge_index].all(0)
        return truth

    def _stats(self, nodes: Tensor) -> GraphStats:
        parts = []
        for egos in self._whole.parts(nodes, _PART):
            graphs, truth = egos.batch(), self._truth(egos)
            touched = index_to_mask(graphs.edge_index[:, truth].flatten(), graphs.num_nodes)
            nodes_in = segment_sum(touched.long(), graphs.batch, graphs.num_graphs)
            edges_in = segment_sum(truth.long(), graphs.edge_batch, graphs.num_graphs)
            parts.append((graphs.sizes, nodes_in, edges_in))
        sizes, truth_nodes, truth_edges = (torch.cat(column) for column in zip(*parts, strict=True))
        return GraphStats(sizes, truth_nodes, truth_edges, self._data.y[nodes])
