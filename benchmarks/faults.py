"""What is left of a benchmark when processes, machines and disks fail?

    python benchmarks/faults.py
    python benchmarks/faults.py --kills 20 --only kills,ray

Runs ``hpme bench table1`` on a few small experiments, first undisturbed, then while things break:

* ``kills``: SIGKILL to the command or to one of its two workers, at random moments.
* ``ray``: SIGKILL to workers or whole machines of a Ray cluster of two, at random moments.
* ``disk``: the folder of the results is full; later it is not. Needs the right to mount.
* ``cache``: the folder of the cache cannot be written. Needs the right to mount.
* ``two runs``: two commands write to one folder at the same time.

Every time the benchmark is started again until it is done. The table says how often something was
killed or failed, how often it was started, and how many results differ from the undisturbed ones.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from hpme.bench import Plan, ResultStore
from hpme.commands.bench import chosen_experiments
from hpme.paper.suites import SUITES

PROGRAM = "from hpme.cli import main; main()"
SAME = ("values", "spread", "undefined", "context")
CHOICE = {
    "seeds": "100-102",
    "datasets": "ba-2motifs,ba-motif-volume",
    "explainers": "random,grad,gnnexplainer",
    "size": 40,
    "graphs": 8,
    "train_steps": 5,
}
EXPERIMENTS = chosen_experiments(SUITES["table1"], **CHOICE)  # type: ignore[arg-type]


@dataclass
class Outcome:
    """What became of a benchmark."""

    faults: int = 0
    starts: int = 0
    different: int = 0
    note: str = ""


def command(out: Path) -> list[str]:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in CHOICE.items()]
    return [
        sys.executable,
        "-c",
        PROGRAM,
        "bench",
        "table1",
        "--workers=2",
        f"--out={out}",
        *arguments,
    ]


def start(out: Path, cache: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "HPME_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(out), env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(out: Path, cache: Path, outcome: Outcome, tries: int = 5) -> None:
    """Starts the benchmark until it is done."""
    for _ in range(tries):
        outcome.starts += 1
        if start(out, cache).wait() == 0:
            return
    outcome.note = f"not done after {tries} starts"


def differences(out: Path, whole: Path) -> int:
    """Results that are missing or are not those of the undisturbed run."""
    ours, theirs = ResultStore(out), ResultStore(whole)
    found = 0
    for experiment in EXPERIMENTS:
        one, other = ours.get(experiment), theirs.get(experiment)
        same = one and other and all(getattr(one, p) == getattr(other, p) for p in SAME)
        found += not same
    return found


def kills(folder: Path, whole: Path, options: argparse.Namespace, seconds: float) -> Outcome:
    """Processes of the command, one after the other."""
    outcome, choose, number = Outcome(), random.Random(options.seed), 0
    while outcome.faults < options.kills:
        out, cache = folder / f"out{number}", folder / f"cache{number}"
        number += 1
        while not _done(out) and outcome.faults < options.kills:
            outcome.starts += 1
            process = start(out, cache)
            while process.poll() is None and outcome.faults < options.kills:
                time.sleep(choose.uniform(0.2, 0.5 * seconds))
                alive = _session(process.pid)
                if process.poll() is None and alive:
                    os.kill(choose.choice(alive), signal.SIGKILL)
                    outcome.faults += 1
            process.wait()
            _until(lambda pid=process.pid: not _session(pid))  # type: ignore[misc]
        finish(out, cache, outcome)
        outcome.different += differences(out, whole)
    outcome.note = outcome.note or f"{number} benchmarks of {len(EXPERIMENTS)} results"
    return outcome


def ray_run(folder: Path, whole: Path, options: argparse.Namespace, _: float) -> Outcome:
    """Workers and machines of a cluster."""
    from ray.cluster_utils import Cluster

    from hpme.bench.execute.cluster import ExperimentCluster
    from hpme.bench.execute.jobs import run_plan

    outcome, choose, number = Outcome(), random.Random(options.seed), 0
    os.environ["HPME_CACHE_DIR"] = str(folder / "driver")
    cluster = Cluster()
    cluster.add_node(num_cpus=0, include_dashboard=False)

    def add() -> object:
        variables = {"HPME_CACHE_DIR": str(folder / f"node{time.time()}"), "OMP_NUM_THREADS": "1"}
        return cluster.add_node(num_cpus=1, env_vars=variables)

    nodes, due = [add(), add()], [time.monotonic()]

    def disturb() -> None:
        """Called about once a second."""
        if outcome.faults >= options.kills or time.monotonic() < due[0]:
            return
        workers = _ray_workers()
        if workers and choose.random() < 0.8:
            os.kill(choose.choice(workers), signal.SIGKILL)
        else:
            cluster.remove_node(nodes.pop(choose.randrange(2)), allow_graceful=False)
            nodes.append(add())
        outcome.faults += 1
        due[0] = time.monotonic() + choose.uniform(0, 5)

    try:
        while number == 0 or outcome.faults < options.kills:
            store = ResultStore(folder / f"out{number}")
            number += 1
            while not _done(store.folder):
                outcome.starts += 1
                executor = ExperimentCluster(cluster.address)
                try:
                    run_plan(Plan.of(EXPERIMENTS, store), store, executor, pulse=disturb)
                finally:
                    executor.close()
            outcome.different += differences(store.folder, whole)
    finally:
        cluster.shutdown()
    outcome.note = f"{number} benchmarks of {len(EXPERIMENTS)} results"
    return outcome


def disk(folder: Path, whole: Path, _: argparse.Namespace, __: float) -> Outcome:
    """The results are on a disk of 16 KiB that grows to 64 MiB."""
    outcome, out = Outcome(), folder / "small"
    with mounted(out, "size=16k"):
        process = start(out / "out", folder / "cache")
        message = process.communicate()[1].decode(errors="replace")
        outcome.starts, outcome.faults = 1, int(process.returncode != 0)
        lines = [line for line in message.splitlines() if "No space left" in line]
        outcome.note = "Traceback!" if "Traceback" in message else (lines or ["no message"])[-1]
        subprocess.run(["mount", "-o", "remount,size=64m", str(out)], check=True)
        finish(out / "out", folder / "cache", outcome)
        outcome.different = differences(out / "out", whole)
    return outcome


def cache(folder: Path, whole: Path, _: argparse.Namespace, __: float) -> Outcome:
    """Nothing can be kept in the cache."""
    outcome, place = Outcome(faults=1), folder / "cache"
    with mounted(place, "size=64m"):
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        finish(folder / "out", place, outcome, tries=1)
        outcome.different = differences(folder / "out", whole)
    return outcome


def two_runs(folder: Path, whole: Path, _: argparse.Namespace, __: float) -> Outcome:
    """Two commands at once."""
    running = [start(folder / "out", folder / "cache") for _ in range(2)]
    codes = [process.wait() for process in running]
    different = differences(folder / "out", whole)
    return Outcome(faults=1, starts=2, different=different, note=f"exit codes {codes}")


SCENARIOS = {"kills": kills, "ray": ray_run, "disk": disk, "cache": cache, "two runs": two_runs}


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def _done(out: Path) -> bool:
    return not Plan.of(EXPERIMENTS, ResultStore(out)).todo


def _session(leader: int) -> list[int]:
    """Living processes of a session."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-s", str(leader)], capture_output=True, text=True, check=False
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, state, *_ in rows if not state.startswith("Z")]


def _ray_workers() -> list[int]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name().startswith("ray::") and "IDLE" not in process.name():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _until(condition, seconds: float = 120) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(SCENARIOS), help="Some of these, with commas.")
    options = parser.parse_args()
    table = Table("what breaks", "faults", "starts", "results that differ", "seconds", "note")
    wrong = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        whole, began = Path(name, "whole"), time.monotonic()
        finish(whole, Path(name, "cache"), undisturbed := Outcome(), tries=1)
        seconds = time.monotonic() - began
        table.add_row("nothing", "0", "1", str(differences(whole, whole)), f"{seconds:.0f}",
                      undisturbed.note)  # fmt: skip
        for scenario in options.only.split(","):
            began = time.monotonic()
            try:
                found = SCENARIOS[scenario](
                    Path(name, scenario.replace(" ", "-")), whole, options, seconds
                )
            except (ImportError, subprocess.CalledProcessError, OSError) as error:
                table.add_row(scenario, "", "", "", "", f"not possible here: {error}")
                continue
            wrong += found.different
            table.add_row(
                scenario, str(found.faults), str(found.starts), str(found.different),
                f"{time.monotonic() - began:.0f}", found.note,
            )  # fmt: skip
    Console(width=140).print(table)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
