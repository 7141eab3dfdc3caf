"""What all explainers share: PyG's contract, fitting, checks, saving."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch_geometric.explain import ExplainerAlgorithm, Explanation
from torch_geometric.explain.config import ExplanationType, ModelTaskLevel

from hpme.data.info import Level
from hpme.errors import InputError, NotFittedError
from hpme.explainers.shared.context import TargetContext, batches
from hpme.explainers.shared.inputs import as_seen, checked_batch, is_whole, natural_level
from hpme.explainers.shared.saving import load_explainer, save_explainer
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import NUM_HOPS, EgoGraphs, WholeGraph, node_index
from hpme.models.adapter import ModelAdapter, Weighting, device_of
from hpme.models.explained import ExplainedModel, Model
from hpme.models.task import Mode, Task
from hpme.progress import progress_bar

logger = logging.getLogger("hpme")
NO_EFFECT = (
    "the model's output does not change with edge weights on the given graphs; explanations of "
    "edges will be arbitrary"
)
Self = TypeVar("Self", bound="GraphExplainer")
Index = int | Sequence[int] | Tensor
"""Nodes of one graph: a number, several, or a boolean mask over all of them."""


@dataclass(frozen=True)
class Masks:
    """What an explainer says about a batch of graphs: importance of edges, nodes, pooled nodes."""

    edge_mask: Tensor
    node_mask: Tensor | None = None
    pooled: Tensor | None = None

    def given(self) -> dict[str, Tensor]:
        """Those that the explainer gives."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def to(self, device: torch.device) -> Masks:
        """The masks on another device."""
        return Masks(**{name: value.to(device) for name, value in self.given().items()})


class GraphExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Base of all explainers: a PyG ``ExplainerAlgorithm`` with :meth:`fit`, :meth:`save`, :meth:`load`.

    Constructor arguments are stored as given under their own names; they are what :meth:`save`
    writes beside the learned tensors. Subclasses implement :meth:`_explain` and, if they learn,
    :meth:`_fit` and :meth:`_build`.

    Args:
        seed: Seed of the explainer's own random generator; the global state is never touched.
        batch_size: Graphs per forward pass.
        embedding_layer: Dotted name of the layer whose output is the node embedding; by default
            the input of the readout, or of the head of a node-level model.
        num_hops: Radius of the ego graphs by which predictions for single nodes are explained.
    """  # noqa: E501

    slug: ClassVar[str]
    """Name on the command line, in records and in saved files."""
    title: ClassVar[str]
    """Name in tables and figures."""
    summary: ClassVar[str]
    """One line on how it works."""
    typical_seconds: ClassVar[float] = 1.0
    """CPU seconds for 200 graphs of 25 nodes; estimates begin with it."""
    default_model: ClassVar[str] = "gcn"
    """The target a benchmark explains with it, a key of :obj:`hpme.models.MODELS`."""
    chooses_size: ClassVar[bool] = False
    """Whether ``ratio="auto"`` lets it choose the size of explanations without ground truth."""
    needs_fit: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = False
    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    levels: ClassVar[tuple[Level, ...]] = ("graph", "node")

    def __init__(
        self,
        *,
        seed: int = 0,
        batch_size: int = 512,
        embedding_layer: str | None = None,
        num_hops: int = NUM_HOPS,
    ) -> None:
        super().__init__()
        for name, value in (("batch_size", batch_size), ("num_hops", num_hops)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        self.seed = seed
        self.batch_size = batch_size
        self.embedding_layer = embedding_layer
        self.num_hops = num_hops
        self.weighting: Weighting | None = None
        self.level: Level | None = None
        self.fitted = not self.needs_fit

    # What subclasses implement ##################################################################

    def _fit(self, context: TargetContext, *, progress: bool) -> None:
        """Learns from the frozen target on the graphs."""

    def _build(self, meta: dict[str, Any]) -> None:
        """Creates the modules described by :meth:`_meta`, ready for their tensors."""

    def _meta(self) -> dict[str, Any]:
        """What :meth:`_build` needs to know."""
        return {}

    def _check_learned(self) -> None:
        """Raises :class:`ValueError` if what was loaded does not belong together."""

    @abstractmethod
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        """Masks of a batch of graphs, all at once."""

    # What users call ############################################################################

    def fit(
        self: Self,
        model: Model,
        graphs: Iterable[Any],
        *,
        index: Index | None = None,
        level: Level | None = None,
        mode: Mode | None = None,
        model_config: Any = None,
        progress: bool = True,
    ) -> Self:
        """Learns to explain ``model`` from unlabelled graphs, or from nodes of one graph.

        Args:
            model: The trained model; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader. Labels and ground truth are ignored.
                With ``index`` a single ``Data``. Graphs that have ``anchors`` (a LongTensor of
                their own node numbers) are about these nodes: one for the target node of an ego
                graph, two for the ends of a link.
            index: Nodes whose predictions are explained, for node-level models.
            level: ``"graph"`` or ``"node"``; by default that of ``model_config``, else ``"node"``
                with ``index`` or graphs with one anchor.
            mode: ``"regression"``, ``"binary_classification"`` or ``"multiclass_classification"``;
                needed only if the model returns one value per graph and the explainer is not
                connected to a PyG ``Explainer``.
            model_config: PyG's ``ModelConfig``, in place of ``mode``.
            progress: Whether to draw a progress bar (on terminals only).
        """
        explained = self._explained(model, mode=mode, level=level, model_config=model_config)
        given = explained.known_level
        if index is None and not (given == "node" and is_whole(graphs)):
            store = GraphStore.from_graphs(graphs)
        elif given == "graph":
            raise InputError("index names nodes, but the task level is 'graph'; use 'node'")
        else:
            whole = self._whole(graphs)
            store = whole.ego_graphs(node_index(index, len(whole.x), whole.x.device)).store
        self.level = given or natural_level(store.anchors)
        self.fitted = not self.needs_fit  # an interrupted fit must not pass for the one before
        with self._context(explained, store) as context, torch.enable_grad():
            logger.info(context.adapter.describe())
            if context.adapter.weighting == "none":
                logger.warning(NO_EFFECT)
            self.weighting = context.adapter.weighting
            self._fit(context, progress=progress)
        self.fitted = True
        return self

    def forward(
        self,
        model: Model,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor | None = None,
        index: Index | None = None,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        anchors: Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        r"""Explains one graph, or with ``batch`` many at once, as PyG's ``Explainer`` asks.

        At node level the predictions for the nodes ``index`` are explained, each by its ego graph.
        Masks then cover the whole given graph: zero outside the ego graph, and for several nodes
        the elementwise maximum; :meth:`explain` gives one explanation per node. Without ``index``
        all nodes are explained.

        Args:
            model: The model; it is left exactly as it was.
            x: Node features.
            edge_index: Directed edges.
            target: Ignored: the model's own prediction is explained.
            index: Nodes to explain at node level; ignored at graph level.
            batch: Graph number of every node.
            edge_attr: Edge features.
            edge_weight: Edge weights.
            anchors: Node numbers :math:`[G, c]` the graphs are about, see :meth:`fit`; the graphs
                are then taken as they are.
            **kwargs: Passed on to the model.
        """
        self._check_fitted()
        explained = self._leveled(model, anchors, index)
        if explained.level == "node" and anchors is None:
            whole = WholeGraph(
                x.detach(), edge_index, edge_attr, edge_weight, num_hops=self.num_hops
            )
            nodes = node_index(index, len(x), x.device)
            masks = self._explain_nodes(explained, whole, nodes, **kwargs)
        else:
            graphs = checked_batch(x, edge_index, batch, edge_attr, edge_weight, anchors)
            masks = self._masks(explained, graphs, **kwargs)
        return Explanation(**masks.given())

    def explain(
        self,
        model: Model,
        graphs: Iterable[Any],
        *,
        index: Index | None = None,
        progress: bool = True,
    ) -> list[Explanation]:
        """Explains many graphs in batches; one ``Explanation`` per graph, in the given order.

        Args:
            model: The model; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader. With ``index`` a single ``Data``.
            index: Nodes to explain, for node-level models: one ``Explanation`` per node, of its ego
                graph. ``anchors`` is the target node in it; ``node_ids`` and ``edge_ids`` are the
                numbers of its nodes and edges in the given graph.
            progress: Whether to draw a progress bar (on terminals only).
        """
        self._check_fitted()
        result: list[Explanation] = []
        explained = self._leveled(model, None, index)
        if index is not None or (explained.level == "node" and is_whole(graphs)):
            whole = self._whole(graphs)
            nodes = node_index(index, len(whole.x), whole.x.device)
            if explained.level == "graph":
                raise InputError(
                    "index names nodes, but the explainer was fitted to a graph-level model; "
                    "call fit(model, data, index=...)"
                )
            with progress_bar("explaining", nodes.numel(), enabled=progress) as advance:
                for egos, masks in self._ego_masks(explained, whole, nodes):
                    result += _explanations(egos.store, masks)
                    advance(len(egos.store))
            return result
        store = GraphStore.from_graphs(graphs).seen()
        explained = self._leveled(model, store.anchors)
        with progress_bar("explaining", len(store), enabled=progress) as advance:
            for ids in batches(torch.arange(len(store)), self.batch_size):
                masks = self._masks(explained, as_seen(store.batch(ids)))
                result += _explanations(store.subset(ids), masks)
                advance(ids.numel())
        return result

    def _masks(self, explained: ExplainedModel, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        """Masks where the graphs are, computed where the model is."""
        with explained.frozen(), torch.enable_grad():
            adapter = explained.adapter(weighting=self.weighting)
            device = adapter.device or graphs.x.device
            self.to(device)
            masks = self._explain(adapter, graphs.to(device), **model_kwargs)
            if self.weighting is None and adapter.weighting == "none" and graphs.num_edges:
                logger.warning(NO_EFFECT)
        return masks.to(graphs.x.device)

    def _ego_masks(
        self, explained: ExplainedModel, whole: WholeGraph, nodes: Tensor, **model_kwargs: Any
    ) -> Iterator[tuple[EgoGraphs, Masks]]:
        """Masks of the ego graphs of nodes, a part at a time."""
        explained = replace(explained, level="node")
        for egos in whole.parts(nodes, self.batch_size):
            graphs = egos.store.seen().batch()
            yield egos, self._masks(explained, as_seen(graphs), **model_kwargs)

    def _explain_nodes(
        self, explained: ExplainedModel, whole: WholeGraph, nodes: Tensor, **model_kwargs: Any
    ) -> Masks:
        """Masks of the whole graph: the highest of all ego graphs."""
        columns: dict[str, Tensor] = {}
        for egos, masks in self._ego_masks(explained, whole, nodes, **model_kwargs):
            for name, value in masks.given().items():
                per_edge = name == "edge_mask"
                place = egos.edge_ids if per_edge else egos.node_ids
                rows = whole.edge_index.shape[1] if per_edge else len(whole.x)
                if name not in columns:
                    columns[name] = value.new_zeros((rows, *value.shape[1:]))
                place = place.view(-1, *[1] * (value.dim() - 1)).expand_as(value)
                columns[name].scatter_reduce_(0, place, value, "amax")
        return Masks(**columns)

    def _whole(self, graphs: Any) -> WholeGraph:
        return WholeGraph.of(graphs, num_hops=self.num_hops)

    def _explained(self, model: Model, **facts: Any) -> ExplainedModel:
        """The model with what is known about it here; ``facts`` of a call count most."""
        found = ExplainedModel.of(model, embedding_layer=self.embedding_layer, **facts)
        if found.model_config is None and hasattr(self, "_model_config"):  # set by PyG's Explainer
            return replace(found, model_config=self.model_config)
        return found

    def _leveled(
        self, model: Model, anchors: Tensor | None, index: Any = None, **facts: Any
    ) -> ExplainedModel:
        """The model at its level: as configured, as fitted, else as the arguments suggest."""
        explained = self._explained(model, **facts)
        natural = "node" if index is not None else natural_level(anchors)
        return replace(explained, level=explained.known_level or self.level or natural)

    @contextmanager
    def _context(
        self, model: Model, store: GraphStore, *, task: Task | None = None, **facts: Any
    ) -> Iterator[TargetContext]:
        """The frozen model on graphs; a ``task`` known before is not looked for again."""
        explained = self._leveled(model, store.anchors, **facts)
        with explained.frozen():
            self.to(device_of(explained.model) or store.device)
            yield TargetContext.build(explained, store, batch_size=self.batch_size, task=task)

    def _check_fitted(self) -> None:
        if not self.fitted:
            name = type(self).__name__
            raise NotFittedError(f"{name} must learn first: call {name}.fit(model, graphs) or load")

    def supports(self) -> bool:
        """Graph- and node-level tasks, explanations of the model's own prediction, edge masks."""
        reason = None
        if self.model_config.task_level == ModelTaskLevel.edge:
            reason = "task level 'edge' (explain the subgraph around a link at level 'graph')"
        elif self.explainer_config.explanation_type != ExplanationType.model:
            reason = "explanation_type='phenomenon' (use explanation_type='model')"
        elif self.explainer_config.node_mask_type is not None:
            reason = "node_mask_type (use edge_mask_type='object' alone)"
        if reason:
            logger.error("%s does not support %s", type(self).__name__, reason)
        return reason is None

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of all constructor arguments, those passed on to base classes included."""
        names: list[str] = []
        for base in reversed(cls.__mro__):
            if "__init__" in base.__dict__ and issubclass(base, GraphExplainer):
                parameters = inspect.signature(base.__init__).parameters.values()
                names += [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        return list(dict.fromkeys(names))

    def config(self) -> dict[str, Any]:
        """Constructor arguments of this explainer."""
        return {name: getattr(self, name) for name in self.option_names()}

    def save(self, path: str | Path) -> None:
        """Writes configuration and learned tensors to one safetensors file."""
        if not self.fitted:
            raise NotFittedError("nothing to save yet: call fit(model, graphs) first")
        save_explainer(self, path)

    @classmethod
    def load(cls: type[Self], path: str | Path) -> Self:
        """Reads an explainer written by :meth:`save`; it explains as before."""
        return load_explainer(cls, path)


def _explanations(store: GraphStore, masks: Masks) -> list[Explanation]:
    """One explanation per graph: its masks, and the graph without its label."""
    given = masks.given()
    edge = {"edge_mask": given.pop("edge_mask")}
    shown = replace(store, graph={k: v for k, v in store.graph.items() if k == "anchors"})
    return shown.with_attributes(node=given, edge=edge).to_data_list(Explanation)
