"""Regions with a stated risk, by conformal risk control on graphs that a fit has not seen."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.evidence import DIFFERENT, NOWHERE
from hpme.explainers.hpme.pattern_effects import NamedPattern
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.hpme.transplants import SEEN, Transplants
from hpme.explainers.shared.context import read_graphs
from hpme.explainers.shared.explanation import table_of
from hpme.graphs import GraphStore
from hpme.graphs.patterns import graph_codes
from hpme.graphs.segment import segment_mean, segment_sum
from hpme.models.explained import Model

if TYPE_CHECKING:
    from hpme.explainers.hpme.base import HPMEBase

logger = logging.getLogger("hpme")
Kind = Literal["carried", "truth"]
POINTS = 24
"""Thresholds that are tried."""
REMEMBERED = 256
"""Graphs whose size and importance is remembered, to compare others with."""
ENOUGH = 20
"""Fewer graphs cannot be compared with those of the calibration."""
UNLIKE = 0.001
"""Graphs that differ as much from those of the calibration by chance this rarely are unlike."""


@dataclass(frozen=True)
class Guarantee:
    r"""How large shown regions must be for a stated risk on new graphs.

    Nodes of more importance than a threshold are shown. Their loss, from 0 to 1, is the share of
    the prediction that they do not carry: of the way from hosts' outputs to that of their own graph
    what is missing when they are put in place of the hosts' pooled nodes. With ``truth`` it is the
    share of the marked nodes that are not shown. A smaller region counts at least the loss of any
    larger one, so that losses are monotone; then the smallest regions are taken for which the mean
    over :math:`n` graphs fulfils :math:`(n \cdot risk + 1) / (n + 1) \le \alpha`. For a new graph
    that is exchangeable with these, the expected loss is then at most :math:`\alpha`.

    Args:
        alpha: Largest expected loss.
        graphs: Number of graphs it was calibrated on.
        kind: ``"carried"`` or ``"truth"``.
        thresholds: What was tried, from the whole pool to single nodes.
        bounds: The corrected risk at each.
        sizes: Mean share of nodes that are shown at each.
        nodes: Numbers of nodes of the graphs, sorted.
        importance: Their mean importance of nodes, sorted.
    """

    alpha: float
    graphs: int
    kind: Kind
    thresholds: list[float] = field(repr=False)
    bounds: list[float] = field(repr=False)
    sizes: list[float] = field(repr=False)
    nodes: list[float] = field(repr=False)
    importance: list[float] = field(repr=False)

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not len(self.thresholds) == len(self.bounds) == len(self.sizes) > 0:
            raise InputError("a guarantee needs a bound and a size for every threshold")
        if self.bounds[0] > self.alpha:
            raise InputError(
                f"no region of the pool keeps the risk at {self.alpha:g}: the smallest alpha that "
                f"{self.graphs} graphs allow is {self.smallest:.3g}; take that, give more graphs, "
                "or fit with a larger ratio"
            )

    @property
    def smallest(self) -> float:
        """The smallest ``alpha`` that can be reached, by showing the whole pool."""
        return math.ceil(self.bounds[0] * 1000) / 1000

    @property
    def _place(self) -> int:
        return max(i for i, bound in enumerate(self.bounds) if bound <= self.alpha)

    @property
    def threshold(self) -> float:
        """Nodes of more importance are shown, and the most important one."""
        return self.thresholds[self._place]

    @property
    def size(self) -> float:
        """Mean share of nodes that are shown."""
        return self.sizes[self._place]

    def at(self, alpha: float) -> Guarantee:
        """The same calibration with another risk, which must be in reach."""
        return Guarantee(**{**vars(self), "alpha": alpha})

    def sentence(self) -> str:
        """What is promised, in words."""
        missed = {
            "carried": "of a prediction is not carried by the shown nodes",
            "truth": "of the marked nodes is not shown",
        }[self.kind]
        return (
            f"On new graphs like the {self.graphs} of the calibration, on average at most "
            f"{self.alpha:.3g} {missed}; {self.size:.0%} of the nodes are shown."
        )

    def to_frame(self) -> Any:
        """A pandas table with a row per threshold: the smallest risk it keeps, and the size."""
        rows = {"threshold": self.thresholds, "alpha": self.bounds, "size": self.sizes}
        return table_of(rows)

    def unlike(self, explanations: Sequence[Any]) -> str:
        """Why explained graphs are not like those of the calibration; empty if nothing says so.

        The number of nodes and the mean importance are compared.
        """
        if len(explanations) < ENOUGH:
            return ""
        masks = [
            torch.cat(list(one.collect("node_mask").values()))
            if hasattr(one, "node_types")
            else one.node_mask
            for one in explanations
        ]
        test = import_module("scipy.stats").ks_2samp
        for name, known, new in (
            ("number", self.nodes, [len(mask) for mask in masks]),
            ("importance", self.importance, [float(mask.mean()) for mask in masks]),
        ):
            p = float(test(known, new, method="asymp").pvalue)
            if p < UNLIKE:
                return (
                    f"the {name} of nodes differs from that of the {self.graphs} graphs of the "
                    f"calibration (p = {p:.2g}), so what is guaranteed for such need not hold; "
                    "calibrate on graphs like these"
                )
        return ""


def check_alpha(alpha: float) -> None:
    """Refuses what is no risk."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha is a risk between 0 and 1, got {alpha}; 0.1 is usual")


def guarantee_of(
    explainer: HPMEBase, model: Model, graphs: Any, alpha: float, truth: Sequence[Tensor] | None
) -> Guarantee:
    """The guarantee of an explainer on graphs that it was not fitted on; see its method."""
    check_alpha(alpha)
    store = read_graphs(explainer, explainer._leveled(model, None), graphs).store
    marked = None
    if truth is not None:
        starts = store.node_start.tolist()
        marked = NamedPattern.of(store, truth, "truth").nodes(starts, len(store.x))

    def ask(transplants: Transplants, _: GraphStore, rows: Tensor) -> list[tuple[Tensor, ...]]:
        known = None if marked is None else marked[rows].to(transplants.score.device)
        return [_losses(explainer, transplants, known)]

    parts = explainer._by_parts(model, store, ask)
    thresholds, *columns = zip(*parts, strict=True)
    losses, shown, new, nodes, importance = (torch.cat(one, -1).cpu() for one in columns)
    if not bool(new.all()):
        logger.warning(
            f"{int((~new).sum())} of {len(new)} graphs were fitted on and are left out: a "
            "guarantee needs graphs that the explainer has not seen"
        )
    counted = new & losses.isfinite().all(0)
    if not bool(counted.any()):
        raise InputError(
            "a guarantee needs graphs that the explainer was not fitted on"
            + ("" if truth is None else ", and in which truth marks nodes")
        )
    kind: Kind = "carried" if truth is None else "truth"
    like = nodes[counted], importance[counted]
    table = thresholds[0], losses[:, counted], shown[:, counted]
    return calibrated(alpha, kind, *table, like)


def _losses(
    explainer: HPMEBase, transplants: Transplants, truth: Tensor | None
) -> tuple[Tensor, ...]:
    """Thresholds; losses and sizes at each; whether graphs are new; nodes, and their importance."""
    graphs, count, score = transplants.graphs, transplants.count, transplants.score
    importance, own = explainer._ranked(score, graphs)[0], graphs.batch < transplants.count
    thresholds = grid(importance[transplants.pool & ~own])
    losses, sizes = [], []
    for threshold in thresholds.tolist():
        shown = explainer._with_needed(threshold)._ranked(score, graphs)[1]
        sizes.append((transplants.sizes(shown) / graphs.sizes)[:count])
        if truth is None:
            losses.append(not_carried(transplants, shown))
        else:  # NaN where none is marked
            gone, marked = (segment_sum(nodes.double(), graphs.batch[own], count)
                            for nodes in (truth & ~shown[own], truth))  # fmt: skip
            losses.append(gone / marked)
    codes = graph_codes(transplants.context.store)[:count]
    new = ~torch.isin(codes, explainer._buffers.get(SEEN, codes[:0]))
    mean = segment_mean(importance[own], graphs.batch[own], count)
    table = thresholds, torch.stack(losses), torch.stack(sizes)
    return *table, new, graphs.sizes[:count], mean


def calibrated(
    alpha: float,
    kind: Kind,
    thresholds: Tensor,
    losses: Tensor,
    shown: Tensor,
    like: tuple[Tensor, Tensor],
) -> Guarantee:
    """The guarantee that losses ``[T, n]`` of graphs allow, from 0 to 1.

    Regions become smaller with the thresholds ``[T]``; ``shown`` are the shares of nodes in them
    ``[T, n]``, ``like`` the number of nodes and their mean importance of every graph.
    """
    count = losses.shape[1]
    risk = losses.double().cummax(0).values.mean(1)
    bounds = (count * risk + 1) / (count + 1)
    place = torch.linspace(0, count - 1, min(count, REMEMBERED)).round().long()
    nodes, importance = (one.double().sort().values[place].tolist() for one in like)
    curve = (thresholds.tolist(), bounds.tolist(), shown.double().mean(1).tolist())
    return Guarantee(alpha, count, kind, *curve, nodes, importance)


def grid(importance: Tensor) -> Tensor:
    """Thresholds from none to all of the importance of some nodes, which are not calibrated on."""
    share = torch.linspace(0, 1, POINTS, dtype=torch.double)
    found = torch.unique(importance.double().quantile(share))
    return torch.cat([found.new_zeros(1), found[found > 0]])


@torch.no_grad()
def not_carried(transplants: Transplants, keep: Tensor) -> Tensor:
    """Share of the prediction of every graph that nodes ``[N]`` do not carry to its hosts.

    Hosts are those that differ enough, as in ``degrees``; 1 where none differs at all.
    """
    context, ids = transplants.context, torch.arange(transplants.count, device=keep.device)
    own = value_of(context, context.values[None, : len(ids)], ids)[0].double()
    hosts = value_of(context, context.values[transplants.hosts], ids).double()
    inserted = outcome(context, transplants.into_hosts(keep, ids), ids).double()
    apart = (own - hosts).abs()
    farthest = apart.amax(0)
    there = (apart >= DIFFERENT * farthest) & (farthest > NOWHERE * (own.abs() + 1e-12))
    left = ((own - inserted).abs() / apart).clamp(0, 1)
    if context.task.classification:  # a probability beyond that of the graph is carried as well
        left = ((own - inserted) / (own - hosts)).clamp(0, 1)
    return torch.where(there, left, torch.nan).nanmean(0).nan_to_num(1.0)
