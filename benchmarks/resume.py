"""Is a benchmark that was killed twice the same as one that was not?

    python benchmarks/resume.py
    python benchmarks/resume.py --explainers random,grad,hpme --graphs 20 --size 100

Runs ``hpme bench table1`` on two datasets and two seeds, once undisturbed and once with two
SIGKILLs and restarts, each with an empty cache, and compares all results bit by bit.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpme.bench import ResultStore

PROGRAM = "from hpme.cli import main; main()"
SAME = ("values", "spread", "undefined", "context")


def command(options: argparse.Namespace, out: Path) -> list[str]:
    return [
        sys.executable, "-c", PROGRAM, "bench", "table1",
        "--seeds", "100-101", "--datasets", "ba-2motifs,ba-motif-volume",
        "--explainers", options.explainers, "--workers", str(options.workers),
        "--graphs", str(options.graphs), "--size", str(options.size),
        "--train-steps", str(options.train_steps), "--out", str(out),
    ]  # fmt: skip


def run(folder: Path, options: argparse.Namespace, kill_after: int | None = None) -> None:
    """Runs the benchmark to its end, or until there are ``kill_after`` results."""
    environment = {**os.environ, "HPME_CACHE_DIR": str(folder / "cache")}
    process = subprocess.Popen(
        command(options, folder / "out"), env=environment, stdout=subprocess.DEVNULL
    )
    while process.poll() is None:
        if kill_after is not None and count(folder) >= kill_after:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.02)
    code = process.wait()
    if code != (-signal.SIGKILL if kill_after is not None else 0):
        sys.exit(f"the benchmark ended with {code}")


def count(folder: Path) -> int:
    path = ResultStore(folder / "out").path("table1")
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--explainers", default="random,grad,gnnexplainer,matchexplainer,hpme")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--size", type=int, default=60)
    parser.add_argument("--train-steps", type=int, default=20)
    options = parser.parse_args()
    total = 4 * len(options.explainers.split(","))
    with tempfile.TemporaryDirectory() as name:
        whole, pieces = Path(name, "whole"), Path(name, "pieces")
        run(whole, options)
        for share in (3, 1.5):
            run(pieces, options, kill_after=round(total / share))
            print(f"killed with {count(pieces)} of {total} results")
        run(pieces, options)
        records = [list(ResultStore(folder / "out").records()) for folder in (whole, pieces)]
    differences = 0
    for one, other in zip(*records, strict=True):
        for part in SAME:
            if getattr(one, part) != getattr(other, part):
                differences += 1
                print(f"{one.experiment}: {part} differs")
    print(f"{len(records[0])} experiments, {differences} differences")
    sys.exit(bool(differences) or len(records[0]) != total)


if __name__ == "__main__":
    main()
