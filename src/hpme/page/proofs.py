"""Proofs on the page: regions in other graphs, beside random regions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.hpme.proof import Proof
from hpme.explainers.hpme.quality import Quality
from hpme.page.beyond import Drawn
from hpme.page.entries import text_or_none
from hpme.page.template import Column, decimals
from hpme.viz.proof import gone, placed


def proofs(named: Mapping[str, Sequence[Any]], *, progress: bool = False) -> dict[str, Any] | None:
    """By explainer what was moved where for each graph, drawn, and what the model said.

    A trial is a list: number of the drawn host and its output, then both with the region, then
    with a random region.
    """
    drawn, found = Drawn(), dict[str, Any]()
    for name, explanations in named.items():
        qualities = [explanation.get("quality") for explanation in explanations]
        known = [q.proof if isinstance(q, Quality) else None for q in qualities]
        if any(proof is not None and proof.trials for proof in known):
            found[name] = {
                "trials": [[] if proof is None else _trials(proof, drawn) for proof in known],
                "outputs": _outputs(known),
                "names": [None if proof is None else proof.name for proof in known],
                "best": _best(qualities),
            }
    return {"of": found, "drawn": drawn.to_dict(progress=progress)} if found else None


def _trials(proof: Proof, drawn: Drawn) -> list[list[float]]:
    rows = []
    for trial in proof.trials:
        graphs = placed(trial)
        marks = gone(trial), trial.chosen.nodes, trial.random.nodes
        said = trial.output, trial.chosen.output, trial.random.output
        row: list[float] = []
        for graph, mark, output in zip(graphs, marks, said, strict=True):
            row += [drawn.add(graph, text_or_none(graph.get("smiles")), mark), round(output, 4)]
        rows.append(row)
    return rows


def _outputs(known: Sequence[Proof | None]) -> dict[str, Any]:
    """Outputs of all hosts of every graph, as many numbers each, NaN where nothing was moved."""
    width = max(len(proof.hosts) for proof in known if proof is not None)

    def column(name: str) -> Column:
        table = torch.full((len(known), width), torch.nan)
        for row, proof in zip(table, known, strict=True):
            if proof is not None:
                values: Tensor = getattr(proof, name)
                row[: len(values)] = values
        return decimals(table.view(-1))

    own = torch.tensor([math.nan if proof is None else proof.output for proof in known])
    return {
        "width": width,
        "own": decimals(own),
        **{name: column(name) for name in ("hosts", "chosen", "random")},
    }


def _best(qualities: Sequence[Any]) -> int | None:
    """The graph whose region carries most for certain, to stand on top of the page."""
    sure = {
        number: one.carried_low
        for number, one in enumerate(qualities)
        if isinstance(one, Quality) and one.verdict == "carried" and one.proof and one.proof.trials
    }
    return max(sure, key=lambda number: sure[number]) if sure else None
