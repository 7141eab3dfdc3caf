"""``hpme apply``: a saved explainer on any number of graphs, as shards of a table."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme import __version__
from hpme.commands import shared
from hpme.commands.options import ChempropFiles, SavedOptions
from hpme.commands.shared import check_device, command, refuse, say, usage

if TYPE_CHECKING:
    from hpme.apply import ShardWork
    from hpme.apply.rows import GraphFile, SmilesTable
    from hpme.execute import Executor
    from hpme.models.explained import ExplainedModel
    from hpme.storage import FileContent

ROWS_PER_SHARD = 10_000
FIRST_LOOK = 100
"""Rows that are read to see whether model, explainer and data belong together."""
AHEAD = 2
"""Parts per core that may wait in Ray's queue; more would fill the memory of this machine."""


@command
def apply(
    saved: SavedOptions,
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            "-d",
            dir_okay=False,
            help="Table of SMILES with a molecule per line (.csv, .tsv), or file of "
            "hpme.data.save_graphs (.safetensors).",
        ),
    ],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the Parquet shards.")],
    chemprop: ChempropFiles,
    verdict: Annotated[
        bool,
        typer.Option(
            "--verdict",
            help="Also say what every prediction rests on (HPME only). That takes mixes with other "
            "graphs, and about five times as long per row.",
        ),
    ] = False,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Pool as many nodes as the explainer's guarantee needs for this risk (HPME only)."
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Graphs that the explainer was not fitted on, as --data, to calibrate its "
            "guarantee for --alpha (default: as it was saved).",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes on this machine, one core each (default: 1)."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A running Ray cluster, in place of --workers."),
    ] = None,
    rows_per_shard: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Rows of the input that make a shard.")
    ] = ROWS_PER_SHARD,
) -> None:
    """Explain any number of graphs or molecules with a saved explainer.

    Writes one row per graph: id, prediction, class, pooled_nodes, edge_weights, node_weights,
    verdict and rest_nodes. Rows that cannot be read or explained are listed in _skipped.csv. Memory
    does not grow with their number. A run that was stopped, or killed, goes on where it was when
    started again.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage, 130 interrupted.
    """
    if workers is not None and ray is not None:
        refuse("give one of --workers and --ray", "--workers")
    chemprop.check(saved.model)
    from hpme.apply import ShardFolder, open_rows
    from hpme.apply import apply as apply_rows
    from hpme.apply.shards import SKIPPED, arrow
    from hpme.apply.work import ShardWork, state_of
    from hpme.commands.chemprop import chemprop_model
    from hpme.commands.inputs import find_function, named_model
    from hpme.errors import InputError
    from hpme.explainers import load_explainer
    from hpme.models.chemprop.files import model_files
    from hpme.storage import FileContent, locked

    arrow("pyarrow.parquet")
    if saved.device is not None:
        usage("--device", check_device, saved.device)
    loaded = load_explainer(saved.explainer)  # says what is wrong with it before anything is read
    columns = {"smiles_column": saved.smiles_column, "name_column": saved.name_column}
    rows = usage("--data", partial(open_rows, data, **columns))
    if saved.call is not None:
        usage("--call", find_function, saved.call)
    if saved.model is None:  # other processes look for the files elsewhere
        files = [path.resolve() for path in chemprop.chemprop or []]
        build = partial(
            chemprop_model, replace(chemprop, chemprop=files), hydrogens=saved.hydrogens
        )
        explained, sources = build(), model_files(files)
    else:
        build = partial(named_model, saved.model, saved.call)
        explained = named_model(saved.model, saved.call, saved.weights)
        sources = _sources(explained, saved.model, saved.call)
    content = FileContent(str(saved.explainer), saved.explainer.read_bytes())
    settings: dict[str, Any] = {}
    work = ShardWork(
        content,
        build,
        state_of(explained),
        settings,
        verdict=verdict,
        alpha=alpha,
        hydrogens=saved.hydrogens,
        device=saved.device,
        threads=shared.threads if workers is None else 1,
        loaded=loaded,
        made=explained,
    )
    if calibrate is not None:
        if alpha is None:
            refuse("needs --alpha, the risk to guarantee", "--calibrate")
        known = usage(
            "--calibrate", partial(open_rows, calibrate, smiles_column=saved.smiles_column)
        )
        promise = usage("--alpha", _calibrate, replace(work, alpha=None), known, alpha)
        work.explainer = promise[0]
        if not saved.quiet:
            say(promise[1])
    settings |= {
        "hpme": __version__,
        "explainer": hashlib.sha256(work.explainer.content).hexdigest(),
        "model": hashlib.sha256(work.state).hexdigest(),
        "--model": saved.model,
        "--call": saved.call,
        "model file": [hashlib.sha256(file.read_bytes()).hexdigest() for file in sources],
        "data": rows.digest,
        "columns": rows.columns,
        "hydrogens": saved.hydrogens,
        "verdict": verdict,
        **({} if alpha is None else {"alpha": alpha}),
        "rows per shard": rows_per_shard,
    }
    first = next(rows.parts(min(rows_per_shard, FIRST_LOOK)), None)
    if first is None:
        refuse(f"'{data}' has no rows", "--data")
    if alpha is not None:
        usage("--alpha", work.ready)
    work.check(first)
    with locked(out / "apply"):
        folder = ShardFolder(out, settings)
        start = time.monotonic()
        try:
            with closing(_executor(work, workers, ray, saved)) as executor:
                done = apply_rows(
                    rows, folder, executor, rows_per_shard=rows_per_shard, progress=not saved.quiet
                )
        except KeyboardInterrupt:
            say("interrupted; finished shards are kept, the same command goes on from here")
            raise typer.Exit(130) from None
    if not done.explained:
        raise InputError(f"every row is left out; '{out / SKIPPED}' says why")
    if not saved.quiet:
        seconds = time.monotonic() - start
        before = f", {done.kept:,} rows of them from before" if done.kept else ""
        say(f"{done.explained:,} rows in {done.shards:,} shards{before}; {seconds:,.1f} s")
        if done.skipped:
            listed = out / SKIPPED
            say(f"{done.skipped:,} rows are left out; '{listed}' lists them", style="yellow")
        typer.echo(str(out))


def _calibrate(
    work: ShardWork, rows: SmilesTable | GraphFile, alpha: float
) -> tuple[FileContent, str]:
    """The explainer of some work with a guarantee, as a file, and what is guaranteed."""
    from hpme.errors import InputError
    from hpme.storage import FileContent

    explainer: Any = work.ready().explainer
    if not hasattr(explainer, "guarantee"):
        raise InputError(f"{explainer.title} guarantees nothing; those of HPME do")
    parts = [work.read(part, slice(None), [])[0] for part in rows.parts(ROWS_PER_SHARD)]
    if not parts:
        raise InputError("there are no graphs to calibrate on")
    found = explainer.guarantee(work.ready().model, parts[0].joined(*parts[1:]), alpha)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "explainer.safetensors"
        explainer.save(path)
        return FileContent(work.explainer.name, path.read_bytes()), found.sentence()


def _executor(
    work: ShardWork, workers: int | None, ray: str | None, saved: SavedOptions
) -> Executor:
    if ray is not None:
        from hpme.execute import RayExecutor

        if saved.model is not None:
            work = replace(work, build=_travelling_model(saved.model, saved.call))
        return RayExecutor(work, ray, ahead=AHEAD)
    if workers is not None and workers > 1:
        from hpme.execute import LocalExecutor

        return LocalExecutor(workers, work, fork=_can_fork(work))
    from hpme.execute import InProcess

    return InProcess(work)


def _can_fork(work: ShardWork) -> bool:
    """Whether workers may be copies of this process, which need not start anew."""
    import torch

    if sys.platform != "linux" or work.device not in (None, "cpu"):
        return False
    return not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


def _sources(explained: ExplainedModel, *references: str | None) -> list[Path]:
    """Files in which a model is defined, and the functions that make and call it."""
    names = [type(explained.model).__module__, *(r.partition(":")[0] for r in references if r)]
    files = [getattr(sys.modules.get(name), "__file__", None) for name in dict.fromkeys(names)]
    return [Path(file) for file in files if file]


def _travelling_model(reference: str, call: str | None) -> Callable[[], ExplainedModel]:
    """A named model for machines of a Ray cluster: modules of this folder go along."""
    from ray import cloudpickle  # an executor has been asked for: RayExecutor says if it is missing

    from hpme.commands.inputs import find_function
    from hpme.models.explained import ExplainedModel

    function = None if call is None else find_function(call)
    factory = find_function(reference)
    here = Path.cwd().resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and here in Path(file).resolve().parents and "site-packages" not in file:
            cloudpickle.register_pickle_by_value(module)
    return lambda: ExplainedModel(factory(), call=function)
