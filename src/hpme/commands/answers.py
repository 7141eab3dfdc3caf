"""Pages that answer what ``hpme serve`` is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

from hpme.commands.chemprop import featurised
from hpme.commands.explain import explanations_of, save_page
from hpme.commands.inputs import Inputs
from hpme.commands.options import InputOptions
from hpme.data.molecules.columns import SkippedRow, SmilesColumns, read_columns
from hpme.data.molecules.smiles import parse_smiles, read_smiles
from hpme.errors import HPMEError, InputError
from hpme.graphs import GraphStore
from hpme.models.explained import ExplainedModel
from hpme.page.entries import called
from hpme.storage import read_json

MOST_GRAPHS, MOST_NODES = 20, 5_000
"""What a question may be about; ``hpme explain`` takes more."""
EXAMPLE = '{"x": [[1.0], [2.0]], "edge_index": [[0, 1], [1, 0]]}'


class Answers:
    """Pages about molecules and graphs, one for every question, written to a folder.

    ``columns`` of tables are those of SMILES and of names, ``threshold`` is for counterfactuals.
    """

    def __init__(
        self,
        explainer: Any,
        model: ExplainedModel,
        folder: Path,
        columns: tuple[str, str | None] = ("smiles", None),
        hydrogens: bool = False,
        threshold: float | None = None,
    ) -> None:
        self.explainer, self.folder, self.asking = explainer, folder, explainer.on(model)
        self.model = self.asking.model
        self.columns, self.hydrogens, self.threshold = columns, hydrogens, threshold
        self.donors = self.kind = None
        if hasattr(explainer, "hosts"):
            self.kind = explainer.hosts.x.dtype
        if getattr(explainer, "molecules", None):
            kept = SmilesColumns(explainer.molecules, range(len(explainer.molecules)))
            self.donors = self.model.read(self._molecules(kept)[0])
            self("text", explainer.molecules[0], 0)  # what does not belong together shows now

    def texts(self) -> dict[str, str]:
        """What the page of questions shows."""
        example = EXAMPLE if self.donors is None else self.explainer.molecules[0]
        return {"title": called(self.model), "example": example}

    def __call__(self, kind: str, text: str, number: int) -> tuple[Path, str]:
        """The page that answers a question, and what it leaves out."""
        graphs, left_out = self._graphs(kind, text)
        store = self.model.read(graphs)
        if len(store) > MOST_GRAPHS or int(store.sizes.sum()) > MOST_NODES:
            raise InputError(
                f"a question is about at most {MOST_GRAPHS} graphs and {MOST_NODES:,} nodes; "
                "hpme explain makes a page of more"
            )
        read = Inputs(self.model, store, store, graphs, list(range(1, len(graphs) + 1)))
        name, path = self.explainer.slug, self.folder / f"{number}.html"
        quiet, changes = InputOptions(data="", quiet=True), None
        notes = [f"Left out: {row}." for row in left_out]
        with self.asking:
            found = {name: explanations_of(self.explainer, read, quiet=True)}
            try:
                changes = self._changes(store)
            except HPMEError as error:  # a page without them is better than none
                notes.append(f"No counterfactuals: {error}.")
            save_page(read, {name: self.explainer}, found, path, quiet, counterfactuals=changes)
        return path, " ".join(notes)

    def _graphs(self, kind: str, text: str) -> tuple[list[Any], list[SkippedRow]]:
        """Graphs of a question, and rows that are none."""
        if not text.strip():
            raise InputError("nothing is asked; type a SMILES, or choose a file")
        if kind == "json" or text.lstrip().startswith(("{", "[{")):
            return graphs_from_json(text, self.kind), []
        if kind in ("csv", "tsv"):
            path = self.folder / f"question.{kind}"
            path.write_text(text, encoding="utf-8")
            smiles, name = self.columns
            return self._molecules(read_columns(path, smiles, None, name, size=MOST_GRAPHS + 1))
        lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
        firsts, names = [line[0] for line in lines], [line[-1] for line in lines]
        return self._molecules(SmilesColumns(firsts, range(1, len(lines) + 1), names=names))

    def _molecules(self, columns: SmilesColumns) -> tuple[list[Any], list[SkippedRow]]:
        columns = replace(columns, names=columns.names or columns.smiles)
        if self.model.featurise is None:
            found, left_out = read_smiles(columns, hydrogens=self.hydrogens, progress=False)
            return found.to_data_list(), left_out
        read, left_out = parse_smiles(columns, {}, hydrogens=self.hydrogens)
        return featurised(self.model, read, {}), left_out

    def _changes(self, store: GraphStore) -> Any:
        """What would change the answers, where that can be asked."""
        values = self.model.view.mode == "regression"
        if not hasattr(self.explainer, "counterfactuals") or (values and self.threshold is None):
            return None
        donors = self.donors if "smiles" in store.text else None
        return self.explainer.counterfactuals(
            self.model, store, threshold=self.threshold, donors=donors, progress=False
        )


def graphs_from_json(text: str, kind: torch.dtype | None = None) -> list[Any]:
    """One graph, or several: PyG's fields by name; types of edges as ``"user,buys,item"``."""

    def read(fields: dict[str, Any]) -> dict[str, Any]:
        types = {"edge_index": torch.long, "x": kind}
        return {
            name: value if isinstance(value, str) else torch.tensor(value, dtype=types.get(name))
            for name, value in fields.items()
        }

    try:
        found, graphs = read_json(text), list[Any]()
        for one in found if isinstance(found, list) else [found]:
            if not all(isinstance(part, dict) for part in one.values()):
                graphs.append(Data(**read(one)))
                continue
            graphs.append(HeteroData())
            for name, part in one.items():
                graphs[-1][tuple(name.split(",")) if "," in name else name].update(read(part))
        return graphs
    except (ValueError, TypeError, RuntimeError, AttributeError, KeyError) as error:
        raise InputError(f"no graph: {error}; write it as {EXAMPLE}") from error
