"""Link prediction as a graph-level task: every link and as many non-links, each as a subgraph."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.data.dataset import GraphDataset
from hpme.data.info import PAPER, PUBLISHED, DatasetInfo, GraphStats, entry, has_ground_truth
from hpme.data.links.drawing import PARTS, non_links, parts_of
from hpme.data.links.planted import RULE, planted_graphs
from hpme.data.nodes import motifs as node_motifs
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.enclosing import NUM_LABELS, BaseGraph, Labels, cut_out

POOL_RATIO = 0.5
"""Both ends are always pooled, so that a fifth of a typical subgraph adds no more than a node."""
VARIANT = "links"
ENDS, PLANTED = "ends", "planted"
"""Variants: only the ends are marked; and a cycle, the ground truth, decides the label."""
DESCRIPTION = "two nodes and what surrounds them; linked (1) or not (0)"


class LinkDataset(GraphDataset):
    r"""Enclosing subgraphs of the links of one graph (label 1) and of as many non-links (label 0).

    Graphs are those of :func:`~hpme.data.enclosing_subgraph`, with ``node_mask`` and ``edge_mask``
    that mark nothing: there is no ground truth, unless it was
    :func:`hpme.data.links.planted.planted_graphs`. Links are split 85/5/10. Links of the
    validation set are in no subgraph but those of the test set; links of the test set are in none.

    Args:
        store: The graphs, with ``anchors`` and ``part`` (0 train, 1 val, 2 test).
        info, variant, seed: As in :class:`GraphDataset`; the seed is that of the split, too.
    """

    def __init__(self, store: GraphStore, info: DatasetInfo, variant: str, seed: int) -> None:
        super().__init__(store, info, variant, seed)
        # A row of a two-column attribute would come out as a matrix of one row.
        self._data.anchors = store.graph["anchors"].flatten()
        self.slices["anchors"] = 2 * self.slices["anchors"]

    @classmethod
    def from_graph(
        cls,
        data: Data,
        *,
        num_hops: int = 1,
        num_labels: int = NUM_LABELS,
        use_x: bool = False,
        labels: Labels = "drnl",
        size: int | None = None,
        seed: int = 0,
        title: str = "links",
    ) -> LinkDataset:
        """The links of any graph; directions of edges are ignored for links and distances.

        Args:
            data: A graph with ``edge_index``.
            num_hops, num_labels, use_x, labels: As in :func:`~hpme.data.enclosing_subgraph`.
            size: Number of subgraphs, half of them of links; by default twice the number of links.
                Links that are left out stay in the graph.
            seed: Seed of the split and of the non-links.
            title: Name of the dataset.

        Raises:
            InputError: If the graph has too few links, or too few pairs of nodes without one.
        """
        base = BaseGraph.of(copy.copy(data).cpu(), use_x=use_x)
        store = link_graphs(
            base, size, seed, num_hops=num_hops, num_labels=num_labels, labels=labels
        )
        info = _entry(title, DESCRIPTION, _no_builder, num_graphs=len(store), variants=(VARIANT,))
        return cls(store, info, VARIANT, seed)

    @property
    def pool_ratio(self) -> float:
        r"""Pooling ratio :math:`r`: that of the ground truth, :data:`POOL_RATIO` without one."""
        return super().pool_ratio if self.has_ground_truth else POOL_RATIO

    @property
    def split(self) -> dict[str, Tensor]:
        """Graph numbers of ``train``, ``val`` and ``test``."""
        part = self._data.part[torch.as_tensor(list(self.indices()), dtype=torch.long)]
        return {name: (part == i).nonzero().view(-1) for i, name in enumerate(PARTS)}


def link_graphs(
    base: BaseGraph,
    size: int | None,
    seed: int,
    *,
    num_hops: int,
    num_labels: int = NUM_LABELS,
    labels: Labels = "drnl",
) -> GraphStore:
    """Draws links and non-links, splits them, and cuts out their subgraphs.

    Which end of a link is the first is random.
    """
    generator = torch.Generator().manual_seed(seed)
    links = base.links()
    size = 2 * len(links) if size is None else size
    if not 2 * len(PARTS) <= size <= 2 * len(links):
        raise InputError(
            f"the graph has {len(links)} links: size must be at least {2 * len(PARTS)} and at most "
            f"twice their number, got {size}"
        )
    order = torch.randperm(len(links), generator=generator)[: size - size // 2]
    links = torch.cat([links[order], non_links(base, size // 2, generator)])
    part = torch.cat([parts_of(len(order)), parts_of(size // 2)])
    y = (torch.arange(size) < len(order)).long()
    turned = torch.rand(size, 1, generator=generator) < 0.5
    links = torch.where(turned, links.flip(1), links)

    test, held_out = part == PARTS.index("test"), part != PARTS.index("train")
    store, tested = (
        cut_out(
            base.without(links[hidden]),
            links[shown],
            num_hops=num_hops,
            num_labels=num_labels,
            labels=labels,
        )
        for shown, hidden in ((~test, held_out), (test, test))
    )
    store = store.joined(tested)
    place = torch.cat([(~test).nonzero(), test.nonzero()]).view(-1)
    nodes, edges = (
        torch.zeros(int(n.sum()), dtype=torch.bool) for n in (store.sizes, store.edge_counts)
    )
    return store.with_attributes(
        node={"node_mask": nodes},
        edge={"edge_mask": edges},
        graph={"part": part[place], "y": y[place]},
    )


def explainable(stats: GraphStats) -> Tensor:
    """The graphs with ground truth; where it was not planted there is none, and all will do."""
    truth = has_ground_truth(stats)
    return truth if bool(truth.any()) else torch.ones_like(truth)


_entry = partial(entry, num_classes=2, level="link", explainable=explainable)


def _no_builder(*_: Any) -> GraphStore:
    raise InputError(
        "a dataset of your own links is made by LinkDataset.from_graph, not by its name"
    )


def _of_nodes(name: str, num_hops: int, num_graphs: int) -> DatasetInfo:
    """Links of the graph of a node-level dataset."""
    nodes = next(info for info in node_motifs.INFOS if info.name == name)

    def build(variant: str, seed: int, size: int) -> GraphStore:
        whole = PUBLISHED if variant == PUBLISHED else PAPER
        store = nodes.build(whole, seed, nodes.num_graphs)
        base = BaseGraph(store.local_edge_index, nodes.num_graphs)
        if variant == PLANTED:
            return planted_graphs(base, size, seed, num_hops=num_hops)
        labels: Labels = "ends" if variant == ENDS else "drnl"
        return link_graphs(base, size, seed, num_hops=num_hops, labels=labels)

    return _entry(
        f"{nodes.title} links",
        f"two nodes of {nodes.title} and what surrounds them; linked (1) or not (0)",
        build,
        num_graphs=num_graphs,
        variants=(PAPER, PUBLISHED, ENDS, PLANTED),
        rules={PLANTED: RULE},
    )


# Two hops around a hub of a Barabási-Albert graph are most of the graph; one hop around a node of
# a tree is next to nothing.
INFOS = (
    _of_nodes("ba-shapes", 1, 4_110),
    _of_nodes("ba-community", 1, 8_920),
    _of_nodes("tree-grid", 2, 3_130),
)
