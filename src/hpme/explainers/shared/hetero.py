"""Explanations of graphs with types: PyG's dictionaries in, masks by type out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from hpme.errors import InputError
from hpme.explainers.shared.explanation import HeteroExplanation
from hpme.explainers.shared.inputs import checked_batch
from hpme.graphs import GraphBatch
from hpme.graphs.ego import WholeGraph
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema, TypeRows, padded

BY_TYPE = ("batch", "edge_attr", "edge_weight")
"""Further arguments of models that are dictionaries by type, with or without ``_dict``."""


def as_hetero(
    x: Mapping[str, Tensor], edge_index: Mapping[EdgeType, Tensor], **others: Any
) -> HeteroData:
    """Dictionaries by type, as models and PyG's ``Explainer`` take them, as one graph."""
    data = HeteroData()
    for name, values in {"x": x, "edge_index": edge_index, **others}.items():
        if values is None:
            continue
        if not isinstance(values, Mapping):
            raise InputError(
                f"{name} of graphs with types is a dictionary by type, got {type(values).__name__}"
            )
        for kind, value in values.items():
            data[kind][name] = value.detach() if isinstance(value, Tensor) else value
    return data


def taken(arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes what is kept by type out of the arguments of a model."""
    found = {}
    for name in BY_TYPE:
        given = [arguments.pop(key) for key in (name, f"{name}_dict") if key in arguments]
        found[name] = next((value for value in given if value is not None), None)
    return found


def hetero_batch(data: HeteroData, schema: Schema | None) -> GraphBatch:
    """One batch of graphs, told apart by ``batch`` of every type, as flat rows with types.

    Args:
        data: All graphs together; without ``batch`` they are one.
        schema: The types, numbered as before; by default as here.

    Raises:
        InputError: If the tensors do not fit together.
    """
    whole = WholeGraph.of(data)
    assert whole.schema is not None
    kinds, rows = whole.schema.node_types, whole.types[NODE_TYPE]
    given = [kind for kind in kinds if data[kind].get("batch") is not None]
    if given and len(given) != len(kinds):
        missing = next(kind for kind in kinds if kind not in given)
        raise InputError(f"batch_dict lacks node type '{missing}'; give the batch of every type")
    batch = torch.zeros_like(rows)
    for kind in given:
        part = data[kind].batch
        if part.shape != data[kind].x.shape[:1] or bool((part.diff() < 0).any()):
            raise InputError(f"batch of node type '{kind}' must be sorted, with a number per node")
        batch[rows == whole.schema.number(kind)] = part.to(batch)
    order = torch.argsort(batch, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    node_type, edge_type = rows[order], whole.types[EDGE_TYPE]
    x, attr = whole.x[order], whole.edge_attr
    own = whole.schema
    if schema is not None and schema != own:
        node_places, edge_places = own.places_in(schema, edge_type)
        node_type, edge_type = node_places[node_type], edge_places[edge_type]
        x = padded(x, schema.width)
        if schema.edge_width is not None:
            attr = x.new_zeros(len(edge_type), 0) if attr is None else attr
            attr = padded(attr, schema.edge_width)
        own = schema
    types = {"node": {NODE_TYPE: node_type}, "edge": {EDGE_TYPE: edge_type}, "schema": own}
    edges = place[whole.edge_index]
    return checked_batch(x, edges, batch[order], attr, whole.edge_weight, None, **types)


def by_type(
    masks: Mapping[str, Tensor], typed: TypeRows, data: HeteroData, *, common: bool = False
) -> HeteroExplanation:
    """Masks of flat rows as an explanation with masks by type.

    Args:
        masks: Masks by name.
        typed: Where the rows of every type are.
        data: What was explained; types it lacks are left out.
        common: Whether all nodes of a type share one row of ``node_mask``.
    """
    explanation, schema = HeteroExplanation(), typed.schema
    for name, mask in masks.items():
        if name == "edge_mask":
            for kind, rows in typed.per_edge(mask).items():
                if kind in data.edge_types:
                    explanation[kind][name] = rows
            continue
        for number, (node_kind, rows) in enumerate(typed.per_node(mask).items()):
            if node_kind not in data.node_types:
                continue
            if name == "node_mask":
                wide = rows.shape[1] == schema.width and schema.width > 1
                rows = rows[:, : schema.widths[number]] if wide else rows
                rows = rows[:1] if common and len(rows) else rows
            explanation[node_kind][name] = rows
    return explanation
