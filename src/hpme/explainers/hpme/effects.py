"""Whether a pooled region, and each node, raises or lowers the output, and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.method.selection import Selection, by_boundary
from hpme.explainers.hpme.search.hardmix import HardMix

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Effect:
    r"""How much higher the output is than with something else in its place.

    The pooled region of :math:`G` gives way to that of another graph, which is a hard mix with
    :math:`G` as the host: the effect is :math:`f(G) - f(G^{(mix)})`, the mean over hosts. The
    effect of a node is the same for one node in place of the region, with the same hosts. The
    output is the probability of the explained class, or the value in its own unit.

    Args:
        mean: Mean change; positive if the region raises the output.
        low: Lower end of its 95 % confidence interval over hosts.
        high: Upper end.
        nodes: Mean, low and high for every node, ``[N, 3]``; NaN where graphs are about nodes,
            which cannot give way.
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
def effects_of(mix: HardMix, count: int, pool: Pool, *, draws: int) -> list[Effect]:
    """Effects in the first ``count`` graphs of a mix; the others are their hosts.

    Args:
        mix: The graphs, then the hosts.
        count: Number of graphs asked about.
        pool: Which nodes are pooled.
        draws: Hosts per graph.
    """
    graphs, total = mix.graphs, mix.graphs.num_graphs
    hosts = torch.randint(count, total, (draws, count), generator=mix.generator)
    own = torch.arange(count).expand(draws, -1)
    before = _outcome(mix, mix.context.values[None, :count])[0]
    pooled = mix.select(mix.scores(pool))[torch.zeros(draws, dtype=torch.long)]
    region = before - _outcome(mix, _values(mix, mix.predict(hosts, pooled, own, pooled)))
    overall = _interval(region)
    sizes = graphs.sizes[:count]
    nodes = torch.full((int(sizes.sum()), 3), torch.nan)
    if graphs.anchors is None and len(nodes):
        longest = int(sizes.max())
        step = torch.arange(longest).repeat_interleave(draws)
        single = _one_node(mix, step)
        output = mix.predict(hosts.repeat(longest, 1), single, own.repeat(longest, 1), single)
        change = before - _outcome(mix, _values(mix, output)).view(longest, draws, count)
        table = torch.stack([_interval(change[k]) for k in range(longest)])
        batch = graphs.batch[: len(nodes)]
        nodes = table[torch.arange(len(nodes)) - graphs.ptr[batch], batch]
    parts = nodes.split(sizes.tolist())  # type: ignore[no-untyped-call]
    rows = zip(overall.tolist(), parts, strict=True)
    return [Effect(mean, low, high, part) for (mean, low, high), part in rows]


def _one_node(mix: HardMix, step: Tensor) -> Selection:
    """Selections of one node per graph: in row ``r`` that with number ``step[r]``, in turns."""
    graphs = mix.graphs
    number = torch.arange(graphs.num_nodes) - graphs.ptr[graphs.batch]
    wanted = step.unsqueeze(1) % graphs.sizes.unsqueeze(0)
    return by_boundary(number == wanted[:, graphs.batch], graphs, mix.generator)


def _values(mix: HardMix, output: Tensor) -> Tensor:
    return mix.context.task.values(output.flatten(0, 1)).view(*output.shape[:2], -1)


def _outcome(mix: HardMix, values: Tensor) -> Tensor:
    """The number an effect is about, from values ``[R, B, C]``."""
    context, count = mix.context, values.shape[1]
    if not context.task.classification:
        return values.mean(2) * context.task.scale
    chosen = torch.ones_like(context.target) if context.adapter.view.asked else context.target
    return values.gather(2, chosen[:count].view(1, -1, 1).expand(len(values), -1, 1)).squeeze(2)


def _interval(change: Tensor) -> Tensor:
    """Mean and confidence interval ``[B, 3]`` over the rows of changes ``[D, B]``."""
    draws = len(change)
    mean = change.mean(0)
    if draws < 2:
        return torch.stack([mean, mean - math.inf, mean + math.inf], dim=1)
    quantile = float(import_module("scipy.stats").t.ppf((1 + CONFIDENCE) / 2, draws - 1))
    half = quantile * change.std(0) / math.sqrt(draws)
    return torch.stack([mean, mean - half, mean + half], dim=1)
