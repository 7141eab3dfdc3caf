"""``hpme bench``: the experiments of a table or figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from hpme import paper
from hpme.commands.options import SizeOption, StepsOption
from hpme.commands.shared import check_writable, command, known, refuse, say, usage

if TYPE_CHECKING:
    from hpme.bench import Experiment, Plan
    from hpme.bench.jobs import CostModel
    from hpme.execute import Executor
    from hpme.paper.shared.suite import Suite

CHOICES = (*paper.NAMES, paper.ALL)


@command
def bench(
    suite: Annotated[str, typer.Argument(help="Which one: " + ", ".join(CHOICES) + ".")],
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes on this machine, one core each [default: 1]."),
    ] = None,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="On this machine, or on a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="A running Ray cluster [default: Ray on this machine]."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", "-s", help="Seeds such as 100-101 [default: the suite's]."),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Only these, separated by commas [default: all].")
    ] = None,
    explainers: Annotated[
        str | None, typer.Option(help="Only these, separated by commas [default: all].")
    ] = None,
    graphs: Annotated[
        int | None, typer.Option(min=1, help="Number of graphs to explain, to try things out.")
    ] = None,
    size: SizeOption = None,
    train_steps: StepsOption = None,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder of the results; see hpme tables.")
    ] = Path("out/bench"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
) -> None:
    """Run the experiments of a table or figure of the paper, or of all of them.

    Many tables share experiments; with "all" each is run once.

    Every finished experiment is kept at once: a run that was stopped, or killed, goes on where it
    was when started again. An experiment that fails does not stop the others; it is
    tried again in the next run.

    Exit codes: 0 done, 1 something failed, 2 wrong usage, 130 interrupted.
    """
    known("SUITE", "suite", suite, CHOICES)
    if executor == "ray" and workers is not None:
        refuse("belongs to --executor local; Ray uses what cores the cluster has", "--workers")
    if executor == "local" and address is not None:
        refuse("belongs to --executor ray", "--address")
    from hpme.bench import Plan, ResultStore
    from hpme.bench.jobs import CostModel, ExperimentCluster, Watch, is_prepared, run_plan, work
    from hpme.execute import LocalExecutor
    from hpme.paper.suites import EVERYTHING, REPORTED, SUITES, home

    everything = suite == paper.ALL
    chosen = EVERYTHING if everything else SUITES[suite]
    changes = {"graphs": graphs, "size": size, "train_steps": train_steps}
    experiments = chosen_experiments(chosen, seeds, datasets, explainers, **changes)
    store = ResultStore(out)
    plan, costs = Plan.of(experiments, store), CostModel(store.records())
    untrained = [experiment for experiment in plan.targets if not is_prepared(experiment)]
    _show_plan(chosen.title, plan, untrained, costs, workers or 1)
    if dry_run:
        return
    if plan.todo:
        usage("--out", check_writable, store.path(suite))
    names = list(REPORTED) if everything else [suite]
    store.begin(names)
    if not plan.todo:
        return
    suite_of, count = home if everything else lambda experiment: suite, workers or 1
    jobs: Executor = ExperimentCluster(address) if executor == "ray" else LocalExecutor(count, work)
    count = jobs.cores if isinstance(jobs, ExperimentCluster) else count
    watch = Watch(plan.todo, costs, count, Console(stderr=True), untrained=untrained)
    try:
        failures = run_plan(
            plan, store, jobs, suite_of=suite_of, ended=watch.ended, pulse=watch.pulse
        )
    except KeyboardInterrupt:
        watch.close()
        say("interrupted; finished results are kept, the same command goes on from here")
        raise typer.Exit(130) from None
    finally:
        watch.close()
        jobs.close()
    store.sort(names)
    done = len(plan.todo) - len(failures)
    say(f"{done} done, {len(failures)} failed; results are in {out / 'results'}")
    if failures:
        for experiment, failure in failures:
            message = failure.message.strip().splitlines() or [""]
            say(f"failed: {experiment}: {failure.error}: {message[0]}", style="red")
        say(f"traces are in {out / 'failures'}; the same command tries again", style="red")
        raise typer.Exit(1)


def chosen_experiments(
    suite: Suite,
    seeds: str | None = None,
    datasets: str | None = None,
    explainers: str | None = None,
    **changes: int | None,
) -> list[Experiment]:
    """The experiments of a suite that the command line asks for; ``changes`` are fields to set."""
    from hpme.bench import parse_seeds

    chosen = usage("--seeds", parse_seeds, seeds) if seeds else list(suite.seeds)
    experiments = suite.experiments(chosen)
    experiments = _only("--datasets", "dataset", datasets, experiments)
    experiments = _only("--explainers", "explainer", explainers, experiments)
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    return [replace(experiment, **given) for experiment in experiments]


def _only(
    hint: str, attribute: str, text: str | None, experiments: Sequence[Experiment]
) -> list[Experiment]:
    """The experiments with one of the names in ``text``."""
    if text is None:
        return list(experiments)
    names = [name.strip() for name in text.split(",")]
    valid = sorted({getattr(e, attribute) for e in experiments} - {None})
    if not valid:
        refuse(f"this suite has no {attribute} to choose", hint)
    for name in names:
        known(hint, attribute, name, valid)
    return [e for e in experiments if getattr(e, attribute) in names]


def _show_plan(
    title: str, plan: Plan, untrained: Sequence[Experiment], costs: CostModel, workers: int
) -> None:
    from hpme.bench.jobs import duration, target_seconds
    from hpme.bench.run import versions

    table = Table(title=title, title_justify="left", header_style="bold")
    for name in ("dataset", "experiments", "done", "to do", "targets to train", "estimate"):
        table.add_column(name, justify="left" if name == "dataset" else "right")
    total = Counter(e.dataset for e in plan.experiments)
    seconds = 0.0
    for name, count in total.items():
        todo = [e for e in plan.todo if e.dataset == name]
        targets = [e for e in untrained if e.dataset == name]
        cost = sum(map(costs.seconds, todo)) + costs.pace * sum(map(target_seconds, targets))
        seconds += cost
        row = (count, count - len(todo), len(todo), len(targets), duration(cost) if todo else "-")
        table.add_row(name, *map(str, row))
    console = Console()
    console.print(table)
    if plan.todo:
        known_costs = sum(map(costs.measured, plan.todo))
        console.print(
            f"{len(plan.todo)} to do, {len(untrained)} targets to train: about "
            f"{duration(seconds / workers)} with {workers} worker{'s' * (workers > 1)} (estimate; "
            f"{known_costs} from results like them, {len(plan.todo) - known_costs} from what is "
            "typical)",
            soft_wrap=True,
        )
    else:
        console.print("nothing to do")
    others = Counter(
        ", ".join(f"{name} {version}" for name, version in record.versions.items())
        for record in plan.done
        if record.versions != versions()
    )
    for text, count in others.items():
        say(f"note: {count} results were made with {text}", style="yellow")
