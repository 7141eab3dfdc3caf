"""What a user names on the command line: a model, its weights, graphs, and explainers."""

from __future__ import annotations

import difflib
import importlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model
from torch import nn
from torch_geometric.data import Data

from hpme.commands import shared
from hpme.commands.chemprop import chemprop_graphs, chemprop_model
from hpme.commands.options import ChempropOptions, InputOptions, TableOptions
from hpme.data import GraphStore, from_smiles_csv, load_graphs
from hpme.data.molecules.columns import read_columns
from hpme.data.molecules.smiles import read_smiles
from hpme.errors import InputError, ModelError, StorageError
from hpme.explainers import GraphExplainer
from hpme.explainers.registry import make_explainer, option_names
from hpme.models.explained import ExplainedModel
from hpme.models.output import check_rows

FIT_GRAPHS = 500
"""Explainers learn from at least this many graphs, if there are as many."""
TRIAL_GRAPHS = 8
TABLES = (".csv", ".tsv")
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin")


@dataclass(frozen=True)
class Inputs:
    """A model, and the graphs a command is about; each is read once."""

    model: ExplainedModel  # the model, with all that is known about it
    fitted: GraphStore  # graphs to learn from
    store: GraphStore  # graphs to answer about
    graphs: list[Data]  # the latter one by one, as they were given
    numbers: list[int]  # their numbers among all


def read_inputs(
    options: InputOptions,
    table: TableOptions,
    *,
    chemprop: ChempropOptions,
    count: int,
    skipped: Path,
) -> Inputs:
    """Reads model and graphs, and calls the model once."""
    device = options.device
    place = None if device is None else shared.usage("--device", shared.check_device, device)
    arguments, progress = table.arguments(), not options.quiet
    if options.mode == "regression" and table.label_column:
        arguments["task"] = "regression"
    if chemprop.chemprop:
        model = chemprop_model(chemprop, hydrogens=table.hydrogens)
        arguments["files"] = chemprop.files()
    else:
        model = ExplainedModel(build_model(options.model or "", options.weights))
    found = read_graphs(options.data, skipped, model=model, progress=progress, **arguments)
    classes = options.classes
    model = ExplainedModel.of(
        model,
        mode=options.mode,
        call=None if options.call is None else shared.usage("--call", find_function, options.call),
        output=shared.name_or_number(options.output),
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        target=shared.name_or_number(options.target),
        contrast=shared.name_or_number(options.contrast),
    )
    if place is not None:
        model.model.to(place)
    store = model.read(found)  # says what is wrong with features or edges
    generator = torch.Generator().manual_seed(options.seed)
    order = torch.randperm(len(store), generator=generator)
    numbers, fitted = order[:count].sort()[0], store
    if options.background is not None:
        fitted = model.read(read_unlabelled(options.background, options, table, model))
        order = torch.randperm(len(fitted), generator=generator)
    fitted = fitted.subset(order[: max(count, FIT_GRAPHS)].sort()[0])
    chosen = store.subset(numbers)
    _try(model, chosen.subset(torch.arange(min(TRIAL_GRAPHS, len(chosen)))))
    if progress:
        shared.say(
            f"{len(store):,} graphs; {len(numbers):,} explained, learning from {len(fitted):,}"
        )
        if options.weights is None and not chemprop.chemprop:
            shared.say("no --weights: the model is explained as the function returns it")
    listed = numbers.tolist()
    graphs = chosen.to_data_list() if isinstance(found, GraphStore) else [found[i] for i in listed]
    return Inputs(model, fitted, chosen, graphs, listed)


def read_unlabelled(
    source: str, options: InputOptions, table: TableOptions, model: ExplainedModel
) -> list[Data] | GraphStore:
    """Further graphs, read as ``--data`` is but without labels: to learn from, or as donors."""
    unlabelled = replace(table, label_column=None, rule=None, name_column=None)
    arguments = unlabelled.arguments() if Path(source).suffix.lower() in TABLES else {}
    return read_graphs(source, model=model, progress=not options.quiet, **arguments)


def _try(model: ExplainedModel, store: GraphStore) -> None:
    """Calls the model once, so that what is wrong shows before any work."""
    with model.frozen(), torch.no_grad():
        output = model.adapter().predict(store.batch())
    check_rows(output, len(store))
    one_value = output.dim() == 1 or output.shape[1] == 1
    if one_value and model.mode is None and not model.view.asked:
        shared.refuse(
            "the model returns one value per graph; say what it means: regression or "
            "binary_classification",
            "--mode",
        )
    if model.classes is not None and not model.view.asked:  # else they are known to fit
        task = model.task(output)
        count = task.values(output).shape[1] if task.classification else 0
        if count != len(model.classes):
            shared.refuse(f"{len(model.classes)} names for {count} classes", "--classes")


def check_threshold(read: Inputs, threshold: float | None) -> None:
    """Refuses counterfactuals of values without a threshold, and of classes with one."""
    values = read.model.view.mode == "regression"
    if values and (threshold is None or not math.isfinite(threshold)):
        shared.refuse("the model returns values; give the number to get past", "--threshold")
    if not values and threshold is not None:
        shared.refuse("classes need no threshold", "--threshold")


def make_explainers(
    names: Sequence[str], inputs: InputOptions, **defaults: Any
) -> dict[str, GraphExplainer]:
    """Explainers by name; an option goes to all that have it."""
    options, seed = {**defaults, **shared.parse_options(inputs.option or [])}, inputs.seed
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


# Models ###########################################################################################


def find_function(reference: str) -> Callable[..., Any]:
    """The function named ``module:function``, of a module in the current folder or elsewhere."""
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise InputError(
            f"'{reference}' is no factory; write module:function, such as my_models:build for "
            "build() in my_models.py"
        )
    with _current_folder():
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            if getattr(error, "name", None) == module_name.partition(".")[0]:
                raise InputError(
                    f"no module '{module_name}' in the current folder or among the installed ones; "
                    "run the command where the file is"
                ) from error
            why = f"importing '{module_name}' failed: {type(error).__name__}: {error}"
            raise InputError(why) from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        close = difflib.get_close_matches(name, dir(module), n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise InputError(f"'{module_name}' has no function '{name}'{hint}")
    return found


def call_factory(reference: str) -> Any:
    """What a function returns when called without arguments."""
    factory = find_function(reference)
    with _current_folder():
        try:
            return factory()
        except Exception as error:
            raise InputError(
                f"{reference}() failed: {type(error).__name__}: {error}; it is called without "
                "arguments"
            ) from error


@contextmanager
def _current_folder() -> Iterator[None]:
    """Lets modules of the current folder be imported, as ``python -m`` does."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def build_model(reference: str, weights: Path | None) -> nn.Module:
    """The model a factory returns, with the weights of a file if there is one."""
    if weights is not None and weights.suffix.lower() in PICKLES:
        raise StorageError(
            f"'{weights}' is a pickle, which can run code when it is read; convert it once where "
            "you have the model: safetensors.torch.save_model(model, "
            f"'{weights.with_suffix('.safetensors').name}')"
        )
    if weights is not None and weights.suffix.lower() != ".safetensors":
        raise StorageError(f"'{weights}' must be a .safetensors file")
    if weights is not None and not weights.is_file():
        raise StorageError(f"no file '{weights}'; check the path")
    model = call_factory(reference)
    if not isinstance(model, nn.Module):
        raise ModelError(f"{reference}() returned {type(model).__name__}, not a torch.nn.Module")
    try:
        if weights is not None:
            load_model(model, weights)
    except SafetensorError as error:
        raise StorageError(f"'{weights}' is damaged or no safetensors file: {error}") from error
    except RuntimeError as error:
        raise ModelError(
            f"the weights of '{weights}' do not fit the model of {reference}(): {error}"
        ) from error
    return model


def named_model(reference: str, call: str | None, weights: Path | None = None) -> ExplainedModel:
    """The model a factory returns and the function that calls it, in any process."""
    function = None if call is None else find_function(call)
    return ExplainedModel(build_model(reference, weights), call=function)


# Graphs ###########################################################################################


def read_graphs(
    source: str,
    skipped: Path | None = None,
    *,
    progress: bool,
    model: ExplainedModel,
    **table_options: Any,
) -> list[Data] | GraphStore:
    """Graphs of a table of SMILES, of a file of graphs, or of what ``module:function`` returns."""
    path = Path(source)
    if path.suffix.lower() in TABLES:
        read = _read_table if model.featurise is None else partial(chemprop_graphs, model)
        return read(path, skipped, progress=progress, **table_options)
    if model.featurise is not None:
        raise InputError(f"--chemprop needs a table of SMILES (.csv, .tsv), not '{source}'")
    if table_options:
        raise InputError(f"'{min(table_options)}' belongs to a table of SMILES, not to '{source}'")
    if path.suffix.lower() == ".safetensors":
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
    odd = [item for item in found if not isinstance(item, Data)]
    if not found or odd:
        what = f"a {type(odd[0]).__name__} among its graphs" if odd else "nothing"
        raise InputError(f"{source}() returned {what}; it must return PyG Data objects")
    return found


def _read_table(
    path: Path, skipped: Path | None, *, progress: bool, hydrogens: bool = False, **options: Any
) -> list[Data] | GraphStore:
    found: list[Data] | GraphStore
    if options.get("label_column") or options.get("rules"):
        dataset = from_smiles_csv(path, progress=progress, hydrogens=hydrogens, **options)
        found, left_out = list(dataset), list(dataset.skipped)
    else:
        columns = read_columns(path, **options)
        found, left_out = read_smiles(columns, hydrogens=hydrogens, progress=progress)
    if skipped is not None:
        shared.list_skipped(left_out, len(found), skipped, quiet=not progress)
    return found
