"""How large and how quick the page of explanations is, measured in a headless Chromium.

    python benchmarks/report.py [--graphs 2000] [--rounds 15] [--table docs/results/report.md]

Molecules of Benzene, a GCN, two explainers side by side. An interaction is timed from its event to
the end of the next frame, so it includes script, layout and painting, and up to one frame of
waiting (17 ms at 60 frames per second).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from selenium import webdriver

from hpme.bench import Target
from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer, RandomExplainer
from hpme.viz import report

INTERACTIONS = {
    "slider of a graph": (
        "const s = document.querySelector('.card input[type=range]');"
        "s.value = (i * 7) % (Number(s.max) + 1); send(s, 'input')"
    ),
    "slider of all graphs": (
        "const s = document.getElementById('share'); s.value = (i * 13) % 100; send(s, 'input')"
    ),
    "letter in the search": (
        "const s = document.getElementById('search'); s.value = 'ZINC' + (i % 10);send(s, 'input')"
    ),
    "sort by fidelity": (
        "const s = document.getElementById('sort');"
        "s.value = s.options[s.options.length - 1 - (i % 2)].value; send(s, 'change')"
    ),
    "next page": "document.getElementById(i % 2 ? 'previous' : 'next').click()",
    "light and dark": "document.getElementById('theme').click()",
}
TIMED = """
const [rounds, done] = [arguments[0], arguments[1]];
const send = (element, name) => element.dispatchEvent(new Event(name, {bubbles: true}));
const frame = () => new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
(async () => {
  const times = [];
  for (let i = 0; i < rounds; i++) {
    await frame();
    const start = performance.now();
    %s;
    await frame();
    times.push(performance.now() - start);
  }
  done(times);
})();
"""
LOADED = """
const [entry] = performance.getEntriesByType('navigation');
return [entry.loadEventEnd, document.querySelectorAll('.card').length]
"""


def write_page(count: int, folder: Path) -> tuple[Path, float]:
    dataset = load_dataset("benzene")
    model = Target.prepare(dataset, "gcn", 0).model
    graphs = [dataset[i] for i in range(count)]
    # The page is as large and as quick whatever the scores, so a short search will do.
    hpme = HPMEExplainer(ratio=0.4, restarts=1, rounds=1, epochs=5).fit(model, graphs)
    explainers = {"hpme": hpme, "random": RandomExplainer()}
    explanations = {name: one.explain(model, graphs) for name, one in explainers.items()}
    start = time.perf_counter()
    path = report(
        model, graphs, explanations, folder / "report.html", reports={"hpme": hpme.report}
    )
    return path, time.perf_counter() - start


def browser() -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def measure(path: Path, rounds: int) -> tuple[list[float], dict[str, list[float]]]:
    """Milliseconds to load, and of every interaction."""
    chromium = browser()
    try:
        chromium.set_script_timeout(120)
        loads = []
        for _ in range(5):
            chromium.get(path.as_uri())
            seconds, cards = chromium.execute_script(LOADED)
            assert cards > 0
            loads.append(seconds)
        times = {
            name: chromium.execute_async_script(TIMED % action, rounds)
            for name, action in INTERACTIONS.items()
        }
    finally:
        chromium.quit()
    return loads, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--table", type=Path, help="Markdown file to write.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path, seconds = write_page(arguments.graphs, Path(folder))
        size = path.stat().st_size
        loads, times = measure(path, arguments.rounds)
    rows = "\n".join(
        f"| {name} | {statistics.median(found):.0f} ms | {max(found):.0f} ms |"
        for name, found in times.items()
    )
    text = f"""# The page of explanations

`python benchmarks/report.py --graphs {arguments.graphs} --rounds {arguments.rounds}`:
{arguments.graphs:,} molecules of Benzene, two explainers side by side, headless Chromium on a
shared two-core machine.

The file has {size / 2**20:.1f} MiB, {size / arguments.graphs:.0f} bytes per molecule, and took
{seconds:.0f} s to write, the predictions on all parts of all graphs included. It loads in
{statistics.median(loads):.0f} ms (slowest of {len(loads)}: {max(loads):.0f} ms), first drawings
included.

From an event to the end of the next frame:

| interaction | median | slowest |
|---|---|---|
{rows}
"""
    print(text)
    if arguments.table is not None:
        arguments.table.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
