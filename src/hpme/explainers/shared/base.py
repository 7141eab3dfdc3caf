"""What all explainers share: PyG's contract, fitting, checks, saving."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.explain import ExplainerAlgorithm, Explanation
from torch_geometric.explain.config import ExplanationType, ModelTaskLevel

from hpme.errors import InputError, NotFittedError, StorageError
from hpme.explainers.shared.context import TargetContext, batches
from hpme.explainers.shared.inputs import as_seen, checked_batch, is_whole, level_of, natural_level
from hpme.graphs.batch import GraphBatch, GraphStore, check_graph_tensors
from hpme.graphs.ego import NUM_HOPS, EgoGraphs, WholeGraph, node_index
from hpme.models.adapter import Level, ModelAdapter, Weighting, frozen
from hpme.models.task import Mode
from hpme.progress import progress_bar
from hpme.storage import read_tensors, write_tensors

logger = logging.getLogger("hpme")
Self = TypeVar("Self", bound="GraphExplainer")
Index = int | Sequence[int] | Tensor
"""Nodes of one graph: a number, several, or a boolean mask over all of them."""


@dataclass(frozen=True)
class Masks:
    """What an explainer says about a batch of graphs: importance of edges, nodes, pooled nodes."""

    edge_mask: Tensor
    node_mask: Tensor | None = None
    pooled: Tensor | None = None


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

    @abstractmethod
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        """Masks of a batch of graphs, all at once."""

    # What users call ############################################################################

    def fit(
        self: Self,
        model: nn.Module,
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
        config = model_config or (self.model_config if hasattr(self, "_model_config") else None)
        given = level or level_of(config)
        if index is None and not (given == "node" and is_whole(graphs)):
            store = GraphStore.from_graphs(graphs)
        elif given == "graph":
            raise InputError("index names nodes, but the task level is 'graph'; use 'node'")
        else:
            whole = self._whole(graphs)
            store = whole.ego_graphs(node_index(index, len(whole.x), whole.x.device)).store
        self.level = given or natural_level(store.anchors)
        self.fitted = not self.needs_fit  # an interrupted fit must not pass for the one before
        with frozen(model), torch.enable_grad():
            context = TargetContext.build(
                model,
                store,
                batch_size=self.batch_size,
                embedding_layer=self.embedding_layer,
                config=None if mode else config,
                mode=mode,
                level=self.level,
            )
            logger.info(context.adapter.describe())
            if context.adapter.weighting == "none":
                logger.warning(
                    "the model's output does not change with edge weights on the given graphs; "
                    "explanations of edges will be arbitrary"
                )
            self.weighting = context.adapter.weighting
            self._fit(context, progress=progress)
        self.fitted = True
        return self

    def forward(
        self,
        model: nn.Module,
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
        level = self._level(anchors, index)
        if level == "node" and anchors is None:
            whole = WholeGraph(
                x.detach(), edge_index, edge_attr, edge_weight, num_hops=self.num_hops
            )
            nodes = node_index(index, len(x), x.device)
            masks = self._explain_nodes(model, whole, nodes, **kwargs)
        else:
            check_graph_tensors(x, edge_index, edge_attr)
            if batch is None:
                batch = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
            graphs = checked_batch(x, edge_index, batch, edge_attr, edge_weight, anchors)
            masks = self._masks(model, graphs, level, **kwargs)
        return _explanation(masks)

    def explain(
        self,
        model: nn.Module,
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
        if index is not None or (self._level(None, None) == "node" and is_whole(graphs)):
            whole = self._whole(graphs)
            nodes = node_index(index, len(whole.x), whole.x.device)
            if self._level(None, nodes) == "graph":
                raise InputError(
                    "index names nodes, but the explainer was fitted to a graph-level model; "
                    "call fit(model, data, index=...)"
                )
            with progress_bar("explaining", nodes.numel(), enabled=progress) as advance:
                for egos, part, masks in self._ego_masks(model, whole, nodes):
                    result += _split(
                        masks, part, egos.store.edge_counts,
                        node_ids=egos.node_ids, edge_ids=egos.edge_ids,
                    )  # fmt: skip
                    advance(part.num_graphs)
            return result
        store = GraphStore.from_graphs(graphs)
        level = self._level(store.anchors, None)
        with progress_bar("explaining", len(store), enabled=progress) as advance:
            for ids in batches(torch.arange(len(store)), self.batch_size):
                part = store.batch(ids)
                masks = self._masks(model, as_seen(part), level)
                result += _split(masks, part, store.edge_counts[ids])
                advance(ids.numel())
        return result

    def _masks(
        self, model: nn.Module, graphs: GraphBatch, level: Level, **model_kwargs: Any
    ) -> Masks:
        with frozen(model), torch.enable_grad():
            adapter = ModelAdapter(
                model,
                embedding_layer=self.embedding_layer,
                weighting=self.weighting,
                level=level,
            )
            return self._explain(adapter, graphs, **model_kwargs)

    def _ego_masks(
        self, model: nn.Module, whole: WholeGraph, nodes: Tensor, **model_kwargs: Any
    ) -> Iterator[tuple[EgoGraphs, GraphBatch, Masks]]:
        """Masks of the ego graphs of nodes, a part at a time."""
        for egos in whole.parts(nodes, self.batch_size):
            part = egos.store.batch()
            yield egos, part, self._masks(model, as_seen(part), "node", **model_kwargs)

    def _explain_nodes(
        self, model: nn.Module, whole: WholeGraph, nodes: Tensor, **model_kwargs: Any
    ) -> Masks:
        """Masks of the whole graph: the highest of all ego graphs."""
        columns: dict[str, Tensor] = {}
        for egos, _, masks in self._ego_masks(model, whole, nodes, **model_kwargs):
            for name, value in vars(masks).items():
                if value is None:
                    continue
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

    def _level(self, anchors: Tensor | None, index: Any) -> Level:
        """What the model is about: as configured, as fitted, else as the arguments suggest."""
        config = self.model_config if hasattr(self, "_model_config") else None
        known = level_of(config) or self.level
        return known or ("node" if index is not None else natural_level(anchors))

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
        meta = {
            "explainer": self.slug,
            "config": self.config(),
            "weighting": self.weighting,
            "level": self.level,
            "learned": self._meta(),
        }
        write_tensors(path, self.state_dict(), meta)

    @classmethod
    def load(cls: type[Self], path: str | Path) -> Self:
        """Reads an explainer written by :meth:`save`; it explains as before."""
        tensors, meta = read_tensors(path)
        if meta.get("explainer") != cls.slug:
            raise StorageError(
                f"'{path}' holds a '{meta.get('explainer')}' explainer, not '{cls.slug}'"
            )
        try:
            explainer = cls(**meta["config"])
            explainer.weighting = meta["weighting"]
            explainer.level = meta.get("level", "graph")
            explainer._build(meta["learned"])
            explainer.load_state_dict(tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"'{path}' was written by another version of hpme: {error}; fit and save again"
            ) from error
        explainer.fitted = True
        return explainer


def _explanation(masks: Masks) -> Explanation:
    explanation = Explanation(edge_mask=masks.edge_mask, node_mask=masks.node_mask)
    if masks.pooled is not None:
        explanation.pooled = masks.pooled
    return explanation


def _split(
    masks: Masks, graphs: GraphBatch, edge_counts: Tensor, **more: Tensor
) -> list[Explanation]:
    nodes, edges = graphs.sizes.tolist(), edge_counts.tolist()
    columns: dict[str, tuple[Tensor, ...]] = {}
    shown = {"x": graphs.x, "edge_attr": graphs.edge_attr, "edge_weight": graphs.edge_weight}
    for key, value in {**_explanation(masks).to_dict(), **shown, **more}.items():
        if isinstance(value, Tensor):
            per_edge = key.startswith("edge")
            columns[key] = value.split(edges if per_edge else nodes)  # type: ignore[no-untyped-call]
    local = graphs.edge_index - graphs.ptr[graphs.edge_batch]
    columns["edge_index"] = local.split(edges, dim=1)  # type: ignore[no-untyped-call]
    if graphs.anchors is not None:
        columns["anchors"] = (graphs.anchors - graphs.ptr.unsqueeze(1)).unbind()
    return [
        Explanation(**{key: parts[graph] for key, parts in columns.items()})
        for graph in range(graphs.num_graphs)
    ]
