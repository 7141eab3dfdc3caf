"""Per-graph reductions and rankings on flat tensors, in place of loops over graphs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def exclusive_cumsum(counts: Tensor) -> Tensor:
    """Start position of each block when blocks of the given lengths are laid end to end."""
    return counts.cumsum(0) - counts


def concatenated_ranges(start: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """In a row ``start[i] .. start[i] + count[i] - 1`` for all ``i``, and the owner of each."""
    owner = torch.repeat_interleave(count)
    shift = start - exclusive_cumsum(count)
    return torch.arange(owner.numel(), device=count.device) + shift.index_select(0, owner), owner


def at(values: Tensor, index: Tensor) -> Tensor:
    """``values[index]`` of one-dimensional values, several times as fast as indexing."""
    return values.index_select(0, index.flatten()).view_as(index)


def among(values: Tensor, sorted_values: Tensor) -> tuple[Tensor, Tensor]:
    """Position of every value in a sorted row, and whether it is there at all."""
    last = max(0, sorted_values.numel() - 1)
    position = torch.searchsorted(sorted_values, values).clamp(max=last)
    return position, sorted_values[position] == values


def stable_order(values: Tensor, below: int) -> Tensor:
    """Order of whole numbers from 0 on; few different ones on a CPU are sorted by their digits."""
    if values.device.type != "cpu" or below > 1 << 16:
        return torch.argsort(values, stable=True)
    return torch.from_numpy(np.argsort(values.numpy().astype(np.uint16), kind="stable"))


def segment_sum(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Sum of ``values`` over each segment."""
    return values.new_zeros((num_segments, *values.shape[1:])).index_add(0, segment, values)


def segment_mean(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Mean of ``values`` over each segment; 0 for an empty segment."""
    count = torch.bincount(segment, minlength=num_segments).clamp(min=1).to(values.dtype)
    total = segment_sum(values, segment, num_segments)
    return total / count.view(-1, *[1] * (values.dim() - 1))


def rank_in_segment(score: Tensor, segment: Tensor, ptr: Tensor) -> Tensor:
    """Rank of every element inside its segment, in order, 0 for the highest, ties by position."""
    # One integer sort in place of two float sorts: the bits of a float32, with the magnitude of
    # negative numbers flipped, order like the number itself.
    bits = score.detach().to(torch.float32).add(0.0).view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    order = torch.argsort((segment << 33) - ascending, stable=True)
    place = torch.arange(order.numel(), device=order.device) - ptr.index_select(0, segment)
    return torch.empty_like(order).scatter_(0, order, place)


TIE = 1e-5
"""Scores that differ by less than this share of the highest differ by rounding."""


def ties_in_segment(
    score: Tensor, rank: Tensor, segment: Tensor, ptr: Tensor, alone: Tensor | None = None
) -> Tensor:
    """The lowest rank of the elements of the same score; ``rank`` breaks their ties by position.

    Elements that are ``alone`` do not rank by their score, and tie with none.
    """
    if alone is None:
        alone = torch.zeros_like(segment, dtype=torch.bool)
    start = ptr.index_select(0, segment)
    place = start + rank
    ordered = torch.empty_like(score).scatter_(0, place, score)
    height = score.abs().masked_fill(alone, 0.0)
    size = height.new_zeros(ptr.numel()).scatter_reduce(0, segment, height, "amax")
    gap = (ordered[:-1] - ordered[1:]).abs() > (TIE * size).index_select(0, segment[1:])
    new = torch.empty_like(alone).scatter_(0, place, alone)
    gap = gap | new[:-1] | (segment[1:] != segment[:-1])
    new[:1] = True
    new[1:] |= gap
    group = (new.long().cumsum(0) - 1).index_select(0, place)
    return exclusive_cumsum(torch.bincount(group)).index_select(0, group) - start


def standardise_in_segment(values: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Zero mean and unit variance inside every segment; zero where all values are equal."""
    centred = values - segment_mean(values, segment, num_segments).index_select(0, segment)
    variance = segment_mean(centred**2, segment, num_segments)
    # The root has an infinite slope at zero, which would make the gradient of all segments NaN.
    spread = torch.where(variance > 0, variance, 1.0).sqrt() * (variance > 0)
    return centred / (spread + 1e-6).index_select(0, segment)


def reverse_edge_index(edge_index: Tensor, num_nodes: int) -> Tensor:
    """For every edge ``(i, j)`` the position of ``(j, i)``; its own where there is no reverse."""
    key = edge_index[0] * num_nodes + edge_index[1]
    sorted_key, order = key.sort(stable=True)
    position, found = among(edge_index[1] * num_nodes + edge_index[0], sorted_key)
    return torch.where(found, order[position], torch.arange(key.numel(), device=key.device))
