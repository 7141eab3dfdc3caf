"""``hpme serve``: a page on this machine that answers about molecules and graphs one types in."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from hpme.commands import shared
from hpme.commands.options import ChempropFiles, SavedOptions, ThresholdOption
from hpme.commands.shared import check_device, command, refuse, say, tell, usage
from hpme.errors import optional_module


@command
def serve(
    saved: SavedOptions,
    chemprop: ChempropFiles,
    threshold: ThresholdOption = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of this machine (0: one that is free).")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open the page in a browser.")
    ] = True,
) -> None:
    """Ask a saved explainer about molecules that you type, or graphs that you upload, in a browser.

    The answer is the page that hpme explain writes: the prediction, the explanation, what it rests
    on, and what would change it. The page has an address of this machine with a random token in it,
    is not seen by other machines, and ends with Ctrl-C. Class or task are those that the explainer
    was fitted to.

    Exit codes: 0 ended by Ctrl-C, 1 failed while running, 2 wrong usage.
    """
    chemprop.check(saved.model)
    need = "the server needs Starlette and Uvicorn ({error})"
    server = optional_module("hpme.serve.server", need, "serve")
    from hpme.commands.answers import Answers
    from hpme.commands.chemprop import chemprop_model
    from hpme.commands.inputs import named_model
    from hpme.explainers import load_explainer
    from hpme.explainers.shared.context import resolve

    loaded = load_explainer(saved.explainer)
    if loaded.level not in (None, "graph") or loaded.answers:
        refuse("was fitted to nodes, links or several targets, not to one of graphs", "EXPLAINER")
    if saved.model is None:
        explained = chemprop_model(chemprop, hydrogens=saved.hydrogens)
    else:
        explained = named_model(saved.model, saved.call, saved.weights)
    if saved.device is not None:
        explained.model.to(usage("--device", check_device, saved.device))
    explained = resolve(loaded, explained, {})
    if threshold is not None and explained.view.mode != "regression":
        refuse("classes need no threshold", "--threshold")
    columns = saved.smiles_column or "smiles", saved.name_column
    with usage("--port", server.listen, port) as free, TemporaryDirectory(prefix="hpme-") as folder:
        answers = Answers(loaded, explained, Path(folder), columns, saved.hydrogens, threshold)
        asked = server.LocalServer(free, answers, answers.texts(), shared.threads)
        tell(asked.address)
        if not saved.quiet:
            say("Ctrl-C ends the server; it answers who knows this address")
        if browser:  # some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=[asked.address], daemon=True).start()
        asked.run()
