"""How rules are learned: patterns that tell predictions apart, and carry them when transplanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.patterns import FoundPatterns, Vocabulary, find_candidates
from hpme.explainers.hpme.rulebook import Exemplar, Rule, RuleBook, apply_rules
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern

MOST_RULES, MOST_PATTERNS = 7, 3
LEAST_GAIN = 0.01
"""A rule explains at least this share of what there is to explain."""
EQUAL_GAIN = 0.03
"""Conditions whose gains differ by less than this share of it are told apart by transplants."""
EQUAL_EFFECT = 0.03
"""Effects that differ by less than this are equal."""
SEARCHED, PAIRED, TRIED, ASKED = 150, 60, 24, 24
"""Graphs in which patterns are looked for, patterns joined into pairs, equally good patterns tried,
and graphs asked about each."""
LEAST_PRECISION, LEAST_RECALL, LEAST_LIFT = 0.9, 0.5, 1.2
"""Of a rule that only describes a class which the rules before leave to the default."""


def learned_part(count: int, unseen: float, seed: int) -> Tensor:
    """Which of some graphs rules are learned from, boolean; a share of them is left unseen."""
    if not 0 <= unseen < 1:
        raise InputError(f"unseen is a share from 0 to below 1, got {unseen}")
    learned = torch.ones(count, dtype=torch.bool)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    learned[order[: round(unseen * count)]] = False
    if int(learned.sum()) < 2:
        raise InputError(
            f"{count} graphs are too few to learn rules from; give more, or a lower unseen"
        )
    return learned


def learn_rules(
    transplants: Transplants,
    store: GraphStore,
    names: Sequence[str] | None,
    learned: Tensor,
    advance: Callable[[int], None],
) -> RuleBook:
    """What a model has learned, in a few rules.

    Args:
        transplants: The graphs and their hosts.
        store: The graphs as they were given.
        names: Names of the classes, if they are known.
        learned: Boolean ``[B]``: graphs to learn from; the others are unseen.
        advance: Called once for each size of patterns.
    """
    classes = _classes(transplants.context, names)
    return Learner(transplants, store, Vocabulary.of(store), classes, learned).learn(advance)


def _classes(context: Context, names: Sequence[str] | None) -> list[str] | None:
    """Names of the classes, or of the two sides of a question; ``None`` for values."""
    if not context.task.classification:
        return None
    width = context.values.shape[1]
    view = context.adapter.view
    if view.asked and width == 2:
        ours, other = view.target, view.contrast
        return [
            f"not {ours}" if other is None else str(other),
            f"not {other}" if ours is None else str(ours),
        ]
    if names is not None and len(names) == width:
        return [str(name) for name in names]
    return [f"class {number}" for number in range(width)]


@dataclass(frozen=True)
class Learner:
    """Graphs, the predictions for them, and transplants between them.

    Args:
        transplants: The graphs and their hosts.
        store: The graphs as they were given.
        vocabulary: What nodes and edges are called.
        classes: Names of the classes; ``None`` for values.
        learned: Boolean ``[B]``: graphs to learn from; the others are unseen.
    """

    transplants: Transplants
    store: GraphStore
    vocabulary: Vocabulary
    classes: Sequence[str] | None
    learned: Tensor

    @cached_property
    def graphs(self) -> LabelledGraphs:
        """All graphs with labels."""
        return self.vocabulary.read(self.store)

    @cached_property
    def predicted(self) -> Tensor:
        """Predicted classes ``[B]``, or values in units of their spread ``[B, 1]``."""
        return self.transplants.context.prediction[: self.transplants.count].cpu()

    @cached_property
    def wanted(self) -> Tensor:
        """What rules should tell: classes as columns of 0 and 1, or values, ``[B, C]``."""
        if self.classes is None:
            return self.predicted.view(len(self.predicted), -1)[:, :1].double()
        return torch.eye(len(self.classes), dtype=torch.double)[self.predicted]

    @cached_property
    def regions(self) -> tuple[Tensor, Tensor]:
        """Node masks: the whole pool, and what of it is enough."""
        own = len(self.graphs.label)
        whole = self.transplants.pool
        return whole[:own].cpu(), self.transplants.smallest_prefix()[:own].cpu()

    def gain(self, has: Tensor, open_: Tensor, *, final: bool = True) -> Tensor:
        """How much of the squared error of the open graphs rules take away, ``[P]``.

        Args:
            has: Whether their conditions hold, boolean ``[P, B]``.
            open_: Boolean ``[B]``.
            final: Whether the error inside counts twice, since no later rule can mend it.
        """
        return _gain(has[:, open_], self.wanted[open_], 2 if final else 1)

    # A rule #####################################################################################

    def best(self, candidates: FoundPatterns, open_: Tensor, least: float) -> list[int] | None:
        """Numbers of the patterns of the best condition; ``None`` if none gains the least."""
        single = self.gain(candidates.has, open_)
        first = self.gain(candidates.has, open_, final=False).argsort(descending=True)[:PAIRED]
        chosen, value = [int(single.argmax())], float(single.max())
        while len(chosen) < MOST_PATTERNS:
            if len(chosen) == 1:  # any two, since neither may say much alone
                left, right = torch.combinations(first, 2).unbind(1)
            else:
                left, right = torch.tensor(chosen[:1]).expand(len(first)), first
            has = candidates.has[left] & candidates.has[right]
            if len(chosen) == 2:
                has = has & candidates.has[chosen[1]]
            gains = self.gain(has, open_)
            place = int(gains.argmax()) if len(gains) else 0
            if not len(gains) or float(gains[place]) < value + least:
                break
            value = float(gains[place])
            more = [] if len(chosen) == 1 else [chosen[1]]
            chosen = [int(left[place]), *more, int(right[place])]
        if value < least:
            return None
        for place in range(len(chosen)):
            chosen[place] = self._told_apart(candidates, chosen, place, open_, value)
        return chosen

    def _told_apart(
        self, candidates: FoundPatterns, chosen: list[int], place: int, open_: Tensor, value: float
    ) -> int:
        """The smallest of equally good patterns that carry most and are often pooled as a whole."""
        others = [n for i, n in enumerate(chosen) if i != place]
        has = candidates.has.clone()
        for number in others:
            has &= candidates.has[number]
        whole = _error(torch.ones(1, int(open_.sum()), dtype=torch.double), self.wanted[open_])
        equal = self.gain(has, open_) >= value - EQUAL_GAIN * float(whole)
        numbers = equal.nonzero().view(-1)
        share = candidates.pooled
        numbers = numbers[share[numbers].argsort(descending=True, stable=True)][:TRIED]
        ids = self._asked(has[numbers].all(0) & open_)
        effects = []
        for number in numbers.tolist():
            patterns = [candidates.patterns[n] for n in (*others, number)]
            effects.append(float(self.effects(patterns, ids).mean()) if len(ids) else 0.0)
        strong = [
            number
            for number, effect in zip(numbers.tolist(), effects, strict=True)
            if effect >= max(effects) - EQUAL_EFFECT
        ]
        often = max(float(share[number]) for number in strong) / 2
        whole_ones = [number for number in strong if float(share[number]) >= often]
        return int(min(whole_ones, key=lambda number: len(candidates.patterns[number])))

    def _asked(self, which: Tensor) -> Tensor:
        """A few of some graphs, of the prediction that most of them get."""
        ids = which.nonzero().view(-1)
        if self.classes is not None and len(ids):
            ids = ids[self.predicted[ids] == self.predicted[ids].mode().values]
        return ids[:ASKED]

    def nodes(self, patterns: Sequence[Pattern]) -> Tensor:
        """Nodes of the patterns in every graph; of several matches, those the pool scores best."""
        score = self.transplants.score[0, : len(self.graphs.label)].cpu()
        mask = torch.zeros(len(score), dtype=torch.bool)
        for pattern in patterns:
            mask |= self.graphs.best_match(pattern, score)
        return mask

    def effects(self, patterns: Sequence[Pattern], ids: Tensor) -> Tensor:
        """What patterns carry into hosts, for graphs that have them."""
        device = self.transplants.hosts.device
        return self.transplants.carried(self.nodes(patterns).to(device), ids.to(device)).cpu()

    def described(self, candidates: FoundPatterns, label: int) -> list[int] | None:
        """A pattern that graphs of a class have and others do not; ``None`` if there is none."""
        learned = self.learned
        has, ours = candidates.has[:, learned].double(), (self.predicted == label)[learned].double()
        both, share = has @ ours, float(ours.mean())
        precision, recall = both / has.sum(1).clamp(min=1), both / ours.sum().clamp(min=1)
        good = (precision >= LEAST_PRECISION) & (recall >= LEAST_RECALL)
        good &= precision >= LEAST_LIFT * share
        if not bool(good.any()):
            return None
        f1 = 2 * both / (has.sum(1) + ours.sum())
        best = float(f1[good].max())
        equal = (good & (f1 >= best - EQUAL_GAIN)).nonzero().view(-1).tolist()
        size = [len(candidates.patterns[n]) for n in equal]
        pooled = [float(candidates.pooled[n]) for n in equal]
        return [max(zip(pooled, [-s for s in size], equal, strict=True))[2]]

    # The list ###################################################################################

    def learn(self, advance: Callable[[int], None]) -> RuleBook:
        """The rules, with what they are worth on unseen graphs."""
        open_ = self.learned.clone()
        total = float(_error(torch.ones(1, int(open_.sum())).double(), self.wanted[open_]))
        rules: list[list[Pattern]] = []
        predictions: list[float] = []
        if total > 1e-9:
            candidates = self._candidates(total, advance)
            while candidates.patterns and len(rules) < MOST_RULES and bool(open_.any()):
                found = self.best(candidates, open_, LEAST_GAIN * total)
                if found is None:
                    break
                has = candidates.has[found].all(0) & open_
                rules.append([candidates.patterns[n] for n in found])
                predictions.append(self._prediction(has))
                open_ &= ~has
            default = self._prediction(open_ if bool(open_.any()) else self.learned)
            self._describe(candidates, rules, predictions)
        else:
            default = self._prediction(self.learned)
        return self._book(rules, predictions, default, total)

    def _candidates(self, total: float, advance: Callable[[int], None]) -> FoundPatterns:
        """Patterns found in some of the graphs to learn from, looked up in all."""
        ids = self.learned.nonzero().view(-1)[:SEARCHED]
        some = torch.zeros_like(self.learned)
        some[ids] = True
        inside = some[self.graphs.graph]
        y = self.wanted[ids]
        # SMARTS has no word for edges that leave a match.
        least = (
            None
            if self.vocabulary.molecules
            else LEAST_GAIN * total * len(ids) / int(self.learned.sum())
        )
        found = find_candidates(
            self.vocabulary.read(self.store.subset(ids)),
            [region[inside] for region in self.regions],
            lambda has: _gain(has, y, 1),
            lambda has: _speaks_for(has, y),
            advance,
            least=least,
        )
        rows = [self.graphs.has(pattern) for pattern in found.patterns]
        has = torch.stack(rows) if rows else torch.zeros(0, len(self.learned)).bool()
        return FoundPatterns(found.patterns, has, found.pooled / len(ids))

    def _describe(
        self, candidates: FoundPatterns, rules: list[list[Pattern]], predictions: list[float]
    ) -> None:
        for label in range(len(self.classes or ())):
            if len(rules) < MOST_RULES and float(label) not in predictions and candidates.patterns:
                found = self.described(candidates, label)
                if found is not None:
                    rules.append([candidates.patterns[n] for n in found])
                    predictions.append(float(label))

    def _prediction(self, which: Tensor) -> float:
        mean = self.wanted[which].mean(0)
        return float(mean.argmax()) if self.classes is not None else float(mean[0])

    def _book(
        self, rules: list[list[Pattern]], predictions: list[float], default: float, total: float
    ) -> RuleBook:
        unseen = ~self.learned if bool((~self.learned).any()) else self.learned
        said = apply_rules(self.graphs, rules, predictions, default)
        made = [self._rule(p, v, unseen) for p, v in zip(rules, predictions, strict=True)]
        # What carries predictions comes first, if the list says the same then.
        strong = sorted(range(len(rules)), key=lambda i: -made[i].effect if made[i].effects else 0)
        again = [rules[i] for i in strong], [predictions[i] for i in strong]
        if torch.equal(apply_rules(self.graphs, *again, default), said):
            made = [made[i] for i in strong]
        note = ""
        if total <= 1e-9:
            note = "all graphs get the same prediction; there is nothing to tell apart"
        elif not rules:
            note = "no subgraph tells the predictions apart"
        return RuleBook(
            tuple(made),
            default * self._unit,
            self._label(default),
            self._fidelity(said, unseen),
            self._fidelity(said, self.learned),
            int(self.learned.sum()),
            int((~self.learned).sum()),
            note,
            self.vocabulary,
        )

    def _rule(self, patterns: list[Pattern], prediction: float, unseen: Tensor) -> Rule:
        has = torch.stack([self.graphs.has(pattern) for pattern in patterns]).all(0)
        here, ours = has & unseen, torch.ones_like(unseen)
        precision = recall = lift = math.nan
        if self.classes is not None:
            ours = self.predicted == int(prediction)
            share = float(ours[unseen].double().mean())
            if bool(here.any()):
                precision = float(ours[here].double().mean())
                lift = precision / share if share else math.nan
            if share:
                recall = float(has[unseen & ours].double().mean())
        asked = (here & ours).nonzero().view(-1)
        effects = self.effects(patterns, asked) if len(asked) else torch.zeros(0)
        nodes = self.nodes(patterns)
        pooled = self.regions[0][nodes & here[self.graphs.graph]].double()
        return Rule(
            tuple(patterns),
            tuple(self.vocabulary.name(pattern) for pattern in patterns),
            prediction * self._unit,
            self._label(prediction),
            float(here[unseen].double().mean()),
            precision,
            recall,
            lift,
            tuple(round(value, 4) for value in effects.tolist()),
            float(pooled.mean()) if len(pooled) else math.nan,
            self._exemplar(nodes, asked, has, effects),
        )

    def _exemplar(self, nodes: Tensor, asked: Tensor, has: Tensor, effects: Tensor) -> Exemplar:
        """The smallest graph in which the patterns carry nearly as much as anywhere."""
        ids = asked[effects >= effects.max() - 0.1] if len(asked) else has.nonzero().view(-1)
        number = int(ids[self.store.sizes[ids].argmin()])
        start = int(self.store.node_start[number])
        mask = nodes[start : start + int(self.store.sizes[number])]
        # A copy, since a view would keep all graphs alive.
        return Exemplar(self.store[number].clone(), mask.clone())

    @property
    def _unit(self) -> float:
        return 1.0 if self.classes is not None else self.transplants.context.task.scale

    def _label(self, prediction: float) -> str:
        if self.classes is not None:
            return str(self.classes[int(prediction)])
        return f"{prediction * self._unit:.3g}"

    def _fidelity(self, said: Tensor, which: Tensor) -> float:
        if self.classes is not None:
            return float((said == self.predicted)[which].double().mean())
        value = self.wanted[which, 0]
        error = (said[which] - value).square().sum()
        spread = (value - value.mean()).square().sum()
        return float(1 - error / spread) if float(spread) else 1.0


def _speaks_for(has: Tensor, y: Tensor) -> Tensor:
    """The column of ``y`` that is largest where conditions hold; of one, whether it is high."""
    more = has.double() @ (y - y.mean(0))
    return more.argmax(1) if y.shape[1] > 1 else (more[:, 0] > 0).long()


def _gain(has: Tensor, y: Tensor, weight: int) -> Tensor:
    inside = has.double()
    total = _error(torch.ones(1, len(y), dtype=torch.double), y)
    return total - weight * _error(inside, y) - _error(1 - inside, y)


def _error(inside: Tensor, y: Tensor) -> Tensor:
    """Squared error of the mean of some rows of ``y``, for every row of weights ``[P, B]``."""
    count = inside.sum(1).clamp(min=1)
    return inside @ y.square().sum(1) - (inside @ y).square().sum(1) / count
