"""How a model is called on a batch of graphs: by a function of the user's, or as it is found.

A model whose ``forward`` begins with ``(x, edge_index)`` is called so, with those further fields of
the graphs that it names; any other is tried with the ways its arguments suggest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, HeteroData

from hpme.data.info import Level
from hpme.errors import HPMEError, InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE

Call = Callable[..., Any]
"""``call(batch)`` or ``call(model, batch)``, from a PyG ``Batch`` to the model's output."""
Derived = Callable[[Any], Mapping[str, Tensor]]
"""Node tensors by name, of a PyG ``Batch``."""
LINK = "edge_label_index"
"""PyG's name for the two ends of the links a model predicts."""


class Way(NamedTuple):
    """One way of calling a model on graphs, with their edge weights and further arguments."""

    text: str  # the call, for messages
    run: Callable[[GraphBatch, Tensor | None, dict[str, Any]], Any]


class Caller:
    """Calls a model as ``call`` says, else in the first way that works, found at the first call."""

    def __init__(self, model: nn.Module, call: Call | None, level: Level) -> None:
        self.model, self.call, self.level = model, call, level
        parameters = inspect.signature(model.forward).parameters.values()
        kinds = {p.kind for p in parameters}
        rest = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
        self.keywords, self.passes_on = inspect.Parameter.VAR_KEYWORD in kinds, rest <= kinds
        self.names = [p.name for p in parameters if p.kind not in rest]
        optional = {*rest, inspect.Parameter.KEYWORD_ONLY}
        self.required = [
            p.name for p in parameters if p.default is p.empty and p.kind not in optional
        ]
        self.way: Way | None = None
        if call is not None:
            head = (model,) if takes_model(call) else ()
            self.way = Way("call(batch)", lambda g, w, e: call(*head, as_batch(g, w), **e))

    @property
    def usual(self) -> bool:
        """Whether the model is called as ``model(x, edge_index, ...)``, as far as names tell."""
        pools = self.level != "graph" or self.keywords or bool(BATCH & set(self.names))
        head = self.names[:2]
        few = len(head) < 2 and not self.passes_on
        own = self.call is not None or few or bool(OTHERS & set(head[:1])) or "batch" in head
        later = "edge_index" in self.names[2:]  # other fields of nodes come before
        return pools and not own and not later

    @property
    def weighted(self) -> bool:
        """Whether edge weights can be passed; not whether they have an effect."""
        return not self.usual or bool(WEIGHT & set(self.names))

    @property
    def reads_all(self) -> bool:
        """Whether the model may read more of the graphs than the usual arguments."""
        return not self.usual or bool(set(self.names[2:]) - USUAL)

    def reads_edges(self, graphs: GraphBatch) -> bool:
        """Whether the model may read edges; not if its arguments are other fields by name."""
        edges = any("edge" in name or "adj" in name for name in self.names)
        return edges or not self._named(graphs)

    def reads_x(self, graphs: GraphBatch) -> bool:
        """Whether the model may read ``x``, likewise."""
        return "x" in self.names or not self._named(graphs)

    def _named(self, graphs: GraphBatch) -> bool:
        """Whether the model's arguments are fields of the graphs by name, and nothing else."""
        known = len(self.required) > 1 and set(self.required) <= fields(graphs, None).keys()
        return known and self.call is None and not (self.usual or self.keywords)

    def __call__(self, graphs: GraphBatch, weight: Tensor | None, extra: dict[str, Any]) -> Any:
        """The model's output, as it returns it, given edge weights and further arguments."""
        tried = []
        for way in [self.way] if self.way else self._ways(graphs, extra):
            try:
                output = way.run(graphs, weight, extra)
                if self.way is None and not self.usual:
                    _check_rows(output, graphs)
            except (HPMEError, torch.cuda.OutOfMemoryError):
                raise
            except Exception as error:
                tried.append((way, error))
                continue
            self.way = way
            return output
        raise self._failure(graphs, tried) from (tried[-1][1] if tried else None)

    def _ways(self, graphs: GraphBatch, extra: dict[str, Any]) -> Iterator[Way]:
        """Ways that the model's arguments suggest, the likeliest first."""
        if self.usual:
            yield Way("model(x, edge_index, ...)", self._usual)
            return
        if len(self.required) == 1:
            yield Way("model(batch)", lambda g, w, e: self.model(as_batch(g, w), **e))
            yield Way("model({'x': x, ...})", lambda g, w, e: self.model(fields(g, w), **e))
        known = {*fields(graphs, None), *extra, "edge_weight"}
        if self.required and set(self.required) <= known:
            yield Way(f"model({', '.join(f'{n}=...' for n in self.required)})", self._by_name)
        if names := IN_ORDER.get(len(self.required)):
            text = f"model({', '.join(names)})"
            yield Way(text, lambda g, w, e: self.model(*map(fields(g, w).get, names), **e))

    def _usual(self, graphs: GraphBatch, weight: Tensor | None, extra: dict[str, Any]) -> Any:
        given = fields(graphs, weight)
        x, edge_index = given.pop("x", graphs.x), given.pop("edge_index")
        if weight is not None and not (self.keywords or WEIGHT & set(self.names)):
            raise ModelError(
                "the graphs have edge_weight but the model's forward takes none; remove it "
                "from the graphs or add the argument to the model"
            )
        wanted = set(self.names)
        if self.keywords and graphs.schema is None:
            wanted |= {"edge_attr", "edge_weight", LINK if self.level == "edge" else "batch"}
        elif self.keywords:
            wanted |= {"edge_attr_dict", "edge_weight_dict", "batch_dict"}
        if self.level == "node" and not BATCH & set(self.required):
            wanted -= BATCH
        if graphs.schema is not None:
            wanted -= {*self.names[:2]}
        chosen = {name: value for name, value in given.items() if name in wanted}
        return self.model(x, edge_index, **{**chosen, **extra})

    def _by_name(self, graphs: GraphBatch, weight: Tensor | None, extra: dict[str, Any]) -> Any:
        given = {**fields(graphs, weight), **extra}
        return self.model(**{name: given[name] for name in self.names if name in given})

    def _failure(self, graphs: GraphBatch, tried: list[tuple[Way, Exception]]) -> ModelError:
        if len(tried) == 1 and (self.usual or self.call is not None):
            error = tried[0][1]
            widths = graphs.kinds.shape[1] if graphs.schema is None else graphs.schema.widths
            if self.usual and not graphs.has_x:
                return ModelError(
                    f"the graphs have no x, and the model's forward begins with '{self.names[0]}' "
                    f"({_line(error)}); give them x, or say how it is called: "
                    "call=lambda batch: model(batch.z, ...)"
                )
            types = "" if graphs.schema is None else (
                "; graphs of a batch may lack a type, so a readout needs size=batch_size, an "
                "argument that is passed if forward takes it"
            )  # fmt: skip
            return ModelError(
                f"the model failed on {graphs.num_nodes} nodes with {widths} features of "
                f"{graphs.x.dtype}: {type(error).__name__}: {error}; check that features, dtype "
                f"and device are those it was trained with{types}"
            )
        names = ", ".join([*self.names, *["**kwargs"] * self.keywords])
        ways = "; ".join(f"{way.text}: {_line(error)}" for way, error in tried)
        end = "" if graphs.schema is None else "_dict"
        pools = "" if BATCH & set(self.names) else f" (it has no 'batch{end}' argument)"
        return ModelError(
            f"no usual way of calling forward({names}) works{pools}; "
            + (f"tried {ways}; " if tried else "")
            + f"graph-level models are called as model(x{end}, edge_index{end}, batch{end}=...), "
            "as model(batch), or as you say with call=lambda batch: model(batch.x, ...); for a "
            "node-level model give the nodes as index"
        )


BATCH = frozenset({"batch", "batch_dict"})
WEIGHT = frozenset({"edge_weight", "edge_weight_dict"})
USUAL = frozenset(
    {"x", "edge_index", "edge_attr", LINK, "x_dict", "edge_index_dict", "edge_attr_dict"}
    | {*BATCH, *WEIGHT, "batch_size"}
)
IN_ORDER = {3: ("x", "edge_index", "batch"), 4: ("x", "edge_index", "edge_attr", "batch")}
"""What the arguments of a model are likely to be, by their number."""
OTHERS = frozenset({"data", "batch", "graphs", "graph", "inputs", "z", "pos"})
"""First arguments that are no node features, whatever follows."""


def fields(graphs: GraphBatch, weight: Tensor | None) -> dict[str, Any]:
    """All fields of the graphs by name."""
    if graphs.schema is not None:
        return _hetero_fields(graphs, weight)
    given: dict[str, Tensor | None] = {
        # Other fields that tell nodes stand in place of x; without any it has no columns.
        "x": graphs.x if graphs.has_x or not {"z", "pos"} & graphs.node.keys() else None,
        "edge_index": graphs.edge_index,
        "batch": graphs.batch,
        "edge_attr": graphs.edge_attr,
        "edge_weight": weight,
        "anchors": graphs.anchors,
        **graphs.node,
        **graphs.edge,
        **graphs.graph,
    }
    if graphs.anchors_per_graph == 2:
        assert graphs.anchors is not None
        given[LINK] = graphs.anchors.T
    return {name: value for name, value in given.items() if value is not None}


def _hetero_fields(graphs: GraphBatch, weight: Tensor | None) -> dict[str, Any]:
    """Fields by type, each as ``x`` and as ``x_dict``, since models know them by either name."""
    rows = graphs.type_rows
    by_type: dict[str, Any] = {
        "x": graphs.x_dict,
        "edge_index": graphs.edge_index_dict,
        "batch": graphs.batch_dict,
        **{name: rows.per_node(v) for name, v in graphs.node.items() if name != NODE_TYPE},
        **{name: rows.per_edge(v) for name, v in graphs.edge.items() if name != EDGE_TYPE},
    }
    if graphs.edge_attr is not None:
        by_type["edge_attr"] = rows.edge_features(graphs.edge_attr)
    if weight is not None:
        by_type["edge_weight"] = rows.per_edge(weight)
    others = {"batch_size": graphs.num_graphs, **graphs.graph}
    return {**by_type, **{f"{name}_dict": value for name, value in by_type.items()}, **others}


def recomputed(graphs: GraphBatch, derived: Derived) -> GraphBatch:
    """The graphs with features that speak of neighbours computed again, if they fit."""
    found = derived(as_batch(graphs, graphs.edge_weight))
    known = {"x": graphs.x, **graphs.node}
    if not isinstance(found, Mapping) or not found.keys() <= known.keys():
        raise InputError(
            f"derived(batch) must return a dictionary of node tensors, some of {', '.join(known)}"
        )
    for name, old in known.items():
        new = found.get(name, old)
        if not isinstance(new, Tensor) or (new.shape, new.dtype) != (old.shape, old.dtype):
            raise InputError(
                f"derived(batch) must return '{name}' in its form, {list(old.shape)} of {old.dtype}"
            )
    known = {**known, **found}
    return replace(graphs, x=known.pop("x"), node=known)


def as_batch(graphs: GraphBatch, weight: Tensor | None) -> Batch:
    """The graphs as PyG's ``Batch``, all their fields included."""
    if graphs.schema is None:
        ptr = torch.cat([graphs.ptr, graphs.ptr.new_tensor([graphs.num_nodes])])
        return Batch(**fields(graphs, weight), ptr=ptr)
    batch = Batch(_base_cls=HeteroData)
    for name, value in _hetero_fields(graphs, weight).items():
        if name.endswith("_dict"):
            for kind, rows in value.items():
                batch[kind][name.removesuffix("_dict")] = rows
    for name, value in graphs.graph.items():
        batch[name] = value
    batch._num_graphs = graphs.num_graphs
    return batch


def _check_rows(output: Any, graphs: GraphBatch) -> None:
    """Refuses a way of calling that worked by chance: nothing has a row per graph."""
    parts = output.values() if isinstance(output, Mapping) else output
    parts = [*parts] if isinstance(output, Mapping | list | tuple) else [output]
    tensors = [part for part in parts if isinstance(part, Tensor) and part.dim()]
    if tensors and all(len(part) != graphs.num_graphs for part in tensors):
        shape = tuple(tensors[0].shape)
        raise ValueError(f"returned shape {shape} for {graphs.num_graphs} graphs")


def takes_model(call: Call) -> bool:
    """Whether it is ``call(model, batch)``, not ``call(batch)``; refuses what is neither."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError) as error:
        given = type(call).__name__
        raise ModelError(f"call must be a function of a batch of graphs, got {given}") from error
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    if needed not in (1, 2):
        raise ModelError(
            f"call takes {needed} arguments; it is called as call(batch) or call(model, batch)"
        )
    return needed == 2


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"
