"""Alternative ground truths of one graph, from its match table."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.errors import InputError

MAX_ALTERNATIVES = 100_000


def combine_matches(
    index: Tensor, match: Tensor, rule: Tensor, num_nodes: int, *, unions: bool = False
) -> list[Tensor]:
    """All ways to take a match of every rule (or with ``unions`` several), each as one node mask.

    Args:
        index: Node of every row of the match table.
        match: Number of its match.
        rule: Number of the rule that was matched.
        num_nodes: Number of nodes of the graph.
        unions: Whether to take any number of matches of a rule, but at least one.
    """
    masks = torch.zeros(int(match.max()) + 1, num_nodes, dtype=torch.bool)
    masks[match, index] = True
    rule_of = torch.zeros(len(masks), dtype=torch.long)
    rule_of[match] = rule
    groups = [masks[rule_of == number] for number in sorted(set(rule.tolist()))]
    total = 1
    for group in groups:
        total *= 2 ** len(group) - 1 if unions else len(group)
    if total > MAX_ALTERNATIVES:
        raise InputError(
            f"the graph has {total:,} alternative ground truths, more than {MAX_ALTERNATIVES:,}; "
            + ("leave unions out" if unions else "use its node_mask, the union of all")
        )
    result = torch.zeros(1, num_nodes, dtype=torch.bool)
    for group in groups:
        options = _unions(group) if unions else group
        result = (result[:, None] | options[None]).flatten(0, 1)
    different = {mask.numpy().tobytes(): mask for mask in result}
    return list(different.values())


def _unions(masks: Tensor) -> Tensor:
    """The unions of all non-empty sets of masks."""
    sets = torch.arange(1, 2 ** len(masks))
    member = (sets[:, None] >> torch.arange(len(masks)) & 1).float()
    return member @ masks.float() > 0
