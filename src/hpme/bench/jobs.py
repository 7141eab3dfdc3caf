"""Pieces of work that can be done in any process: train a target, or run an experiment."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from hpme.bench.experiment import Experiment
from hpme.bench.run import run_experiment, subject

Kind = Literal["target", "experiment"]


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Args:
        kind: ``"target"`` prepares the target of the experiment, ``"experiment"`` runs it.
        experiment: The experiment.
    """

    kind: Kind
    experiment: Experiment


@dataclass(frozen=True)
class Failure:
    """Why a job failed.

    Args:
        error: Kind of error.
        message: Its message.
        trace: Where it happened.
    """

    error: str
    message: str
    trace: str = ""


@dataclass(frozen=True)
class Done:
    """A job that has come to an end.

    Args:
        job: The job.
        result: Record of the experiment as JSON values; nothing for a target.
        failure: Why there is no result.
    """

    job: Job
    result: dict[str, Any] | None = None
    failure: Failure | None = None


class Executor(Protocol):
    """Does jobs, many at a time; each of them comes back as :class:`Done` exactly once."""

    @property
    def free(self) -> bool:
        """Whether it takes another job now."""

    def submit(self, job: Job) -> None:
        """Begins a job."""

    def wait(self, timeout: float) -> list[Done]:
        """Jobs that have ended; none if nothing ends within ``timeout`` seconds."""

    def close(self) -> None:
        """Ends all work; jobs that have not ended are lost."""


def work(job: Job) -> Done:
    """Does a job in this process; an error becomes a :class:`Failure`."""
    # Sums depend on the number of threads in their last bits, and results must not.
    torch.set_num_threads(1)
    try:
        if job.kind == "target":
            subject(*job.experiment.target)
            return Done(job)
        return Done(job, run_experiment(job.experiment).to_dict())
    except Exception as error:
        return Done(job, failure=Failure(type(error).__name__, str(error), traceback.format_exc()))
