"""How rules are learned: conditions that tell predictions apart, and carry them when grafted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.counterfactuals import class_names
from hpme.explainers.hpme.decisions import (
    MOST_RULES,
    Decision,
    DecisionList,
    decide,
    undecided,
)
from hpme.explainers.hpme.grafting import Grafting
from hpme.explainers.hpme.patterns import Catalogue, Vocabulary, add_contexts, find_candidates
from hpme.explainers.hpme.rulebook import Condition, Rule, RuleBook
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.hpme.weighing import LEAST_UNSEEN, Weighing
from hpme.graphs import GraphStore

LEAST_SKILL = 0.2
"""Share of what the default gets wrong that a list must set right to be one."""
SEARCHED, TRIED, ASKED = 150, 24, 24
"""Graphs in which parts of pooled subgraphs are looked for, equally good patterns tried, and graphs
asked about each."""
MOST_TIMES, KEPT, ALIKE = 4, 300, 0.9
"""Places in which a condition may ask for a pattern, conditions that lists are made of, and the
correlation from which on two of them are too much alike."""
COST, ABSENT = 2.0, 3.0
"""Description length of a condition, in graphs that it must set right; absence is harder to see."""
LEAST_GAIN, EQUAL_GAIN, EQUAL_EFFECT = 0.01, 0.03, 0.03
"""Shares of what there is to explain: what a limit of leaving edges must gain, and how much less
equally good conditions gain; effects that differ by less are equal."""
CONTRIBUTES = 0.1
"""Share of the output from which on a group contributes."""
LEAST_PRECISION, LEAST_RECALL, LEAST_LIFT = 0.9, 0.5, 1.2
"""Of a rule that only describes a class which the rules before leave to the default."""
SAME = "all graphs get the same prediction; there is nothing to tell apart"


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
    grafting: Grafting | None,
) -> RuleBook:
    """What a model has learned, in a few rules.

    Args:
        transplants: The graphs and their hosts.
        store: The graphs as they were given.
        names: Names of the classes, if they are known.
        learned: Boolean ``[B]``: graphs to learn from; the others are unseen.
        advance: Called once for each size of patterns.
        grafting: Grafts between molecules, if it is known how the model reads them.
    """
    classes = class_names(transplants.context, names)
    words = Vocabulary.of(store)
    return Learner(Weighing(transplants, store, words, classes, learned, grafting)).learn(advance)


@dataclass(frozen=True)
class Learner:
    """Learns rules from graphs."""

    on: Weighing

    def candidates(self, advance: Callable[[int], None]) -> Catalogue:
        """Patterns found in some of the graphs to learn from."""
        on = self.on
        ids = on.learned.nonzero().view(-1)[:SEARCHED]
        inside = torch.isin(on.graphs.graph, ids)
        y, molecules = on.wanted[ids], on.vocabulary.molecules
        regions = (on.own(on.transplants.pool), on.own(on.transplants.pooled))
        found = find_candidates(
            on.vocabulary.read(on.store.subset(ids)),
            [region[inside] for region in regions],
            lambda has: _gain(has, y),
            lambda has: _speaks_for(has, y),
            advance,
            # SMARTS has no word for edges that leave a match.
            least=None if molecules else LEAST_GAIN * float(_error(torch.ones(1, len(y)), y)),
        )
        if molecules:
            region = regions[1] | (on.contributed.abs() >= CONTRIBUTES)
            add_contexts(found, on.store, on.graphs, region & on.learned[on.graphs.graph])
        return found

    @property
    def fewest(self) -> int:
        """Graphs to learn from that a rule must decide."""
        return -(-self.on.least * int(self.on.learned.sum()) // int(self.on.unseen.sum()))

    def conditions(self, found: Catalogue) -> tuple[list[Condition], Tensor, Tensor]:
        """Conditions, whether they hold ``[P, B]``, and for which classes they must not speak.

        A condition and its opposite follow each other; what holds for the same graphs as one
        before is left out.
        """
        graphs, learned, known = self.on.graphs, self.on.learned, set[bytes]()
        conditions, rows, banned = list[Condition](), list[Tensor](), list[Tensor]()
        order = range(len(found.patterns))
        for number in sorted(order, key=lambda n: (-found.count[n], len(found.patterns[n]))):
            pattern = found.patterns[number]
            matches = graphs.matches(pattern)
            times = torch.bincount(graphs.graph[matches[:, 0]], minlength=graphs.count)
            signs = self.on.signs(matches)
            for least in range(1, MOST_TIMES + 1):
                has = times >= least
                code = has[learned].numpy().tobytes()
                if not self.fewest <= sum(code) < len(code):
                    continue
                if code not in known:
                    known.add(code)
                    conditions += [Condition(pattern, least, absent) for absent in (False, True)]
                    rows += [has, ~has]
                    banned += [signs < 0, signs > 0]
        if not rows:
            return [], torch.zeros(0, graphs.count).bool(), torch.zeros(0, 1).bool()
        gain = _gain(torch.stack(rows[::2])[:, learned], self.on.wanted[learned])
        best = _different(gain, torch.stack(rows[::2])[:, learned])
        chosen = [number for one in best for number in (2 * one, 2 * one + 1)]
        has, refused = (torch.stack([some[n] for n in chosen]) for some in (rows, banned))
        return [conditions[n] for n in chosen], has, refused

    def told_apart(self, found: DecisionList, conditions: Sequence[Condition]) -> None:
        """In place of each pattern the smallest of equally good ones that carry most."""
        empty = decide([], self._default(self.on.learned), found.has)
        bound = EQUAL_GAIN * float(found.loss(empty).sum())
        plain = [n for n, one in enumerate(conditions) if not one.absent and one.times == 1]
        for place, (chosen, prediction) in enumerate(found.rules):
            for at in (at for at, number in enumerate(chosen) if number in plain):
                length, equal = found.length(), list[list[int]]()
                for other in plain:
                    with_other = [*chosen[:at], other, *chosen[at + 1 :]]
                    found.rules[place] = with_other, prediction
                    equal += [with_other] if found.length() <= length + bound else []
                ids = self._asked(found, equal)
                effects = []
                for some in equal[:TRIED]:
                    patterns = [conditions[n].pattern for n in some if not conditions[n].absent]
                    effects.append(float(self.on.effects(patterns, ids).mean()) if len(ids) else 0)
                bar = max(effects) - EQUAL_EFFECT
                strong = [s for s, e in zip(equal, effects, strict=False) if e >= bar]
                chosen = min(strong, key=lambda some: len(conditions[some[at]].pattern))
                found.rules[place] = chosen, prediction

    def _asked(self, found: DecisionList, equal: Sequence[Sequence[int]]) -> Tensor:
        """A few graphs for which all rules hold, of the prediction that most of them get."""
        holds = torch.stack([found.has[list(some)].all(0) for some in equal]).all(0)
        ids = self.on.learned.nonzero().view(-1)[holds]
        if self.on.classes is not None and len(ids):
            ids = ids[self.on.predicted[ids] == self.on.predicted[ids].mode().values]
        return ids[:ASKED]

    def learn(self, advance: Callable[[int], None]) -> RuleBook:
        """The rules, with what they are worth on unseen graphs."""
        on = self.on
        y = on.wanted[on.learned]
        if len(torch.unique(on.predicted[on.learned])) == 1:
            return self._book([], torch.zeros(0, len(on.learned)).bool(), [], SAME)
        conditions, has, banned = self.conditions(self.candidates(advance))
        if not conditions:
            why = "no rulebook: no subgraph tells the predictions apart"
            return self._book([], has, [], why)
        cost = torch.tensor([ABSENT if one.absent else COST for one in conditions])
        known, classes = has[:, on.learned], on.classes is not None
        found = DecisionList(known, cost, y, classes, banned, self.fewest).learn()
        if on.grafting is None:
            self.told_apart(found, conditions)
        return self._book(conditions, has, self._checked(found.rules, conditions, has), "")

    def _checked(
        self, rules: list[Decision], conditions: Sequence[Condition], has: Tensor
    ) -> list[Decision]:
        """Without rules that fail on unseen graphs; with such as describe a class left over."""
        on, kept = self.on, list[Decision]()
        for numbers, prediction in rules:
            worth = on.worth(undecided(kept, has) & has[numbers].all(0), prediction)
            if worth.count >= on.least and worth.lift > 1:
                kept.append((numbers, prediction))
        for label in range(len(on.classes or ())):
            if len(kept) < MOST_RULES and float(label) not in {told for _, told in kept}:
                kept += self._describing(conditions, has, label)
        return kept

    def _describing(
        self, conditions: Sequence[Condition], has: Tensor, label: int
    ) -> list[Decision]:
        """A pattern that graphs of a class have and others do not, if there is one."""
        learned = self.on.learned
        inside, ours = has[::2, learned].double(), (self.on.predicted == label)[learned].double()
        both, share = inside @ ours, float(ours.mean())
        precision, recall = both / inside.sum(1), both / ours.sum().clamp(min=1)
        good = (precision >= max(LEAST_PRECISION, LEAST_LIFT * share)) & (recall >= LEAST_RECALL)
        f1 = torch.where(good, 2 * both / (inside.sum(1) + ours.sum()), -1.0)
        if not bool(good.any()):
            return []
        equal = (f1 >= float(f1.max()) - EQUAL_GAIN).nonzero().view(-1).tolist()
        best = min(equal, key=lambda n: len(conditions[2 * n].pattern))
        return [([2 * best], float(label))]

    def _book(
        self, conditions: Sequence[Condition], has: Tensor, rules: list[Decision], why: str
    ) -> RuleBook:
        on, every = self.on, self.on.learned | True
        default, always = self._default(undecided(rules, has)), self._default(every)
        fidelity, alone = (
            on.fidelity(decide(some, last, has), on.unseen)
            for some, last in ((rules, default), ([], always))
        )
        skill = max(0.0, (fidelity - alone) / max(1 - alone, 1e-9))
        contributors: list[Rule] = []
        if conditions and skill < LEAST_SKILL:
            why = (
                f"no rulebook: the best short list sets right {skill:.0%} of what 'always "
                f"{on.worth(every, always).label}' gets wrong on unseen graphs; what contributes "
                "to predictions is listed instead"
            )
            rules, default, fidelity = [], always, alone
            contributors = self._contributors(conditions, has)
        elif rules and on.least < LEAST_UNSEEN:
            why = f"only {int(on.unseen.sum())} graphs to measure on: all numbers are rough"
        made = []
        for place, (numbers, prediction) in enumerate(rules):
            here = undecided(rules[:place], has) & has[numbers].all(0)
            made.append(on.rule([conditions[n] for n in numbers], prediction, here))
        return RuleBook(
            tuple(made),
            tuple(contributors),
            default * on.unit,
            on.worth(undecided(rules, has), default).label,
            fidelity,
            on.fidelity(decide(rules, default, has), on.learned),
            alone,
            int(on.learned.sum()),
            int((~on.learned).sum()),
            why,
            on.vocabulary,
        )

    def _default(self, left: Tensor) -> float:
        left = left & self.on.learned
        mean = self.on.wanted[left if bool(left.any()) else self.on.learned].mean(0)
        return float(mean.argmax()) if self.on.classes is not None else float(mean[0])

    def _contributors(self, conditions: Sequence[Condition], has: Tensor) -> list[Rule]:
        """Rules of one condition that hold for themselves, those of the largest effect first."""
        found, on = list[Rule](), self.on
        for number in range(0, len(conditions), 2):
            here = has[number]
            mean = on.wanted[here & on.learned].mean(0)
            more = mean - on.wanted[on.learned].mean(0)
            prediction = float(more.argmax()) if on.classes is not None else float(mean[0])
            worth = on.worth(here, prediction)
            if worth.count >= on.least and worth.lift > 1 and len(found) < MOST_RULES:
                found.append(on.rule([conditions[number]], prediction, here))
        return sorted(found, key=lambda rule: -rule.effect if rule.effects else 0.0)


def _speaks_for(has: Tensor, y: Tensor) -> Tensor:
    """The column of ``y`` that is largest where conditions hold; of one, whether it is high."""
    more = has.double() @ (y - y.mean(0))
    return more.argmax(1) if y.shape[1] > 1 else (more[:, 0] > 0).long()


def _different(gain: Tensor, has: Tensor) -> list[int]:
    """Numbers of the conditions of the largest gain, none much like one before."""
    centred = has.double() - has.double().mean(1, keepdim=True)
    centred = centred / centred.norm(dim=1, keepdim=True)
    chosen: list[int] = []
    for number in gain.argsort(descending=True, stable=True).tolist():
        if len(chosen) < KEPT and bool((centred[chosen] @ centred[number] <= ALIKE).all()):
            chosen.append(number)
    return chosen


def _gain(has: Tensor, y: Tensor) -> Tensor:
    """How much of the squared error goes if two means take the place of one."""
    inside = has.double()
    return _error(torch.ones(1, len(y)), y) - _error(inside, y) - _error(1 - inside, y)


def _error(inside: Tensor, y: Tensor) -> Tensor:
    """Squared error of the mean of some rows of ``y``, for every row of weights ``[P, B]``."""
    inside = inside.double()
    count = inside.sum(1).clamp(min=1)
    return inside @ y.square().sum(1) - (inside @ y).square().sum(1) / count
