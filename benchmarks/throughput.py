"""Experiments per minute with one worker and with two.

    python benchmarks/throughput.py

The same experiments, independent of each other and with their target already trained, are run with
one worker and with two, by turns, so that other load on the machine hits both alike. Workers are
started before the clock is. CPU seconds per experiment tell whether the machine was shared: if wall
time is well above CPU time with one worker already, cores were not free.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from hpme.bench import Experiment, Plan, ResultStore
from hpme.bench.jobs import Job, run_plan, work
from hpme.execute import LocalExecutor


def rate(experiments: list[Experiment], workers: int) -> tuple[float, float]:
    """Experiments per minute, and the share of the time that workers had a core."""
    executor = LocalExecutor(workers, work)
    try:
        for _ in range(workers):  # a job each, so that all have loaded what they need
            executor.submit(Job("target", experiments[0]))
        for _ in range(workers):
            while not executor.wait(1.0):
                pass
        with tempfile.TemporaryDirectory() as folder:
            store = ResultStore(folder)
            start = time.perf_counter()
            failures = run_plan(Plan.of(experiments, store), store, executor)
            seconds = time.perf_counter() - start
            assert not failures, failures
            busy = sum(record.cost["cpu_seconds"] for record in store.records())
    finally:
        executor.close()
    return 60 * len(experiments) / seconds, busy / seconds / workers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--explainer", default="gnnexplainer")
    parser.add_argument("--graphs", type=int, default=100)
    options = parser.parse_args()
    experiments = [
        Experiment(
            "ba-2motifs", options.explainer, seed, size=300, graphs=options.graphs, train_steps=20
        )
        for seed in range(options.experiments)
    ]
    ratios = []
    print("| round | per minute, 1 worker | 2 workers | ratio | core share, 1 worker | 2 workers |")
    print("|---|---|---|---|---|---|")
    for number in range(options.rounds):
        (one, one_share), (two, two_share) = (rate(experiments, workers) for workers in (1, 2))
        ratios.append(two / one)
        print(
            f"| {number + 1} | {one:.1f} | {two:.1f} | {two / one:.2f} | {one_share:.2f} | "
            f"{two_share:.2f} |",
            flush=True,
        )
    print(f"\nmedian ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
