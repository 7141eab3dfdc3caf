"""What all explainers share: PyG's contract, fitting, checks, saving."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.explain import ExplainerAlgorithm

from hpme.data.info import Level
from hpme.errors import NotFittedError
from hpme.explainers.shared.asking import NO_EFFECT, Asking
from hpme.explainers.shared.checks import at_least, check_seed, check_types
from hpme.explainers.shared.configured import Configured
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.explanation import Explanation, HeteroExplanation
from hpme.explainers.shared.given import Given, Index
from hpme.explainers.shared.hetero import as_hetero, by_type, hetero_batch, taken
from hpme.explainers.shared.inputs import as_seen, checked_batch, natural_level
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.questions import Targets, as_list, groups, is_several, numbered
from hpme.explainers.shared.saving import load_explainer, save_explainer
from hpme.explainers.shared.showing import Explanations
from hpme.explainers.shared.sources import Rooted, index_level
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import NUM_HOPS, WholeGraph
from hpme.graphs.schema import Schema
from hpme.models.adapter import ModelAdapter, Weighting, device_of
from hpme.models.calling import LINK
from hpme.models.explained import ExplainedModel, Model, known_facts
from hpme.models.task import Task
from hpme.progress import progress_bar
from hpme.storage import FileContent

logger = logging.getLogger("hpme")
Self = TypeVar("Self", bound="GraphExplainer")


class GraphExplainer(Asking, Given, Configured, ExplainerAlgorithm):  # type: ignore[misc]
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
    needs_weights: ClassVar[bool] = True
    """Whether explanations say nothing where edge weights do not change the output."""
    needs_labels: ClassVar[bool] = False
    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    levels: ClassVar[tuple[Level, ...]] = ("graph", "node", "edge")
    hetero: ClassVar[bool] = False
    """Whether it explains heterogeneous graphs."""

    def __new__(cls: type[Self], *args: Any, **options: Any) -> Self:
        """Checks the types of numbers, for all explainers in one place."""
        check_types(options, cls._annotations())
        made: Self = super().__new__(cls)
        return made

    def __init__(
        self,
        *,
        seed: int = 0,
        batch_size: int = 512,
        embedding_layer: str | None = None,
        num_hops: int = NUM_HOPS,
    ) -> None:
        super().__init__()
        at_least("batch_size", batch_size, 1)
        at_least("num_hops", num_hops, 1)
        check_seed(seed)
        self.seed = seed
        self.batch_size = batch_size
        self.embedding_layer = embedding_layer
        self.num_hops = num_hops
        self.weighting: Weighting | None = None
        self.width: int | None = None
        self.level: Level | None = None
        self.schema: Schema | None = None
        self.facts: dict[str, Any] = {}
        self.answers: dict[Any, GraphExplainer] = {}
        self.fitted = not self.needs_fit

    # What subclasses implement ##################################################################

    def _fit(self, context: Context, *, progress: bool) -> None:
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
        target: Targets | None = None,
        progress: bool = True,
        **facts: Any,
    ) -> Self:
        """Learns to explain ``model`` from unlabelled graphs, or from nodes or links of one graph.

        Args:
            model: The trained model; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader. Labels and ground truth are ignored.
                With ``index`` a single ``Data``. Graphs that have ``anchors`` (a LongTensor of
                their own node numbers) are about these nodes: one for the target node of an ego
                graph, two for the ends of a link.
            index: Nodes whose predictions are explained, for node-level models; links ``[2, L]``
                for models of links.
            target: The class or task to explain, by name or number; several to be able to explain
                each of them later. By default the predicted class.
            progress: Whether to draw a progress bar (on terminals and in notebooks only).
            **facts: What else is known about the model, see
                :class:`~hpme.models.explained.ExplainedModel`: ``mode`` (needed only if the model
                returns one value per graph), ``level``, ``call``, ``contrast``, ``classes`` and
                others. They are remembered.
        """
        explained = self._explained(model, **facts)
        store = self._source(explained, graphs, index, anew=True).store
        self.width = None
        self.fitted = not self.needs_fit  # an interrupted fit must not pass for the one before
        natural = natural_level(store.anchors) if index is None else index_level(index)
        self.level = explained.known_level or natural
        self.facts = known_facts(explained)
        self.schema = store.schema
        self.answers = {}
        if is_several(target):
            many: Any = store
            for one in dict.fromkeys(as_list(target)):
                answer = type(self)(**self.get_params())
                answer.fit(explained, many, target=one, level=self.level, progress=progress)
                self.answers[numbered(one, explained)] = answer
            self.fitted = True
            return self
        if target is not None:
            explained = replace(explained, target=groups(target, 1)[0][0])
            self.facts["target"] = explained.target
        if explained.contrast is not None:
            store = self._told_apart(explained, store)
        with self._context(explained, store) as context, torch.enable_grad():
            logger.info(context.adapter.describe())
            if context.adapter.weighting == "none" and self.needs_weights:
                logger.warning(NO_EFFECT)
            self.weighting = context.adapter.weighting
            self.width = int(context.h.shape[1]) if self.needs_fit else None
            self._fit(context, progress=progress)
        self.fitted = True
        return self

    def forward(
        self,
        model: Model,
        x: Any,
        edge_index: Any,
        *,
        target: Targets | None = None,
        index: Index | None = None,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        anchors: Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation | HeteroExplanation:
        r"""Explains one graph, or with ``batch`` many at once, as PyG's ``Explainer`` asks.

        At node level the predictions for the nodes ``index`` are explained, each by its ego graph.
        Masks then cover the whole given graph: zero outside the ego graph, and for several nodes
        the elementwise maximum; :meth:`explain` gives one explanation per node. Without ``index``
        all nodes are explained. At edge level the links are those of ``edge_label_index``.

        Args:
            model: The model; it is left exactly as it was.
            x: Node features; of graphs with types a dictionary by type, as ``edge_index`` and
                ``batch_dict`` are then.
            edge_index: Directed edges.
            target: Classes to explain, one per graph or node; tasks of a model with several. PyG's
                ``Explainer`` gives them with ``explanation_type="phenomenon"``; with ``"model"``
                the model's own prediction is explained.
            index: Nodes to explain at node level; ignored at graph level.
            batch: Graph number of every node.
            edge_attr: Edge features.
            edge_weight: Edge weights.
            anchors: Node numbers :math:`[G, c]` the graphs are about, see :meth:`fit`; the graphs
                are then taken as they are.
            **kwargs: Passed on to the model.
        """
        self._check_fitted()
        if isinstance(x, Mapping):
            given = {"batch": batch, "edge_attr": edge_attr, "edge_weight": edge_weight}
            kwargs.update({name: value for name, value in given.items() if value is not None})
            data = as_hetero(x, edge_index, **taken(kwargs))
            return self._forward_hetero(model, data, target, index, **kwargs)
        links = kwargs.pop(LINK, None)
        explained = self._leveled(model, anchors, index if links is None else links)
        target = self._given_target(explained, target)
        if explained.level != "graph" and anchors is None:
            whole = WholeGraph(
                x.detach(), edge_index, edge_attr, edge_weight, num_hops=self.num_hops
            )
            source = Rooted.at(whole, index if links is None else links, explained.known_level)
            if is_several(target) and links is None:
                target = torch.as_tensor(as_list(target))[source.roots]  # PyG gives all nodes'
            masks = self._explain_roots(explained, source, target, **kwargs)
        else:
            graphs = checked_batch(x, edge_index, batch, edge_attr, edge_weight, anchors)
            masks = self._masks(explained, graphs, target, **kwargs)
        return Explanation(**self._wanted(masks))

    def _forward_hetero(
        self, model: Model, data: HeteroData, target: Targets | None, index: Any, **kwargs: Any
    ) -> HeteroExplanation:
        """:meth:`forward` of graphs with types."""
        explained = self._leveled(model, None, index)
        target = self._given_target(explained, target)
        if explained.level == "graph":
            graphs = hetero_batch(data, self.schema)
            self._check_kind(graphs.schema)
            masks, typed = self._masks(explained, graphs, target, **kwargs), graphs.type_rows
        else:
            source = self._source(explained, data, index)
            assert isinstance(source, Rooted)
            if is_several(target):  # PyG gives those of all nodes of the type
                place = torch.searchsorted(source.whole.numbers(explained.node_type), source.roots)
                target = torch.as_tensor(as_list(target))[place]
            masks = self._explain_roots(explained, source, target, **kwargs)
            typed = source.whole.type_rows
        return by_type(self._wanted(masks), typed, data, common=self._common)

    def explain(
        self,
        model: Model,
        graphs: Iterable[Any],
        *,
        index: Index | None = None,
        target: Targets | None = None,
        progress: bool = True,
        **facts: Any,
    ) -> list[Any]:
        """Explains many graphs in batches; one ``Explanation`` per graph, in the given order.

        Graphs with types have a ``HeteroExplanation``, with masks by type.

        Args:
            model: The model; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader. With ``index`` a single ``Data``.
            index: Nodes to explain, for node-level models: one ``Explanation`` per node, of its ego
                graph. ``anchors`` is the target node in it; ``node_ids`` and ``edge_ids`` are the
                numbers of its nodes and edges in the given graph. Links ``[2, L]`` for models of
                links.
            target: The class or task to explain, by name or number: one, or one for each graph.
                By default what the explainer was fitted to, else the predicted class.
            progress: Whether to draw a progress bar (on terminals and in notebooks only).
            **facts: As for :meth:`fit`; what that was told is known.
        """
        self._check_fitted()
        explained = self._leveled(model, None, index, **facts)
        source = self._source(explained, graphs, index)
        explained = self._leveled(model, source.anchors, index, **facts)
        made: dict[int, Any] = {}
        with progress_bar("explaining", len(source), enabled=progress) as advance:
            for one, numbers in groups(target, len(source)):
                for ids, store in source.parts(numbers, self.batch_size):
                    part = as_seen(store.seen(everything=explained.reads_all).batch())
                    masks = self._masks(explained, part, one)
                    shown = _explanations(source.shown(store), masks)
                    made.update(zip(ids.tolist(), shown, strict=True))
                    advance(len(store))
        return Explanations(made[number] for number in range(len(source)))

    def masks(self, model: Model, graphs: GraphStore, **facts: Any) -> Masks:
        """Masks of all graphs of a store at once, for those who want no object per graph.

        Args:
            model: The model; it is left exactly as it was.
            graphs: As many as fit into one batch; none may be empty.
            **facts: As for :meth:`fit`; what that was told is known.

        Returns:
            Masks with one row per node or edge of the store, and the model's output where the
            method needed it.
        """
        self._check_fitted()
        explained = self._leveled(model, graphs.anchors, **facts)
        return self._masks(explained, graphs.seen(everything=explained.reads_all).batch())

    def _explain_roots(
        self, explained: ExplainedModel, source: Rooted, target: Targets | None, **kwargs: Any
    ) -> Masks:
        """Masks of the whole graph: the highest of all ego graphs."""
        columns: dict[str, Tensor] = {}
        for one, numbers in groups(target, len(source)):
            for _, store in source.parts(numbers, self.batch_size):
                masks = self._masks(explained, as_seen(store.seen().batch()), one, **kwargs)
                source.spread(store, masks.given(), columns)
        return Masks(**columns)

    @contextmanager
    def _context(
        self, model: Model, store: GraphStore, *, task: Task | None = None, **facts: Any
    ) -> Iterator[Context]:
        """The frozen model on graphs; a ``task`` known before is not looked for again."""
        explained = self._leveled(model, store.anchors, **facts)
        with explained.frozen():
            self.to(device_of(explained.model) or store.device)
            yield Context.build(
                explained, store, batch_size=self.batch_size, task=task, width=self.width
            )

    def _check_fitted(self) -> None:
        if not self.fitted:
            name = type(self).__name__
            raise NotFittedError(f"{name} must learn first: call {name}.fit(model, graphs) or load")

    def save(self, path: str | Path) -> None:
        """Writes configuration and learned tensors to one safetensors file."""
        if not self.fitted:
            raise NotFittedError("nothing to save yet: call fit(model, graphs) first")
        save_explainer(self, path)

    @classmethod
    def load(cls: type[Self], path: str | Path | FileContent) -> Self:
        """Reads an explainer written by :meth:`save`; it explains as before."""
        return load_explainer(cls, path)


def _explanations(store: GraphStore, masks: Masks) -> list[Any]:
    """One explanation per graph: its masks, and the graph without its label."""
    given = masks.given()
    shown = replace(
        store,
        edge={**store.edge, "edge_mask": given.pop("edge_mask")},
        node={**store.node, **given},
        graph={name: value for name, value in store.graph.items() if name != "y"},
    )
    return shown.to_data_list(Explanation if store.schema is None else HeteroExplanation)
