"""All suites by name, and results of a folder as tables, figures and pages in files."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpme.bench.experiment import Experiment
from hpme.bench.store import OTHER, ResultStore
from hpme.errors import InputError, UnknownNameError
from hpme.paper import ALL, beyond_graphs, fidelity, pictures, settings, table1, tune
from hpme.paper.shared.blocks import all_metrics
from hpme.paper.shared.cells import Results, wanted_by
from hpme.paper.shared.document import DRAWINGS, ONE_PAGE, Page, files_of
from hpme.paper.shared.scores import join_words
from hpme.paper.shared.suite import SEEDS, Suite, by_target
from hpme.storage import write_atomically

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(table1.TABLE1, table1.FAITHFUL, settings.BASELINES),
        *(table1.ARCHITECTURES, table1.INDUCTIVE, table1.BIAS),
        *(beyond_graphs.NODE_SUITE, beyond_graphs.LINK_SUITE, beyond_graphs.SEAL_SUITE),
        *(beyond_graphs.HETERO_SUITE, fidelity.SHIFT, fidelity.FIDELITY, table1.BACKBONES),
        *(settings.ABLATION, settings.BETA, settings.RATIO, settings.RATIO_PRINTED),
        *(pictures.CASES, pictures.MIXUPS, pictures.SIZES, tune.SUITE),
    )
}
REPORTED = {name: suite for name, suite in SUITES.items() if suite.reported}
"""Those that ``all`` runs."""


def _everything(seeds: Sequence[int]) -> list[Experiment]:
    """Every experiment once, with all that any suite wants of it; suites keep their own seeds."""
    merged: dict[str, Experiment] = {}
    for suite in REPORTED.values():
        for experiment in suite.experiments(seeds if suite.seeds == SEEDS else suite.seeds):
            bare = replace(experiment, metrics=()).key
            known = merged.get(bare, experiment).metrics
            metrics = tuple(dict.fromkeys(known + experiment.metrics))
            merged[bare] = replace(experiment, metrics=metrics)
    return by_target(list(merged.values()))


EVERYTHING = Suite(ALL, "All suites, every explainer fitted once", _everything)
"""Costs less than the suites one by one: they share many fits."""


def home(experiment: Experiment) -> str:
    """The first of all suites that asks for an experiment: its file holds the result."""
    return next((name for name, suite in REPORTED.items() if wanted_by(suite, experiment)), OTHER)


TITLE = "Results"
MANIFEST, MARK = "files.txt", "# written by hpme tables"
"""Lists all files, so that whoever writes them again knows which are old, below a mark."""


def table_files(
    folder: str | Path, names: Sequence[str] | None = None, *, suites: Mapping[str, Suite] = SUITES
) -> dict[str, bytes]:
    """All files that show a folder of results, by path.

    Args:
        folder: What ``hpme bench`` wrote to.
        names: Suites to show; by default all that were run.
        suites: All suites.

    Raises:
        InputError: If there is nothing to show.
        UnknownNameError: If there is no such suite.
    """
    for name in names or ():
        if name not in suites:
            raise UnknownNameError("suite", name, list(suites))
    results = Results.read(ResultStore(folder), suites)
    if not results.records and not results.failures:
        raise InputError(f"'{folder}' holds no results; run 'hpme bench SUITE --out {folder}'")
    chosen = results.shown if names is None else [name for name in results.cells if name in names]
    missing = [name for name in names or () if name not in results.cells]
    if missing or not chosen:
        asked = missing or list(suites)
        raise InputError(
            f"'{folder}' holds no result of {join_words(asked)}; run "
            f"'hpme bench {asked[0]} --out {folder}'"
        )
    files = files_of(pages_of(results, chosen), TITLE, _introduction(results))
    listed = "\n".join([MARK, *sorted([*files, MANIFEST])]) + "\n"
    return {MANIFEST: listed.encode(), **files}


def pages_of(results: Results, names: Iterable[str]) -> list[Page]:
    """A page for each of some suites that have results."""
    pages = []
    for name in names:
        suite, cells = results.suites[name], results.cells[name]
        show = suite.blocks or all_metrics
        pages.append(Page(name, suite.title, tuple(show(cells, results))))
    return pages


def _introduction(results: Results) -> str:
    """How much there is, and what it was computed with."""
    records, failures = len(results.records), len(results.failures)
    text = f"{records} result{'s' * (records != 1)}"
    if failures:
        text += f", {failures} failed experiment{'s' * (failures != 1)}"
    old = [record.experiment.explainer or "" for record in results.records if record.earlier]
    if old:
        text += f", {len(old)} of them of an earlier version of {join_words(sorted(set(old)))}"
        text += ", which hpme bench computes again"
    versions: dict[str, set[str]] = defaultdict(set)
    for record in results.records:
        for name, version in record.versions.items():
            versions[name].add(version)
    software = [f"{name} {'/'.join(sorted(found))}" for name, found in sorted(versions.items())]
    return text + "." + (f" Computed with {join_words(software)}." if software else "")


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes files, each as a whole; removes those of before that are none of them.

    Raises:
        InputError: If one would take the place of a file that was not written here.
    """
    for name in set(files).difference(_listed(folder)):
        if (folder / name).exists():
            raise InputError(
                f"'{folder / name}' was not written by hpme tables; choose another --out"
            )
    for name in _stale(files, folder):
        (folder / name).unlink()
    for name, content in files.items():  # the list first: what a kill leaves is known as ours
        write_atomically(folder / name, content)


def _listed(folder: Path) -> list[str]:
    """Files that were written to a folder before; the list of somebody else is none."""
    manifest = folder / MANIFEST
    text = manifest.read_text("utf-8", "replace") if manifest.is_file() else ""
    mark, *names = text.splitlines() or [""]
    return names if mark == MARK else []


def differences(files: Mapping[str, bytes], folder: Path) -> list[str]:
    """Where a folder is not what files say: one entry per file, with a diff of text.

    The page that repeats all others may be missing: it is large, and made of the same results.
    Drawings of graphs must be there, and may look different: another processor rounds in another
    way, and a layout may then end in another place.

    Args:
        files: All files by path.
        folder: Where they were written once.
    """
    found = []
    for name, content in sorted(files.items()):
        path = folder / name
        if not path.is_file():
            if name != ONE_PAGE:
                found.append(f"missing: {name}")
        elif name.startswith(f"{DRAWINGS}/"):
            continue
        elif (old := path.read_bytes()) != content:
            found.append("\n".join([f"differs: {name}", *_diff(name, old, content)]))
    return found + [f"stale: {name}" for name in _stale(files, folder)]


def _stale(files: Mapping[str, bytes], folder: Path) -> list[str]:
    """Files that were written to a folder before and are none of these."""
    return [
        name
        for name in _listed(folder)
        # Nothing outside the folder, whoever wrote the list.
        if name not in files
        and (folder / name).is_file()
        and (folder / name).resolve().is_relative_to(folder.resolve())
    ]


def _diff(name: str, old: bytes, new: bytes) -> list[str]:
    if not name.endswith((".md", ".tex", ".txt")):
        return []
    there, ours = (content.decode("utf-8", "replace").splitlines() for content in (old, new))
    diff = list(difflib.unified_diff(there, ours, "there", "from the results", n=0, lineterm=""))
    return diff[:20] + (["..."] if len(diff) > 20 else [])
