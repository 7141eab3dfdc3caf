"""Where to begin the search: what the target's gradients point at."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hpme.data.segment import segment_sum
from hpme.explainers.context import TargetContext
from hpme.explainers.hpme.pool import rank_nodes


def saliency_labels(context: TargetContext) -> Tensor:
    """Ranks of nodes ``[8, N]`` by four gradient saliencies of the target, with both signs.

    A gradient tells where the target looks, not which way: high saliency may mark the explanation
    or all the rest. Both are offered; the hard mix decides.
    """
    graphs = context.store.batch()
    x = graphs.x.clone().requires_grad_(True)
    weight = graphs.x.new_ones(graphs.edge_index.shape[1]).requires_grad_(True)
    with torch.enable_grad():
        log_prob_or_value = context.adapter.predict(replace(graphs, x=x), weight)
        if context.task.classification:
            log_prob = context.task.log_prob(log_prob_or_value)
            own = log_prob.gather(1, context.target.unsqueeze(1)).sum()
            objective = 2 * own - log_prob.sum()
        else:
            objective = log_prob_or_value.sum()
    grad_x, grad_weight = torch.autograd.grad(objective, [x, weight], allow_unused=True)
    grad_x = torch.zeros_like(x) if grad_x is None else grad_x
    grad_weight = torch.zeros_like(weight) if grad_weight is None else grad_weight
    ends = graphs.edge_index.flatten()
    saliency = torch.stack(
        [
            segment_sum(grad_weight.abs().repeat(2), ends, graphs.num_nodes),
            grad_x.norm(dim=1),
            segment_sum(grad_weight.repeat(2), ends, graphs.num_nodes),
            (grad_x * graphs.x).sum(1),
        ]
    )
    rank = -rank_nodes(saliency, graphs).to(graphs.x.dtype)
    return torch.cat([rank, -rank])
