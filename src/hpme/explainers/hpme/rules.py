"""How rules are learned: conditions that tell predictions apart, and carry them when grafted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.decisions import MOST_RULES, Decision, DecisionList
from hpme.explainers.hpme.grafting import Grafting
from hpme.explainers.hpme.patterns import Catalogue, Vocabulary, add_contexts, find_candidates
from hpme.explainers.hpme.rulebook import Condition, Exemplar, Rule, RuleBook
from hpme.explainers.hpme.search.criterion import value_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern

LEAST_UNSEEN, FEW = 10, 6
"""Unseen graphs that a rule decides; where they are few, this part of them is enough."""
LEAST_SKILL = 0.2
"""Share of what the default gets wrong that a list must set right to be one."""
SEARCHED, GRAFTED, TRIED, ASKED, GRAFTS = 150, 300, 24, 24, 6
"""Graphs in which parts of pooled subgraphs are looked for, molecules whose groups are replaced,
equally good patterns tried, graphs asked about each, and molecules whose matches are grafted."""
MOST_TIMES, KEPT = 4, 200
"""Places in which a condition may ask for a pattern, and conditions that lists are made of."""
COST, ABSENT = 2.0, 3.0
"""Description length of a condition, in graphs that it must set right; absence is harder to see."""
LEAST_GAIN, EQUAL_GAIN, EQUAL_EFFECT = 0.01, 0.03, 0.03
"""Shares of what there is to explain: what a limit of leaving edges must gain, and how much less
equally good conditions gain; effects that differ by less are equal."""
CONTRIBUTES, SURE = 0.1, 1.96
"""Share of the output from which on a group contributes, and standard errors that make it sure."""
LEAST_PRECISION, LEAST_RECALL, LEAST_LIFT = 0.9, 0.5, 1.2
"""Of a rule that only describes a class which the rules before leave to the default."""
MIDDLE = (0.1, 0.9)
"""Quantiles of values between which a rule says they are."""


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
    classes = _classes(transplants.context, names)
    words = Vocabulary.of(store)
    return Learner(transplants, store, words, classes, learned, grafting).learn(advance)


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
        grafting: Grafts between molecules, if it is known how the model reads them.
    """

    transplants: Transplants
    store: GraphStore
    vocabulary: Vocabulary
    classes: Sequence[str] | None
    learned: Tensor
    grafting: Grafting | None

    @cached_property
    def graphs(self) -> LabelledGraphs:
        """All graphs with labels."""
        return self.vocabulary.read(self.store)

    @cached_property
    def predicted(self) -> Tensor:
        """Predicted classes ``[B]``, or values in units of their spread ``[B]``."""
        found = self.transplants.context.prediction[: self.transplants.count].cpu()
        return found if self.classes is not None else found.view(len(found), -1)[:, 0].double()

    @cached_property
    def wanted(self) -> Tensor:
        """What rules should tell: probabilities of classes, or values, ``[B, C]``."""
        if self.classes is None:
            return self.predicted.unsqueeze(1)
        return self.transplants.context.values[: self.transplants.count].cpu().double()

    @cached_property
    def unseen(self) -> Tensor:
        """Graphs to measure on, boolean ``[B]``."""
        return ~self.learned if bool((~self.learned).any()) else self.learned

    @cached_property
    def least(self) -> int:
        """Unseen graphs that a rule must decide."""
        return min(LEAST_UNSEEN, -(-int(self.unseen.sum()) // FEW))

    def own(self, nodes: Tensor) -> Tensor:
        """Values of nodes without those of hosts."""
        return nodes[: len(self.graphs.label)].cpu()

    # Candidates #################################################################################

    @cached_property
    def contributed(self) -> Tensor:
        """What is lost of the prediction without the group of each atom; NaN if not known."""
        found = torch.full((len(self.graphs.label),), torch.nan, dtype=torch.double)
        if self.grafting is not None:
            ids = self.learned.nonzero().view(-1)[:GRAFTED]
            inside = torch.isin(self.graphs.graph, ids)
            store, grafting = self.store.subset(ids), self._grafting(ids)
            pooled = self.own(self.transplants.pooled)[inside]
            left = grafting.without(store, pooled, 1, nodes=True)[1][0]
            context, every = grafting.context, torch.arange(len(ids))
            whole = value_of(context, context.values[None], every.to(context.device))[0].cpu()
            lost = whole.double()[store.node_graph] - left
            if context.adapter.view.asked:  # the output is that of one class
                lost = torch.where(self.predicted[ids][store.node_graph] == 0, -lost, lost)
            found[inside] = lost
        return found

    def _grafting(self, ids: Tensor) -> Grafting:
        assert self.grafting is not None
        some = copy(self.grafting)
        some.context = some.context.subset(ids.to(some.context.device))
        return some

    def candidates(self, advance: Callable[[int], None]) -> Catalogue:
        """Patterns found in some of the graphs to learn from."""
        ids = self.learned.nonzero().view(-1)[:SEARCHED]
        inside = torch.isin(self.graphs.graph, ids)
        y = self.wanted[ids]
        whole = float(_error(torch.ones(1, len(y), dtype=torch.double), y))
        regions = (self.own(self.transplants.pool), self.own(self.transplants.pooled))
        found = find_candidates(
            self.vocabulary.read(self.store.subset(ids)),
            [region[inside] for region in regions],
            lambda has: _gain(has, y),
            lambda has: _speaks_for(has, y),
            advance,
            # SMARTS has no word for edges that leave a match.
            least=None if self.vocabulary.molecules else LEAST_GAIN * whole,
        )
        if self.vocabulary.molecules:
            much = CONTRIBUTES * (1.0 if self.classes is not None else self._unit)
            region = regions[1] | (self.contributed.abs() >= much)
            region &= self.learned[self.graphs.graph]
            add_contexts(found, self.store, self.graphs, region)
        return found

    def conditions(self, found: Catalogue) -> tuple[list[Condition], Tensor, Tensor]:
        """Conditions, whether they hold ``[P, B]``, and for which classes they must not speak."""
        learned, rows, known = self.learned, list[Tensor](), set[bytes]()
        conditions: list[Condition] = []
        banned: list[Tensor] = []
        fewest = self._fewest
        order = range(len(found.patterns))
        for number in sorted(order, key=lambda n: (-found.count[n], len(found.patterns[n]))):
            pattern = found.patterns[number]
            matches = self.graphs.matches(pattern)
            times = torch.bincount(self.graphs.graph[matches[:, 0]], minlength=self.graphs.count)
            signs = self._signs(matches)
            for least in range(1, MOST_TIMES + 1):
                has = times >= least
                count = int(has[learned].sum())
                if count < fewest:
                    break
                code = has[learned].numpy().tobytes()
                if code not in known and count <= len(code) - min(fewest, 2):
                    known.add(code)
                    conditions += [Condition(pattern, least, absent) for absent in (False, True)]
                    rows += [has, ~has]
                    banned += [signs < 0, signs > 0]
        if not rows:
            return [], torch.zeros(0, self.graphs.count).bool(), torch.zeros(0, 1).bool()
        table = torch.stack(rows)
        gain = _gain(table[::2, learned], self.wanted[learned])
        best = gain.argsort(descending=True, stable=True)[:KEPT]
        chosen = torch.stack([2 * best, 2 * best + 1], 1).flatten()
        return [conditions[n] for n in chosen.tolist()], table[chosen], torch.stack(banned)[chosen]

    @property
    def _fewest(self) -> int:
        """Graphs to learn from that a rule must decide."""
        return -(-self.least * int(self.learned.sum()) // int(self.unseen.sum()))

    def _signs(self, matches: Tensor) -> Tensor:
        """Whether matches surely raise (1) or lower (-1) what graphs of a class get, ``[C]``."""
        signs = torch.zeros(self.wanted.shape[1])
        if self.grafting is None or self.classes is None:
            return signs
        value = self.contributed[matches].nanmean(1)
        known = value.isfinite()
        graph, value = self.graphs.graph[matches[known, 0]], value[known]
        for label in range(len(signs)):
            some = value[self.predicted[graph] == label]
            if len(some) >= FEW:
                signs[label] = some.mean().sign() * (
                    some.mean().abs() > SURE * some.std() / len(some) ** 0.5
                )
        return signs

    # Effects ####################################################################################

    def nodes(self, patterns: Sequence[Pattern]) -> Tensor:
        """Nodes of the patterns in every graph; of several matches, those the pool scores best."""
        score = self.own(self.transplants.score[0])
        mask = torch.zeros(len(score), dtype=torch.bool)
        for pattern in patterns:
            mask |= self.graphs.best_match(pattern, score)
        return mask

    def effects(self, patterns: Sequence[Pattern], ids: Tensor) -> Tensor:
        """What patterns carry into hosts, for graphs that have them; NaN where nothing is known."""
        nodes = self.nodes(patterns)
        if self.grafting is None:
            device = self.transplants.hosts.device
            return self.transplants.carried(nodes.to(device), ids.to(device)).cpu()
        store, grafting = self.store.subset(ids), self._grafting(ids)
        order = torch.cat([(self.graphs.graph == n).nonzero().view(-1) for n in ids.tolist()])
        made = grafting.trials(store, nodes[order]).trials
        put = (made.inserted - made.random) * (made.own - made.hosts).sign()
        towards = (made.own - made.hosts).nanmean(0).sign()
        found = put.nanmean(0)
        taken = (made.spared - made.removed).nanmean(0) * towards
        return torch.where(found.isfinite(), found, taken) / self._unit

    def _asked(self, which: Tensor, most: int) -> Tensor:
        """A few of some graphs, of the prediction that most of them get."""
        ids = which.nonzero().view(-1)
        if self.classes is not None and len(ids):
            ids = ids[self.predicted[ids] == self.predicted[ids].mode().values]
        return ids[:most]

    def told_apart(self, list_: DecisionList, conditions: Sequence[Condition]) -> None:
        """In place of each pattern the smallest of equally good ones that carry most."""
        bound = EQUAL_GAIN * float(replace(list_, rules=[]).loss(list_.said(MOST_RULES)).sum())
        for place, (chosen, prediction) in enumerate(list_.rules):
            for at, number in enumerate(chosen):
                if conditions[number].absent or conditions[number].times > 1:
                    continue
                length, equal = list_.length(), []
                for other in range(0, len(conditions), 2):
                    with_other = [*chosen[:at], other, *chosen[at + 1 :]]
                    list_.rules[place] = with_other, prediction
                    fits = conditions[other].times == 1 and list_.length() <= length + bound
                    equal += [with_other] if fits else []
                list_.rules[place] = chosen, prediction
                chosen = self._strongest(list_, conditions, equal, at)
                list_.rules[place] = chosen, prediction

    def _strongest(
        self,
        list_: DecisionList,
        conditions: Sequence[Condition],
        equal: list[list[int]],
        at: int,
    ) -> list[int]:
        """Of equally good rules the smallest of those that carry most."""
        holds = torch.stack([list_.has[some].all(0) for some in equal]).all(0)
        all_ = torch.zeros_like(self.learned)
        all_[self.learned.nonzero().view(-1)[holds]] = True
        ids = self._asked(all_, ASKED)
        effects = []
        for some in equal[:TRIED]:
            patterns = [conditions[n].pattern for n in some if not conditions[n].absent]
            effects.append(float(self.effects(patterns, ids).mean()) if len(ids) else 0.0)
        strong = [
            s for s, e in zip(equal, effects, strict=False) if e >= max(effects) - EQUAL_EFFECT
        ]
        return min(strong, key=lambda some: len(conditions[some[at]].pattern))

    # The list ###################################################################################

    def learn(self, advance: Callable[[int], None]) -> RuleBook:
        """The rules, with what they are worth on unseen graphs."""
        y = self.wanted[self.learned]
        empty = DecisionList(
            torch.zeros(0, len(y)).bool(),
            torch.zeros(0),
            y,
            self.classes is not None,
            torch.zeros(0, 1).bool(),
            1,
        ).learn()
        same = self.classes is not None and len(torch.unique(self.predicted[self.learned])) == 1
        if same or float(_error(torch.ones(1, len(y), dtype=torch.double), y)) < 1e-9:
            why = "all graphs get the same prediction; there is nothing to tell apart"
            return self._book([], torch.zeros(0, len(self.learned)).bool(), empty, why)
        conditions, has, banned = self.conditions(self.candidates(advance))
        if not conditions:
            why = "no rulebook: no subgraph tells the predictions apart"
            return self._book([], has, empty, why)
        cost = torch.tensor([ABSENT if one.absent else COST for one in conditions])
        found = replace(empty, has=has[:, self.learned], cost=cost, banned=banned)
        found = replace(found, least=self._fewest, rules=[]).learn()
        if self.grafting is None:
            self.told_apart(found, conditions)
        return self._book(conditions, has, self._checked(found, conditions, has), "")

    def _checked(
        self, found: DecisionList, conditions: Sequence[Condition], has: Tensor
    ) -> DecisionList:
        """Without rules that fail on unseen graphs; with such as describe a class left over."""
        rules = list(found.rules)
        place = 0
        while place < len(rules):
            numbers, prediction = rules[place]
            worth = self._worth(self._decided(rules[:place], has) & has[numbers].all(0), prediction)
            if worth.count < self.least or not worth.lift > 1:
                del rules[place]
            else:
                place += 1
        checked = replace(found, rules=rules)
        checked.settle()
        for label in range(len(self.classes or ())):
            told = {prediction for _, prediction in rules}
            if len(rules) < MOST_RULES and float(label) not in told:
                rules += self._describing(conditions, has, label)
        return checked

    def _decided(self, rules: Sequence[Decision], has: Tensor) -> Tensor:
        """Graphs that none of some rules decides."""
        return replace(
            DecisionList(has, has[:, 0], self.wanted, False, has[:, :1], 1), rules=list(rules)
        ).open(len(rules))

    def _describing(
        self, conditions: Sequence[Condition], has: Tensor, label: int
    ) -> list[Decision]:
        """A pattern that graphs of a class have and others do not, if there is one."""
        inside, ours = has[::2, self.learned].double(), (self.predicted == label)[self.learned]
        both, share = inside @ ours.double(), float(ours.double().mean())
        precision, recall = both / inside.sum(1), both / ours.sum().clamp(min=1)
        good = (precision >= LEAST_PRECISION) & (recall >= LEAST_RECALL)
        good &= precision >= LEAST_LIFT * share
        if not bool(good.any()):
            return []
        f1 = 2 * both / (inside.sum(1) + ours.sum())
        equal = (good & (f1 >= float(f1[good].max()) - EQUAL_GAIN)).nonzero().view(-1).tolist()
        best = min(equal, key=lambda n: len(conditions[2 * n].pattern))
        return [([2 * best], float(label))]

    def _worth(self, here: Tensor, prediction: float) -> _Worth:
        """What a prediction for some graphs is worth on unseen ones."""
        unseen = self.unseen
        if self.classes is not None:
            label, ours = str(self.classes[int(prediction)]), self.predicted == int(prediction)
        else:
            known = self.predicted[here & self.learned]
            ends = torch.quantile(
                known if len(known) else self.predicted, torch.tensor(MIDDLE).double()
            )
            low, high = ends.tolist()
            ours = (self.predicted >= low) & (self.predicted <= high)
            label = f"{low * self._unit:.3g} to {high * self._unit:.3g}"
        right = int((here & ours & unseen).sum())
        count, all_ours = int((here & unseen).sum()), int((ours & unseen).sum())
        precision = right / count if count else math.nan
        lift = precision * int(unseen.sum()) / all_ours if all_ours else math.nan
        return _Worth(label, ours, count, precision, right / max(1, all_ours), lift)

    def _book(
        self, conditions: Sequence[Condition], has: Tensor, found: DecisionList, why: str
    ) -> RuleBook:
        everywhere = replace(found, has=has, wanted=self.wanted)
        said = everywhere.said()
        fidelity, always = (
            self._fidelity(some, self.unseen) for some in (said, self._always(found))
        )
        skill = (fidelity - always) / (1 - always) if always < 1 else 1.0
        contributors: list[Rule] = []
        rules = list(found.rules)
        if rules and skill < LEAST_SKILL or (conditions and not rules):
            why = (
                f"no rulebook: the best short list sets right {max(0.0, skill):.0%} of what "
                f"'always {self._worth(self.learned | True, found.default).label}' gets wrong on "
                "unseen graphs; below are single contributors instead"
            )
            rules, said = [], self._always(found)
            fidelity = always
            contributors = self._contributors(conditions, has)
        elif rules and self.least < LEAST_UNSEEN:
            why = f"only {int(self.unseen.sum())} graphs to measure on: all numbers are rough"
        made = []
        for place, (numbers, prediction) in enumerate(rules):
            here = self._decided(rules[:place], has) & has[numbers].all(0)
            made.append(self._rule([conditions[n] for n in numbers], prediction, here))
        left = self._decided(rules, has) if rules else self.learned | True
        return RuleBook(
            tuple(made),
            tuple(contributors),
            found.default * self._unit,
            self._worth(left, found.default).label,
            fidelity,
            self._fidelity(said, self.learned),
            always,
            int(self.learned.sum()),
            int((~self.learned).sum()),
            why,
            self.vocabulary,
        )

    def _contributors(self, conditions: Sequence[Condition], has: Tensor) -> list[Rule]:
        """Rules of one condition that hold for themselves, those of the largest effect first."""
        found = []
        for number in range(0, len(conditions), 2):
            here = has[number]
            mean = self.wanted[here & self.learned].mean(0)
            more = mean - self.wanted[self.learned].mean(0)
            prediction = float(more.argmax()) if self.classes is not None else float(mean[0])
            worth = self._worth(here, prediction)
            if worth.count >= self.least and worth.lift > 1 and len(found) < MOST_RULES:
                found.append(self._rule([conditions[number]], prediction, here))
        return sorted(found, key=lambda rule: -rule.effect if rule.effects else 0.0)

    def _rule(self, conditions: Sequence[Condition], prediction: float, here: Tensor) -> Rule:
        worth = self._worth(here, prediction)
        patterns = [one.pattern for one in conditions if not one.absent]
        asked = (here & worth.ours & self.unseen).nonzero().view(-1)
        if self.grafting is not None:
            asked = asked[:GRAFTS]
        effects = self.effects(patterns, asked) if len(asked) and patterns else torch.zeros(0)
        asked, effects = asked[: len(effects)][effects.isfinite()], effects[effects.isfinite()]
        nodes = self.nodes(patterns)
        pooled = self.own(self.transplants.pool)[nodes & (here & self.unseen)[self.graphs.graph]]
        return Rule(
            tuple(conditions),
            tuple(one.name(self.vocabulary) for one in conditions),
            prediction * self._unit,
            worth.label,
            worth.count / int(self.unseen.sum()),
            worth.precision,
            worth.recall,
            worth.lift,
            tuple(round(value, 4) for value in effects.tolist()),
            float(pooled.double().mean()) if len(pooled) else math.nan,
            self._exemplar(nodes, asked, here, effects),
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

    def _always(self, found: DecisionList) -> Tensor:
        empty = replace(found, has=found.has[:0], rules=[])
        empty.settle()
        return torch.full((len(self.learned),), empty.default)

    def _fidelity(self, said: Tensor, which: Tensor) -> float:
        if self.classes is not None:
            return float((said == self.predicted)[which].double().mean())
        value = self.predicted[which]
        error = (said[which] - value).square().sum()
        spread = (value - value.mean()).square().sum()
        return float(1 - error / spread) if float(spread) else 1.0


@dataclass(frozen=True)
class _Worth:
    """What a rule is worth on unseen graphs, and which graphs get what it predicts."""

    label: str
    ours: Tensor
    count: int
    precision: float
    recall: float
    lift: float


def _speaks_for(has: Tensor, y: Tensor) -> Tensor:
    """The column of ``y`` that is largest where conditions hold; of one, whether it is high."""
    more = has.double() @ (y - y.mean(0))
    return more.argmax(1) if y.shape[1] > 1 else (more[:, 0] > 0).long()


def _gain(has: Tensor, y: Tensor) -> Tensor:
    inside = has.double()
    total = _error(torch.ones(1, len(y), dtype=torch.double), y)
    return total - _error(inside, y) - _error(1 - inside, y)


def _error(inside: Tensor, y: Tensor) -> Tensor:
    """Squared error of the mean of some rows of ``y``, for every row of weights ``[P, B]``."""
    count = inside.sum(1).clamp(min=1)
    return inside @ y.square().sum(1) - (inside @ y).square().sum(1) / count
