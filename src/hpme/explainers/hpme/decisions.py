"""Short lists of conditions that say what a model predicts: the first that holds decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

MOST_RULES, MOST_CONDITIONS = 12, 3
BEAM, SWEEPS = 60, 6
"""Pairs of conditions that a third is added to, and rounds in which all rules are found again."""
KEPT, ALIKE = 300, 0.9
"""Conditions that lists are made of, and the correlation from which on two are too much alike."""
Decision = tuple[list[int], float]
"""Numbers of the conditions of a rule, and the class or the value it predicts."""


def undecided(rules: Sequence[Decision], has: Tensor) -> Tensor:
    """Graphs that no rule decides, by whether conditions hold, ``[P, B]``."""
    left = torch.ones(has.shape[1], dtype=torch.bool)
    for conditions, _ in rules:
        left &= ~has[conditions].all(0)
    return left


def decide(rules: Sequence[Decision], default: float, has: Tensor) -> Tensor:
    """What rules predict for all graphs."""
    found = torch.full((has.shape[1],), default, dtype=torch.double)
    for conditions, prediction in reversed(rules):
        found[has[conditions].all(0)] = prediction
    return found


def speaks_for(has: Tensor, y: Tensor) -> Tensor:
    """The column of ``y`` that is largest where conditions hold; of one, whether it is high."""
    more = has.double() @ (y - y.mean(0))
    return more.argmax(1) if y.shape[1] > 1 else (more[:, 0] > 0).long()


def different(has: Tensor, y: Tensor) -> list[int]:
    """Numbers of the conditions of the largest gain, none much like one before."""
    centred = has.double() - has.double().mean(1, keepdim=True)
    centred = centred / centred.norm(dim=1, keepdim=True)
    chosen: list[int] = []
    for number in gain(has, y).argsort(descending=True, stable=True).tolist():
        if len(chosen) < KEPT and bool((centred[chosen] @ centred[number] <= ALIKE).all()):
            chosen.append(number)
    return chosen


def gain(has: Tensor, y: Tensor) -> Tensor:
    """How much of the squared error goes if two means take the place of one."""
    inside = has.double()
    return error(torch.ones(1, len(y)), y) - error(inside, y) - error(1 - inside, y)


def error(inside: Tensor, y: Tensor) -> Tensor:
    """Squared error of the mean of some rows of ``y``, for every row of weights ``[P, B]``."""
    inside = inside.double()
    count = inside.sum(1).clamp(min=1)
    return inside @ y.square().sum(1) - (inside @ y).square().sum(1) / count


def usual(wanted: Tensor, which: Any, classes: bool) -> float:
    """The class or the value that some graphs get, all of them if there are none."""
    some = wanted[which]
    mean = (some if len(some) else wanted).mean(0)
    return float(mean.argmax()) if classes else float(mean[0])


@dataclass
class DecisionList:
    """Rules of the shortest description: most of the loss gone, for the fewest conditions.

    Rules are added one after another, each the one that tells apart best what is left; then each is
    found again with all others as they are, until nothing improves. What classes a model predicts
    is learned from its probabilities, which say more than the classes.
    """

    has: Tensor  # whether graphs fulfil conditions, boolean [P, B]
    cost: Tensor  # description length of every condition [P], in graphs
    wanted: Tensor  # probabilities of classes, or values in units of their spread [B, C]
    classes: bool  # whether these are classes
    banned: Tensor  # boolean [P, C]: a condition must not speak for a class
    least: int  # fewest graphs that a rule decides
    rules: list[Decision] = field(default_factory=list)

    def learn(self) -> DecisionList:
        """Finds the rules."""
        while len(self.rules) < MOST_RULES:
            found = self._best(undecided(self.rules, self.has), None)
            if found is None:
                break
            self.rules.append(found[1])
        for _ in range(SWEEPS):
            before = self.length()
            for place in reversed(range(len(self.rules))):
                # A rule is found again; it goes if none pays for its conditions.
                conditions, prediction = old = self.rules.pop(place)
                left = undecided(self.rules[:place], self.has)
                below = self.loss(decide(self.rules[place:], self.default, self.has))
                found = self._best(left, below)
                gone = below - self.loss(torch.full((len(left),), prediction))
                decided = left & self.has[conditions].all(0)
                worth = float(gone[decided].sum() - self.cost[conditions].sum())
                if found is not None and found[0] > max(worth, 0.0) + 1e-6:
                    self.rules.insert(place, found[1])
                elif worth > 0:
                    self.rules.insert(place, old)
            if self.length() > before - 1e-6:
                break
        return self

    @property
    def default(self) -> float:
        """What is predicted where no rule holds."""
        return usual(self.wanted, undecided(self.rules, self.has), self.classes)

    def loss(self, said: Tensor) -> Tensor:
        """Of predictions for all graphs: missing probability, or squared error."""
        if self.classes:
            return 1 - self.wanted.gather(1, said.long().unsqueeze(1)).squeeze(1)
        return (self.wanted[:, 0] - said).square()

    def length(self) -> float:
        """Description length, in graphs."""
        spent = sum(float(self.cost[conditions].sum()) for conditions, _ in self.rules)
        return float(self.loss(decide(self.rules, self.default, self.has)).sum()) + spent

    def _best(self, left: Tensor, below: Tensor | None) -> tuple[float, Decision] | None:
        """The best rule for what is ``left``, with what it takes from the loss ``below``."""
        # Without a loss of rules below, that to the mean; inside twice, as no later rule mends it.
        has, y = self.has[:, left].float(), self.wanted[left].float()
        loss = torch.zeros(len(y)) if below is None else below[left].float()
        columns = torch.cat([torch.ones(len(y), 1), y.square().sum(1, True), loss[:, None], y], 1)
        best, found = 0.0 if below is not None else -1e6, None
        rows, names, banned = torch.ones(1, len(y)), [list[int]()], self.banned[:1] & False
        for size in range(1, MOST_CONDITIONS + 1):
            sums = torch.stack([(rows * column) @ has.T for column in columns.T])
            value, prediction = self._worth(sums, columns.sum(0), banned, below is None)
            spent = torch.stack([self.cost[some].sum() for some in names])
            top = (value - spent[:, None] - self.cost).flatten().topk(min(BEAM, value.numel()))
            row, last = top.indices // len(has), top.indices % len(has)
            if float(top.values[0]) > best:
                best, one, two = float(top.values[0]), int(row[0]), int(last[0])
                found = best, ([*names[one], two], float(prediction[one, two]))
            if size == 1:  # any two, since neither may say much alone
                rows, names, banned = has, [[n] for n in range(len(has))], self.banned
            else:
                pairs = zip(row.tolist(), last.tolist(), strict=True)
                sets = {tuple(sorted({*names[one], two})) for one, two in pairs}
                names = [list(some) for some in sorted(sets) if len(some) == size]
                if not names:
                    break
                rows = torch.stack([has[some].prod(0) for some in names])
                banned = torch.stack([self.banned[some].any(0) for some in names])
        return found

    def _worth(
        self, sums: Tensor, total: Tensor, banned: Tensor, last: bool
    ) -> tuple[Tensor, Tensor]:
        """Loss that rules take away, ``-inf`` for those that must not be, and what they predict."""
        count, square, below, y = sums[0], sums[1], sums[2], sums[3:]
        inside = square - y.square().sum(0) / count.clamp(min=1)
        agreed, prediction = y[0], y[0] / count.clamp(min=1)
        if self.classes:
            refused = banned.T[:, :, None] | self.banned.T[:, None, :]
            agreed, prediction = torch.where(refused, -torch.inf, y).max(0)
        if last:
            rest = (total[3:, None, None] - y).square().sum(0) / (total[0] - count).clamp(min=1)
            value = square - 2 * inside + rest - total[3:].square().sum() / total[0]
            value = torch.where(agreed < y.max(0).values, -torch.inf, value)
        else:
            value = below - (count - agreed if self.classes else inside)
        return torch.where(count < self.least, -torch.inf, value), prediction
