"""What a job is to whoever does it: something that comes back with a result or a failure."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Failure:
    """Why there is no result."""

    error: str  # kind of error
    message: str
    trace: str = ""  # where it happened

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """The failure that is being handled."""
        return cls(type(error).__name__, str(error), traceback.format_exc())


@dataclass(frozen=True)
class Done:
    """A job that has come to an end."""

    job: Any
    result: Any = None  # nothing if it failed
    failure: Failure | None = None


Work = Callable[..., Done]
"""Does a job; an error becomes a :class:`Failure`. It travels to other processes."""


class Executor(Protocol):
    """Does jobs, many at a time; each of them comes back as :class:`Done` exactly once."""

    @property
    def free(self) -> bool:
        """Whether it takes another job now."""

    def submit(self, job: Any) -> None:
        """Begins a job."""

    def wait(self, timeout: float) -> list[Done]:
        """Jobs that have ended; none if nothing ends within ``timeout`` seconds."""

    def close(self) -> None:
        """Ends all work; jobs that have not ended are lost."""


class InProcess:
    """Does jobs at once, in this process."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ended: list[Done] = []

    @property
    def free(self) -> bool:
        """Whether the job before has been asked for."""
        return not self._ended

    def submit(self, job: Any) -> None:
        """Does a job."""
        self._ended.append(self._work(job))

    def wait(self, timeout: float) -> list[Done]:
        """The job that was done."""
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Nothing is left to be ended."""
