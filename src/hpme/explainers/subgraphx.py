"""SubgraphX (Yuan et al., ICML 2021): tree search for the connected subgraph that matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.shared.masks import Masks, from_nodes
from hpme.explainers.shared.noise import node_keys, uniform
from hpme.explainers.shared.options import Count, FromZero, Positive, Share
from hpme.explainers.shared.replicas import ReplicaModel, predicted
from hpme.explainers.shared.templates import TrainingFreeExplainer
from hpme.graphs import GraphBatch
from hpme.graphs.edges import connected_parts
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum, rank_in_segment, segment_sum
from hpme.models.adapter import ModelAdapter
from hpme.models.output import Task

MAX_TABLE = 200_000_000
"""Entries of the table of subgraphs searched at once; more graphs are searched in turn."""
_DRAW, _SELF = 0x9E3779B97F4A7C1, 0x2545F4914F6CDD1D


class SubgraphXExplainer(TrainingFreeExplainer):
    r"""Monte Carlo tree search over connected subgraphs, rewarded by their Shapley values.

    The root of the tree is the graph. An action prunes one node and keeps the largest connected
    part of the rest; the search goes down until a subgraph is small enough. Of the actions at a
    subgraph it takes the one with the highest

    .. math::
        \frac{W}{C} + \lambda R \frac{\sqrt{\sum C}}{1 + C} ,

    where :math:`C` counts visits, :math:`W` sums the rewards of the leaves reached, and :math:`R`
    is the reward of the subgraph the action leads to: its Shapley value in the game whose players
    are the subgraph and the nodes at most ``hops`` away, sampled as the mean of
    :math:`f(S \cup G_i) - f(S)` over random coalitions :math:`S`. Features of players outside the
    coalition are hidden, see :meth:`~hpme.graphs.batch.GraphBatch.without`; nodes farther away are
    no players and stay. Where the model reads no edges and the graph has none, subgraphs are sets
    of nodes. :math:`f` is the probability of the predicted class; for regression the output, and
    the reward is the absolute Shapley value, summed over outputs.

    All graphs are searched side by side. A subgraph reached on several ways is asked about once.

    ``node_mask``: nodes of the best subgraph that is small enough lie in the upper half; in either
    half the mean reward of all subgraphs with the node decides. An edge counts as its lesser end.

    Args:
        ratio: A subgraph with at most this share of the nodes is small enough.
        rollouts: Ways from the root to a leaf.
        samples: Coalitions per Shapley value, two forward passes each.
        hops: How far away players are.
        branches: Actions per subgraph: pruning of its nodes of lowest degree.
        exploration: :math:`\lambda`.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`. Coalitions are
            drawn by a hash of graph, subgraph and ``seed``.
    """

    slug = "subgraphx"
    title = "SubgraphX"
    summary = "SubgraphX: tree search for the connected subgraph of highest Shapley value."
    typical_seconds = 120.0
    needs_weights = False
    needs_edges = False

    def __init__(
        self,
        *,
        ratio: Share = 0.3,
        rollouts: Count = 5,
        samples: Count = 10,
        hops: FromZero = 3,
        branches: Count = 12,
        exploration: Positive = 5.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ratio, self.exploration = ratio, exploration
        self.rollouts, self.samples, self.hops, self.branches = rollouts, samples, hops, branches

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        graphs = graphs.to(torch.device("cpu"))  # the tree; batches of subgraphs go to the model
        scores = torch.zeros(graphs.num_nodes)
        if not graphs.num_nodes:
            return from_nodes(scores, graphs)
        model = ReplicaModel(adapter, graphs, model_kwargs)
        ids, output = model.whole()
        task = self._task_of(adapter, output)
        classes = predicted(task, output)
        keys = node_keys(graphs, self.seed)
        part = exclusive_cumsum(graphs.sizes[ids] ** 2 * self.rollouts * self.branches) // MAX_TABLE
        counts = torch.unique_consecutive(part, return_counts=True)[1].tolist()
        for rows in torch.arange(len(ids)).split(counts):  # type: ignore[no-untyped-call]
            board = Board(model, ids[rows], keys, reads_edges=adapter.reads_edges(graphs))
            reward = Reward(
                board, task, None if classes is None else classes[rows], self.samples, self.hops
            )
            tree = Tree(board, reward, self.branches)
            limit = (self.ratio * board.sizes).ceil().clamp(min=max(1, graphs.anchors_per_graph))
            for _ in range(self.rollouts):
                tree.rollout(limit, self.exploration)
            place, of_nodes = board.real.nonzero(), tree.node_scores(limit)
            nodes = graphs.ptr[board.ids[place[:, 0]]] + place[:, 1]
            scores[nodes] = of_nodes[board.real].to(scores)
        return from_nodes(scores, graphs)


class Board:
    """Several graphs as a table with a row per graph or subgraph and a column per node."""

    def __init__(
        self, model: ReplicaModel, ids: Tensor, keys: Tensor, *, reads_edges: bool = True
    ) -> None:
        self.model, self.ids, graphs = model, ids, model.graphs
        self.sizes = graphs.sizes[ids]
        self.width = int(self.sizes.max())
        self.real = torch.arange(self.width) < self.sizes.unsqueeze(1)
        row = (graphs.ptr[ids].unsqueeze(1) + torch.arange(self.width)).clamp(max=len(keys) - 1)
        self.keys = torch.where(self.real, keys[row], 0)
        self.loose = (graphs.edge_counts[ids] == 0).unsqueeze(1) & (not reads_edges)
        self.anchors = torch.zeros_like(self.real)
        if model.store.anchors is not None:
            self.anchors.scatter_(1, model.store.anchors[ids], True)

    def edges(self, graph: Tensor) -> Tensor:
        """Edges ``[2, E]`` of one row per entry of ``graph``, as places in the flat table."""
        store, ids = self.model.store, self.ids[graph]
        edges, row = store.edges_of(ids)
        places: Tensor = store.local_edge_index[:, edges] + row * self.width
        return places

    def key(self, member: Tensor, graph: Tensor) -> Tensor:
        """An integer that belongs to every row's set of nodes."""
        return (member * self.keys[graph]).sum(1)

    def degrees(self, member: Tensor, graph: Tensor) -> Tensor:
        """Number of edges of every node inside its row's subgraph."""
        flat, edges = member.view(-1), self.edges(graph)
        inside = edges[:, flat[edges].all(0) & (edges[0] != edges[1])]
        return torch.bincount(inside.view(-1), minlength=flat.numel()).view_as(member)

    def near(self, member: Tensor, graph: Tensor, hops: int) -> Tensor:
        """Nodes at most ``hops`` steps away from the row's subgraph."""
        reached, (source, target) = member.clone().view(-1), self.edges(graph)
        for _ in range(hops):
            ends = torch.cat([target[reached[source]], source[reached[target]]])
            reached[ends] = True
        return reached.view_as(member) | (self.loose & self.real)[graph]

    def connected(self, member: Tensor, graph: Tensor) -> Tensor:
        """The largest connected part of every row's subgraph; with anchors, the parts of these."""
        flat, edges = member.reshape(-1), self.edges(graph)
        part, count = connected_parts(edges[:, flat[edges].all(0)], len(flat)), len(flat)
        row = torch.arange(len(flat)) // self.width
        if self.model.graphs.anchors is not None:
            anchored = torch.zeros(count, dtype=torch.bool)
            anchored[part[flat & self.anchors[graph].view(-1)]] = True
            return (flat & anchored[part]).view_as(member)
        # Of parts of the same size a hash of their nodes decides, not their order.
        key = segment_sum(torch.where(flat, self.keys[graph].view(-1), 0), part, count)
        size = segment_sum(flat.double(), part, count) + uniform(key).double()
        size = size[part] * flat
        largest = size.new_zeros(len(member)).scatter_reduce(0, row, size, "amax")
        return (flat & (size == largest[row])).view_as(member) | (member & self.loose[graph])


@dataclass(frozen=True)
class Reward:
    """Shapley values of subgraphs, see :class:`SubgraphXExplainer`."""

    board: Board
    task: Task
    classes: Tensor | None
    samples: int
    hops: int

    def __call__(self, member: Tensor, graph: Tensor) -> Tensor:
        """Rewards of the subgraphs ``member`` of graphs ``graph``."""
        board = self.board
        near = board.near(member, graph, self.hops)
        draw = torch.arange(self.samples) * _DRAW
        own = board.key(member, graph).unsqueeze(1) * _SELF + draw
        before = uniform(own.unsqueeze(2) + board.keys[graph].unsqueeze(1))  # place in the order
        joined = before < uniform(own).unsqueeze(2)
        coalition = joined & (near & ~member).unsqueeze(1)
        without = coalition | (board.real[graph] & ~near).unsqueeze(1)
        kept = torch.stack([without | member.unsqueeze(1), without], dim=2)  # [S, samples, 2, n]
        row, kept = graph.repeat_interleave(2 * self.samples), kept.view(-1, board.width)
        values = self.task.values(board.model.on_features_of(board.ids[row], kept))
        values = values if self.classes is None else values.gather(1, self.classes[row, None])
        values = values.view(len(graph), self.samples, 2, -1)
        shapley = (values[:, :, 0] - values[:, :, 1]).mean(1)
        reward = shapley[:, 0] if self.classes is not None else shapley.abs().sum(1)
        # Rounding errors, which depend on the batch, must not decide between equals.
        return reward.round(decimals=5)


class Tree:
    """The search trees of several graphs: subgraphs (states) and prunings (actions)."""

    def __init__(self, board: Board, reward: Reward, children: int) -> None:
        self.board, self.reward_of, self.children = board, reward, children
        self.graph = torch.arange(len(board.ids))
        self.member = board.real
        self.size = board.sizes
        self.key = self._keys(self.member, self.graph)
        self.reward = reward(self.member, self.graph)
        self.first = torch.full_like(self.graph, -1)  # first action, -1 if not expanded
        self.count = torch.zeros_like(self.graph)
        self.child = torch.zeros(0, dtype=torch.long)
        self.visits = torch.zeros(0, dtype=torch.double)
        self.total = torch.zeros(0, dtype=torch.double)

    def rollout(self, limit: Tensor, exploration: float) -> None:
        """One way from every root to a leaf of at most ``limit`` nodes, and the reward back."""
        current = torch.arange(len(self.board.ids))
        way: list[tuple[Tensor, Tensor]] = []
        while True:
            deeper = (self.size[current] > limit).nonzero().view(-1)
            fresh = current[deeper][self.first[current[deeper]] < 0]
            if fresh.numel():
                self._expand(fresh)
            deeper = deeper[self.count[current[deeper]] > 0]
            if not deeper.numel():
                break
            # The most promising action of every state.
            first, count = self.first[current[deeper]], self.count[current[deeper]]
            actions, owner = concatenated_ranges(first, count)
            visits = self.visits[actions]
            # At least one, so that a state never left is left towards the highest reward.
            left = segment_sum(visits, owner, len(deeper)).clamp(min=1)
            reward = self.reward[self.child[actions]]
            promise = self.total[actions] / visits.clamp(min=1)
            promise = promise + exploration * reward * left[owner].sqrt() / (1 + visits)
            action = actions[rank_in_segment(promise, owner, exclusive_cumsum(count)) == 0]
            way.append((deeper, action))
            current[deeper] = self.child[action]
        leaf = self.reward[current]
        for graph, action in way:
            self.visits[action] += 1
            self.total[action] += leaf[graph]

    def node_scores(self, limit: Tensor) -> Tensor:
        """Scores in [0, 1] of the nodes of the board."""
        rows = len(self.board.ids)
        small = torch.where(self.size <= limit[self.graph], self.reward, -torch.inf)
        order = torch.argsort(self.graph, stable=True)
        start = exclusive_cumsum(torch.bincount(self.graph, minlength=rows))
        rank = rank_in_segment(small[order], self.graph[order], start)
        best = order[rank == 0]
        containing = segment_sum(self.member.double(), self.graph, rows).clamp(min=1)
        mean = segment_sum(self.member * self.reward.unsqueeze(1), self.graph, rows) / containing
        return (self.member[best] + 0.5 + 0.5 * mean / (1 + mean.abs())) / 2

    def _expand(self, states: Tensor) -> None:
        """Adds the actions of states and the subgraphs these lead to."""
        board, graph, member = self.board, self.graph[states], self.member[states]
        free = member & ~board.anchors[graph]
        order = board.degrees(member, graph) + uniform(board.keys[graph])
        order, node = order.masked_fill(~free, torch.inf).sort(dim=1)
        parent, slot = order[:, : self.children].isfinite().nonzero().unbind(1)
        rest = member[parent].scatter(1, node[parent, slot].unsqueeze(1), False)
        rest = board.connected(rest, graph[parent])
        counts = torch.bincount(parent, minlength=len(states))
        self.first[states] = len(self.child) + exclusive_cumsum(counts)
        self.count[states] = counts
        self.child = torch.cat([self.child, self._states(rest, graph[parent])])
        none = torch.zeros(len(parent), dtype=torch.double)
        self.visits, self.total = torch.cat([self.visits, none]), torch.cat([self.total, none])

    def _states(self, member: Tensor, graph: Tensor) -> Tensor:
        """Numbers of the states with these subgraphs; those not seen before are added."""
        known = len(self.key)
        keys = torch.cat([self.key, self._keys(member, graph)])
        unique, inverse = torch.unique(keys, return_inverse=True)
        first = torch.full_like(unique, len(keys)).scatter_reduce(
            0, inverse, torch.arange(len(keys)), "amin"
        )
        state = first[inverse[known:]]
        new = torch.unique(state[state >= known])
        if new.numel():
            member, graph = member[new - known], graph[new - known]
            self.graph = torch.cat([self.graph, graph])
            self.member = torch.cat([self.member, member])
            self.size = torch.cat([self.size, member.sum(1)])
            self.key = torch.cat([self.key, keys[new]])
            self.reward = torch.cat([self.reward, self.reward_of(member, graph)])
            self.first = torch.cat([self.first, torch.full_like(graph, -1)])
            self.count = torch.cat([self.count, torch.zeros_like(graph)])
        return torch.where(state < known, state, known + torch.searchsorted(new, state))

    def _keys(self, member: Tensor, graph: Tensor) -> Tensor:
        """Keys of subgraphs, different for equal subgraphs of different graphs."""
        return self.board.key(member, graph) + graph * _DRAW
