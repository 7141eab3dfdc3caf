"""The model that is explained, with all that must be known to call it and to read its output.

Users make an :class:`ExplainedModel` to say once how it is called, at which level it predicts, what
its outputs mean, which class or task is asked about; explainers, metrics and the page wrap bare
modules in it. From it come the adapter that calls the model (:mod:`hpme.models.adapter`), the view
of its output (:mod:`hpme.models.output`) and what that means (:mod:`hpme.models.output`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch_geometric.explain import ModelConfig

from hpme.data.info import Level
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphStore
from hpme.graphs.reading import Attributes
from hpme.models.adapter import ModelAdapter, Weighting
from hpme.models.calling import Call, Caller, Derived
from hpme.models.freezing import cards, check_module, frozen, modules_of
from hpme.models.output import Mode, Name, OutputView, ReturnType, Target, Task, check_word

_INSIDE = ("model", "module", "net", "network", "gnn")
"""What training code calls the network that it trains."""
_UNWRITTEN = ("_forward_unimplemented", "LightningModule.forward")
"""What ``forward`` is called where a class does not define it."""
Featurise = Callable[[Sequence[str]], Sequence[Any]]
"""Graphs of SMILES."""


@dataclass(frozen=True)
class ExplainedModel:
    """A trained model and what is known about it; explainers, metrics and the page take it.

    They also take a bare module; then what they need to know is given with every call. Nothing
    here changes the model.

    Args:
        model: Called as ``model(x, edge_index, batch=..., [edge_weight=...], [edge_attr=...])``, or
            ``model(x_dict, edge_index_dict, batch_dict=..., ...)`` on heterogeneous graphs. What
            ``DataParallel`` and the like, or a Lightning module without ``forward``, wrap is found,
            unless ``call`` says how it is called.
        mode: ``"regression"``, ``"binary_classification"`` or ``"multiclass_classification"``;
            needed only if the model returns one value per graph.
        level: ``"graph"``, or ``"node"`` for a model that returns one row per node; by default
            that of ``model_config``, else whatever suits the graphs.
        embedding_layer: Dotted name of the layer whose output is the node embedding; see
            :class:`~hpme.models.adapter.ModelAdapter`.
        model_config: PyG's ``ModelConfig``, in place of ``mode`` and ``level``.
        call: ``call(batch)`` or ``call(model, batch)``, a function from a PyG ``Batch`` with all
            fields of the graphs to the model's output, for models that are called in another way.
        output: Key or position of the output that is explained, if the model returns several.
        return_type: What a classifier returns: ``"raw"``, ``"probs"`` or ``"log_probs"``.
        tasks: Names of the columns of a model with several tasks or labels.
        classes: Names of the classes.
        target: The class or task to explain, by name or number, or ``(task, class)``; by default
            the predicted class.
        contrast: The class that ``target`` is compared with, see
            :class:`~hpme.models.output.OutputView`.
        node_type: For node-level models of heterogeneous graphs: the type of the nodes that
            ``index`` numbers.
        descriptors: Name of the field with one row per graph that the model reads beside the graph,
            such as Chemprop's ``"X_d"``; explanations then have the share of each of its columns.
        featurise: Graphs of a list of SMILES as the model was trained on them, for all that changes
            molecules; by default hpme's own features, where the molecules have these.
        derived: Features that speak of neighbours, such as degrees: a function from a PyG ``Batch``
            to node tensors by name, which take the place of those that nodes bring into a mix of
            two graphs.
    """

    model: nn.Module
    _: KW_ONLY
    mode: Mode | None = None
    level: Level | None = None
    embedding_layer: str | None = None
    model_config: Any = None
    call: Call | None = None
    output: Name | None = None
    return_type: ReturnType | None = None
    tasks: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    target: Target | None = None
    contrast: Name | None = None
    node_type: str | None = None
    descriptors: str | None = None
    featurise: Featurise | None = None
    derived: Derived | None = None

    def __post_init__(self) -> None:
        # A function that calls the model knows what it is called with.
        if self.call is None or not isinstance(self.model, nn.Module):
            object.__setattr__(self, "model", unwrapped(self.model))
        check_module(self.model)
        for name, words in (("mode", Mode), ("level", Level), ("return_type", ReturnType)):
            check_word(name, getattr(self, name), get_args(words))

    @classmethod
    def of(cls, model: nn.Module | ExplainedModel, **facts: Any) -> ExplainedModel:
        """The given one, or a bare module wrapped; facts that are given here count more."""
        valid = [field.name for field in fields(cls) if field.name != "model"]
        for name in facts:
            if name not in valid:
                raise InputError(
                    f"'{name}' is nothing known about models; valid: {', '.join(valid)}"
                )
        given = {name: fact for name, fact in facts.items() if fact is not None}
        known = model if isinstance(model, ExplainedModel) else cls(model, call=given.get("call"))
        return replace(known, **given) if given else known

    @property
    def known_level(self) -> Level | None:
        """The level as it was given, or that of the configuration."""
        if self.level is not None or self.model_config is None:
            return self.level
        return cast(Level, ModelConfig.cast(self.model_config).task_level.value)

    def adapter(self, *, weighting: Weighting | None = None) -> ModelAdapter:
        """What calls the model; use inside :meth:`frozen`."""
        return ModelAdapter(self, weighting=weighting)

    @property
    def view(self) -> OutputView:
        """What of the model's output is explained."""
        mode, return_type = self.mode, self.return_type
        if mode is None and self.model_config is not None:
            config = ModelConfig.cast(self.model_config)
            mode, return_type = config.mode.value, return_type or config.return_type.value
        names = ("tasks", "classes", "target", "contrast")
        same: dict[str, Any] = {name: getattr(self, name) for name in names}
        return OutputView(entry=self.output, mode=mode, return_type=return_type or "raw", **same)

    def read(self, graphs: Any) -> GraphStore:
        """The graphs with all that the model may read of them."""
        attributes: Attributes = "fitting" if self.reads_all else "inputs"
        return GraphStore.from_graphs(graphs, attributes=attributes)

    @property
    def reads_all(self) -> bool:
        """Whether the model may read any field of the graphs."""
        level, known = self.known_level or "graph", self.known
        name = f"reads all at level {level}"
        if name not in known:
            known[name] = Caller(self.model, self.call, level).reads_all
        return cast(bool, known[name])

    def task(self, output: Tensor) -> Task:
        """What the model's output means; regression losses are in units of its spread.

        Raises:
            InputError: If that is not known, and the output does not show it.
            ModelError: If the output does not fit.
        """
        task = self.view.task(output)
        task.check(output)
        return task

    @property
    def known(self) -> dict[str, Any]:
        """What was found out about the model; nothing that stays, unless it is held."""
        return {}

    def frozen(self) -> AbstractContextManager[None]:
        """Eval mode, no parameter gradients; everything as before afterwards, even on error."""
        return frozen(self.model)


@dataclass(frozen=True)
class HeldModel(ExplainedModel):
    """A model that is asked about again and again: frozen once for many questions."""

    _: KW_ONLY
    found: dict[str, Any] = field(default_factory=dict, compare=False)
    """What was found out about it and holds as long as its weights do, by name."""

    def __post_init__(self) -> None:
        """All was checked where it was made of an :class:`ExplainedModel`."""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keeps the model frozen; :meth:`frozen` has nothing more to do inside, in this thread."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        state = [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors]
        if self.found.get("state") != state:
            self.found.clear()
        with super().frozen():
            known = {"state": state, "cards": cards(modules_of(self.model))}
            self.found.update(known, thread=threading.get_ident())
            try:
                yield
            finally:
                self.found.pop("thread", None)

    @property
    def known(self) -> dict[str, Any]:
        """What was found out, while the model is held."""
        return self.found if self.found.get("thread") == threading.get_ident() else {}

    def frozen(self) -> AbstractContextManager[None]:
        """As of every model; while it is held, only PyTorch's random state is put back."""
        known = self.known
        return torch.random.fork_rng(known["cards"]) if known else super().frozen()


def known_facts(explained: ExplainedModel) -> dict[str, Any]:
    """What is known about a model besides its level, by name."""
    others = ("model", "level", "model_config", "featurise", "found")
    names = [field.name for field in fields(explained) if field.name not in others]
    return {name: value for name in names if (value := getattr(explained, name)) is not None}


Model = nn.Module | ExplainedModel
"""What explainers, metrics and the page take."""


def unwrapped(model: Any) -> Any:
    """The module that computes, inside ``DataParallel``, ``torch.compile`` or a training class."""
    if isinstance(model, DataParallel | DistributedDataParallel):
        return unwrapped(model.module)
    if isinstance(model, nn.Module) and "_orig_mod" in model._modules:
        # What torch.compile makes of a model is the same function, but it cannot be watched.
        return unwrapped(model._orig_mod)
    if isinstance(model, nn.Module):
        written = getattr(model.forward, "__qualname__", "") not in _UNWRITTEN
        return model if written else unwrapped(_inside(model))
    if isinstance(model, Mapping):
        raise ModelError(_of_dictionary(model))
    if isinstance(model, partial):
        what = type(model.func).__name__
        fixed = [*map(repr, model.args), *(f"{k}={v!r}" for k, v in model.keywords.items())]
        how = f"lambda module, batch: module(batch.x, batch.edge_index, ..., {', '.join(fixed)})"
        how = how if isinstance(model.func, nn.Module) else "the partial, a function of a PyG Batch"
        raise ModelError(
            f"got a functools.partial of {what}; pass the module that it calls, and how it is "
            f"called as call=: ExplainedModel(module, call={how})"
        )
    if callable(model) and not isinstance(model, type):
        raise ModelError(
            f"expected a torch.nn.Module, got {type(model).__name__}; pass the module that it "
            "calls, and how as call=: ExplainedModel(module, call=lambda module, batch: ...)"
        )
    return model  # refused where modules are checked


def _inside(model: nn.Module) -> nn.Module:
    """The network inside a module that has no forward of its own."""
    children = dict(model.named_children())
    known = [children[name] for name in _INSIDE if name in children]
    if not known:
        which = ", ".join(f"model.{name}" for name in children) or "it has none inside"
        raise ModelError(
            f"{type(model).__name__} has no forward; pass the module inside that predicts ({which})"
        )
    return known[0]


def _of_dictionary(given: Mapping[Any, Any]) -> str:
    modules = [key for key, value in given.items() if isinstance(value, nn.Module)]
    if modules:
        return f"got a dictionary that holds a module; pass that: given[{modules[0]!r}]"
    weights = [key for key, value in given.items() if _weights(value)]
    if weights or _weights(given):
        part = f"checkpoint[{weights[0]!r}]" if weights else "checkpoint"
        return (
            "got weights without the module they belong to; make the module, fill it with "
            f"module.load_state_dict({part}), and pass the module"
        )
    inside = ", ".join(map(repr, given)) or "nothing"
    return f"got a dictionary with {inside}; pass a torch.nn.Module"


def _weights(given: Any) -> bool:
    inside = given.values() if isinstance(given, Mapping) else ()
    return bool(inside) and all(isinstance(value, Tensor) for value in inside)
