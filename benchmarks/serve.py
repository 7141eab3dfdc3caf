"""Time of an answer of ``hpme serve`` about one molecule.

    python benchmarks/serve.py --data molecules.csv --chemprop FILE --target NAME
        [--explainer FILE] [--background 300] [--molecules 20]

Fits HPME to random rows of the table, or reads a saved one, starts the server, and asks about other
rows, one at a time, as a browser does. Processor time is that of the whole process, the one that
asks included; the steps are those of one answer, asked for again without the server.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from hpme.commands.answers import Answers
from hpme.commands.chemprop import chemprop_model
from hpme.commands.options import ChempropFiles
from hpme.explainers import HPMEExplainer, load_explainer
from hpme.explainers.shared.context import resolve
from hpme.serve.server import LocalServer, listen


def timed(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Processor and elapsed seconds, and what a function returns."""
    cpu, clock = time.process_time(), time.perf_counter()
    found = function()
    return time.process_time() - cpu, time.perf_counter() - clock, found


def ask(address: str, text: str) -> dict[str, Any]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("POST", parts.path + "ask", json.dumps({"kind": "text", "text": text}))
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def show(name: str, values: list[tuple[float, float, Any]]) -> None:
    cpu, clock = sorted(v[0] for v in values), [v[1] for v in values]
    print(
        f"{name}: processor {statistics.median(cpu):.2f} s, nine of ten under "
        f"{cpu[len(cpu) * 9 // 10]:.2f} s; elapsed {statistics.median(clock):.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="table with a column smiles")
    parser.add_argument("--chemprop", type=Path, action="append", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--explainer", type=Path)
    parser.add_argument("--background", type=int, default=300)
    parser.add_argument("--molecules", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.data.open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    order = torch.randperm(len(smiles), generator=torch.Generator().manual_seed(0)).tolist()
    background = [smiles[i] for i in order[: options.background]]
    asked = [smiles[i] for i in order[options.background :][: options.molecules]]
    model = chemprop_model(ChempropFiles(options.chemprop), hydrogens=False)
    model = replace(model, target=options.target)
    if options.explainer is not None:
        explainer: Any = load_explainer(options.explainer)
    else:
        explainer = HPMEExplainer()
        graphs = [graph for text in background for graph in model.featurise([text])]
        show("fit", [timed(lambda: explainer.fit(model, graphs, progress=False))])
    model = resolve(explainer, model, {})
    with tempfile.TemporaryDirectory() as folder, listen(0) as free:
        start = timed(lambda: Answers(explainer, model, Path(folder)))
        show("start", [start])
        answers = start[2]
        server = LocalServer(free, answers, answers.texts())
        thread = threading.Thread(target=server.run)
        thread.start()
        found = [timed(lambda text=text: ask(server.address, text)) for text in asked]
        bad = [told["error"] for _, _, told in found if "error" in told]
        show(f"{len(asked)} molecules, {len(bad)} refused", found)
        server.server.should_exit = True
        thread.join()
        stores = [model.read(answers._graphs("text", text)[0]) for text in asked]
        steps = {
            "explain": lambda s: explainer.explain(model, s, progress=False),
            "quality": lambda s: explainer.quality(model, s),
            "counterfactuals": answers._changes,
        }
        for name, step in steps.items():
            show(name, [timed(lambda step=step, s=s: step(s)) for s in stores])


if __name__ == "__main__":
    main()
