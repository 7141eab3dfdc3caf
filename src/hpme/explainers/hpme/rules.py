"""How rules are learned: conditions that tell predictions apart, and carry them when grafted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme import decisions
from hpme.explainers.hpme.decisions import MOST_RULES, Decision, decide, error, undecided, usual
from hpme.explainers.hpme.patterns import Catalogue, add_contexts, find_candidates
from hpme.explainers.hpme.rulebook import Condition, Rule, RuleBook
from hpme.explainers.hpme.weighing import LEAST_UNSEEN, Weighing

LEAST_SKILL = 0.2
"""Share of what the default gets wrong that a list must set right to be one."""
SEARCHED, TRIED, ASKED = 150, 24, 24
"""Graphs in which parts of pooled subgraphs are looked for, equally good patterns tried, and graphs
asked about each."""
MOST_TIMES = 4
"""Places in which a condition may ask for a pattern."""
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


class Learner(Weighing):
    """Learns rules from graphs."""

    @cached_property
    def fewest(self) -> int:
        """Graphs to learn from that a rule must decide."""
        return -(-self.least * int(self.learned.sum()) // int(self.unseen.sum()))

    def learn(self, advance: Callable[[int], None]) -> RuleBook:
        """The rules, with what they are worth on unseen graphs; one step per size of patterns."""
        if len(torch.unique(self.predicted[self.learned])) == 1:
            return self._book([], torch.zeros(0, len(self.learned)).bool(), [], SAME)
        conditions, has, banned = self._conditions(self._candidates(advance))
        if not conditions:
            why = "no rulebook: no subgraph tells the predictions apart"
            return self._book([], has, [], why)
        cost = torch.tensor([ABSENT if one.absent else COST for one in conditions])
        known, y = has[:, self.learned], self.wanted[self.learned]
        classes = self.classes is not None
        found = decisions.DecisionList(known, cost, y, classes, banned, self.fewest).learn()
        if self.grafting is None:
            self._told_apart(found, conditions)
        rules = list[Decision]()  # without those that fail on unseen graphs
        for numbers, prediction in found.rules:
            here = undecided(rules, has) & has[numbers].all(0)
            rules += [(numbers, prediction)] if self.worth(here, prediction).sound else []
        for label in range(len(self.classes or ())):
            if len(rules) < MOST_RULES and float(label) not in {told for _, told in rules}:
                rules += self._describing(conditions, has, label)
        return self._book(conditions, has, rules, "")

    def _candidates(self, advance: Callable[[int], None]) -> Catalogue:
        """Patterns found in some of the graphs to learn from."""
        ids = self.learned.nonzero().view(-1)[:SEARCHED]
        inside = torch.isin(self.graphs.graph, ids)
        y, molecules = self.wanted[ids], self.vocabulary.molecules
        regions = (self.own(self.transplants.pool), self.own(self.transplants.pooled))
        found = find_candidates(
            self.vocabulary.read(self.store.subset(ids)),
            [region[inside] for region in regions],
            lambda has: decisions.gain(has, y),
            lambda has: decisions.speaks_for(has, y),
            advance,
            # SMARTS has no word for edges that leave a match.
            least=None if molecules else LEAST_GAIN * float(error(torch.ones(1, len(y)), y)),
        )
        if molecules:
            region = regions[1] | (self.contributed.abs() >= CONTRIBUTES)
            add_contexts(found, self.store, self.graphs, region & self.learned[self.graphs.graph])
        return found

    def _conditions(self, found: Catalogue) -> tuple[list[Condition], Tensor, Tensor]:
        """Conditions, each before its opposite, where they hold ``[P, B]``, and banned classes."""
        graphs, learned, known = self.graphs, self.learned, set[bytes]()
        conditions, rows, banned = list[Condition](), list[Tensor](), list[Tensor]()
        order = range(len(found.patterns))
        for number in sorted(order, key=lambda n: (-found.count[n], len(found.patterns[n]))):
            pattern = found.patterns[number]
            matches = graphs.matches(pattern)
            times = torch.bincount(graphs.graph[matches[:, 0]], minlength=graphs.count)
            signs = self.signs(matches)
            for least in range(1, MOST_TIMES + 1):
                has = times >= least
                code = has[learned].numpy().tobytes()
                if self.fewest <= sum(code) < len(code) and code not in known:
                    known.add(code)
                    conditions += [Condition(pattern, least, absent) for absent in (False, True)]
                    rows += [has, ~has]
                    banned += [signs < 0, signs > 0]
        if not rows:
            return [], torch.zeros(0, graphs.count).bool(), torch.zeros(0, 1).bool()
        best = decisions.different(torch.stack(rows[::2])[:, learned], self.wanted[learned])
        chosen = [number for one in best for number in (2 * one, 2 * one + 1)]
        has, refused = (torch.stack([some[n] for n in chosen]) for some in (rows, banned))
        return [conditions[n] for n in chosen], has, refused

    def _told_apart(self, found: decisions.DecisionList, conditions: Sequence[Condition]) -> None:
        """In place of each pattern the smallest of equally good ones that carry most."""
        empty = decide([], usual(found.wanted, slice(None), found.classes), found.has)
        bound = EQUAL_GAIN * float(found.loss(empty).sum())
        plain = [n for n, one in enumerate(conditions) if not one.absent and one.times == 1]
        for place, (chosen, prediction) in enumerate(found.rules):
            for at in (at for at, number in enumerate(chosen) if number in plain):
                length, equal = found.length(), list[list[int]]()
                for other in plain:
                    with_other = [*chosen[:at], other, *chosen[at + 1 :]]
                    found.rules[place] = with_other, prediction
                    equal += [with_other] if found.length() <= length + bound else []
                # A few graphs for which all of them hold, of the prediction that most of them get.
                holds = torch.stack([found.has[some].all(0) for some in equal]).all(0)
                ids = self.learned.nonzero().view(-1)[holds]
                if self.classes is not None and len(ids):
                    ids = ids[self.predicted[ids] == self.predicted[ids].mode().values]
                ids, effects = ids[:ASKED], list[float]()
                for some in equal[:TRIED]:
                    patterns = [conditions[n].pattern for n in some if not conditions[n].absent]
                    effects.append(float(self.effects(patterns, ids).mean()) if len(ids) else 0.0)
                bar = max(effects) - EQUAL_EFFECT
                strong = [s for s, e in zip(equal, effects, strict=False) if e >= bar]
                chosen = min(strong, key=lambda some: len(conditions[some[at]].pattern))
                found.rules[place] = chosen, prediction

    def _describing(
        self, conditions: Sequence[Condition], has: Tensor, label: int
    ) -> list[Decision]:
        """A pattern that graphs of a class have and others do not, if there is one."""
        inside = has[::2, self.learned].double()
        ours = (self.predicted == label)[self.learned].double()
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
        learned, y, classes = self.learned, self.wanted[self.learned], self.classes is not None
        default = usual(y, undecided(rules, has)[learned], classes)
        always = usual(y, slice(None), classes)
        fidelity, alone = (
            self.fidelity(decide(some, last, has), self.unseen)
            for some, last in ((rules, default), ([], always))
        )
        skill = max(0.0, (fidelity - alone) / max(1 - alone, 1e-9))
        contributors: list[Rule] = []
        if conditions and skill < LEAST_SKILL:
            why = (
                f"no rulebook: the best short list sets right {skill:.0%} of what 'always "
                f"{self.worth(learned | True, always).label}' gets wrong on unseen graphs; what "
                "contributes to predictions is listed instead"
            )
            rules, default, fidelity = [], always, alone
            contributors = self._contributors(conditions, has)
        elif rules and self.least < LEAST_UNSEEN:
            why = f"only {int(self.unseen.sum())} graphs to measure on: all numbers are rough"
        made = []
        for place, (numbers, prediction) in enumerate(rules):
            here = undecided(rules[:place], has) & has[numbers].all(0)
            made.append(self.rule([conditions[n] for n in numbers], prediction, here))
        listed = tuple(made), tuple(contributors)
        said = default * self.unit, self.worth(undecided(rules, has), default).label
        measured = fidelity, self.fidelity(decide(rules, default, has), learned), alone
        counts = int(learned.sum()), int((~learned).sum())
        return RuleBook(*listed, *said, *measured, *counts, why, self.vocabulary)

    def _contributors(self, conditions: Sequence[Condition], has: Tensor) -> list[Rule]:
        """Rules of one condition that hold for themselves, those of the largest effect first."""
        found = list[Rule]()
        for number in range(0, len(conditions), 2):
            here = has[number]
            mean = self.wanted[here & self.learned].mean(0)
            more = mean - self.wanted[self.learned].mean(0)
            prediction = float(more.argmax()) if self.classes is not None else float(mean[0])
            if len(found) < MOST_RULES and self.worth(here, prediction).sound:
                found.append(self.rule([conditions[number]], prediction, here))
        return sorted(found, key=lambda rule: -rule.effect if rule.effects else 0.0)
