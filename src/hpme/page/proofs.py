"""Proofs on the page: regions in other graphs, beside random regions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hpme.explainers.hpme.quality import Quality
from hpme.page.beyond import Drawn
from hpme.page.entries import text_or_none
from hpme.page.template import decimals
from hpme.viz.proof import placed


def proofs(named: Mapping[str, Sequence[Any]], *, progress: bool = False) -> dict[str, Any] | None:
    """By explainer what was moved where for each graph, drawn, and what the model said.

    A trial is a list: number of the drawn host and its output, then both with the region, then
    with a random region. Outputs of all hosts are as many numbers for every graph, NaN where
    nothing was moved. The best is the graph whose region carries most for certain.
    """
    drawn, found = Drawn(), dict[str, Any]()
    for name, explanations in named.items():
        qualities = [explanation.get("quality") for explanation in explanations]
        known = [q.proof if isinstance(q, Quality) else None for q in qualities]
        if not any(proof is not None and proof.trials for proof in known):
            continue
        trials, sure = list[list[list[float]]](), dict[float, int]()
        width = max(len(proof.hosts) for proof in known if proof is not None)
        outputs = torch.full((3, len(known), width), torch.nan)
        own = torch.full((len(known),), torch.nan)
        for number, (proof, quality) in enumerate(zip(known, qualities, strict=True)):
            trials.append([])
            if proof is None:
                continue
            own[number] = proof.output
            outputs[:, number, : len(proof.hosts)] = torch.stack(
                [proof.hosts, proof.chosen, proof.random]
            ).float()
            for trial in proof.trials:
                trials[-1].append([])
                for graph, one in zip(placed(trial), trial, strict=True):
                    place = drawn.add(graph, text_or_none(graph.get("smiles")), one.nodes)
                    trials[-1][-1] += [place, round(one.output, 4)]
            if (
                quality.verdict == "carried"
                and proof.trials
                and not math.isnan(quality.carried_low)
            ):
                sure.setdefault(quality.carried_low, number)
        columns = zip(("hosts", "chosen", "random"), outputs, strict=True)
        found[name] = {
            "trials": trials,
            "outputs": {
                "width": width,
                "own": decimals(own),
                **{side: decimals(values.reshape(-1)) for side, values in columns},
            },
            "names": [None if proof is None else proof.name for proof in known],
            "best": sure[max(sure)] if sure else None,
        }
    return {"of": found, "drawn": drawn.to_dict(progress=progress)} if found else None
