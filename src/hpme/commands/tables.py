"""``hpme tables``: tables, figures and one page from results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpme import paper
from hpme.commands.shared import check_writable, command, known, refuse, say, tell, usage


@command
def tables(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="Folder hpme bench wrote to."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder to write to (default: DIR/report).")
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", help="Only this suite; may be repeated (default: all)."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Write nothing; fail if this folder is not what would be written. Its "
            "report.html may be missing: it repeats the other files.",
        ),
    ] = None,
) -> None:
    """Make tables, figures and one HTML page from the results of hpme bench.

    The same results always give the same files, byte for byte, with the same version of
    matplotlib. Results with fewer graphs or shorter training than the paper's are marked as such.

    Exit codes: 0 done, 1 failed or different, 2 wrong usage.
    """
    for name in suite or ():
        known("--suite", "suite", name, paper.NAMES)
    if check is not None and out is not None:
        refuse("--check writes nothing; leave one of them out", "--out")
    from hpme.paper.suites import differences, table_files, write_files

    if check is not None:
        found = differences(table_files(folder, suite), check)
        if found:
            for text in found:
                tell(text)
            say(
                f"{len(found)} files differ; write them again with: "
                f"hpme tables {folder} --out {check}",
                style="red",
            )
            raise typer.Exit(1)
        say(f"{check} is what the results give")
        return
    target = out or folder / "report"
    usage("--out", check_writable, target / "report.html")
    files = table_files(folder, suite)
    write_files(files, target)
    typer.echo(str(target / "report.html"))
    say(f"written: {len(files)} files in {target}")
