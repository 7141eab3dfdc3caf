"""What all explainers share: PyG's contract, fitting, checks, saving."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.explain import ExplainerAlgorithm, Explanation
from torch_geometric.explain.config import ExplanationType, ModelTaskLevel

from hpme.data.batch import GraphBatch, GraphStore, check_graph_tensors
from hpme.errors import InputError, NotFittedError, StorageError
from hpme.explainers.context import TargetContext, batches
from hpme.models.adapter import ModelAdapter, Weighting, frozen
from hpme.models.task import Mode
from hpme.progress import progress_bar
from hpme.storage import read_tensors, write_tensors

logger = logging.getLogger("hpme")
Self = TypeVar("Self", bound="GraphExplainer")


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
            the input of the readout.
    """  # noqa: E501

    slug: ClassVar[str]
    summary: ClassVar[str]
    needs_fit: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = False

    def __init__(
        self, *, seed: int = 0, batch_size: int = 512, embedding_layer: str | None = None
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        self.seed = seed
        self.batch_size = batch_size
        self.embedding_layer = embedding_layer
        self.weighting: Weighting | None = None
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
        mode: Mode | None = None,
        model_config: Any = None,
        progress: bool = True,
    ) -> Self:
        """Learns to explain ``model`` from unlabelled graphs.

        Args:
            model: The trained model; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader. Labels and ground truth are ignored.
            mode: ``"regression"``, ``"binary_classification"`` or ``"multiclass_classification"``;
                needed only if the model returns one value per graph and the explainer is not
                connected to a PyG ``Explainer``.
            model_config: PyG's ``ModelConfig``, in place of ``mode``.
            progress: Whether to draw a progress bar (on terminals only).
        """
        store = GraphStore.from_graphs(graphs)
        config = model_config or (self.model_config if hasattr(self, "_model_config") else None)
        self.fitted = not self.needs_fit  # an interrupted fit must not pass for the one before
        with frozen(model), torch.enable_grad():
            context = TargetContext.build(
                model,
                store,
                batch_size=self.batch_size,
                embedding_layer=self.embedding_layer,
                config=None if mode else config,
                mode=mode,
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
        index: int | Tensor | None = None,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """Explains one graph, or with ``batch`` many at once, as PyG's ``Explainer`` asks."""
        if not self.fitted:
            name = type(self).__name__
            raise NotFittedError(f"{name} must learn first: call {name}.fit(model, graphs) or load")
        check_graph_tensors(x, edge_index, edge_attr)
        if batch is None:
            batch = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
        graphs = _checked_batch(x, edge_index, batch, edge_attr, edge_weight)
        with frozen(model), torch.enable_grad():
            adapter = ModelAdapter(
                model, embedding_layer=self.embedding_layer, weighting=self.weighting
            )
            masks = self._explain(adapter, graphs, **kwargs)
        explanation = Explanation(edge_mask=masks.edge_mask, node_mask=masks.node_mask)
        if masks.pooled is not None:
            explanation.pooled = masks.pooled
        return explanation

    def explain(
        self, model: nn.Module, graphs: Iterable[Any], *, progress: bool = True
    ) -> list[Explanation]:
        """Explains many graphs in batches; one ``Explanation`` per graph, in the given order."""
        store = GraphStore.from_graphs(graphs)
        result: list[Explanation] = []
        with progress_bar("explaining", len(store), enabled=progress) as advance:
            for ids in batches(torch.arange(len(store)), self.batch_size):
                part = store.batch(ids)
                whole = self(
                    model, part.x, part.edge_index, batch=part.batch,
                    edge_attr=part.edge_attr, edge_weight=part.edge_weight,
                )  # fmt: skip
                result += _split(whole, part, store.edge_counts[ids])
                advance(ids.numel())
        return result

    def supports(self) -> bool:
        """Graph-level tasks, explanations of the model's own prediction, edge masks."""
        reason = None
        if self.model_config.task_level != ModelTaskLevel.graph:
            reason = f"task level '{self.model_config.task_level.value}' (only 'graph')"
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
            explainer._build(meta["learned"])
            explainer.load_state_dict(tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"'{path}' was written by another version of hpme: {error}; fit and save again"
            ) from error
        explainer.fitted = True
        return explainer


def _checked_batch(
    x: Tensor,
    edge_index: Tensor,
    batch: Tensor,
    edge_attr: Tensor | None,
    edge_weight: Tensor | None,
) -> GraphBatch:
    if edge_weight is not None and edge_weight.shape != edge_index.shape[1:]:
        raise InputError(
            f"edge_weight must have shape [{edge_index.shape[1]}], one value per edge, got "
            f"{tuple(edge_weight.shape)}"
        )
    if batch.shape != x.shape[:1] or batch.dtype != torch.long:
        raise InputError(f"batch must be torch.long of shape [{x.shape[0]}], got {batch.dtype} "
                         f"{tuple(batch.shape)}")  # fmt: skip
    if batch.numel() and (int(batch.min()) < 0 or bool((batch.diff() < 0).any())):
        raise InputError(
            "batch must be sorted and start at 0 or above; use PyG's Batch to build it"
        )
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < len(x):
        raise InputError(f"edge_index out of range: node numbers must lie in [0, {len(x)})")
    if bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
        raise InputError("an edge joins two different graphs of the batch; check batch")
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    return GraphBatch(
        x.detach(),
        edge_index,
        batch,
        num_graphs,
        edge_attr=None if edge_attr is None else edge_attr.detach(),
        edge_weight=None if edge_weight is None else edge_weight.detach(),
    )


def _split(whole: Explanation, graphs: GraphBatch, edge_counts: Tensor) -> list[Explanation]:
    nodes, edges = graphs.sizes.tolist(), edge_counts.tolist()
    columns: dict[str, tuple[Tensor, ...]] = {}
    for key, value in {**whole.to_dict(), "x": graphs.x, "edge_attr": graphs.edge_attr}.items():
        if isinstance(value, Tensor):
            per_edge = key.startswith("edge")
            columns[key] = value.split(edges if per_edge else nodes)  # type: ignore[no-untyped-call]
    local = graphs.edge_index - graphs.ptr[graphs.edge_batch]
    columns["edge_index"] = local.split(edges, dim=1)  # type: ignore[no-untyped-call]
    return [
        Explanation(**{key: parts[graph] for key, parts in columns.items()})
        for graph in range(graphs.num_graphs)
    ]
