"""What is put into a model while it runs, and taken out again: hooks stay with nothing.

Edge weights as masks on the messages of PyG layers, for models that take no edge weights; and
numbers in place of codes. Integers have no gradient. Gradients of nodes are taken by what the model
makes of the codes first: the outputs of its embeddings, found by hooks in one forward pass, as
Captum's layer methods take them. A second set of hooks puts other numbers in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from hpme.errors import ModelError
from hpme.graphs import GraphBatch
from hpme.graphs.schema import EdgeType, Schema, padded
from hpme.models.freezing import removed_afterwards

Explain = Callable[[Tensor, int | None], Tensor]


@contextmanager
def message_mask(
    model: nn.Module, mask: Tensor, edge_index: Tensor, num_nodes: int | None = None
) -> Iterator[None]:
    """Multiplies every message by the weight of its edge; masks of others are put back afterwards.

    The differences to PyG's ``set_masks``: a mask left behind as a parameter by another explainer
    does not cut the gradient, an exception leaves nothing on the model, and layers that work on
    other than ``num_nodes`` nodes, because a pooling layer came before, are left alone.
    """

    def on_all_nodes(layer: Any, explain_message: Explain) -> Explain:
        layer._edge_mask, layer._loop_mask = mask, edge_index[0] != edge_index[1]

        def explain(inputs: Tensor, dim_size: int | None) -> Tensor:
            whole = num_nodes is None or dim_size == num_nodes
            return explain_message(inputs, dim_size) if whole else inputs

        return explain

    with _explaining(model, on_all_nodes):
        yield


@contextmanager
def hetero_message_mask(model: nn.Module, mask: Tensor, graphs: GraphBatch) -> Iterator[None]:
    """:func:`message_mask` for heterogeneous graphs: every layer gets the mask of its edges' type.

    A layer is known by the edges it gets, else by the type under which ``HeteroConv`` and
    ``to_hetero`` keep it. One that gets all edges at once, such as ``HGTConv``, has them in the
    order of the types.
    """
    assert graphs.schema is not None
    masks = graphs.type_rows.per_edge(mask)
    edges = graphs.edge_index_dict
    everything = torch.cat([*masks.values(), mask[:0]])
    known = edge_types_of(model, graphs.schema)

    def on_type(layer: Any, explain_message: Explain) -> Explain:
        probe = EdgeTypeProbe(layer, edges, known.get(layer))
        watched.append(probe)

        def explain(inputs: Tensor, dim_size: int | None) -> Tensor:
            fitting, mask, proper = [len(everything)], everything, None
            if probe.kind is not None:
                source, target = edges[probe.kind]
                mask, proper = masks[probe.kind], source != target
                fitting = [len(mask), int(proper.sum()) + (dim_size or 0)]
            if inputs.shape[layer.node_dim] not in fitting:
                return inputs
            layer._edge_mask, layer._loop_mask = mask, proper
            return explain_message(inputs, dim_size)

        return explain

    with removed_afterwards() as watched, _explaining(model, on_type):
        yield


class EdgeTypeProbe:
    """Watches which of the types of edges, as a model gets them, a layer passes messages along.

    ``known`` is the type the layer is kept under, if any.
    """

    def __init__(
        self, layer: Any, edges: dict[EdgeType, Tensor], known: EdgeType | None = None
    ) -> None:
        self.kind = self.known = known
        self._types = {index.data_ptr(): kind for kind, index in edges.items() if index.numel()}
        self._handle = layer.register_propagate_forward_pre_hook(self._enter)

    def _enter(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        index = inputs[0]
        given = isinstance(index, Tensor) and index.numel()
        self.kind = (self._types.get(index.data_ptr()) if given else None) or self.known

    def remove(self) -> None:
        """Stops watching."""
        self._handle.remove()


def edge_types_of(model: nn.Module, schema: Schema) -> dict[nn.Module, EdgeType]:
    """The edge type under which every layer is kept in a dictionary of modules, if it is."""
    found: dict[nn.Module, EdgeType] = {}
    for module in model.modules():
        if isinstance(module, nn.ModuleDict):
            kept: Any = module  # PyG's takes types as keys
            for kind in schema.edge_types:
                for key in (kind, "__".join(kind)):
                    if key in kept:
                        found.update(dict.fromkeys(kept[key].modules(), kind))
    return found


@contextmanager
def _explaining(model: nn.Module, explain: Callable[[Any, Explain], Explain]) -> Iterator[None]:
    """Lets layers explain their messages with what ``explain`` makes of their own way."""
    layers = [
        m for m in model.modules() if isinstance(m, MessagePassing) and m.explain is not False
    ]
    before = [(dict(layer.__dict__), dict(layer._parameters)) for layer in layers]
    try:
        for layer in layers:
            layer._parameters.pop("_edge_mask", None)
            layer.explain = True
            layer._apply_sigmoid = False
            layer.explain_message = explain(layer, layer.explain_message)
        yield
    finally:
        for layer, (attributes, parameters) in zip(layers, before, strict=True):
            # All of it: PyG's switch also puts a method and argument names on the layer.
            for current, saved in ((layer.__dict__, attributes), (layer._parameters, parameters)):
                current.clear()
                current.update(saved)


@dataclass(frozen=True)
class Place:
    """One call of one layer."""

    name: str
    layer: nn.Module
    call: int  # which of its calls in a forward pass, from 0 on
    entered: bool  # whether its first input is meant, in place of its output
    value: Tensor  # what was there, one row per node
    kind: int | None = None  # number of the type of these nodes, if graphs have types


@dataclass(frozen=True)
class NodeInput:
    """What a model computes of its nodes first, some places side by side.

    Where some types of nodes have codes and others numbers, the numbers of the latter come last.
    """

    places: Sequence[Place]  # where, in the order in which the model comes to them
    graphs: GraphBatch  # what the model was called with

    @property
    def value(self) -> Tensor:
        """All numbers :math:`[N, C]`; zero where they are about nodes of another type."""
        parts = [self._rows(place.value.flatten(1), place.kind) for place in self.places]
        return torch.cat([*parts, *(self._rows(x, kind) for kind, x in self._numbers())], dim=1)

    def _numbers(self) -> list[tuple[int, Tensor]]:
        """Features of types that have numbers, beside types that have codes."""
        schema = self.graphs.schema
        if schema is None:
            return []
        given = enumerate(self.graphs.x_dict.values())
        return [(kind, x) for kind, x in given if kind not in schema.coded and x.shape[1]]

    def _rows(self, value: Tensor, kind: int | None) -> Tensor:
        if kind is None:
            return value
        whole = value.new_zeros(self.graphs.num_nodes, value.shape[1])
        return whole.index_copy(0, self.graphs.type_rows.nodes[kind], value)

    def beside(self, graphs: GraphBatch, value: Tensor) -> GraphBatch:
        """The graphs with the numbers ``x`` among ``value``."""
        x, numbers = graphs.x, self._numbers()
        widths = [given.shape[1] for _, given in numbers]
        parts = value[:, value.shape[1] - sum(widths) :].split(widths, dim=1)  # type: ignore[no-untyped-call]
        for (kind, _), part in zip(numbers, parts, strict=True):
            rows = graphs.type_rows.nodes[kind]
            x = x.index_copy(0, rows, padded(part[rows], x.shape[1]).to(x))
        return replace(graphs, x=x) if numbers else graphs

    def __str__(self) -> str:
        names = ", ".join(dict.fromkeys(f"'{place.name}'" for place in self.places))
        what = "input of the first message-passing layer" if self.places[0].entered else "output of"
        return f"{what} {names}"

    @contextmanager
    def replaced(self, value: Tensor) -> Iterator[None]:
        """Call the model once inside: it goes on from ``value`` :math:`[N, C]`."""
        widths = [place.value.flatten(1).shape[1] for place in self.places]
        parts = value[:, : sum(widths)].split(widths, dim=1)  # type: ignore[no-untyped-call]
        new = {}
        for place, part in zip(self.places, parts, strict=True):
            rows = part if place.kind is None else part[self.graphs.type_rows.nodes[place.kind]]
            # A copy: a model may add to what a layer returns, which a part of a leaf forbids.
            rows = rows.reshape(len(rows), *place.value.shape[1:]).to(place.value)
            new[place.layer, place.call] = rows.clone()
        calls: Counter[nn.Module] = Counter()

        def known(layer: nn.Module) -> Tensor | None:
            calls[layer] += 1
            return new.get((layer, calls[layer] - 1))

        def leaving(layer: nn.Module, _: Any, output: Any) -> Any:
            found = known(layer)
            return output if found is None else found

        def entering(layer: nn.Module, args: Any, kwargs: Any) -> Any:
            found = known(layer)
            if found is None:
                return args, kwargs
            return ((found, *args[1:]), kwargs) if args else (args, {**kwargs, "x": found})

        entered = {place.layer: place.entered for place in self.places}
        with removed_afterwards() as handles:
            for layer, before in entered.items():
                if before:
                    handles.append(layer.register_forward_pre_hook(entering, with_kwargs=True))
                else:
                    handles.append(layer.register_forward_hook(leaving))
            yield


class NodeInputProbe:
    """Watches one forward pass for what a model computes of codes of nodes.

    Found are the outermost layers that are called with nothing but fields of nodes, codes among
    them (or with parts of these, such as ``x[:, 0]``), and return numbers with one row per node.
    If there are none, what enters the first message-passing layer.
    """

    def __init__(self, model: nn.Module, graphs: GraphBatch) -> None:
        self.model, self.graphs = model, graphs
        fields: list[tuple[Tensor, int | None]]
        if graphs.schema is None:
            fields = [(v, None) for v in (graphs.x, *graphs.node.values()) if v.numel()]
        else:
            fields = [(x, kind) for kind, x in enumerate(graphs.x_dict.values())]
        self._sizes = {kind: len(x) for x, kind in fields} | {None: graphs.num_nodes}
        self._fields = {_address(v): (v.is_floating_point(), kind) for v, kind in fields}
        self._found: list[Place] = []
        self._entered: Place | None = None
        self._open: list[int] = []
        self._calls: Counter[nn.Module] = Counter()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Call the model once inside; of numbers there is nothing to find."""
        with removed_afterwards() as handles:
            for name, layer in self.model.named_modules() if self.graphs.coded else ():
                if layer is not self.model:
                    pre, post = self._hooks(name)
                    handles.append(layer.register_forward_pre_hook(pre, with_kwargs=True))
                    handles.append(layer.register_forward_hook(post, with_kwargs=True))
            yield

    def found(self) -> NodeInput | None:
        """What was found, if anything was."""
        schema, kinds = self.graphs.schema, {place.kind for place in self._found}
        coded = [] if schema is None else schema.coded
        if self._found and all(kind in kinds or not self._sizes[kind] for kind in coded):
            return NodeInput(self._found, self.graphs)
        return None if self._entered is None else NodeInput([self._entered], self.graphs)

    def _hooks(self, name: str) -> tuple[Any, Any]:
        def pre(layer: nn.Module, args: Any, kwargs: Any) -> None:
            self._open.append(len(self._found))
            homogeneous = self.graphs.schema is None
            if homogeneous and self._entered is None and isinstance(layer, MessagePassing):
                given = args[0] if args else kwargs.get("x")
                if self._per_node(given, None):
                    value = given.detach().clone()
                    self._entered = Place(name, layer, self._calls[layer], True, value)

        def post(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            first, call = self._open.pop(), self._calls[layer]
            self._calls[layer] += 1
            coded, kind = self._reads_codes([*args, *kwargs.values()])
            if coded and self._per_node(output, kind):
                # The layer stands for those inside it. A copy: a model may add to the output.
                value = output.detach().clone()
                self._found[first:] = [Place(name, layer, call, False, value, kind)]

        return pre, post

    def _reads_codes(self, given: Sequence[Any]) -> tuple[bool, int | None]:
        """Whether a layer reads codes of nodes and nothing else, and the type of these nodes."""
        tensors = [value for value in given if isinstance(value, Tensor)]
        read = [self._fields.get(_address(value)) for value in tensors]
        known = [field for field in read if field is not None]
        if len(known) < len(read) or len({kind for _, kind in known}) != 1:
            return False, None
        return not all(real for real, _ in known), known[0][1]

    def _per_node(self, value: Any, kind: int | None) -> bool:
        is_rows = isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1
        return is_rows and len(value) == self._sizes[kind]


def no_node_input(graphs: GraphBatch) -> ModelError:
    """What to say where nothing is found."""
    codes = [name for name, v in graphs.node.items() if not v.is_floating_point()]
    named = f"x is {graphs.x.dtype}" if graphs.has_x else f"no x, but {', '.join(codes) or 'none'}"
    if graphs.schema is not None:
        kinds = [graphs.schema.node_types[kind] for kind in graphs.schema.coded]
        named = f"x of {', '.join(kinds)}"
    return ModelError(
        f"gradients of nodes need numbers, and the graphs have codes ({named}): the model has no "
        "layer that is called with them and returns one row per node, and no message-passing layer "
        "after them; call an nn.Embedding with them inside the model, or choose an explainer that "
        "needs no such gradient: hpme, occlusion, subgraphx or random"
    )


def _address(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()
