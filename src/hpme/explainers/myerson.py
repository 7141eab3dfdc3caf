"""Myerson values: what each node adds, where only connected nodes may cooperate."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import chain
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from hpme.errors import InputError, optional_module
from hpme.explainers.shared.masks import Masks, from_nodes, squash
from hpme.explainers.shared.noise import node_keys
from hpme.explainers.shared.options import Count, FromZero
from hpme.explainers.shared.replicas import ReplicaModel, explained_output, predicted
from hpme.explainers.shared.templates import TrainingFreeExplainer
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter

MOST_NODES = 1500
"""The package writes a number of permutations as text, which Python refuses beyond."""
Coalition = tuple[int, ...]
Worth = Callable[[Collection[Coalition]], Tensor]


class MyersonExplainer(TrainingFreeExplainer):
    r"""Myerson values (Myerson, 1977) of the nodes, by the package ``myerson``.

    A coalition of nodes is worth the sum over its connected parts of
    :math:`v(S) = t(G[S]) - t(G[\emptyset])`. In :math:`G[S]` the features of all other nodes are
    zeroed; nodes and edges stay, so a target node always has an output. :math:`t` is the log odds
    of the predicted class; for regression the output, in units of the outputs' spread after
    :meth:`fit`. The values of the nodes of a connected graph add up to
    :math:`t(G) - t(G[\emptyset])`.

    ``node_mask`` holds their absolute values, summed over outputs and squashed to
    :math:`m / (1 + m)`; an edge is as important as the less important of its two ends.

    Args:
        exact_nodes: Graphs with at most so many nodes get exact values, from all :math:`2^N`
            coalitions: about half a second at 12 nodes, twice as long with every further one.
        samples: Sampled coalitions per node of larger graphs.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    slug = "myerson"
    title = "Myerson"
    summary = "Myerson values: what each node adds to the connected coalitions it joins."
    typical_seconds = 60.0
    needs_weights = False

    def __init__(self, *, exact_nodes: FromZero = 12, samples: Count = 50, **options: Any) -> None:
        super().__init__(**options)
        self.exact_nodes, self.samples = exact_nodes, samples
        _package()

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        graphs = graphs.to(torch.device("cpu"))  # so are coalitions; batches go to the model
        scores = torch.zeros(graphs.num_nodes)
        if not graphs.num_nodes:
            return from_nodes(scores, graphs)
        if int(graphs.sizes.max()) > MOST_NODES:
            raise InputError(
                f"a graph has {int(graphs.sizes.max())} nodes; the package myerson takes at most "
                f"{MOST_NODES}: use 'occlusion' with unit='node'"
            )
        model = ReplicaModel(adapter, graphs, model_kwargs)
        ids, output = model.whole()
        task = self._task_of(adapter, output)
        classes = predicted(task, output)
        keys = node_keys(graphs, self.seed)

        def worth(row: int, order: Tensor, coalitions: Collection[Coalition]) -> Tensor:
            """What connected coalitions of one graph are worth, one row each."""
            rows = ids[row].expand(1 + len(coalitions))
            sizes = torch.tensor([0, *map(len, coalitions)])
            members = torch.tensor(list(chain.from_iterable(coalitions)), dtype=torch.long)
            kept = torch.zeros(len(sizes), len(order), dtype=torch.bool)
            kept[torch.repeat_interleave(sizes), order[members]] = True
            which = None if classes is None else classes[row].expand(len(rows))
            outputs = explained_output(task, model.on_features_of(rows, kept), which)
            return outputs[1:] - outputs[0]

        for row, graph in enumerate(ids.tolist()):
            # Samples belong to the graph, not to how its nodes are numbered.
            first = int(graphs.ptr[graph])
            order = keys[first : first + int(graphs.sizes[graph])].argsort()
            # Who may cooperate: nodes, numbered by their place in the order.
            number = torch.full((graphs.num_nodes,), -1)
            number[first + order] = torch.arange(len(order))
            edges = number[graphs.edge_index]
            players = nx.empty_graph(len(order))
            players.add_edges_from(edges[:, (edges[0] >= 0) & (edges[0] != edges[1])].t().tolist())
            values = self._values(players, partial(worth, row, order))
            scores[first + order] = squash(values.abs().sum(1))
        return from_nodes(scores, graphs)

    def _values(self, players: nx.Graph, worth: Worth) -> Tensor:
        """Myerson values ``[N, K]``; the package computes those of one output at a time."""
        calculator, sampler = _package()
        exact = len(players) <= self.exact_nodes
        known: dict[Coalition, Tensor] = {}
        columns: list[Tensor] = []

        def look_up(column: int, coalitions: Collection[Coalition]) -> dict[Coalition, float]:
            new = [coalition for coalition in coalitions if coalition not in known]
            if new:
                known.update(zip(new, worth(new), strict=True))
            return {coalition: float(known[coalition][column]) for coalition in coalitions}

        for column in range(worth([()]).shape[1]):
            options = {} if exact else {"seed": self.seed, "number_of_samples": self.samples}
            game = (calculator if exact else sampler)(players, None, **options)
            # In place of one call per coalition.
            game.calculate_worth_of_graph_restricted_coalitions = partial(look_up, column)
            ask = game.calculate_all_myerson_values if exact else game.sample_all_myerson_values
            columns.append(torch.from_numpy(ask()))
        return torch.stack(columns, dim=1)


def _package() -> tuple[Callable[..., Any], Callable[..., Any]]:
    need = "Myerson values need the package 'myerson' ({error}), which needs Python 3.11 or newer"
    package = optional_module("myerson", need, "myerson")
    return package.MyersonCalculator, package.MyersonSampler
