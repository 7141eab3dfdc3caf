"""Any ``torch.nn.Module`` on graphs as a target: edge weights in, outputs and embeddings out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import Aggregation, MessagePassing
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from hpme.data.info import ModelLevel
from hpme.errors import HPMEError, InputError, ModelError
from hpme.graphs.batch import GraphBatch

Weighting = Literal["edge_weight", "message", "none"]
Level = ModelLevel

_REDUCTIONS = {
    "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_",
    "index_add", "index_add_", "index_reduce", "index_reduce_",
}  # fmt: skip


@dataclass(frozen=True)
class Embedding:
    r"""What a frozen model computes on the way to its output.

    Args:
        nodes: :math:`\mathbf{H}`, one row per node.
        graph: :math:`\mathbf{h}_G`, one row per graph; the output itself if no head was found. At
            node level the row of ``nodes`` at the anchor.
        output: The model's output, one row per graph.
        source: Where ``nodes`` was taken from, in words.
    """

    nodes: Tensor
    graph: Tensor
    output: Tensor
    source: str


class ModelAdapter:
    """Calls a model the way explainers need it, without leaving a trace on it.

    Use inside :func:`frozen`. :meth:`describe` says how edge weights are applied and where node
    embeddings come from.

    Args:
        model: Called as ``model(x, edge_index, batch=..., [edge_weight=...], [edge_attr=...])``.
        embedding_layer: Dotted name of the layer whose output is the node embedding; by default
            the input of the readout, else the last message-passing layer. At node level the input
            of the head, the first linear layer on node rows after all message passing, stands in
            for that of the readout.
        weighting: How edge weights reach the model; found out by :meth:`probe` if ``None``.
        level: ``"graph"``; or ``"node"``, a model that returns one row per node and is called
            without ``batch`` unless it requires one. Then the rows at the first anchor of every
            graph are the outputs.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        embedding_layer: str | None = None,
        weighting: Weighting | None = None,
        level: Level = "graph",
    ) -> None:
        self.model = model
        self.level = level
        self.embedding_layer = embedding_layer
        self.weighting = weighting
        self.embedding_source: str | None = None
        parameters = inspect.signature(model.forward).parameters
        self._keywords = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._names = set(parameters)
        batch = parameters.get("batch")
        self._needs_batch = batch is not None and batch.default is batch.empty
        if embedding_layer is not None and embedding_layer not in dict(model.named_modules()):
            layers = ", ".join(name for name, _ in model.named_modules() if name)
            raise InputError(f"the model has no layer '{embedding_layer}'; it has: {layers}")

    def accepts(self, name: str) -> bool:
        """Whether the model's ``forward`` names this argument."""
        return name in self._names

    def describe(self) -> str:
        """One line on how the model is used."""
        weighting = {
            "edge_weight": "edge weights through the model's edge_weight argument",
            "message": "edge weights as masks on messages (the model takes no edge_weight)",
            "none": "the model's output does not depend on edge weights",
            None: "edge weights not probed yet",
        }[self.weighting]
        rows = "; outputs: the rows of the target nodes" if self.level == "node" else ""
        return f"{weighting}; node embeddings: {self.embedding_source or 'not computed yet'}{rows}"

    @torch.no_grad()
    def probe(self, graphs: GraphBatch) -> Weighting:
        """Finds out, on real graphs, which way of weighting edges changes the output.

        An ``edge_weight`` argument may be accepted and ignored (PyG's ``GIN`` and ``GAT`` models
        do so), hence the trial. The weights of the trial differ from edge to edge, because a
        normalising model does not see a factor common to all.
        """
        num_edges = graphs.edge_index.shape[1]
        weight = torch.linspace(0.25, 0.75, num_edges).to(graphs.x)
        plain = self._call(graphs, None, "none")
        trials: list[Weighting] = ["edge_weight"] if self.accepts("edge_weight") else []
        self.weighting = "none"
        for trial in [*trials, "message"]:
            weighted = self._call(graphs, weight, trial)
            if isinstance(plain, Tensor) and not torch.allclose(plain, weighted, rtol=1e-6):
                self.weighting = trial
                break
        return self.weighting

    def predict(
        self, graphs: GraphBatch, edge_weight: Tensor | None = None, **model_kwargs: Any
    ) -> Tensor:
        """The model's raw output; ``edge_weight`` multiplies the graphs' own weights if any."""
        if edge_weight is not None and self.weighting is None:
            self.probe(graphs)
        weighting = self.weighting or "none"
        output: Tensor = self._rows(
            graphs, self._call(graphs, edge_weight, weighting, **model_kwargs)
        )
        return output

    @torch.no_grad()
    def embed(self, graphs: GraphBatch, **model_kwargs: Any) -> Embedding:
        """Node and graph embeddings and the output, from one forward pass."""
        embedding = self.trace(graphs, **model_kwargs)
        # Explainers learn in the default precision, whatever that of the model.
        dtype, graph = torch.get_default_dtype(), embedding.graph
        if isinstance(graph, Tensor):
            graph = graph.to(dtype)
        return replace(embedding, nodes=embedding.nodes.to(dtype), graph=graph)

    def trace(
        self, graphs: GraphBatch, edge_weight: Tensor | None = None, **model_kwargs: Any
    ) -> Embedding:
        """As :meth:`embed`, under edge weights, in the model's precision and with gradients.

        The embeddings are those the output was computed from: the output can be differentiated
        with respect to them.
        """
        if edge_weight is not None and self.weighting is None:
            self.probe(graphs)
        layers: list[tuple[str, Tensor]] = []
        heads: list[tuple[int, Tensor]] = []
        node_heads: list[tuple[int, Tensor]] = []
        probe = _ReadoutProbe(graphs.batch)

        def on_layer(name: str) -> Callable[..., None]:
            def hook(_: nn.Module, __: Any, output: Any) -> None:
                value = output[0] if isinstance(output, tuple) else output
                if isinstance(value, Tensor) and value.dim() == 2:
                    layers.append((name, value))

            return hook

        def on_head(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            if probe.inside == 0 and inputs and isinstance(inputs[0], Tensor):
                heads.append((probe.count, inputs[0]))

        def on_node_head(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            value = inputs[0] if inputs else None
            if isinstance(value, Tensor) and (value.dim(), value.shape[0]) == (2, graphs.num_nodes):
                node_heads.append((len(layers), value))

        handles = []
        inner = _inside_layers(self.model) if self.level == "node" else set()
        for name, module in self.model.named_modules():
            wanted = self.embedding_layer
            if name == wanted or (wanted is None and isinstance(module, MessagePassing)):
                handles.append(module.register_forward_hook(on_layer(name)))
            elif isinstance(module, nn.Linear | PyGLinear):
                if module not in inner:
                    hook = on_head if self.level == "graph" else on_node_head
                    handles.append(module.register_forward_pre_hook(hook))
            elif isinstance(module, Aggregation) or _is_norm(module):
                handles.append(module.register_forward_pre_hook(probe.enter, with_kwargs=True))
                handles.append(module.register_forward_hook(probe.leave))
        try:
            with probe:
                output = self._call(graphs, edge_weight, self.weighting or "none", **model_kwargs)
        finally:
            for handle in handles:
                handle.remove()
        if self.level == "node":
            after = [h for n, h in node_heads if n == len(layers) and layers]
            return self._at_anchors(graphs, layers, after, output)
        nodes, self.embedding_source = self._choose(graphs.num_nodes, layers, probe)
        shape = (2, graphs.num_graphs)
        after = [h for n, h in heads if n == probe.count and (h.dim(), h.shape[0]) == shape]
        return Embedding(nodes, after[0] if after else output, output, self.embedding_source)

    def _at_anchors(
        self,
        graphs: GraphBatch,
        layers: list[tuple[str, Tensor]],
        heads: list[Tensor],
        output: Any,
    ) -> Embedding:
        if heads and self.embedding_layer is None:
            nodes, source = heads[0], "input of the head"
        else:
            nodes, source = self._choose(graphs.num_nodes, layers, None)
        self.embedding_source = source
        anchors = _first_anchor(graphs)
        return Embedding(nodes, nodes[anchors], self._rows(graphs, output), source)

    def _rows(self, graphs: GraphBatch, output: Any) -> Any:
        """The model's output with one row per graph."""
        if self.level == "graph":
            return output
        if not isinstance(output, Tensor) or not output.dim() or output.shape[0] != len(graphs.x):
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ModelError(
                f"the model returned {shape} for {len(graphs.x)} nodes; a node-level model returns "
                "one row per node (a graph-level one is explained without index)"
            )
        return output[_first_anchor(graphs)]

    def _choose(
        self, num_nodes: int, layers: list[tuple[str, Tensor]], probe: _ReadoutProbe | None
    ) -> tuple[Tensor, str]:
        full = [(name, value) for name, value in layers if value.shape[0] == num_nodes]
        if self.embedding_layer is not None:
            if full:
                return full[-1][1], f"output of layer '{self.embedding_layer}'"
            raise InputError(
                f"layer '{self.embedding_layer}' gives no [nodes, channels] tensor; name another"
            )
        if probe is not None and probe.nodes is not None:
            return probe.nodes, "input of the readout"
        # A pooling layer may score nodes by message passing; one number is no embedding.
        full = [(name, value) for name, value in full if value.shape[1] > 1] or full
        if full:
            return full[-1][1], f"output of the last message-passing layer '{full[-1][0]}'"
        raise ModelError(
            "found neither a readout over the batch vector nor a message-passing layer with one "
            "row per node; name the layer to use with embedding_layer='...'"
        )

    def _call(
        self, graphs: GraphBatch, edge_weight: Tensor | None, weighting: Weighting, **extra: Any
    ) -> Any:
        kwargs = dict(extra)
        if self.level == "graph" and not (self.accepts("batch") or self._keywords):
            raise ModelError(
                "the model's forward has no 'batch' argument; graph-level models are called as "
                "model(x, edge_index, batch=...). For a node-level model give the nodes as index"
            )
        if self.level == "graph" or self._needs_batch:
            kwargs["batch"] = graphs.batch
        if edge_weight is not None:
            edge_weight = edge_weight.to(graphs.x.dtype)
        masks: Any = nullcontext()
        if edge_weight is not None and weighting == "message":
            # PyG's masks assume that self-loops come last, sorted by node, as its layers put them.
            source, target = graphs.edge_index
            order = torch.argsort(torch.where(source == target, 1 + source, 0), stable=True)
            graphs = _reorder_edges(graphs, order)
            masks = message_mask(
                self.model, edge_weight[order], graphs.edge_index, graphs.num_nodes
            )
        weight = graphs.edge_weight
        if edge_weight is not None and weighting == "edge_weight":
            weight = edge_weight if weight is None else weight * edge_weight
        if weight is not None:
            if not (self.accepts("edge_weight") or self._keywords):
                raise ModelError(
                    "the graphs have edge_weight but the model's forward takes none; remove it "
                    "from the graphs or add the argument to the model"
                )
            kwargs["edge_weight"] = weight
        if graphs.edge_attr is not None and (self.accepts("edge_attr") or self._keywords):
            kwargs["edge_attr"] = graphs.edge_attr
        with masks:
            try:
                return self.model(graphs.x, graphs.edge_index, **kwargs)
            except (HPMEError, torch.cuda.OutOfMemoryError):
                raise
            except Exception as error:
                raise ModelError(
                    f"the model failed on {graphs.num_nodes} nodes with {graphs.x.shape[1]} "
                    f"features of {graphs.x.dtype}: {type(error).__name__}: {error}; check that "
                    "features, dtype and device are those it was trained with"
                ) from error


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode, no parameter gradients; everything as before afterwards, even on error."""
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"expected a torch.nn.Module, got {type(model).__name__}; wrap it in a module"
        )
    training = {module: module.training for module in model.modules()}
    needs_grad = {parameter: parameter.requires_grad for parameter in model.parameters()}
    try:
        model.eval()
        for parameter in needs_grad:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, flag in training.items():
            module.training = flag
        for parameter, flag in needs_grad.items():
            parameter.requires_grad_(flag)


@contextmanager
def message_mask(
    model: nn.Module, mask: Tensor, edge_index: Tensor, num_nodes: int | None = None
) -> Iterator[None]:
    """Multiplies every message by the weight of its edge; masks of others are put back afterwards.

    The differences to PyG's ``set_masks``: a mask left behind as a parameter by another explainer
    does not cut the gradient, an exception leaves nothing on the model, and layers that work on
    other than ``num_nodes`` nodes, because a pooling layer came before, are left alone.
    """

    def on_all_nodes(explain_message: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def explain(inputs: Tensor, dim_size: int | None) -> Tensor:
            whole = num_nodes is None or dim_size == num_nodes
            return explain_message(inputs, dim_size) if whole else inputs

        return explain

    layers = [
        m for m in model.modules() if isinstance(m, MessagePassing) and m.explain is not False
    ]
    before = [(dict(layer.__dict__), dict(layer._parameters)) for layer in layers]
    try:
        for layer in layers:
            layer._parameters.pop("_edge_mask", None)
            layer.explain = True
            layer._edge_mask, layer._apply_sigmoid = mask, False
            layer._loop_mask = edge_index[0] != edge_index[1]
            layer.explain_message = on_all_nodes(layer.explain_message)
        yield
    finally:
        for layer, (attributes, parameters) in zip(layers, before, strict=True):
            # All of it: PyG's switch also puts a method and argument names on the layer.
            for current, saved in ((layer.__dict__, attributes), (layer._parameters, parameters)):
                current.clear()
                current.update(saved)


class _ReadoutProbe(TorchFunctionMode):
    """Watches for reductions of node rows over the batch vector; the last one is the readout.

    Reductions inside a normalisation are none; inside a PyG aggregation, which may weigh nodes
    before it sums them, what entered it counts.
    """

    def __init__(self, batch: Tensor) -> None:
        super().__init__()
        self.storage = batch.untyped_storage().data_ptr()
        self.num_nodes = batch.numel()
        self.nodes: Tensor | None = None
        self.count = 0
        self.inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.inside == 0 and getattr(func, "__name__", "") in _REDUCTIONS:
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
            self._see(tensors[1:])
        return func(*args, **kwargs)

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Before an aggregation or normalisation."""
        if self.inside == 0 and isinstance(module, Aggregation):
            self._see([a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)])
        self.inside += 1

    def leave(self, *_: Any) -> None:
        """After an aggregation or normalisation."""
        self.inside -= 1

    def _see(self, tensors: list[Tensor]) -> None:
        over_batch = any(
            not t.is_floating_point() and t.untyped_storage().data_ptr() == self.storage
            for t in tensors
        )
        rows = [
            t for t in tensors
            if t.is_floating_point() and t.dim() == 2 and t.shape[0] == self.num_nodes
        ]  # fmt: skip
        if over_batch and rows:
            self.nodes, self.count = rows[-1], self.count + 1


def _inside_layers(model: nn.Module) -> set[nn.Module]:
    """Modules that are part of a message-passing layer."""
    layers = [module for module in model.modules() if isinstance(module, MessagePassing)]
    return {part for layer in layers for part in layer.modules()}


def _first_anchor(graphs: GraphBatch) -> Tensor:
    if graphs.anchors is None:
        raise InputError(
            "a node-level model needs to know the target nodes: pass index, or graphs with "
            "'anchors', the number of the target node in each"
        )
    return graphs.anchors[:, 0]


def _is_norm(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch_geometric.nn.norm")


def _reorder_edges(graphs: GraphBatch, order: Tensor) -> GraphBatch:
    return replace(
        graphs,
        edge_index=graphs.edge_index[:, order],
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[order],
        edge_weight=None if graphs.edge_weight is None else graphs.edge_weight[order],
    )
