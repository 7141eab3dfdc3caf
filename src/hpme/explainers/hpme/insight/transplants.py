"""Any nodes of some graphs, put into hosts of other predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.hpme.method.selection import by_boundary
from hpme.explainers.hpme.search.criterion import closeness
from hpme.explainers.hpme.search.sufficient import Trials


def with_hosts(trials: Trials, keep: Tensor) -> Tensor:
    """A mask of the graphs' own nodes, continued over the hosts' nodes, of which none is in it."""
    rest = trials.mix.graphs.num_nodes - len(keep)
    return torch.cat([keep, keep.new_zeros(rest)])


def inserted(trials: Trials, ids: Tensor, keep: Tensor) -> Tensor:
    """How near hosts come to the predictions of some graphs, ``[len(ids)]``; as in the trials.

    Args:
        trials: The graphs and their hosts.
        ids: Numbers of graphs.
        keep: Nodes of the graphs that are put into hosts, boolean ``[N]`` or ``[D, N]``.
    """
    hosts = trials.hosts[:, ids]
    own = ids.expand_as(hosts)
    graphs, pooled = trials.mix.graphs, trials.bound().keep
    chosen = keep if keep.dim() == 2 else keep.expand(len(hosts), -1)
    removed = by_boundary(pooled.expand(len(hosts), -1), graphs, None)
    output = trials.mix.predict(own, by_boundary(chosen, graphs, None), hosts, removed)
    return closeness(trials.mix.context, output, own).mean(0)


def carried(trials: Trials, ids: Tensor, keep: Tensor) -> Tensor:
    """How much nearer nodes bring hosts to the graphs' predictions than as many random nodes do.

    Args:
        trials: The graphs and their hosts.
        ids: Numbers of graphs.
        keep: Boolean mask of the graphs' own nodes.
    """
    nodes = with_hosts(trials, keep)
    return inserted(trials, ids, nodes) - inserted(trials, ids, trials.random(nodes))
