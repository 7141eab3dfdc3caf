"""The base of all explainers: PyG's contract, fitting, explaining, saving."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch_geometric.explain import ExplainerAlgorithm

from hpme.data.info import Level
from hpme.errors import NotFittedError
from hpme.explainers.shared import context as contexts
from hpme.explainers.shared import masks as of_masks
from hpme.explainers.shared import options, sources, targets
from hpme.explainers.shared.context import AskedRows, Asking, Context, resolve
from hpme.explainers.shared.explanation import Explanation, Explanations, HeteroExplanation, shown
from hpme.explainers.shared.masks import Masks, joined_masks, spread, with_node_masks
from hpme.explainers.shared.options import Constraint, Count, whole
from hpme.explainers.shared.saving import load_explainer, save_explainer
from hpme.explainers.shared.sources import Index
from hpme.explainers.shared.targets import Targets, groups, is_several, numbered
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import NUM_HOPS
from hpme.graphs.schema import Schema
from hpme.limits import MAX_SEED
from hpme.models.adapter import ModelAdapter, Weighting
from hpme.models.arguments import Tensors
from hpme.models.explained import ExplainedModel, Model, known_facts
from hpme.models.output import check_answers
from hpme.progress import progress_bar
from hpme.storage import FileContent

logger = logging.getLogger("hpme")
Self = TypeVar("Self", bound="GraphExplainer")


class GraphExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Base of all explainers: a PyG ``ExplainerAlgorithm`` with :meth:`fit`, :meth:`save`, :meth:`load`.

    Constructor arguments are stored as given under their own names; they are what :meth:`save`
    writes beside the learned tensors. Subclasses implement :meth:`_explain` and, if they learn,
    :meth:`_fit` and :meth:`_build`; what their own arguments may be is said by their annotations.

    Args:
        seed: Seed of the explainer's own random generator; the global state is never touched.
        batch_size: Graphs per forward pass.
        embedding_layer: Dotted name of the layer whose output is the node embedding; by default
            the input of the readout, or of the head of a node-level model.
        num_hops: Radius of the ego graphs by which predictions for single nodes are explained.
        num_neighbors: As PyG's ``NeighborLoader`` has it, where the model is used with one: how
            many neighbours are followed at most, for each hop, in place of ``num_hops``. What is
            explained is the prediction of these neighbours, drawn with ``seed``.
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
    """The model a benchmark explains with it, a key of :obj:`hpme.models.MODELS`."""
    chooses_size: ClassVar[bool] = False
    """Whether ``ratio="auto"`` lets it choose the size of explanations without ground truth."""
    needs_fit: ClassVar[bool] = True
    needs_weights: bool = True
    """Whether explanations say nothing where edge weights do not change the output."""
    needs_edges: ClassVar[bool] = True
    """Whether models that read no edges are refused; the others explain their nodes."""
    needs_labels: ClassVar[bool] = False
    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    levels: ClassVar[tuple[Level, ...]] = ("graph", "node", "edge")
    hetero: ClassVar[bool] = False
    """Whether it explains heterogeneous graphs."""

    def __new__(cls: type[Self], *args: Any, **given: Any) -> Self:
        """Checks the arguments, for all explainers in one place."""
        options.check_options(cls, given)
        return super().__new__(cls)  # type: ignore[no-any-return]

    def __init__(
        self,
        *,
        seed: Annotated[int, whole(-MAX_SEED, most=MAX_SEED)] = 0,
        batch_size: Count = 512,
        embedding_layer: str | None = None,
        num_hops: Count = NUM_HOPS,
        num_neighbors: Annotated[Sequence[int], Constraint(list)] | None = None,
    ) -> None:
        super().__init__()
        self.seed, self.batch_size = seed, batch_size
        self.embedding_layer, self.num_hops = embedding_layer, num_hops
        self.num_neighbors = num_neighbors
        self.weighting: Weighting | None = None
        self.width: int | None = None
        self.level: Level | None = None
        self.schema: Schema | None = None
        self.facts: dict[str, Any] = {}
        self.background: list[float] | None = None  # mean descriptors of the fitted graphs
        self.answers: dict[Any, GraphExplainer] = {}  # by target, if it was fitted to several
        self.fitted = not self.needs_fit

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of all constructor arguments, those passed on to base classes included."""
        return list(options.parameters_of(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name, as ``sklearn.base.clone`` wants; ``deep`` is not used."""
        return {name: getattr(self, name) for name in self.option_names()}

    config = get_params

    def set_params(self: Self, **params: Any) -> Self:
        """Sets constructor arguments; what was learned with others is forgotten."""
        options.set_options(self, params)
        return self

    def _fit(self, context: Context, *, progress: bool) -> None:
        """Learns from the frozen model on the graphs."""

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
            **facts: What else is known about the model, to be remembered: ``mode`` (needed only if
                it returns one value per graph), ``level``, ``call``, ``contrast``, ``classes`` and
                others, see :class:`~hpme.models.explained.ExplainedModel`.
        """
        explained = resolve(self, model, facts, anew=True)
        source = contexts.read_graphs(self, explained, graphs, index, anew=True)
        store = source.store
        explained = contexts.at_level(explained, store.anchors, index)
        sources.check_radius(explained, source)
        if not is_several(target):
            self._learn(explained, store, target, progress=progress)
            return self
        self._forget(explained, store)
        for one in dict.fromkeys(targets.as_list(target)):
            answer = type(self)(**self.get_params())
            answer._learn(explained, store, one, progress=progress)
            self.answers[numbered(one, explained)] = answer
        self.fitted = True
        return self

    def _forget(self, explained: ExplainedModel, store: GraphStore) -> None:
        """Begins anew with a model and graphs; an interrupted fit must not pass for the last."""
        self.level, self.schema, self.facts = explained.level, store.schema, known_facts(explained)
        self.answers, self.width = {}, None
        self.background = of_masks.descriptor_means(explained, store)
        self.fitted = not self.needs_fit

    def _learn(
        self, explained: ExplainedModel, store: GraphStore, target: Any, *, progress: bool
    ) -> None:
        """Learns to explain one target, or predicted classes."""
        if target is not None:
            explained = replace(explained, target=groups(target, 1)[0][0])
        self._forget(explained, store)
        if explained.contrast is not None:
            store = targets.of_either_class(explained, store)
        with contexts.frozen_context(self, explained, store) as context, torch.enable_grad():
            logger.info(context.adapter.describe())
            sources.check_weights(self, context.adapter, int(store.edge_counts.sum()))
            self.weighting = context.adapter.weighting
            self.width = int(context.h.shape[1]) if self.needs_fit else None
            self._fit(context, progress=progress)
        self.fitted = True

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

        Heterogeneous graphs have a ``HeteroExplanation``, with masks by type.

        Args:
            model, graphs, progress: As for :meth:`fit`.
            index: Nodes to explain, for node-level models: one ``Explanation`` per node, of its ego
                graph. ``anchors`` is the target node in it; ``node_ids`` and ``edge_ids`` are its
                nodes' and edges' numbers in the given graph. Links ``[2, L]`` for models of links.
            target: The class or task to explain, by name or number: one, or one for each graph.
                By default what the explainer was fitted to, else the predicted class.
            **facts: As for :meth:`fit`; what that was given is known.
        """
        self._check_fitted()
        explained = resolve(self, model, facts)
        if index is not None:
            explained = contexts.at_level(explained, None, index)
        source = contexts.read_graphs(self, explained, graphs, index)
        explained = contexts.at_level(explained, source.anchors, index)
        sources.check_radius(explained, source)
        means = self.background or of_masks.descriptor_means(explained, source)
        made: dict[int, Any] = {}
        with progress_bar("explaining", len(source), enabled=progress) as advance:
            for one, numbers in groups(target, len(source)):
                for ids, store in source.parts(numbers, self.batch_size):
                    part = sources.as_batch(store, everything=explained.reads_all)
                    masks = self._masks(explained, part, one)
                    found = Explanations.of(source.shown(store), masks.given())
                    of_masks.share_descriptors(found, explained, part, one, means)
                    made.update(zip(ids.tolist(), found, strict=True))
                    advance(len(store))
        return Explanations(made[number] for number in range(len(source)))

    def masks(self, model: Model, graphs: GraphStore, **facts: Any) -> Masks:
        """Masks of all nodes and edges of a store at once; also the output, where it is needed.

        As many graphs as fit into one batch; none may be empty. The rest is as for :meth:`explain`.
        """
        self._check_fitted()
        explained = self._leveled(model, graphs.anchors, **facts)
        return self._masks(explained, graphs.detached(everything=explained.reads_all).batch())

    def on(self, model: Model, **facts: Any) -> Asking:
        """With a model that is asked about many times: ``with explainer.on(model) as ask: ...``."""
        return Asking(self, resolve(self, model, facts))

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

        At node level the predictions for the nodes ``index`` are explained, each by its ego graph;
        masks cover the whole given graph, zero outside. At edge level the links are those of
        ``edge_label_index``. Other rows of an output are explained by :mod:`hpme.models.replicas`.

        Args:
            model: The model; it is left exactly as it was.
            x: Node features; of heterogeneous graphs a dictionary by type.
            edge_index: Directed edges, likewise.
            target: Classes to explain, one per row of the output; tasks of a model with several. Of
                PyG's ``Explainer`` with ``explanation_type="phenomenon"``, else the prediction.
            index: Rows of the output to explain, by default all: graphs of ``batch``, nodes, or
                columns of ``edge_label_index``. Of several the masks are the elementwise maximum.
            batch, edge_attr, edge_weight: Graph number of every node; edge features and weights.
            anchors: Node numbers :math:`[G, c]` the graphs are about, see :meth:`fit`; the graphs
                are then taken as they are.
            **kwargs: Passed on to the model.
        """
        self._check_fitted()
        more = {"batch": batch, "edge_attr": edge_attr, "edge_weight": edge_weight, **kwargs}
        given = Tensors.of(x, edge_index, anchors, **more)
        explained = self._leveled(model, anchors, index if given.links is None else given.links)
        config = getattr(self, "_explainer_config", None)
        target = targets.asked(config, explained, target)
        question = contexts.read_arguments(self, explained, given, index)
        sources.check_radius(question.explained, question.graphs, **question.others)
        masks = self._answer(question, targets.of_rows(target, question.rows, question.total))
        return shown(masks, config, question.whole, given.data)

    def _answer(self, question: AskedRows, target: Targets | None) -> Masks:
        """Masks of all that was given; where several rows say something, the highest."""
        explained, graphs, others = question.explained, question.graphs, question.others
        if isinstance(graphs, GraphBatch):
            return self._masks(explained, graphs, target, **others)
        columns: dict[str, Tensor] = {}
        for one, numbers in groups(target, len(graphs)):
            for _, store in graphs.parts(numbers, self.batch_size):
                part = sources.as_batch(store, everything=explained.reads_all)
                spread(self._masks(explained, part, one, **others), store, question.whole, columns)
        return Masks(**columns)

    def supports(self) -> bool:
        """Whether it explains what PyG's ``Explainer`` is configured for; logs why if not."""
        return sources.supported(self)

    def save(self, path: str | Path) -> None:
        """Writes configuration and learned tensors to one safetensors file."""
        if not self.fitted:
            raise NotFittedError("nothing to save yet: call fit(model, graphs) first")
        save_explainer(self, path)

    @classmethod
    def load(cls: type[Self], path: str | Path | FileContent) -> Self:
        """Reads an explainer written by :meth:`save`; it explains as before."""
        return load_explainer(cls, path)

    def _check_fitted(self) -> None:
        if not self.fitted:
            name = type(self).__name__
            raise NotFittedError(f"{name} must learn first: call {name}.fit(model, graphs) or load")

    def _leveled(
        self, model: Model, anchors: Tensor | None, index: Any = None, **facts: Any
    ) -> ExplainedModel:
        """The model with what is known about it, at its level."""
        return contexts.at_level(resolve(self, model, facts), anchors, index)

    def _masks(
        self,
        explained: ExplainedModel,
        graphs: GraphBatch,
        target: Targets | None = None,
        **model_kwargs: Any,
    ) -> Masks:
        """Masks of a batch, those of every graph for its own target."""
        if target is None:
            target = explained.target
        if target is None and self.answers:
            target = targets.predicted_classes(explained, graphs, **model_kwargs)
        other = self.answers or "target" in self.facts or not self.needs_fit
        if target is not None and not other:  # it was fitted to predicted classes alone
            targets.check_predicted(explained, graphs, target, **model_kwargs)
            target = None
        parts = []
        for one, ids in groups(target, graphs.num_graphs):
            asked = replace(explained, target=one)
            explainer = targets.fitted_to(self, asked)
            parts.append((explainer._masks_of_target(asked, graphs, **model_kwargs), ids))
        return joined_masks(parts, graphs)

    def _masks_of_target(
        self, explained: ExplainedModel, graphs: GraphBatch, **model_kwargs: Any
    ) -> Masks:
        """Masks of a batch, those of all graphs for the target of the model."""
        with explained.frozen(), torch.enable_grad():
            adapter, there = sources.prepared(self, explained, graphs)
            masks = self._explain(adapter, there, **model_kwargs)
            for name, mask in masks.given().items():
                check_answers(mask, f"entries of {name}")
            if self.weighting is None and graphs.num_edges:
                sources.check_weights(self, adapter, graphs.num_edges)
            config = getattr(self, "_explainer_config", None)
            masks = with_node_masks(masks, config, adapter, there, **model_kwargs)
        return masks.to(graphs.x.device)
