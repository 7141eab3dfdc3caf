"""What ``--chemprop`` names: model files, and molecules as the network in them sees these."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from torch_geometric.data import Data

from hpme.commands.options import ChempropFiles, ChempropOptions
from hpme.commands.shared import list_skipped, name_or_number
from hpme.data import GraphDataset, GraphStore
from hpme.data.molecules.chem import parse, rdkit_module
from hpme.data.molecules.columns import read_columns
from hpme.data.molecules.smiles import parse_smiles
from hpme.errors import InputError

if TYPE_CHECKING:
    from hpme.bench import Target
    from hpme.models.explained import ExplainedModel


def chemprop_model(files: ChempropFiles, *, hydrogens: bool) -> ExplainedModel:
    """The network in a file, or the ensemble of several."""
    from hpme.models.chemprop import explained, molecules, read_model

    model, _ = read_model(files.chemprop or [], trust=files.trust_model_file)
    model.title = _title((files.chemprop or [])[0].resolve(), model)  # type: ignore[assignment]
    return replace(explained(model), featurise=partial(molecules, model=model, hydrogens=hydrogens))


def _title(path: Path, model: Any) -> str:
    """What a model is called: as the package it came with writes itself, or by its file."""
    *_, before, inside = ["", *path.as_posix().split("/site-packages/")]
    if not before:
        return str(getattr(model, "title", path.stem))
    package = inside.partition("/")[0]
    try:
        about = metadata.metadata(package)
    except metadata.PackageNotFoundError:  # of another environment
        return package.replace("_", "-")
    words = f"{about['Summary']} {package}"
    found = re.search(package.replace("_", "[-_ ]"), words, re.IGNORECASE)
    return found[0] if found else package


def chemprop_graphs(
    model: ExplainedModel,
    table: Path,
    skipped: Path | None,
    *,
    progress: bool = False,
    files: Mapping[str, Path] | None = None,
    rules: Mapping[str, str] | None = None,
    task: Any = "classification",
    hydrogens: bool = False,
    **columns: Any,
) -> list[Data]:
    """Molecules of a table as a Chemprop model sees them; ``files`` are by Chemprop's names."""
    read, left_out = parse_smiles(
        read_columns(table, **columns), rules or {}, task=task, hydrogens=hydrogens
    )
    if skipped is not None:
        list_skipped(left_out, len(read), skipped, quiet=not progress)
    return featurised(model, read, files or {})


def chemprop_target(
    chemprop: ChempropOptions, found: GraphDataset, target: str | None, *, hydrogens: bool
) -> tuple[Target, GraphDataset]:
    """A Chemprop model to explain, and the molecules of a dataset as it sees them."""
    from hpme.bench import Target
    from hpme.models.chemprop.files import model_files

    model = chemprop_model(chemprop, hydrogens=hydrogens)
    model = replace(model, target=name_or_number(target))
    chem, names = rdkit_module("Chem"), ("smiles", "name", "y", "node_mask")
    read = [
        (parse(chem, graph.smiles, hydrogens), {k: graph[k] for k in names if k in graph})
        for graph in found
    ]
    graphs = featurised(model, read, chemprop.files())
    store = GraphStore.from_graphs(graphs, attributes="all")
    # Results are kept by name, so this changes with the files.
    content = b"".join(file.read_bytes() for file in model_files(chemprop.chemprop or []))
    name = f"chemprop-{hashlib.sha256(content).hexdigest()[:12]}"
    name = name if target is None else f"{name}, {target}"
    return Target(name, 0, model, None), GraphDataset(store, found.info, found.variant, found.seed)


def featurised(
    model: ExplainedModel, read: Sequence[tuple[Any, dict[str, Any]]], files: Mapping[str, Path]
) -> list[Data]:
    """Graphs of RDKit's molecules, each with what is known of it besides features."""
    from hpme.models.chemprop import molecules
    from hpme.models.chemprop.files import chemprop_module

    point = chemprop_module("data").MoleculeDatapoint
    points = [point(molecule, name=known.pop("smiles")) for molecule, known in read]
    for name, file in files.items():
        for one, values in zip(points, _arrays(file, len(points), name), strict=True):
            setattr(one, name, values)
    made = molecules(points, model)
    for graph, (_, known) in zip(made, read, strict=True):
        graph.update(known)
        if "node_mask" in known:
            graph.edge_mask = graph.node_mask[graph.edge_index].all(0)
    return made


def _arrays(path: Path, count: int, name: str) -> list[Any]:
    """An array for every molecule, as Chemprop reads them: ``arr_0``, ``arr_1`` and so on."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = ["arr_0"] if name == "x_d" else [f"arr_{i}" for i in range(len(file.files))]
            arrays = [file[key].astype(np.float32) for key in names]
    except KeyError as error:
        raise InputError(
            f"'{path}' has no {error.args[0].split()[0]}; write it with numpy.savez(path, *arrays)"
        ) from error
    except (OSError, ValueError, EOFError, AttributeError, TypeError, BadZipFile) as error:
        raise InputError(f"'{path}' is no .npz file of numbers: {error}") from error
    found, what = (list(np.atleast_1d(arrays[0])), "rows") if name == "x_d" else (arrays, "arrays")
    if len(found) != count:
        raise InputError(
            f"'{path}' has {len(found)} {what} for {count} molecules; it needs one for each row of "
            "the table that is not left out"
        )
    return found
