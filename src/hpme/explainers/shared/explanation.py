"""What explainers return: PyG's ``Explanation`` that also makes tables and draws itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Literal, SupportsIndex, overload

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explanation as PyGExplanation
from torch_geometric.explain import HeteroExplanation as PyGHeteroExplanation

from hpme.errors import InputError, optional_module
from hpme.explainers.shared.masks import Masks, common, wanted
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import WholeGraph
from hpme.graphs.hetero import flat_views, flattened
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, TypeRows

Rows = Literal["edges", "nodes", "descriptors"]
_SHOWN = ("x", "edge_index", "anchors", "smiles", "name")
"""What a picture shows of the graph itself."""
SHOWN = 12
"""Explanations of a list that are drawn; each picture is about 30 kB."""
_ROW = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-end"
_CELL = "margin:0;max-width:300px"


class Pictured:
    """What draws itself; notebooks show the picture."""

    def _picture(self, suffix: str) -> bytes:
        """Content of a file of this kind. Pictures are built on what is drawn: import them here."""
        raise NotImplementedError

    @overload
    def draw(self, path: None = None) -> str: ...
    @overload
    def draw(self, path: str | Path) -> Path: ...
    def draw(self, path: str | Path | None = None) -> str | Path:
        """Draws it.

        Args:
            path: A ``.png`` or ``.svg`` file to write; without it the SVG text is returned.
        """
        from hpme.viz.gallery import save_picture

        return save_picture(path, self._picture)

    def _repr_html_(self) -> str:
        return self.draw()


class _Drawn(Pictured):
    """The picture of one graph."""

    def _shown(self) -> tuple[Data, Any]:
        """The graph and the explanation in a form that can be drawn."""
        raise NotImplementedError

    def proof(self, path: str | Path | None = None) -> Any:
        """What moving the region into other graphs does there, beside random regions.

        The explainer's ``quality`` must have been asked about the explanation.

        Args:
            path: A ``.png`` or ``.svg`` file to draw it to; without it notebooks show it.
        """
        found = getattr(getattr(self, "quality", None), "proof", None)
        if found is None:
            raise InputError(
                "nothing was moved yet; call explainer.quality(model, explanations) with a list "
                "of explanations first"
            )
        found = replace(found, graph=self._shown()[0])
        return found if path is None else found.draw(path)

    def _picture(self, suffix: str) -> bytes:
        from hpme.viz.gallery import picture

        graph, explanation = self._shown()
        return picture([graph], [explanation], suffix)


class Explanation(_Drawn, PyGExplanation):  # type: ignore[misc]
    """Importance of the edges and nodes of one graph, beside the graph itself.

    Pictures show edge weights as colour and width, and molecules as RDKit draws them.

    Attributes:
        edge_mask: Importance of every directed edge.
        node_mask: Importance of every node, ``[N, 1]``, or of every feature of it, ``[N, F]``.
        pooled: The nodes of the explanation, for explainers that choose some.
        rest: For HPME, other nodes that these rely on, once ``quality`` was asked about it.
        effect: For HPME, what the pooled region does to the output; see
            :class:`~hpme.explainers.hpme.effects.Effect`.
        descriptors: Where the model takes descriptors of the graph: the share of each in
            ``descriptors_together``, by which the explained output (log odds, or the value) falls
            when all have the mean of the fitted graphs; ``graph_alone`` when nodes' features are 0.
    """

    def to_frame(self, rows: Rows = "edges") -> Any:
        """A pandas table with a row per directed edge, or per node.

        Args:
            rows: ``"edges"``: source, target, importance, and whether both ends are pooled;
                ``"nodes"``: node, importance, whether it is pooled or of the rest, and its effect;
                ``"descriptors"``: descriptor and share.
        """
        made = {
            "edges": self._edge_columns,
            "nodes": self._node_columns,
            "descriptors": self._descriptor_columns,
        }
        if rows not in made:
            raise InputError(f"rows must be one of {', '.join(made)}, got {rows!r}")
        columns = made[rows]()
        return table_of({name: value.tolist() for name, value in columns.items()})

    def _edge_columns(self) -> dict[str, Tensor]:
        mask = self.get("edge_mask")
        if mask is None:
            raise InputError("the explanation has no edge_mask; use to_frame('nodes')")
        source, target = self.edge_index
        columns = {"source": source, "target": target, "importance": mask}
        if self.get("pooled") is not None:
            columns["pooled"] = self.pooled[source] & self.pooled[target]
        return columns

    def _node_columns(self) -> dict[str, Tensor]:
        mask = self.get("node_mask")
        if mask is None:
            raise InputError("the explanation has no node_mask; use to_frame('edges')")
        columns = {"node": torch.arange(len(mask))}
        if mask.shape[1] == 1:
            columns["importance"] = mask[:, 0]
        else:
            columns.update({f"feature {i}": mask[:, i] for i in range(mask.shape[1])})
        columns.update({k: self[k] for k in ("pooled", "rest") if self.get(k) is not None})
        effect = self.get("effect")
        if effect is not None:
            names = ("effect", "effect low", "effect high")
            columns.update(zip(names, effect.nodes.unbind(1), strict=True))
        return columns

    def _descriptor_columns(self) -> dict[str, Tensor]:
        shares = self.get("descriptors")
        if shares is None:
            raise InputError("the model takes no descriptors of the graph; use to_frame('nodes')")
        return {"descriptor": torch.arange(len(shares)), "share": shares}

    def _shown(self) -> tuple[Data, Any]:
        return Data(**{name: self[name] for name in _SHOWN if self.get(name) is not None}), self


class HeteroExplanation(_Drawn, PyGHeteroExplanation):  # type: ignore[misc]
    """Importance of the edges and nodes of one graph with types, beside the graph itself.

    ``explanation["user"].node_mask`` and ``explanation["user", "buys", "item"].edge_mask`` are the
    importance of the nodes and edges of a type, ``explanation["user"].pooled`` its pooled nodes,
    ``rest`` those that these rely on. In pictures every type of node has its colour and shape.
    """

    def to_frame(self, rows: Rows = "edges") -> Any:
        """As :meth:`Explanation.to_frame`; numbers of nodes are those in their type."""
        schema, (graph,) = flattened([self])
        table = Explanation(**graph).to_frame(rows)
        names, kind = schema.node_types, graph[NODE_TYPE]
        place = TypeRows.of(schema, kind, graph[EDGE_TYPE]).place
        if rows == "nodes":
            table["node"] = place.tolist()
            table.insert(0, "type", [names[number] for number in kind.tolist()])
            return table
        for end, nodes in zip(("source", "target"), graph["edge_index"], strict=True):
            table[end] = place[nodes].tolist()
        relations = [schema.edge_types[number] for number in graph[EDGE_TYPE].tolist()]
        for column, part in (("source type", 0), ("relation", 1), ("target type", 2)):
            table.insert(part, column, [relation[part] for relation in relations])
        return table

    def _shown(self) -> tuple[Data, Any]:
        ((flat,),) = flat_views([self])
        names = (*_SHOWN, NODE_TYPE, "type_names")
        return Data(**{name: flat[name] for name in names if flat.get(name) is not None}), flat


class Explanations(list[Any]):
    """Explanations of many graphs: a list that notebooks show as pictures."""

    @classmethod
    def of(cls, store: GraphStore, masks: dict[str, Tensor]) -> Explanations:
        """One explanation per graph: its masks, and the graph without its label."""
        edge_mask = masks.pop("edge_mask")
        edge, node = {**store.edge, "edge_mask": edge_mask}, {**store.node, **masks}
        graph = {name: value for name, value in store.graph.items() if name != "y"}
        shown = replace(store, edge=edge, node=node, graph=graph)
        return cls(shown.to_data_list(Explanation if store.schema is None else HeteroExplanation))

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = super().__getitem__(index)
        return Explanations(found) if isinstance(index, slice) else found

    def _repr_html_(self) -> str:
        figures = "".join(
            f'<figure style="{_CELL}">{one._repr_html_()}<figcaption>{number}</figcaption></figure>'
            for number, one in enumerate(self[:SHOWN])
        )
        more = len(self) - SHOWN
        rest = f"<p>and {more} more</p>" if more > 0 else ""
        return f'<div style="{_ROW}">{figures}</div>{rest}'


def table_of(rows: Any) -> Any:
    """A pandas table of columns by name, or of rows."""
    return optional_module("pandas", "tables need pandas ({error})", "pandas").DataFrame(rows)


def report_html(summary: str, warnings: list[str]) -> str:
    """A summary, and what it warns about."""
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    listed = f"<p><b>Take care:</b></p><ul>{items}</ul>" if items else "<p>No warnings.</p>"
    lines = "".join(f"<p>{escape(line)}</p>" for line in summary.splitlines() if line.strip())
    return f"<div>{lines}{listed}</div>"


def shown(
    masks: Masks, config: Any, graphs: GraphBatch | WholeGraph, data: HeteroData | None
) -> Explanation | HeteroExplanation:
    """The masks that a PyG ``Explainer`` is configured for, by type if ``data`` has types."""
    if data is None:
        return Explanation(**wanted(masks, config))
    chosen = wanted(masks, config, typed=True)
    return by_type(chosen, graphs.type_rows, data, common=common(config))


def by_type(
    masks: Mapping[str, Tensor], typed: TypeRows, data: HeteroData, *, common: bool = False
) -> HeteroExplanation:
    """Masks of flat rows as an explanation by type; types that ``data`` lacks are left out."""
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
                rows = rows.amax(0, keepdim=True) if common and len(rows) else rows
            explanation[node_kind][name] = rows
    return explanation


def set_quality(explanation: Any, quality: Any) -> None:
    """Gives an explanation its quality and the rest of its reason; by type where nodes have any."""
    rest = quality.rest
    if isinstance(explanation, Explanation | HeteroExplanation):
        explanation.quality = quality
    if isinstance(explanation, HeteroExplanation) and isinstance(rest, Mapping):
        explanation.set_value_dict("rest", {k: v for k, v in rest.items() if len(v)})
    elif isinstance(explanation, Explanation):
        explanation.rest = rest
