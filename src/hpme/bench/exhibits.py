"""What pictures are drawn from: a few explanations and mixup graphs, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_geometric.data import Data

from hpme.bench.outcome import Outcome, without_ground_truth
from hpme.data import GraphDataset
from hpme.errors import InputError
from hpme.explainers import MixingExplainer

EXHIBITED = 3
"""Graphs per experiment, as in the paper's figures."""


def explanations(outcome: Outcome) -> list[dict[str, Any]]:
    """Masks of the first explained graphs.

    ``graph`` is the number of the graph in the dataset, ``drawn`` what it looks like;
    ``edge_mask`` and, where the explainer has them, ``node_mask`` and ``pooled`` are those of the
    explanation.
    """
    return [
        {
            "graph": number,
            "drawn": drawn(outcome.dataset, number),
            **{
                name: explanation[name].view(-1).tolist()
                for name in ("edge_mask", "node_mask", "pooled")
                if explanation.get(name) is not None
            },
        }
        for number, explanation in zip(
            outcome.numbers[:EXHIBITED], outcome.explanations, strict=False
        )
    ]


def mixups(outcome: Outcome) -> list[dict[str, Any]]:
    """Mixup graphs of the first explained graphs.

    ``graph`` and ``partner`` are numbers in the dataset, ``drawn`` what these look like;
    ``num_nodes`` and ``edge_index`` make the mixup graph, and every edge has an ``edge_weight`` and
    says whether it is ``transplanted`` from the explanation, or a ``bridge`` that neither graph
    has.

    Raises:
        InputError: If the explainer makes no mixup graphs.
    """
    if not isinstance(outcome.explainer, MixingExplainer):
        raise InputError(f"'{outcome.experiment.explainer}' makes no mixup graphs")
    graphs = without_ground_truth(outcome.graphs + outcome.companions)
    mixed = outcome.explainer.mixup_graphs(outcome.target.model, graphs, mode=outcome.mode)
    experiment, found = outcome.experiment, []
    others = outcome.dataset.companions(experiment.seed, experiment.graphs)
    numbers = [*outcome.numbers, *others.tolist()]
    for place, number in enumerate(outcome.numbers[:EXHIBITED]):
        edges = mixed.graphs.edge_batch == place
        local = mixed.graphs.edge_index[:, edges] - mixed.graphs.ptr[place]
        partner = numbers[int(mixed.partners[place])]
        found.append(
            {
                "graph": number,
                "partner": partner,
                "drawn": drawn(outcome.dataset, number, partner),
                "num_nodes": int(mixed.graphs.sizes[place]),
                "edge_index": local.tolist(),
                "edge_weight": mixed.edge_weight[edges].tolist(),
                "transplanted": mixed.transplanted[edges].tolist(),
                "bridge": mixed.bridge[edges].tolist(),
            }
        )
    return found


def drawn(dataset: GraphDataset, *numbers: int) -> dict[str, dict[str, Any]]:
    """What it takes to draw graphs, by their numbers, so that nobody needs the dataset for it."""
    return {str(number): _values(dataset[number]) for number in numbers}


def _values(graph: Data) -> dict[str, Any]:
    tensors = {name: graph.get(name) for name in ("edge_index", "edge_mask", "node_mask")}
    lists = {name: value.tolist() for name, value in tensors.items() if value is not None}
    smiles = {} if graph.get("smiles") is None else {"smiles": graph.smiles}
    return {"num_nodes": int(graph.num_nodes or 0), **lists, **smiles}


EXHIBITS: dict[str, Callable[[Outcome], list[dict[str, Any]]]] = {
    "explanations": explanations,
    "mixups": mixups,
}
"""All kinds of exhibits by name."""
