"""What is left of a benchmark when processes, machines and disks fail?

    python benchmarks/faults.py
    python benchmarks/faults.py --kills 20 --only kills,ray

Runs ``hpme bench table1`` on a few small experiments, first undisturbed, then while things break:

* ``kills``: SIGKILL to the command or to one of its two workers, at random moments.
* ``ray``: SIGKILL to the command, to one of its jobs or to one of the two machines of a Ray
  cluster, at random moments. A new machine with an empty cache takes the place of a lost one.
* ``disk``: the folder of the results is full; later it is not. Needs the right to mount.
* ``cache``: the folder of the cache cannot be written. Needs the right to mount.
* ``two runs``: two commands write to one folder at the same time.
* ``apply``: SIGKILL to ``hpme apply`` on a million molecules or to one of its two workers, while
  they start and while they work, within a limit of memory; only if named by ``--only apply``.

Every time the benchmark is started again until it is done. The table says how often something was
killed or failed, how often it was started, and how many results differ from the undisturbed ones.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def command(out: Path, address: str | None) -> list[str]:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in CHOICE.items()]
    where = ["--workers=2"] if address is None else ["--executor=ray", f"--address={address}"]
    return [
        sys.executable,
        "-c",
        PROGRAM,
        "bench",
        "table1",
        f"--out={out}",
        *where,
        *arguments,
    ]


def start(
    out: Path, cache: Path, address: str | None = None, errors: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "HPME_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(out, address), env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=errors,
    )  # fmt: skip


def finish(
    out: Path, cache: Path, outcome: Outcome, tries: int = 5, address: str | None = None
) -> None:
    """Starts the benchmark until it is done."""
    for _ in range(tries):
        outcome.starts += 1
        if start(out, cache, address).wait() == 0:
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


def attacked(
    folder: Path,
    whole: Path,
    options: argparse.Namespace,
    seconds: float,
    strike: Callable[[int, random.Random], str | None],
    address: str | None = None,
) -> Outcome:
    """Benchmarks, one after the other, of which something is killed now and then.

    Args:
        folder: Where results and caches go.
        whole: Results of the undisturbed run.
        options: How often, and the seed of the moments.
        seconds: How long the undisturbed run took.
        strike: Kills something of a running command and says what, if there was anything.
        address: Of a Ray cluster, if the command runs there.
    """
    outcome, choose, number = Outcome(), random.Random(options.seed), 0
    struck: Counter[str] = Counter()
    while outcome.faults < options.kills:
        out, cache = folder / f"out{number}", folder / f"cache{number}"
        number += 1
        while not _done(out) and outcome.faults < options.kills:
            outcome.starts += 1
            process = start(out, cache, address)
            while process.poll() is None and outcome.faults < options.kills:
                time.sleep(choose.uniform(0.2, 0.5 * seconds))
                what = strike(process.pid, choose) if process.poll() is None else None
                if what is not None:
                    struck[what] += 1
                    outcome.faults += 1
            process.wait()
            _until(lambda pid=process.pid: not _session(pid))  # type: ignore[misc]
        finish(out, cache, outcome, address=address)
        outcome.different += differences(out, whole)
    told = ", ".join(f"{count} x {what}" for what, count in sorted(struck.items()))
    outcome.note = outcome.note or f"{number} benchmarks of {len(EXPERIMENTS)} results; {told}"
    return outcome


def kills(folder: Path, whole: Path, options: argparse.Namespace, seconds: float) -> Outcome:
    """Processes of the command."""

    def strike(leader: int, choose: random.Random) -> str:
        chosen = choose.choice(_session(leader) or [leader])
        _kill(chosen)
        return "command" if chosen == leader else "worker"

    return attacked(folder, whole, options, seconds, strike)


def ray_run(folder: Path, whole: Path, options: argparse.Namespace, seconds: float) -> Outcome:
    """The command, its jobs, and machines of a cluster."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(num_cpus=0, include_dashboard=False)

    def add() -> Any:
        variables = {"HPME_CACHE_DIR": str(folder / f"node{time.time()}"), "OMP_NUM_THREADS": "1"}
        return cluster.add_node(num_cpus=1, env_vars=variables)

    machines = [add(), add()]

    def strike(leader: int, choose: random.Random) -> str | None:
        what = choose.choice(("command", "job", "machine"))
        if what == "job":  # most of the time the command is only starting
            _until(lambda: _ray_jobs() or not _session(leader))
            jobs = _ray_jobs()
            if jobs:
                _kill(choose.choice(jobs))
            return what if jobs else None
        if what == "command":
            _kill(leader)
            return what
        lost = machines.pop(choose.randrange(2))
        _kill(lost.all_processes["raylet"][0].process.pid)
        cluster.remove_node(lost, allow_graceful=False)  # what it has left running
        machines.append(add())
        return what

    try:
        return attacked(folder, whole, options, seconds, strike, cluster.address)
    finally:
        cluster.shutdown()


def disk(folder: Path, whole: Path, _: argparse.Namespace, __: float) -> Outcome:
    """The results are on a disk of 16 KiB that grows to 64 MiB."""
    outcome, out = Outcome(), folder / "small"
    with mounted(out, "size=16k"):
        process = start(out / "out", folder / "cache", errors=subprocess.PIPE)
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


def apply(folder: Path, _: Path, options: argparse.Namespace, __: float) -> Outcome:
    """A long table of molecules of Benzene, repeated, with a row in a thousand that is none."""
    import pyarrow.parquet as pq

    from apply import APPLY, prepare

    folder.mkdir()
    smiles, total = prepare(folder), options.rows
    texts = ["C1CC" if i % 1000 == 500 else smiles[i % len(smiles)] for i in range(total)]
    (folder / "molecules.csv").write_text("\n".join(["smiles", *texts]) + "\n")
    out, outcome, choose, struck = folder / "out", Outcome(), random.Random(options.seed), Counter()
    command = [sys.executable, "-c", APPLY, "apply", "explainer.safetensors", "--workers=2"]
    command += ["-m", "my_model:build", "--weights", "weights.safetensors"]
    command += ["-d", "molecules.csv", "--out", str(out), "--rows-per-shard", "5000", "--quiet"]
    limit, peak, code, message = options.memory << 20, 0, -1, ""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def shards() -> int:
        return len(list(out.glob("part-*")))

    while code != 0 and outcome.starts < 5 * options.kills + 5:
        outcome.starts += 1
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
            preexec_fn=limited, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        while process.poll() is None and outcome.faults < options.kills:
            now, early = shards(), choose.random() < 0.3  # some while processes start
            wanted = 0 if early else now + choose.uniform(0, 2 * total / 5000 / options.kills)
            _until(lambda p=process, n=wanted: shards() >= n or p.poll() is not None, 600)  # type: ignore[misc]
            time.sleep(choose.uniform(0, 10) if early else 0)
            living = _session(process.pid)
            peak = max([peak, *map(_peak, living)])
            if living and process.poll() is None:
                chosen = choose.choice(living)
                struck["command" if chosen == process.pid else "its processes"] += 1
                _kill(chosen)
                outcome.faults += 1
                print(f"{outcome.faults} kills, {shards()} shards", file=sys.stderr, flush=True)
        while process.poll() is None:
            peak = max([peak, *map(_peak, _session(process.pid))])
            time.sleep(0.5)
        message, code = process.stderr.read().decode()[-300:], process.returncode  # type: ignore[union-attr]
        _until(lambda pid=process.pid: not _session(pid))  # type: ignore[misc]
    rows = pq.read_table(out, columns=["id", "smiles", "class", "prediction"])
    ids, bad = rows["id"].to_pylist(), [i + 2 for i in range(500, total, 1000)]
    listed = [
        int(line.split(",")[0]) for line in (out / "_skipped.csv").open() if line[0].isdigit()
    ]
    found = Counter([*ids, *listed])
    outcome.different = sum(found[i] != 1 for i in range(2, total + 2)) + (listed != bad)
    first: dict[str, Any] = {}
    for text, *said in zip(
        *(rows[name].to_pylist() for name in rows.column_names[1:]), strict=True
    ):
        known = first.setdefault(text, said)
        same = known[0] == said[0] and abs(known[1][0] - said[1][0]) < 1e-4
        outcome.different += not same
    told = ", ".join(f"{count} x {what}" for what, count in sorted(struck.items()))
    outcome.note = f"{total:,} rows; {told}; peak {peak >> 20} MiB, limit {options.memory} MiB"
    if code != 0:
        outcome.note, outcome.different = f"exit code {code}: {message}", total
    return outcome


def _peak(pid: int) -> int:
    """Memory of a process now."""
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


SCENARIOS = {"kills": kills, "ray": ray_run, "disk": disk, "cache": cache, "two runs": two_runs}
LONG = {"apply": apply}


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


def _ray_jobs() -> list[int]:
    """Processes that run a job now.

    Ray's agents have a name like theirs. A machine ends with its agent, the command with its
    machine; so they are no targets here.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] == ["ray::_do"]:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGKILL)


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
    parser.add_argument("--rows", type=int, default=1_000_000, help="Of apply.")
    parser.add_argument("--memory", type=int, default=1024, help="Of apply: MiB per process.")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="Some of these, with commas.")
    options = parser.parse_args()
    table = Table("what breaks", "faults", "starts", "results that differ", "seconds", "note")
    wrong = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        whole, began, seconds = Path(name, "whole"), time.monotonic(), 0.0
        if options.only not in LONG:
            finish(whole, Path(name, "cache"), undisturbed := Outcome(), tries=1)
            seconds = time.monotonic() - began
            table.add_row("nothing", "0", "1", str(differences(whole, whole)), f"{seconds:.0f}",
                          undisturbed.note)  # fmt: skip
        for scenario in options.only.split(","):
            began = time.monotonic()
            try:
                found = {**SCENARIOS, **LONG}[scenario](
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
