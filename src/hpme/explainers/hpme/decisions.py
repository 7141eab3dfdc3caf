"""Short lists of conditions that say what a model predicts: the first that holds decides."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

MOST_RULES, MOST_CONDITIONS = 12, 3
BEAM, SWEEPS = 60, 6
"""Pairs of conditions that a third is added to, and rounds in which all rules are found again."""
Decision = tuple[list[int], float]
"""Numbers of the conditions of a rule, and the class or the value it predicts."""


@dataclass
class DecisionList:
    """Rules that take away most of the loss, for the fewest conditions.

    Rules are added one after another, each the one that tells apart best what is left; then each
    is found again with all others as they are, until nothing improves. What classes a model
    predicts is learned from its probabilities, which say more than the classes.

    Args:
        has: Whether graphs fulfil conditions, boolean ``[P, B]``.
        cost: Description length of every condition ``[P]``, in graphs.
        wanted: Probabilities of classes, or values in units of their spread ``[B, C]``.
        classes: Whether these are classes.
        banned: Boolean ``[P, C]``: a condition must not speak for a class.
        least: Fewest graphs that a rule decides.
    """

    has: Tensor
    cost: Tensor
    wanted: Tensor
    classes: bool
    banned: Tensor
    least: int
    rules: list[Decision] = field(default_factory=list)
    default: float = 0.0

    def learn(self) -> DecisionList:
        """Finds the rules."""
        self.settle()
        while len(self.has) and len(self.rules) < MOST_RULES:
            found = self._best(self.open(len(self.rules)), None)
            if found is None:
                break
            self.rules.append(found[1])
            self.settle()
        for _ in range(SWEEPS):
            before = self.length()
            for place in reversed(range(len(self.rules))):
                self._revise(place)
            if self.length() > before - 1e-6:
                break
        return self

    def open(self, count: int) -> Tensor:
        """Graphs that none of the first rules decides."""
        left = torch.ones(self.has.shape[1], dtype=torch.bool)
        for conditions, _ in self.rules[:count]:
            left &= ~self.has[conditions].all(0)
        return left

    def said(self, start: int = 0) -> Tensor:
        """What the rules from one on predict."""
        found = torch.full((self.has.shape[1],), self.default)
        for conditions, prediction in reversed(self.rules[start:]):
            found[self.has[conditions].all(0)] = prediction
        return found

    def loss(self, said: Tensor) -> Tensor:
        """Of predictions for all graphs: missing probability, or squared error."""
        if self.classes:
            return 1 - self.wanted.gather(1, said.long().unsqueeze(1)).squeeze(1)
        return (self.wanted[:, 0] - said).square()

    def length(self) -> float:
        """Description length, in graphs."""
        spent = sum(float(self.cost[conditions].sum()) for conditions, _ in self.rules)
        return float(self.loss(self.said()).sum()) + spent

    def settle(self) -> None:
        """Sets what is predicted where no rule holds."""
        left = self.open(len(self.rules))
        mean = self.wanted[left if bool(left.any()) else slice(None)].mean(0)
        self.default = float(mean.argmax()) if self.classes else float(mean[0])

    def _revise(self, place: int) -> None:
        """Finds a rule again; it goes if none pays for its conditions."""
        old = self.rules.pop(place)
        left, below = self.open(place), self.loss(self.said(place))
        found = self._best(left, below)
        holds = left & self.has[old[0]].all(0)
        now = self.loss(torch.full((len(left),), old[1]))
        worth = float((below - now)[holds].sum() - self.cost[old[0]].sum())
        if found is not None and found[0] > max(worth, 0.0) + 1e-6:
            self.rules.insert(place, found[1])
        elif worth > 0:
            self.rules.insert(place, old)
        self.settle()

    def _best(self, left: Tensor, below: Tensor | None) -> tuple[float, Decision] | None:
        """The best rule for the open graphs, with what it takes away.

        Args:
            left: The open graphs, boolean.
            below: Loss of all graphs by the rules that follow; without it, by what is left to the
                mean, the loss inside counting twice, since no later rule can mend it.
        """
        has, y = self.has[:, left].float(), self.wanted[left].float()
        loss = torch.zeros(len(y)) if below is None else below[left].float()
        columns = torch.cat([torch.ones(len(y), 1), y.square().sum(1, True), loss[:, None], y], 1)
        best: tuple[float, Decision] | None = None
        rows, names, banned = torch.ones(1, len(y)), [list[int]()], self.banned[:1] & False
        for size in range(1, MOST_CONDITIONS + 1):
            sums = torch.stack([(rows * column) @ has.T for column in columns.T])
            value, prediction = self._worth(sums, columns.sum(0), banned, below is None)
            spent = torch.stack([self.cost[some].sum() for some in names])
            value = value - spent[:, None] - self.cost
            top = value.flatten().topk(min(BEAM, value.numel()))
            row, last = top.indices // len(has), top.indices % len(has)
            if float(top.values[0]) > (best[0] if best else 0.0 if below is not None else -1e6):
                one, two = int(row[0]), int(last[0])
                best = float(top.values[0]), ([*names[one], two], float(prediction[one, two]))
            if size == 1:  # any two, since neither may say much alone
                rows, names, banned = has, [[n] for n in range(len(has))], self.banned
            elif size < MOST_CONDITIONS:
                pairs = zip(row.tolist(), last.tolist(), strict=True)
                sets = {tuple(sorted({*names[one], two})) for one, two in pairs}
                names = [list(some) for some in sorted(sets) if len(some) == size]
                if not names:
                    break
                rows = torch.stack([has[some].prod(0) for some in names])
                banned = torch.stack([self.banned[some].any(0) for some in names])
        return best

    def _worth(
        self, sums: Tensor, total: Tensor, banned: Tensor, last: bool
    ) -> tuple[Tensor, Tensor]:
        """Loss that rules take away, ``-inf`` for those that must not be, and what they predict."""
        count, square, below, y = sums[0], sums[1], sums[2], sums[3:]
        mean = y / count.clamp(min=1)
        inside = square - (y * mean).sum(0)
        refused = (banned.T[:, :, None] | self.banned.T[:, None, :]).expand_as(y)
        prediction = mean[0]
        if self.classes:
            agreed, prediction = torch.where(refused, -torch.inf, y).max(0)
        if last:
            rest = total[3:, None, None] - y
            outside = total[1] - square - (rest.square() / (total[0] - count).clamp(min=1)).sum(0)
            value = total[1] - total[3:].square().sum() / total[0] - 2 * inside - outside
            if self.classes:  # the class that most have
                value = torch.where(agreed < y.max(0).values, -torch.inf, value)
        else:
            value = below - (count - agreed if self.classes else inside)
        return torch.where(count < self.least, -torch.inf, value), prediction
