"""How large and how quick the page of explanations is, measured in a headless Chromium.

    python benchmarks/report.py [--graphs 5000] [--rounds 15] [--table docs/measured/page.md]

Molecules of Benzene, a GCN, two explainers side by side. An interaction is timed from its event to
the end of the next frame, so it includes script, layout and painting, and up to one frame of
waiting (17 ms at 60 frames per second). Beside it stands the processor time that all processes of
the browser spend on it, which other programs on the machine change little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from selenium import webdriver

from hpme.bench import Target
from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer, RandomExplainer
from hpme.viz import write_page

INTERACTIONS = {
    "slider of a graph": (
        "const s = document.querySelector('.card input[type=range]');"
        "s.value = (i * 7) % (Number(s.max) + 1); send(s, 'input')"
    ),
    "slider of all graphs": (
        "document.getElementById('other').open = true;"
        "const s = document.getElementById('share'); s.value = (i * 13) % 100; send(s, 'input')"
    ),
    "filter by verdict": (
        "document.querySelector('.verdict-chip[aria-pressed=true], .verdict-chip:enabled').click()"
    ),
    "show or hide a proof": "document.querySelector('.prove').click()",
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
const [paint] = performance.getEntriesByName('first-contentful-paint');
return [entry.loadEventEnd, paint.startTime, document.querySelectorAll('.card').length]
"""


def timed_page(count: int, folder: Path) -> tuple[Path, float]:
    dataset = load_dataset("benzene")
    model = Target.prepare(dataset, "gcn", 0).model
    graphs = [dataset[i] for i in range(count)]
    # The page is as large and as quick whatever the scores, so a short search will do.
    hpme = HPMEExplainer(ratio=0.4, restarts=1).fit(model, graphs)
    explainers = {"hpme": hpme, "random": RandomExplainer()}
    explanations = {name: one.explain(model, graphs) for name, one in explainers.items()}
    explanations["hpme"] = list(explanations["hpme"])
    hpme.quality(model, explanations["hpme"])
    start = time.process_time()
    path = write_page(
        model, graphs, explanations, folder / "page.html", reports={"hpme": hpme.report}
    )
    return path, time.process_time() - start


def browser() -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def cpu_seconds(chromium: Any) -> float:
    """Processor time of all processes of the browser so far."""
    driver = psutil.Process(chromium.service.process.pid)
    times = [process.cpu_times() for process in driver.children(recursive=True)]
    return sum(spent.user + spent.system for spent in times)


def timed(chromium: Any, script: str, rounds: int) -> tuple[list[float], float]:
    """Milliseconds of every round, and processor time of a round on average."""
    before = cpu_seconds(chromium)
    times = chromium.execute_async_script(script, rounds)
    return times, 1000 * (cpu_seconds(chromium) - before) / rounds


def measure(path: Path, rounds: int) -> tuple[list[list[float]], float, dict[str, Any]]:
    """Milliseconds to load and to the first paint, processor time, and those of interactions."""
    chromium = browser()
    try:
        chromium.get("about:blank")
        before = cpu_seconds(chromium)
        chromium.set_script_timeout(120)
        loads = []
        for _ in range(5):
            chromium.get(path.as_uri())
            chromium.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
            *seconds, cards = chromium.execute_script(LOADED)
            assert cards > 0
            loads.append(seconds)
        load_cpu = 1000 * (cpu_seconds(chromium) - before) / len(loads)
        times = {
            name: timed(chromium, TIMED % action, rounds) for name, action in INTERACTIONS.items()
        }
    finally:
        chromium.quit()
    return loads, load_cpu, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--table", type=Path, help="Markdown file to write.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path, seconds = timed_page(arguments.graphs, Path(folder))
        size = path.stat().st_size
        loads, load_cpu, times = measure(path, arguments.rounds)
        busy = os.getloadavg()[0]
    loaded, paints = zip(*loads, strict=True)
    rows = "\n".join(
        f"| {name} | {cpu:.0f} ms | {statistics.median(found):.0f} ms | {max(found):.0f} ms |"
        for name, (found, cpu) in times.items()
    )
    text = f"""# The page of explanations

`python benchmarks/report.py --graphs {arguments.graphs} --rounds {arguments.rounds}`:
{arguments.graphs:,} molecules of Benzene, two explainers side by side, every molecule with its own
proof, headless Chromium. The machine has {os.cpu_count()} cores and was shared: its load was
{busy:.1f} at the end, so elapsed times are those of a busy computer. Processor time is that of all
processes of the browser.

The file has {size / 2**20:.1f} MiB, {size / arguments.graphs:.0f} bytes per molecule, and took
{seconds:.0f} s of processor time to write, the predictions on all parts of all graphs included.
Loading it takes {load_cpu:.0f} ms of processor time, first drawings included, and
{statistics.median(loaded):.0f} ms of elapsed time (slowest of {len(loads)}:
{max(loaded):.0f} ms); the first paint comes after
{statistics.median(paints):.0f} ms (slowest: {max(paints):.0f} ms).

From an event to the end of the next frame:

| interaction | processor time | elapsed, median | elapsed, slowest |
|---|---|---|---|
{rows}
"""
    print(text)
    if arguments.table is not None:
        arguments.table.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
