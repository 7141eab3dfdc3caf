"""Link prediction as a graph-level task: every link and as many non-links, each as a subgraph."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from hpme.data.dataset import GraphDataset
from hpme.data.info import PAPER, PUBLISHED, DatasetInfo, entry, ground_truth_or_all, made_by
from hpme.data.synthetic import nodes as node_motifs
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.enclosing import NUM_LABELS, Labels, base_graph, cut_out, pair_key
from hpme.graphs.transforms import shuffled, side_by_side

POOL_RATIO = 0.5
"""Both ends are always pooled, so that a fifth of a typical subgraph adds no more than a node."""
VARIANT = "links"
ENDS, PLANTED = "ends", "planted"
"""Variants: only the ends are marked; and a cycle, the ground truth, decides the label."""
DESCRIPTION = "two nodes and what surrounds them; linked (1) or not (0)"
SHARES = {"val": 0.05, "test": 0.1}
"""Links that are held out; the rest is for training."""
PARTS = ("train", "val", "test")
NEW = 3
"""Nodes on the planted path; with the two ends and the link it closes a five-cycle."""
RULE = "a planted path of four edges leads from one node to the other (1), or back to itself (0)"


class LinkDataset(GraphDataset):
    r"""Enclosing subgraphs of the links of one graph (label 1) and of as many non-links (label 0).

    Graphs are those of :func:`~hpme.data.enclosing_subgraph`; there is no ground truth, unless they
    are :func:`~hpme.data.links.planted_graphs`. Links are split 85/5/10. Those of the validation
    set are in no subgraph but those of the test set, links of the test set in none.

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
            num_hops, num_labels, use_x, labels: As in :func:`~hpme.data.enclosing_subgraph`.
            size: Number of subgraphs, half of them of links; by default twice the number of links.
                Links that are left out stay in the graph.
            seed: Seed of the split and of the non-links.

        Raises:
            InputError: If the graph has too few links, or too few pairs of nodes without one.
        """
        base = base_graph(copy.copy(data).cpu(), use_x=use_x)
        how: dict[str, Any] = {"num_hops": num_hops, "num_labels": num_labels, "labels": labels}
        store = link_graphs(base, size, seed, **how)
        build = partial(made_by, "LinkDataset.from_graph")
        info = _entry(title, DESCRIPTION, build, num_graphs=len(store), variants=(VARIANT,))
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


def link_graphs(base: GraphStore, size: int | None, seed: int, **how: Any) -> GraphStore:
    """Draws links and non-links, either end first, splits them, and has them cut out."""
    generator = torch.Generator().manual_seed(seed)
    links = linked_pairs(base)
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
        cut_out(_without(base, links[hidden]), links[shown], **how)
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


def planted_graphs(base: GraphStore, size: int, seed: int, *, num_hops: int) -> GraphStore:
    """Pairs of nodes that are not linked, with a path of four edges from the first of them.

    It leads to the other (label 1), so that the link would close a cycle, or back to where it began
    (label 0). Its edges are the ground truth of label 1; label 0 has none.
    """
    if size < 2 * NEW:
        raise InputError(f"size must be at least {2 * NEW}, got {size}")
    generator = torch.Generator().manual_seed(seed)
    links = non_links(base, size, generator)
    store = cut_out(base, links, num_hops=num_hops, labels="ends")
    anchors = store.anchors
    assert anchors is not None
    count = size - size // 2
    closed = torch.arange(size) < count
    # Either end may be the one where a path begins.
    turned = torch.rand(size, 1, generator=generator) < 0.5
    store = store.with_attributes(graph={"anchors": torch.where(turned, anchors.flip(1), anchors)})
    last = torch.where(closed, anchors[:, 1], anchors[:, 0])
    store = _with_paths(store, anchors[:, 0], last, closed, len(base.x))
    parts = torch.cat([parts_of(count), parts_of(size - count)])
    store = store.with_attributes(graph={"part": parts, "y": closed.long()})
    return shuffled(store, np.random.default_rng(seed))


def _with_paths(
    store: GraphStore, first: Tensor, last: Tensor, closed: Tensor, num_nodes: int
) -> GraphStore:
    """Every graph with :data:`NEW` nodes more, on a path between two of its nodes."""
    count, total = len(store), len(store) * NEW
    unmarked = F.one_hot(torch.zeros(total, dtype=torch.long), store.x.shape[1])
    added = GraphStore(
        sizes=torch.full((count,), NEW),
        edge_counts=torch.zeros(count, dtype=torch.long),
        local_edge_index=torch.empty(2, 0, dtype=torch.long),
        node={"x": unmarked.to(store.x), "node_ids": num_nodes + torch.arange(total)},
    )
    graphs, place = side_by_side(store.batch(), added.batch())
    begin, end = (place[node + store.node_start].unsqueeze(1) for node in (first, last))
    path = torch.cat([begin, place[len(store.x) :].view(count, NEW), end], dim=1)
    steps = torch.stack([path[:, :-1], path[:, 1:]])
    both = torch.cat([steps, steps.flip(0)], dim=2).flatten(1)
    truth = closed.repeat_interleave(2 * NEW + 2)
    node_mask = index_to_mask(both[:, truth].flatten(), graphs.num_nodes)
    made = replace(
        graphs,
        edge_index=torch.cat([graphs.edge_index, both], dim=1),
        node={**graphs.node, "node_mask": node_mask},
        edge={"edge_mask": torch.cat([truth.new_zeros(graphs.num_edges), truth])},
    )
    return GraphStore.from_graphs(made)


def parts_of(count: int) -> Tensor:
    """Parts of links in random order; no part is empty."""
    held = [max(1, int(share * count)) for share in SHARES.values()]
    return torch.arange(len(PARTS)).repeat_interleave(torch.tensor([count - sum(held), *held]))


def linked_pairs(base: GraphStore) -> Tensor:
    """Every linked pair of different nodes once, ``[L, 2]``."""
    edges = base.local_edge_index
    key = torch.unique(pair_key(base, edges[:, edges[0] != edges[1]]))
    return torch.stack([key // len(base.x), key % len(base.x)], dim=1)


def _without(base: GraphStore, links: Tensor) -> GraphStore:
    """The graph without some links, in both directions."""
    kept = ~torch.isin(pair_key(base, base.local_edge_index), pair_key(base, links.T))
    counts = kept.sum().view(1)
    return replace(base, local_edge_index=base.local_edge_index[:, kept], edge_counts=counts)


def non_links(base: GraphStore, count: int, generator: torch.Generator) -> Tensor:
    """Different pairs of nodes that are not linked."""
    size, linked = len(base.x), pair_key(base, linked_pairs(base).T)
    free = size * (size - 1) // 2 - len(linked)
    if free < count:
        raise InputError(
            f"{count} pairs of nodes without a link are needed, there are {free}; use a smaller "
            "size"
        )
    keys = linked.new_empty(0)
    while len(keys) < count:
        drawn = torch.randint(size, (2, 2 * count), generator=generator)
        found = pair_key(base, drawn[:, drawn[0] != drawn[1]])
        keys = torch.unique(torch.cat([keys, found[~torch.isin(found, linked)]]))
    keys = keys[torch.randperm(len(keys), generator=generator)[:count]]
    return torch.stack([keys // size, keys % size], dim=1)


_entry = partial(entry, num_classes=2, level="link", explainable=ground_truth_or_all)


def _of_nodes(name: str, num_hops: int, num_graphs: int) -> DatasetInfo:
    """Links of the graph of a node-level dataset."""
    nodes = next(info for info in node_motifs.INFOS if info.name == name)

    def build(variant: str, seed: int, size: int) -> GraphStore:
        whole = PUBLISHED if variant == PUBLISHED else PAPER
        store = nodes.build(whole, seed, nodes.num_graphs)
        base = replace(store, node={"x": store.x[:, :0]}, edge={})
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
