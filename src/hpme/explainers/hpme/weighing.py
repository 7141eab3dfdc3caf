"""What unseen graphs and transplants say of rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from hpme.explainers.hpme.grafting import Grafting
from hpme.explainers.hpme.patterns import Vocabulary
from hpme.explainers.hpme.rulebook import Condition, Exemplar, Rule
from hpme.explainers.hpme.search.criterion import value_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern

LEAST_UNSEEN, FEW = 10, 6
"""Unseen graphs that a rule decides; where they are few, this part of them is enough."""
GRAFTED, GRAFTS = 300, 6
"""Molecules whose groups are replaced, and molecules whose matches of a rule are grafted."""
SURE, CLEAR = 1.96, 0.1
"""Standard errors from which on a difference is sure, and the share of what is missing to a
precision of 1 that a rule must gain over the base rate."""
MIDDLE = (0.1, 0.9)
"""Quantiles of values between which a rule says they are."""


class Worth(NamedTuple):
    """What a rule is worth on unseen graphs."""

    label: str
    ours: Tensor  # graphs that get what it predicts
    graphs: int
    precision: float
    recall: float
    lift: float
    sound: bool  # enough graphs, and clearly more of them than of all get what it predicts


@dataclass(frozen=True)
class Weighing:
    """Graphs, the predictions for them, and transplants between them."""

    transplants: Transplants
    store: GraphStore  # the graphs as they were given
    classes: Sequence[str] | None  # their names; ``None`` for values
    learned: Tensor  # boolean ``[B]``: graphs to learn from; the others are unseen
    grafting: Grafting | None  # if it is known how the model reads molecules

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What nodes and edges are called."""
        return Vocabulary.of(self.store)

    @cached_property
    def graphs(self) -> LabelledGraphs:
        """All graphs with labels."""
        return self.vocabulary.read(self.store)

    @cached_property
    def predicted(self) -> Tensor:
        """Predicted classes, or values in units of their spread, ``[B]``."""
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

    @property
    def unit(self) -> float:
        """Of values."""
        return 1.0 if self.classes is not None else self.transplants.context.task.scale

    def own(self, nodes: Tensor) -> Tensor:
        """Values of nodes without those of hosts."""
        return nodes[: len(self.graphs.label)].cpu()

    # Transplants ################################################################################

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
            lost = (whole.double()[store.node_graph] - left) / self.unit
            if context.adapter.view.asked:  # the output is that of one class
                lost = torch.where(self.predicted[ids][store.node_graph] == 0, -lost, lost)
            found[inside] = lost
        return found

    def _grafting(self, ids: Tensor) -> Grafting:
        assert self.grafting is not None
        some = copy(self.grafting)
        some.context = some.context.subset(ids.to(some.context.device))
        return some

    def signs(self, matches: Tensor) -> Tensor:
        """Whether matches surely raise (1) or lower (-1) what graphs of a class get, ``[C]``."""
        signs = torch.zeros(self.wanted.shape[1])
        if self.grafting is None or self.classes is None:
            return signs
        value = self.contributed[matches].nanmean(1)
        graph = self.graphs.graph[matches[:, 0]]
        for label in range(len(signs)):
            some = value[value.isfinite() & (self.predicted[graph] == label)]
            if len(some) >= FEW:
                mean, error = some.mean(), some.std() / len(some) ** 0.5
                signs[label] = mean.sign() * (mean.abs() > SURE * error)
        return signs

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
        order = torch.cat([(self.graphs.graph == n).nonzero().view(-1) for n in ids.tolist()])
        made = self._grafting(ids).trials(self.store.subset(ids), nodes[order])
        towards = (made.own - made.hosts).sign()
        put = ((made.inserted - made.random) * towards).nanmean(0)
        taken = (made.spared - made.removed).nanmean(0) * towards.nanmean(0).sign()
        return (torch.where(put.isfinite(), put, taken) / self.unit).cpu()

    # Unseen graphs ##############################################################################

    def worth(self, here: Tensor, prediction: float) -> Worth:
        """What a prediction for some graphs is worth on unseen ones."""
        if self.classes is not None:
            label, ours = str(self.classes[int(prediction)]), self.predicted == int(prediction)
        else:
            known = self.predicted[here & self.learned]
            known = known if len(known) else self.predicted
            low, high = torch.quantile(known, torch.tensor(MIDDLE).double()).tolist()
            ours = (self.predicted >= low) & (self.predicted <= high)
            ends = f"{low * self.unit:.3g}", f"{high * self.unit:.3g}"
            same = ends[0] == ends[1]
            label = f"a value of {ends[0]}" if same else "a value between {} and {}".format(*ends)
        right, count, all_ours, total = (
            int((some & self.unseen).sum()) for some in (here & ours, here, ours, self.unseen)
        )
        precision, base = right / count if count else math.nan, all_ours / total
        lift = precision / base if base else math.nan
        error = (base * (1 - base) / max(1, count)) ** 0.5
        sound = precision - base > max(SURE * error, CLEAR * (1 - base)) and count >= self.least
        return Worth(label, ours, count, precision, right / max(1, all_ours), lift, sound)

    def rule(self, conditions: Sequence[Condition], prediction: float, here: Tensor) -> Rule:
        """A rule for the graphs it decides."""
        worth = self.worth(here, prediction)
        patterns = [one.pattern for one in conditions if not one.absent]
        asked = (here & worth.ours & self.unseen).nonzero().view(-1)
        asked = asked[: GRAFTS if self.grafting is not None else None]
        effects = self.effects(patterns, asked) if len(asked) and patterns else torch.zeros(0)
        asked, effects = asked[: len(effects)][effects.isfinite()], effects[effects.isfinite()]
        nodes = self.nodes(patterns)
        pooled = self.own(self.transplants.pool)[nodes & (here & self.unseen)[self.graphs.graph]]
        names = tuple(one.name(self.vocabulary) for one in conditions)
        said = prediction * self.unit, worth.label, worth.graphs / int(self.unseen.sum())
        shares = worth.precision, worth.recall, worth.lift
        carried = tuple(round(value, 4) for value in effects.tolist())
        inside = float(pooled.double().mean()) if len(pooled) else math.nan
        # The smallest graph in which the patterns carry nearly as much as anywhere.
        ids = asked[effects >= effects.max() - 0.1] if len(asked) else here.nonzero().view(-1)
        number = int(ids[self.store.sizes[ids].argmin()])
        mask = nodes[self.graphs.graph == number]
        exemplar = Exemplar(self.store[number].clone(), mask)  # a view would keep all alive
        return Rule(tuple(conditions), names, *said, *shares, carried, inside, exemplar)

    def fidelity(self, said: Tensor, which: Tensor) -> float:
        """Share of predictions that are said, or of their variance."""
        if self.classes is not None:
            return float((said == self.predicted)[which].double().mean())
        value = self.predicted[which]
        error = (said[which] - value).square().sum()
        spread = (value - value.mean()).square().sum()
        return float(1 - error / spread) if float(spread) else 1.0
