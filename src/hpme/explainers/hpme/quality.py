"""How good the explanation of a graph is, and what else carries its prediction; no labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.evidence import CARRIES, LITTLE, Trials, Verdict, degrees, verdicts
from hpme.explainers.hpme.grafting import DRAWS, Grafting
from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.proof import Proof, proofs_of
from hpme.explainers.hpme.rest import named, rest_of
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphBatch
from hpme.models.output import OutputView

BEYOND_CHANCE = 0.25
"""By how much more than random nodes an alternative must keep of a prediction to carry it."""
ADDED = 0.1
"""Share of the way by which the rest of a reason must be ahead to be named."""
REASONS: dict[Verdict, str] = {
    "carried": "Most of the reason",
    "part": "Part of the reason",
    "several": "Enough, but other parts do as well",
    "absence": "Nothing in the graph carries the prediction",
    "unclear": "Too little is certain",
}


@dataclass(frozen=True)
class Quality:
    """What interventions on real graphs say about an explanation.

    The pooled region is put into hosts, real graphs of other predictions, and something neutral
    takes its place in the graph; random regions, as large and as connected, show what any region
    would do. The output is the probability of the explained class, or the value in its own unit.
    Shares are of the way from the outputs of hosts with random regions to that of the graph: 1 is
    all of it, 0 none, below 0 away from it. Intervals are of 95 %, over hosts.

    Args:
        verdict: ``"carried"``: the region carries most of the way, beyond random regions.
            ``"part"``: it clearly contributes, there or where it is missing. ``"several"``: it
            carries most, and so does the rest without it. ``"absence"``: nothing in the graph
            carries the prediction and nothing is lost without it, for it rests on something that
            is missing. ``"unclear"``: little and much are both possible.
        carried, carried_low, carried_high: Share of the way that the region carries, beyond random
            regions, and the ends of its interval.
        p: Chance of that or more if the region did no more than random ones, one-sided, paired.
        lost, lost_low, lost_high: The same of what is lost without the region.
        effect, effect_low, effect_high: How much higher the region makes the output of hosts.
        random: How much higher random regions make it.
        removal, removal_low, removal_high: How much higher the graph's is without the region.
        stable: Does another chain of the search pool the same nodes? Share of common nodes beyond
            chance; ``nan`` if there was one chain only.
        size: Number of nodes of the region.
        grafted: Share of the transplants that chemistry allows, for molecules; others are not
            counted. 0 where it allows too few: nothing is inserted then; ``nan`` for other graphs,
            and if it is not known how the model reads molecules.
        output, nodes: What they are called.
        rest: Other nodes that the region relies on, as ``pooled`` of explanations: without them the
            prediction goes, too. Looked for if the verdict is ``"carried"`` or ``"part"``.
        together: Share of the way that the region and they carry; ``nan`` if there are none.
        more: What they are called.
        way: How much higher the output of the graph is than those of hosts as they are.
        proof: The transplants themselves, to be drawn, if they were asked for.
        doubt: Why the verdict is unclear although the numbers say more.
    """

    verdict: Verdict
    carried: float
    carried_low: float
    carried_high: float
    p: float
    lost: float
    lost_low: float
    lost_high: float
    effect: float
    effect_low: float
    effect_high: float
    random: float
    removal: float
    removal_low: float
    removal_high: float
    stable: float
    size: int
    grafted: float = math.nan
    output: str = "the output"
    nodes: str = "nodes"
    rest: Any = field(default=None, compare=False, repr=False)
    together: float = math.nan
    more: str = ""
    way: float = math.nan
    proof: Proof | None = field(default=None, compare=False, repr=False)
    doubt: str = ""

    def doubted(self, why: str) -> Quality:
        """The same without a verdict that needs evidence of the fit."""
        return self if self.verdict == "absence" else replace(self, verdict="unclear", doubt=why)

    def sentence(self) -> str:
        """All of it in words, what is certain first."""
        one, atoms = self.size == 1, self.nodes == "atoms"
        these = f"this {self.nodes[:-1]}" if one else f"these {self.size} {self.nodes}"
        they, them = ("it", "it") if one else ("they", "them")
        elsewhere = f"in other {'molecules' if atoms else 'graphs'}"
        removed = not math.isnan(self.removal)
        if math.isnan(self.effect):
            why = f"fit{'s' * one} into too few other molecules" if atoms else "cannot be moved"
            said = [f"{these} {why}"] + [self._without(them, self.output, sure=True)] * removed
        elif removed and self.lost_low > 0 >= self.carried_low:
            change, random = self._moved(they, "it")
            said = [self._without(these, self.output, sure=True), f"{elsewhere} {change}{random}"]
        else:
            change, random = self._moved(these, self.output)
            said = [f"{change} {elsewhere}{random}"] + [self._without(them, "it")] * removed
        said.append(self.doubt or self._reason)
        return " ".join(f"{words[0].upper()}{words[1:].removesuffix('.')}." for words in said)

    def _moved(self, they: str, output: str) -> tuple[str, str]:
        """What the region does in hosts, and what random ones do."""
        sign = (self.effect_low > 0) - (self.effect_high < 0)
        verb = ("change", "raise", "lower")[sign] + "s" * (they == "it" or self.size == 1)
        turned = [v * (sign or 1) for v in (self.effect, self.effect_low, self.effect_high)]
        random, other = self.random * (sign or 1), ""
        if sign and float(self._number(random)) < 0:
            random, other = -random, f" {('raise', 'lower')[sign > 0]} it"
        by = "could not be moved" if math.isnan(random) else f"by {self._number(random)}"
        random_by = f"; random {self.nodes}{other} {by}"
        return f"{they} {verb} {output} by {self._number(*turned)}", random_by

    def _without(self, them: str, output: str, *, sure: bool = False) -> str:
        """What happens without the region."""
        up, values = 1 if self.removal > 0 else -1, [self.removal]
        verb = "raises" if up > 0 else "lowers"
        if sure:
            values += [self.removal_low, self.removal_high]
            if self.removal_low <= 0 <= self.removal_high:
                up, verb = 1, "changes"
        what = f"removing {them}" if self.grafted else f"replacing {them}, which gives no molecule,"
        return f"{what} {verb} {output} by {self._number(*(up * v for v in values))}"

    def _number(self, value: float, *ends: float) -> str:
        """A number with its interval; the largest of a sentence has two digits that count."""
        known = [abs(v) for v in (self.effect, self.removal) if abs(v) > 0]  # not NaN
        digits = max(0, 1 - math.floor(math.log10(max(known, default=1.0))))
        text, *low_high = (f"{round(v, digits) + 0.0:.{digits}f}" for v in (value, *sorted(ends)))
        wide = all(map(math.isfinite, ends)) and len({*low_high}) > 1  # else it is one molecule
        return f"{text} [{', '.join(low_high)}]" if wide else text

    @property
    def shares(self) -> tuple[float, float]:
        """Shares of the way from hosts to the graph: with the region, and with random ones."""
        return self.effect / (self.way or math.nan), self.random / (self.way or math.nan)

    @property
    def _reason(self) -> str:
        """How much of the reason it is, and the rest if that adds clearly or nothing is left to."""
        said = REASONS[self.verdict]
        away = max(self.way * end for end in (self.effect_low, self.effect_high)) < 0
        nearer = min(self.way * end for end in (self.removal_low, self.removal_high)) > 0
        against = (away and self.carried <= -LITTLE) or (nearer and self.lost <= -LITTLE)
        if self.verdict == "unclear" and against:
            return "What is marked speaks against the prediction"
        if self.verdict in ("carried", "part") and self.carried_low > 0:
            said += f" ({min(self.carried, 1.0):.0%})"
        if self.more and (math.isnan(self.together) or self.carried > 1 - ADDED):
            return f"{said}; needs {self.more}"
        adds = self.together >= max(0.0, self.carried) + ADDED
        return f"{said}; with {self.more} {min(self.together, 1.0):.0%}" if adds else said

    def __str__(self) -> str:
        return f"{self.verdict}: {self.sentence()}"


@torch.no_grad()
def quality_of(
    transplants: Transplants,
    rival: nn.Module | None,
    grafting: Grafting | None = None,
    *,
    rest: bool = True,
    proofs: bool = False,
) -> list[Quality]:
    """Quality for the graphs of the transplants; the rival is the pool of another chain."""
    count, graphs = transplants.count, transplants.graphs
    transplants = Transplants.of(
        transplants.mix, count, transplants.score, transplants.pooled, draws=DRAWS
    )

    def measured(keep: Tensor) -> Trials:
        if grafting is None:
            return trials_of(transplants, keep)
        own = grafting.featuriser.like
        grafts = grafting.trials(own, keep[: len(own.x)])
        # Mixes would count for none of the graphs if all of them are molecules that can be grafted.
        if bool(((transplants.sizes(keep)[:count] == 0) | (grafts.share > 0)).all()):
            return grafts
        return trials_of(transplants, keep).with_grafts(grafts)

    trials = measured(transplants.pooled)
    found, names = degrees(trials), output_names(transplants.context, count)
    words = verdicts(found)
    asked = torch.tensor([rest and word in ("carried", "part") for word in words])
    asked = asked.to(trials.own.device)
    others, together = rest_of(transplants, asked, lambda keep: degrees(measured(keep)), grafting)
    shares = trials.share.expand(count).tolist()
    texts = grafting.featuriser.like.text["smiles"] if grafting else [None] * count
    smiles = [None if math.isnan(s) else t for s, t in zip(shares, texts, strict=True)]
    masks, typed = transplants.split(others), graphs.schema is not None
    columns: dict[str, Sequence[Any]] = {
        "verdict": words,
        "stable": _stable(transplants, rival).tolist(),
        "size": transplants.sizes(transplants.pooled)[:count].tolist(),
        "grafted": shares,
        "output": names,
        "nodes": ["nodes" if text is None else "atoms" for text in smiles],
        "rest": [_by_type(mask, graphs, i) for i, mask in enumerate(masks)],
        "together": together.tolist(),
        "more": [named(mask, text, typed=typed) for mask, text in zip(masks, smiles, strict=True)],
    }
    for name in ("carried", "p", "lost", "effect", "random", "removal", "way"):
        ends = ("", "_low", "_high") if found[name].dim() == 2 else ("",)
        values = found[name].view(count, -1).T.tolist()
        columns |= {name + end: value for end, value in zip(ends, values, strict=True)}
    if proofs:
        columns["proof"] = proofs_of(transplants, trials, names)
    rows = zip(*columns.values(), strict=True)
    return [Quality(**dict(zip(columns, row, strict=True))) for row in rows]


def trials_of(transplants: Transplants, keep: Tensor) -> Trials:
    """Transplants of nodes ``[N]``, and of random regions, by hard mixes."""
    context, count = transplants.context, transplants.count
    ids = torch.arange(count, device=transplants.hosts.device)
    random = transplants.random_regions(keep)
    own, hosts = (context.values[:count].unsqueeze(0), context.values[transplants.hosts])
    outputs = [transplants.into_hosts(nodes, ids) for nodes in (keep, random)]
    outputs += [transplants.replaced(nodes) for nodes in (keep, random)]
    tables: list[Any] = [value_of(context, own, ids)[0], value_of(context, hosts, ids)]
    tables += [outcome(context, some, ids) for some in outputs]
    return Trials(*tables, *[context.task.classification])


def output_names(context: Context, count: int) -> list[str]:
    """What the explained output of every graph is called."""
    view = context.adapter.view
    if not context.task.classification:
        known = view.tasks and view.target is not None
        return [_called(view, view.target) if known else "the output"] * count
    shown = [1] * count if view.asked else context.prediction[:count].tolist()
    return [f"p({class_name(context, number)})" for number in shown]


def class_name(context: Context, number: int) -> str:
    """What a predicted class is called; a question about a class or task has two sides."""
    view = context.adapter.view
    if view.asked:
        own, other = (view.target, view.contrast)[:: 1 if number else -1]
        return f"not {_called(view, other)}" if own is None else _called(view, own)
    names = view.classes or ()
    return str(names[number]) if number < len(names) else f"class {number}"


def class_names(context: Context, given: Sequence[str] | None) -> list[str] | None:
    """Names of all classes, given ones if they are as many; ``None`` for values."""
    if not context.task.classification:
        return None
    width = context.values.shape[1]
    if given is not None and len(given) == width and not context.adapter.view.asked:
        return [str(name) for name in given]
    return [class_name(context, number) for number in range(width)]


def _called(view: OutputView, target: Any) -> str:
    """The name of a class or task."""
    if isinstance(target, int):
        names = view.tasks or view.classes
        return str(names[target]) if names else f"class {target}"
    return ", ".join(map(str, target)) if isinstance(target, tuple) else str(target)


def _stable(transplants: Transplants, rival: nn.Module | None) -> Tensor:
    """Share of the pooled nodes of every graph that a rival pools, too, beyond chance."""
    graphs, m = transplants.graphs, transplants.mix.m
    if rival is None:
        return transplants.score.new_full((transplants.count,), torch.nan)
    other = top_nodes(transplants.mix.scores(rival), graphs, m).keep[0]
    share, chance = transplants.sizes(transplants.pool & other) / m.clamp(min=1), m / graphs.sizes
    beyond = (share - chance) / (1 - chance).clamp(min=1e-6)
    return torch.where(m < graphs.sizes, beyond, 1.0).clamp(min=0)[: transplants.count]


@dataclass(frozen=True)
class Alternative:
    """A subgraph that carries the prediction of its graph."""

    nodes: Any  # mask of the graph's nodes; where these have types, one for each
    kept: float  # how near it brings graphs of other predictions to the explained one
    chance: float  # how near as many random nodes of the graph do


@torch.no_grad()
def alternatives_of(transplants: Transplants, count: int) -> list[list[Alternative]]:
    """At most ``count`` subgraphs of every graph, the first as in its explanation.

    The next are the smallest sufficient prefixes of the ranking without the nodes of those before.
    Then each goes without every other node of the first, so that what else could take part in the
    reason is seen; such a one shares at most half of its nodes with one before.
    """
    graphs, lists = transplants.graphs, [list[Alternative]() for _ in range(transplants.count)]
    rows: list[Tensor] = []

    def add(keep: Tensor) -> bool:
        """Takes the subgraphs that carry their predictions and are new; false if there is none."""
        near, chance = transplants.inserted(keep), transplants.inserted(transplants.random(keep))
        good = (near >= CARRIES) & (near - chance >= BEYOND_CHANCE)
        for before in rows:
            shared = 2 * transplants.sizes(keep & before) > transplants.sizes(keep)
            good &= ~shared[: transplants.count]
        good &= torch.tensor([len(some) < count for some in lists]).to(good.device)
        rows.append(keep & transplants.of_graphs(good))
        for number in good.nonzero().view(-1).tolist():
            nodes = _by_type(transplants.split(keep)[number], graphs, number)
            lists[number].append(Alternative(nodes, float(near[number]), float(chance[number])))
        return bool(good.any())

    def prefix(allowed: Tensor) -> Tensor:
        """The smallest sufficient prefix of allowed nodes; anchors are always there."""
        keep = transplants.smallest_prefix(allowed)
        return keep if graphs.anchors is not None else keep & allowed

    if not add(transplants.pooled):
        return lists
    for _ in range(count - 1):
        if not add(prefix(~torch.stack(rows).any(0))):
            break
    rank = top_nodes(transplants.score, graphs, transplants.mix.m).order[0]
    for odd in (0, 1):
        add(prefix(~(transplants.pooled & (rank % 2 == odd))))
    return lists


def _by_type(nodes: Tensor, graphs: GraphBatch, number: int) -> Tensor | dict[str, Tensor]:
    """A mask of the nodes of a graph as users see them."""
    if graphs.schema is None or graphs.node_type is None:
        return nodes
    kind = graphs.node_type[graphs.batch == number]
    return {name: nodes[kind == i] for i, name in enumerate(graphs.schema.node_types)}
