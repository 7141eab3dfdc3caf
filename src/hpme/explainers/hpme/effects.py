"""Whether a pooled region, and each node, raises or lowers the output, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.evidence import interval
from hpme.explainers.hpme.method.pool import by_boundary
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs.segment import exclusive_cumsum

SIZE_GROUPS = 4
"""Graphs of like size are asked about together; a sweep is as long as the largest of them."""


@dataclass(frozen=True)
class Effect:
    r"""How much higher the output is than with something else in its place.

    The pooled region of :math:`G` gives way to that of another graph, which is a hard mix with
    :math:`G` as the host: the effect is :math:`f(G) - f(G^{(mix)})`, the mean over hosts. The
    effect of a node is the same for one node in place of the region, with the same hosts; where
    graphs have types, one of its own type takes its place, and none where a host has none. In
    molecules, where it is known how the model reads them, neutral groups take the place of what
    chemistry can exchange: an atom goes with what it cannot be cut off from, such as its ring. The
    output is the probability of the explained class, or the value in its own unit.

    Args:
        mean: Mean change; positive if the region raises the output.
        low: Lower end of its 95 % confidence interval over hosts.
        high: Upper end.
        nodes: Mean, low and high for every node, ``[N, 3]``; NaN if they were not asked about, and
            where graphs are about nodes, which cannot give way.
    """

    mean: float
    low: float
    high: float
    nodes: Tensor

    @property
    def sign(self) -> int:
        """1 if the region raises the output, -1 if it lowers it, 0 if the interval holds 0."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        word = {1: "raises", -1: "lowers", 0: "does not clearly change"}[self.sign]
        return f"{word} the output: {self.mean:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"


@torch.no_grad()
def effects_of(
    transplants: Transplants,
    *,
    draws: int,
    nodes: bool = True,
    without: tuple[Tensor, Tensor] | None = None,
) -> list[Effect]:
    """Effects in graphs; hosts are drawn at random, since intervals are about chance.

    Molecules are mixed as graphs where all outputs ``without`` atoms are NaN, see
    :meth:`~hpme.explainers.hpme.grafting.Grafting.without`.
    """
    mix, count = transplants.mix, transplants.count
    graphs, total = mix.graphs, mix.graphs.num_graphs
    device, sizes = mix.context.device, graphs.sizes[:count]
    hosts = torch.randint(count, total, (draws, count), generator=mix.generator).to(device)
    every = torch.arange(count, device=device)
    before = value_of(mix.context, mix.context.values[None, :count], every)[0]
    pooled = mix.select(transplants.score)[torch.zeros(draws, dtype=torch.long)]
    output = mix.predict(hosts, pooled, every.expand(draws, -1), pooled)
    overall = interval(before - outcome(mix.context, output, every))
    single = torch.full((int(sizes.sum()), 3), torch.nan, device=device)
    if nodes and graphs.anchors is None:
        # Only nodes of a type take each other's place.
        kind = torch.zeros_like(graphs.batch) if graphs.node_type is None else graphs.node_type
        for ids in sizes.argsort().chunk(min(count, SIZE_GROUPS)):
            for number in sorted(set(kind.tolist())):
                rows, table = _node_effects(mix, ids, hosts[:, ids], before[ids], kind == number)
                single[rows] = table
    if without is not None:
        pairs = (before, overall), (before[graphs.batch[: len(single)]], single)
        overall, single = (
            torch.where(
                left.isfinite().any(0).unsqueeze(1).to(known.device),
                interval(own.cpu().double() - left).to(known),
                known,
            )
            for (own, known), left in zip(pairs, without, strict=True)
        )
    parts = single.cpu().split(sizes.tolist())  # type: ignore[no-untyped-call]
    rows_of = zip(overall.tolist(), parts, strict=True)
    return [Effect(mean, low, high, part) for (mean, low, high), part in rows_of]


def _node_effects(
    mix: HardMix, ids: Tensor, hosts: Tensor, before: Tensor, among: Tensor
) -> tuple[Tensor, Tensor]:
    """Numbers of nodes of some graphs, those among a mask ``[N]``, and their effects ``[n, 3]``.

    In row ``k`` of a sweep every graph gives its ``k``-th of these nodes away; graphs that have
    fewer begin again.
    """
    graphs, (draws, count) = mix.graphs, hosts.shape
    sizes = torch.bincount(graphs.batch[among], minlength=graphs.num_graphs)
    number = among.cumsum(0) - 1 - exclusive_cumsum(sizes)[graphs.batch]
    longest = int(sizes[ids].max())
    if not longest:
        return ids[:0], before.new_zeros(0, 3)
    step = torch.arange(longest, device=ids.device).repeat_interleave(draws)
    wanted = step.unsqueeze(1) % sizes.clamp(min=1).unsqueeze(0)
    single = by_boundary(among & (number == wanted[:, graphs.batch]), graphs, mix.generator)
    column = torch.full_like(sizes, -1)
    column[ids] = torch.arange(count, device=ids.device)
    rows = (among & (column[graphs.batch] >= 0)).nonzero().squeeze(1)
    own = ids.expand(draws * longest, -1)
    output = mix.predict(hosts.repeat(longest, 1), single, own, single)
    change = before - outcome(mix.context, output, ids).view(longest, draws, count)
    table = interval(change.transpose(0, 1).flatten(1)).view(longest, count, 3)
    return rows, table[number[rows], column[graphs.batch[rows]]]
