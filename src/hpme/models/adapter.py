"""Any ``torch.nn.Module`` on graphs: edge weights in, outputs and embeddings out.

It calls the model (:mod:`hpme.models.calling`), reads the part of its output that is explained
(:mod:`hpme.models.output`), and finds out how edge weights reach it: by its ``edge_weight``
argument, else as masks on messages (:mod:`hpme.models.hooks`). Where embeddings are wanted,
it watches the forward pass (:mod:`hpme.models.embedding`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from hpme.data.info import Level
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.models import hooks
from hpme.models.calling import Caller, takes_model
from hpme.models.embedding import Embedding, EmbeddingProbe, target_nodes, target_type
from hpme.models.freezing import users_settings
from hpme.models.output import check_output, check_rows, described

if TYPE_CHECKING:
    from hpme.models.explained import ExplainedModel

Weighting = Literal["edge_weight", "message", "none"]


class ModelAdapter:
    """Calls a model the way explainers need it, without leaving a trace on it.

    Use inside :func:`frozen`. :meth:`describe` says how edge weights are applied and where node
    embeddings come from: from the named layer, else from the input of the readout, else from the
    last message-passing layer. At node level the input of the head, the first linear layer on node
    rows after all message passing, stands in for that of the readout.

    At level ``"node"`` a model returns one row per node and is called without ``batch`` unless it
    requires one; the rows at the first anchor of every graph are the outputs. At level ``"edge"``
    it returns one row per link, and the two anchors of every graph are its ends. Graphs may be on
    another device than the model: they are moved, and what the model returns comes back to where
    they were. Outputs in half precision become single.

    Args:
        explained: The model and what is known about it.
        weighting: How edge weights reach the model; found out by :meth:`probe` if ``None``.
    """

    def __init__(self, explained: ExplainedModel, *, weighting: Weighting | None = None) -> None:
        self.explained, self.model, self.view = explained, explained.model, explained.view
        self.level: Level = explained.known_level or "graph"
        self.embedding_layer = explained.embedding_layer
        self.weighting = weighting
        self.embedding_source: str | None = None
        self.edge_free = False
        """Whether the model is known to read no edges."""
        self.entry: hooks.NodeInput | None = None
        """Where nodes enter the model as numbers, if their features are none."""
        self.device = device_of(self.model)
        self.width: int | None = None
        """Channels that node embeddings must have, if an explainer was fitted to some."""
        self.caller = Caller(self.model, explained.call, self.level)
        self.known = explained.known
        """What was found out about the model before, if it is held."""
        if self.embedding_layer is not None:
            names = [name for name, _ in self.model.named_modules() if name]
            if self.embedding_layer not in names:
                layers = ", ".join(names)
                raise InputError(
                    f"the model has no layer '{self.embedding_layer}'; it has: {layers}"
                )

    def on(self, model: nn.Module) -> ModelAdapter:
        """The same for another module of the same kind, such as a copy."""
        call = self.explained.call
        if call is not None and not takes_model(call):
            raise InputError("call must be call(model, batch) where a copy of the model is called")
        return ModelAdapter(replace(self.explained, model=model), weighting=self.weighting)

    def describe(self) -> str:
        """One line on how the model is used."""
        weighting = {
            "edge_weight": "edge weights through the model's edge_weight argument",
            "message": "edge weights as masks on messages (the model takes no edge_weight)",
            "none": "the model's output does not depend on edge weights",
            None: "no edges are read" if self.edge_free else "edge weights not probed yet",
        }[self.weighting]
        rows = "; outputs: the rows of the target nodes" if self.level == "node" else ""
        entry = "" if self.entry is None else f"; gradients of nodes: by the {self.entry}"
        found = self.embedding_source or "not computed yet"
        return f"{weighting}; node embeddings: {found}{entry}{rows}"

    def ensure_probed(self, graphs: GraphBatch, *, known: bool = False) -> None:
        """Probes unless a way is ``known``; graphs of a probe before may have had no edges."""
        self.edge_free = not self.reads_edges(graphs)
        if not known and self.weighting in (None, "none") and not self.edge_free:
            self.probe(graphs)

    @torch.no_grad()
    def probe(self, graphs: GraphBatch) -> Weighting:
        """Finds out, on real graphs, which way of weighting edges changes the output.

        An ``edge_weight`` argument may be accepted and ignored (PyG's ``GIN`` and ``GAT`` models
        do so), hence the trial. The weights of the trial differ from edge to edge, because a
        normalising model does not see a factor common to all. The output is compared with that
        under weights of one, which the model computes in the same way, and so rounds alike.
        """
        graphs = self._there(graphs)
        weight = torch.linspace(0.25, 0.75, graphs.num_edges)
        trials: list[Weighting] = ["edge_weight"] if self.caller.weighted else []
        self.weighting = "none"
        for trial in [*trials, "message"]:
            plain, weighted = (
                self._read(graphs, self._call(graphs, given, trial))
                for given in (torch.ones_like(weight), weight)
            )
            if isinstance(plain, Tensor) and differ(plain, weighted):
                self.weighting = trial
                break
        return self.weighting

    def beside_loops(self, graphs: GraphBatch, edge_weight: Tensor) -> Tensor:
        """Edge weights, with 1 at self-loops where weights are masks on messages.

        Layers that put a loop at every node replace those of the graph, and what then happens to a
        loop's mask depends on how many nodes of the batch have one.
        """
        if self.weighting != "message":
            return edge_weight
        return edge_weight.masked_fill(graphs.loops, 1.0)

    def reads_edges(self, graphs: GraphBatch) -> bool:
        """Whether the model can read edges: it takes some, and points in space have some."""
        in_space = not graphs.has_x and "pos" in graphs.node
        return self.caller.reads_edges(graphs) and bool(graphs.num_edges or not in_space)

    def node_input(self, graphs: GraphBatch, **model_kwargs: Any) -> Tensor:
        """The numbers that gradients of nodes are taken by: ``x``, or what becomes of codes first.

        Codes have no gradient; instead of them count the outputs of the model's embeddings, see
        :class:`~hpme.models.hooks.NodeInputProbe`.

        Raises:
            ModelError: If the model has none.
        """
        if not graphs.coded:
            return graphs.x
        there = self._there(graphs)
        probe = hooks.NodeInputProbe(self.model, there)
        with torch.no_grad(), probe.watching():
            self._call(there, None, "none", **model_kwargs)
        self.entry = probe.found()
        if self.entry is None:
            raise hooks.no_node_input(graphs)
        return self.entry.value.to(graphs.x.device)

    def predict(
        self,
        graphs: GraphBatch,
        edge_weight: Tensor | None = None,
        *,
        node_input: Tensor | None = None,
        **model_kwargs: Any,
    ) -> Tensor:
        """The model's output; ``edge_weight`` multiplies the graphs' own weights if any.

        ``node_input`` stands in place of what :meth:`node_input` gave; ``model_kwargs`` are further
        arguments of the model.
        """
        with self._entered(graphs, edge_weight, node_input) as there:
            called = self._call(there, edge_weight, self.weighting or "none", **model_kwargs)
        output = self._read(there, called)
        self._check_gradient(edge_weight, output)
        result: Tensor = output.to(graphs.x.device) if isinstance(output, Tensor) else output
        return result

    @torch.no_grad()
    def embed(self, graphs: GraphBatch, **model_kwargs: Any) -> Embedding:
        """Node and graph embeddings and the output, from one forward pass, if it is usable."""
        return self.checked(self.trace(graphs, **model_kwargs), graphs)

    def checked(self, embedding: Embedding, graphs: GraphBatch) -> Embedding:
        """What :meth:`trace` gave, without gradients; as :meth:`embed`."""
        self.check(embedding.output, graphs)
        dtype = torch.get_default_dtype()  # explainers learn in it, whatever that of the model
        given = (embedding.nodes, embedding.graph, *embedding.layers)
        nodes, graph, *layers = (value.detach().to(dtype) for value in given)
        output = embedding.output.detach()
        return replace(embedding, nodes=nodes, graph=graph, output=output, layers=tuple(layers))

    def trace(
        self,
        graphs: GraphBatch,
        edge_weight: Tensor | None = None,
        *,
        node_input: Tensor | None = None,
        **model_kwargs: Any,
    ) -> Embedding:
        """As :meth:`embed`, under edge weights, in the model's precision and with gradients.

        The embeddings are those the output was computed from: the output can be differentiated
        with respect to them. Arguments are those of :meth:`predict`. What becomes of codes first
        counts as a layer, the first one.
        """
        with self._entered(graphs, edge_weight, node_input) as there:
            how = edge_weight, self.weighting or "none"
            output, probe, entry = self._watched(there, how, model_kwargs)
        output = self._read(there, output)
        check_rows(output, graphs.num_graphs)
        embedding = probe.found(output)
        if "watch" not in self.known:
            self.known["watch"] = probe.next_watch()
        self._check_gradient(edge_weight, embedding.output)
        if self.width not in (None, embedding.nodes.shape[1]):
            raise ModelError(
                f"the explainer was fitted to a model whose node embeddings have {self.width} "
                f"channels, those of this one have {embedding.nodes.shape[1]}; explain that model, "
                "or fit again"
            )
        self.embedding_source = embedding.source
        if (found := entry.found()) is not None:
            self.entry = found
            embedding = replace(embedding, layers=(found.value, *embedding.layers))
        back = {name: getattr(embedding, name).to(graphs.x.device)
                for name in ("nodes", "graph", "output")}  # fmt: skip
        return replace(embedding, **back)

    def _watched(
        self,
        there: GraphBatch,
        how: tuple[Tensor | None, Weighting],
        extra: dict[str, Any],
    ) -> tuple[Any, EmbeddingProbe, hooks.NodeInputProbe]:
        """The model's output, and what watched it: a held model as closely as it takes."""
        watch = self.known.get("watch")
        form = self.model, there, self.level, self.embedding_layer
        if watch is not None and (watch.level, watch.layer) != form[2:]:
            watch = None
        while True:
            probe, entry = EmbeddingProbe(*form, watch), hooks.NodeInputProbe(self.model, there)
            try:
                with entry.watching(), probe.watching() as shown:
                    output = self._call(shown, *how, **extra)
                if watch is None or probe.told() == watch.told:
                    return output, probe, entry
            except ModelError:
                if watch is None:
                    raise
            self.known["watch"] = watch = None  # it does not do the same in every pass

    def check(self, output: Any, graphs: GraphBatch) -> None:
        """Raises :class:`ModelError` unless an output has one row per graph, of finite numbers."""
        check_rows(output, graphs.num_graphs)
        check_output(output, self.model)

    def _check_gradient(self, edge_weight: Tensor | None, output: Any) -> None:
        """Says so if edge weights are to be learned and cannot be."""
        wanted = edge_weight is not None and edge_weight.requires_grad
        if wanted and self.weighting != "none" and isinstance(output, Tensor):
            check_gradient(output)

    @contextmanager
    def _entered(
        self, graphs: GraphBatch, edge_weight: Tensor | None, node_input: Tensor | None
    ) -> Iterator[GraphBatch]:
        """The graphs where the model is, which goes on from other numbers for the nodes inside."""
        if edge_weight is not None and self.weighting is None:
            self.probe(graphs)
        graphs = self._there(graphs)
        if node_input is None:
            yield graphs
            return
        node_input = node_input.to(graphs.x.device)
        if not graphs.coded:
            yield replace(graphs, x=node_input)
            return
        assert self.entry is not None
        with self.entry.replaced(node_input):
            yield self.entry.beside(graphs, node_input)

    def _there(self, graphs: GraphBatch) -> GraphBatch:
        """The graphs where the model is."""
        return graphs if self.device is None else graphs.to(self.device)

    def _read(self, graphs: GraphBatch, output: Any) -> Any:
        """What is explained of the model's output, one row per graph."""
        output = self.view.pick(output)
        if isinstance(output, Tensor) and output.dtype in (torch.half, torch.bfloat16):
            output = output.float()  # what is computed from it needs more digits than it has
        if self.level == "node":
            output = self._rows(graphs, output)
        return self.view.read(output)

    def _rows(self, graphs: GraphBatch, output: Any) -> Any:
        """The rows of the target nodes."""
        nodes, expected, of_type = target_nodes(graphs), len(graphs.x), ""
        if graphs.schema is not None:
            kind = target_type(graphs)
            output = output.get(kind) if isinstance(output, Mapping) else output
            nodes, expected = graphs.type_rows.place[nodes], len(graphs.batch_dict[kind])
            of_type = f" of type '{kind}'"
        if not isinstance(output, Tensor) or not output.dim() or output.shape[0] != expected:
            raise ModelError(
                f"the model returned {described(output)} for {expected} nodes{of_type}; a "
                "node-level model returns one row per node (a graph-level one is explained without "
                "index)"
            )
        return output[nodes]

    def _call(
        self, graphs: GraphBatch, edge_weight: Tensor | None, weighting: Weighting, **extra: Any
    ) -> Any:
        device, dtype = graphs.x.device, graphs.x.dtype
        kwargs = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in extra.items()}
        if graphs.coded:  # then that of the numbers the model computes with
            numbers = (p.dtype for p in self.model.parameters() if p.is_floating_point())
            dtype = next(numbers, graphs.float_dtype)
        if edge_weight is not None:
            edge_weight = edge_weight.to(device, dtype)
        masks: Any = nullcontext()
        if edge_weight is not None and weighting == "message":
            # PyG's masks assume that self-loops come last, sorted by node.
            if graphs.schema is None or bool(graphs.loops.any()):
                order = graphs.loops_last
                graphs, edge_weight = graphs.edges(order), edge_weight[order]
            if graphs.schema is None:
                masks = hooks.message_mask(
                    self.model, edge_weight, graphs.edge_index, graphs.num_nodes
                )
            else:
                masks = hooks.hetero_message_mask(self.model, edge_weight, graphs)
        weight = graphs.edge_weight
        if edge_weight is not None and weighting == "edge_weight":
            weight = edge_weight if weight is None else weight * edge_weight
        with masks, users_settings():
            return self.caller(graphs, weight, kwargs)


def device_of(model: nn.Module) -> torch.device | None:
    """Where a model is; ``None`` if it has no tensors, and so is anywhere."""
    tensor = next(chain(model.parameters(), model.buffers()), None)
    return None if tensor is None else tensor.device


def differ(output: Tensor, other: Tensor) -> bool:
    """Whether two outputs differ by more than rounding, whatever their size and where zero is."""
    if not output.numel() or not output.is_floating_point():
        return not torch.equal(output, other)
    ours, theirs = output.detach().double(), other.detach().double()
    spread = float((ours - ours.mean(0)).abs().max())
    rounding = torch.finfo(output.dtype).eps / 2 * float(ours.abs().max())
    return not bool(((ours - theirs).abs() <= 1e-6 * spread + rounding).all())  # NaN differs


def check_gradient(output: Tensor) -> None:
    """Raises :class:`ModelError` if an output cannot be differentiated."""
    if torch.is_grad_enabled() and not output.requires_grad:
        raise ModelError(
            "no gradient flows through the model, and this explainer needs one: its forward runs "
            "under torch.no_grad, or returns something detached (.detach(), .data); let it flow, "
            "or choose an explainer that needs none: hpme, matchexplainer or att"
        )
