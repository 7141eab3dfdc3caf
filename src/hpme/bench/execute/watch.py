"""Progress of a long run: a bar on terminals, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hpme.bench.execute.cost import CostModel
from hpme.bench.execute.jobs import Done
from hpme.bench.experiment import Experiment
from hpme.bench.record import Record


class Watch:
    """Shows what has ended and how long the rest will take.

    Args:
        todo: The experiments to be run.
        costs: Estimates, made better by every result.
        workers: Jobs at the same time.
        console: Where to draw.
        every: Seconds between lines where there is no terminal.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        todo: Iterable[Experiment],
        costs: CostModel,
        workers: int,
        console: Console,
        *,
        every: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {experiment.key: experiment for experiment in todo}
        self._total, self._failed = len(self._left), 0
        self._costs, self._workers, self._console = costs, workers, console
        self._every, self._clock, self._said = every, clock, clock()
        self._last = ""
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=console)
            self._task = self._bar.add_task("experiments", total=self._total, note="")
            self._bar.start()

    def ended(self, done: Done) -> None:
        """Takes note of a job."""
        experiment = done.job.experiment
        if done.job.kind == "target":
            ready = done.failure is None
            self._last = f"target of {experiment.dataset} {'ready' if ready else 'failed'}"
            if not ready:
                target = experiment.target
                lost = [e.key for e in self._left.values() if e.target == target]
                self._failed += len(lost)
                for key in lost:
                    del self._left[key]
            return
        self._left.pop(experiment.key, None)
        self._last = str(experiment)
        if done.result is None:
            self._failed += 1
            self._last += " failed"
        else:
            self._costs.learn(Record.from_dict(done.result))

    def pulse(self) -> None:
        """Redraws the bar, or says a line if it is time for one."""
        if self._bar is not None:
            self._bar.update(self._task, completed=self._total - len(self._left), note=self._note())
        elif self._clock() - self._said >= self._every:
            self._said = self._clock()
            done = self._total - len(self._left)
            line = f"{done}/{self._total} {self._note()}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Leaves the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds_left(self) -> float:
        """What the rest will take, by the estimates."""
        return sum(map(self._costs.seconds, self._left.values())) / self._workers

    def _note(self) -> str:
        failed = f"{self._failed} failed, " if self._failed else ""
        return f"{failed}about {duration(self.seconds_left)} left; {self._last}"


def duration(seconds: float) -> str:
    """A time people can read."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
