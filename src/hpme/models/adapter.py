"""Any ``torch.nn.Module`` on graphs as a target: edge weights in, outputs and embeddings out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hpme.data.info import Level
from hpme.errors import HPMEError, InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.models.embedding import Embedding, EmbeddingProbe, target_nodes
from hpme.models.message_mask import message_mask
from hpme.models.task import Task

Weighting = Literal["edge_weight", "message", "none"]


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
        task: What the model's output means; inferred where safe by default.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        embedding_layer: str | None = None,
        weighting: Weighting | None = None,
        level: Level = "graph",
        task: Callable[[Tensor], Task] = Task.resolve,
    ) -> None:
        self.model = model
        self.task = task
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

    def ensure_probed(self, graphs: GraphBatch) -> None:
        """Probes unless a way is known; the graphs of a probe before may have had no edges."""
        if self.weighting in (None, "none"):
            self.probe(graphs)

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

    def beside_loops(self, graphs: GraphBatch, edge_weight: Tensor) -> Tensor:
        """Edge weights, with 1 at self-loops where weights are masks on messages.

        Layers that put a loop at every node replace those of the graph, and what then happens to a
        loop's mask depends on how many nodes of the batch have one.
        """
        if self.weighting != "message":
            return edge_weight
        return edge_weight.masked_fill(graphs.loops, 1.0)

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
        layers = tuple(layer.to(dtype) for layer in embedding.layers)
        return replace(embedding, nodes=embedding.nodes.to(dtype), graph=graph, layers=layers)

    def trace(
        self, graphs: GraphBatch, edge_weight: Tensor | None = None, **model_kwargs: Any
    ) -> Embedding:
        """As :meth:`embed`, under edge weights, in the model's precision and with gradients.

        The embeddings are those the output was computed from: the output can be differentiated
        with respect to them.
        """
        if edge_weight is not None and self.weighting is None:
            self.probe(graphs)
        probe = EmbeddingProbe(self.model, graphs, self.level, self.embedding_layer)
        with probe.watching():
            output = self._call(graphs, edge_weight, self.weighting or "none", **model_kwargs)
        embedding = probe.found(self._rows(graphs, output))
        self.embedding_source = embedding.source
        return embedding

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
        return output[target_nodes(graphs)]

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
            # PyG's masks assume that self-loops come last, sorted by node.
            order = graphs.loops_last
            graphs = graphs.edges(order)
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
