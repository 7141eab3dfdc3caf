"""What a user names on the command line: a model, its weights, graphs, and explainers."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model
from torch import nn
from torch_geometric.data import Data

from hpme.commands.shared import list_skipped, refuse
from hpme.data import GraphStore, from_smiles_csv, load_graphs
from hpme.errors import InputError, ModelError, StorageError
from hpme.explainers import GraphExplainer
from hpme.explainers.registry import make_explainer, option_names
from hpme.models.explained import ExplainedModel
from hpme.models.task import check_rows

FIT_GRAPHS = 500
"""Explainers learn from at least this many graphs, if there are as many."""
TRIAL_GRAPHS = 8
TABLES = (".csv", ".tsv")
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin")
ANY_ATOM = {"molecule": "*"}
"""A rule that every molecule obeys, for tables without labels."""


def find_function(reference: str) -> Callable[..., Any]:
    """The function named ``module:function``.

    The module is looked for in the current folder first, then where Python looks for modules.

    Raises:
        InputError: If there is no such function.
    """
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        raise InputError(
            f"'{reference}' is no factory; write module:function, such as my_models:build for "
            "build() in my_models.py"
        )
    with _current_folder():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name == module_name.partition(".")[0]:
                raise InputError(
                    f"no module '{module_name}' in the current folder or among the installed ones; "
                    "run the command where the file is"
                ) from error
            raise InputError(f"importing '{module_name}' failed: {error}") from error
        except Exception as error:
            raise InputError(
                f"importing '{module_name}' failed: {type(error).__name__}: {error}"
            ) from error
        factory = getattr(module, name, None)
        if not callable(factory):
            close = difflib.get_close_matches(name, dir(module), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise InputError(f"'{module_name}' has no function '{name}'{hint}")
        found: Callable[..., Any] = factory
        return found


def call_factory(reference: str) -> Any:
    """What a function returns when called without arguments.

    Raises:
        InputError: If there is no such function, or it fails.
    """
    factory = find_function(reference)
    with _current_folder():
        try:
            return factory()
        except Exception as error:
            raise InputError(
                f"{reference}() failed: {type(error).__name__}: {error}; it is called without "
                "arguments"
            ) from error


def build_model(reference: str, weights: Path | None) -> nn.Module:
    """The model a factory returns, with the weights of a file if there is one.

    Raises:
        ModelError: If the factory returns something else, or the weights do not fit.
        StorageError: If the file of the weights cannot be used.
    """
    if weights is not None:
        check_weights(weights)
    model = call_factory(reference)
    if not isinstance(model, nn.Module):
        raise ModelError(f"{reference}() returned {type(model).__name__}, not a torch.nn.Module")
    if weights is None:
        return model
    try:
        load_model(model, weights)
    except SafetensorError as error:
        raise StorageError(f"'{weights}' is damaged or no safetensors file: {error}") from error
    except RuntimeError as error:
        raise ModelError(
            f"the weights of '{weights}' do not fit the model of {reference}(): {error}"
        ) from error
    return model


def subject_of(reference: str, call: str | None) -> ExplainedModel:
    """The model a factory returns and the function that calls it, in any process."""
    function = None if call is None else find_function(call)
    return ExplainedModel(build_model(reference, None), call=function)


def travelling_subject(reference: str, call: str | None) -> Callable[[], ExplainedModel]:
    """As :func:`subject_of`, for machines of a Ray cluster: modules of this folder go along."""
    from ray import cloudpickle  # an executor has been asked for: RayExecutor says if it is missing

    function = None if call is None else find_function(call)
    made = partial(_subject_by, find_function(reference), function)
    here = Path.cwd().resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and here in Path(file).resolve().parents and "site-packages" not in file:
            cloudpickle.register_pickle_by_value(module)
    return made


def _subject_by(factory: Callable[..., Any], call: Callable[..., Any] | None) -> ExplainedModel:
    return ExplainedModel(factory(), call=call)


def check_weights(path: Path) -> None:
    """Refuses files that could run code when read.

    Raises:
        StorageError: If the file is missing or no safetensors file by its name.
    """
    if path.suffix.lower() in PICKLES:
        target = path.with_suffix(".safetensors").name
        raise StorageError(
            f"'{path}' is a pickle, which can run code when it is read; convert it once where you "
            f"have the model: safetensors.torch.save_model(model, '{target}')"
        )
    if path.suffix.lower() != ".safetensors":
        raise StorageError(f"'{path}' must be a .safetensors file")
    if not path.is_file():
        raise StorageError(f"no file '{path}'; check the path")


def read_data(
    source: str, skipped: Path | None = None, *, progress: bool, **table_options: Any
) -> list[Data]:
    """Graphs of a table of SMILES, of a file of graphs, or of what a factory returns.

    Args:
        source: A ``.csv`` or ``.tsv`` file, a ``.safetensors`` file of
            :func:`~hpme.data.save_graphs`, or ``module:function``.
        skipped: Where to list rows of a table that are left out.
        progress: Whether to draw a progress bar.
        table_options: Arguments of :func:`~hpme.data.from_smiles_csv`, for tables only.

    Raises:
        InputError: If it is none of these, or holds no graphs.
    """
    path = Path(source)
    suffix = path.suffix.lower()
    if suffix in TABLES:
        return _read_table(path, skipped, progress=progress, **table_options)
    if table_options:
        raise InputError(f"'{min(table_options)}' belongs to a table of SMILES, not to '{source}'")
    if suffix == ".safetensors":
        return load_graphs(path)
    if ":" not in source:
        raise InputError(
            f"'{source}' is neither a .csv or .tsv file of SMILES, nor a .safetensors file of "
            "hpme.data.save_graphs(), nor module:function"
        )
    graphs = call_factory(source)
    if not isinstance(graphs, Iterable) or isinstance(graphs, Data | str | bytes):
        raise InputError(f"{source}() returned {type(graphs).__name__}, not a collection of graphs")
    found = list(graphs)
    odd = next((item for item in found if not isinstance(item, Data)), None)
    if not found or odd is not None:
        what = "nothing" if not found else f"a {type(odd).__name__} among its graphs"
        raise InputError(f"{source}() returned {what}; it must return PyG Data objects")
    return found


def _read_table(path: Path, skipped: Path | None, *, progress: bool, **options: Any) -> list[Data]:
    labelled = bool(options.get("label_column") or options.get("rules"))
    if not labelled:
        options["rules"] = ANY_ATOM
    dataset = from_smiles_csv(path, progress=progress, **options)
    if skipped is not None:
        list_skipped(dataset, skipped, quiet=not progress)
    if labelled:
        return list(dataset)
    # Predictions need no labels; those of the rule that makes the dataset would only mislead.
    kept = ("x", "edge_index", "edge_attr", "smiles", "name")
    return [Data(**{name: graph[name] for name in kept if name in graph}) for graph in dataset]


@contextmanager
def _current_folder() -> Iterator[None]:
    """Lets modules of the current folder be imported, as ``python -m`` does."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def make_explainers(
    names: Sequence[str], seed: int, options: Mapping[str, Any]
) -> dict[str, GraphExplainer]:
    """Explainers by name; an option goes to all that have it."""
    valid = {name: option_names(name) for name in names}
    for option in options:
        if option == "seed":
            raise InputError("use --seed")
        if not any(option in taken for taken in valid.values()):
            every = sorted({name for taken in valid.values() for name in taken})
            raise InputError(f"no explainer has '{option}'; valid options: {', '.join(every)}")
    return {
        name: make_explainer(name, None, seed, {o: v for o, v in options.items() if o in taken})[0]
        for name, taken in valid.items()
    }


def choose_graphs(
    graphs: Sequence[Data], count: int, seed: int
) -> tuple[list[Data], list[Data], list[int]]:
    """Graphs to learn from, those of them to explain, and the numbers of the latter."""
    GraphStore.from_graphs(graphs)  # says what is wrong with features or edges
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed)).tolist()
    fitted = sorted(order[: max(count, FIT_GRAPHS)])
    numbers = sorted(order[:count])
    return [graphs[i] for i in fitted], [graphs[i] for i in numbers], numbers


def try_model(explained: ExplainedModel, graphs: Sequence[Data]) -> None:
    """Calls the model once, so that what is wrong shows before any work."""
    with explained.frozen(), torch.no_grad():
        output = explained.adapter().predict(explained.read(graphs).batch())
    check_rows(output, len(graphs))
    one_value = output.dim() == 1 or output.shape[1] == 1
    if one_value and explained.mode is None and not explained.view.asked:
        refuse(
            "the model returns one value per graph; say what it means: regression or "
            "binary_classification",
            "--mode",
        )
