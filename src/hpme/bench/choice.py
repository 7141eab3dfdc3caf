"""What settings of an explainer can be compared by where there is no ground truth."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from hpme.bench.outcome import Outcome, without_ground_truth
from hpme.data import GraphStore
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.masks import from_edges
from hpme.metrics import GraphScores, MetricValue, robust_fidelity

SHARES = (0.1, 0.2, 0.3, 0.5)
"""Sizes that are tried, since the right one is not known: shares of the pairs, or of the nodes."""
SAMPLES = 10
DRAWS = 2
"""Hosts every graph meets."""


def choice(outcome: Outcome) -> dict[str, MetricValue | GraphScores]:
    """Robust fidelity and the hard mix of explanations, averaged over sizes; neither needs labels.

    ``choice_fidelity`` is robust Fid+ minus robust Fid-, the higher, the better.
    ``choice_disagreement`` and ``choice_loss`` are the criterion of HPME for the nodes at the best
    edges, the lower, the better.
    """
    disagreement, loss = hard_mix(outcome)
    return {
        "choice_fidelity": _mean([_fidelity(outcome, share) for share in SHARES]),
        "choice_disagreement": MetricValue(disagreement),
        "choice_loss": MetricValue(loss),
    }


def hard_mix(outcome: Outcome) -> tuple[float, float]:
    """Disagreement and loss of hard mixes, see :func:`criterion`, averaged over sizes."""
    judge = HPMEExplainer()
    company = without_ground_truth(outcome.companions)  # where one class is explained: the other
    graphs = GraphStore.from_graphs(without_ground_truth(outcome.graphs) + company)
    explanations = list(outcome.explanations)
    if company:
        assert outcome.explainer is not None
        model = outcome.target.model
        explanations += outcome.explainer.explain(model, company, progress=False)
    edge_mask = torch.cat([explanation.edge_mask for explanation in explanations])
    found: list[Tensor] = []
    with judge.context(outcome.target.model, graphs, mode=outcome.mode) as context:
        generator = torch.Generator().manual_seed(0)  # the same hosts for all settings
        for share in SHARES:
            mix = HardMix.build(
                context,
                PoolSize(share),
                judge.neighbor,
                judge.attach,
                generator,
                judge.batch_size,
            )
            score = from_edges(edge_mask, mix.graphs).node_mask
            assert score is not None
            selection = mix.select(score.view(1, -1).to(mix.features))
            found.append(criterion(mix, selection, mix.draw(DRAWS))[0])
    disagreement, loss = torch.stack(found).mean(0).tolist()
    return disagreement, loss


def _fidelity(outcome: Outcome, share: float) -> MetricValue:
    explanations = outcome.explanations
    sides = robust_fidelity(
        outcome.target.model, explanations, share, samples=SAMPLES, mode=outcome.mode
    )
    plus, minus = sides.plus.mean, sides.minus.mean
    return plus if plus.reason else MetricValue(plus - minus)


def _mean(values: list[MetricValue]) -> MetricValue:
    undefined = [value for value in values if value.reason]
    return undefined[0] if undefined else MetricValue(statistics.fmean(values))
