"""The daemon's periodic jobs: rescan, retention, check-point. Door: APScheduler.

Per-directory times (settling, grace) are not here: the loop's own timers do those (docs/design.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.schedulers.asyncio import AsyncIOScheduler


@dataclass(slots=True)
class JobState:
    """What `status` tells of a job; times are epoch milliseconds."""

    name: str
    next_run_ms: int | None = None
    last_run_ms: int | None = None
    last_error: str | None = None


class Schedule:
    """Runs coroutines every so often, one run of a job at a time."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._states: dict[str, JobState] = {}
        # A run that comes late (the machine slept) is made once, not once for each that was missed.
        self._scheduler = AsyncIOScheduler(
            timezone=UTC, job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        self._scheduler.add_listener(self._ran, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)

    def every(self, name: str, seconds: float, job: Callable[[], Awaitable[None]]) -> None:
        """Run `job` every `seconds`, first after that time.

        `job` is a coroutine function: APScheduler looks at the function, and runs any other in a thread.
        """
        assert iscoroutinefunction(job)
        self._states[name] = JobState(name)
        first = datetime.now(UTC) + timedelta(seconds=seconds)
        self._scheduler.add_job(job, "interval", seconds=seconds, id=name, next_run_time=first)

    def drop(self, name: str) -> None:
        """Run a job no more; one that is not there is fine."""
        if self._states.pop(name, None) is not None:
            self._scheduler.remove_job(name)

    def retime(self) -> None:
        """Count from now on: the time of day was set, and a job may lie a year ahead by it."""
        for name in self._states:
            job = self._scheduler.get_job(name)
            if job is not None:
                job.reschedule("interval", seconds=job.trigger.interval.total_seconds())

    def start(self) -> None:
        """Begin; needs the running loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """End without waiting for a job that runs."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def states(self) -> list[JobState]:
        """Give what is known of each job."""
        for name, state in self._states.items():
            job = self._scheduler.get_job(name)
            when = getattr(job, "next_run_time", None)
            state.next_run_ms = int(when.timestamp() * 1000) if when is not None else None
        return list(self._states.values())

    def _ran(self, event: Any) -> None:
        state = self._states.get(event.job_id)
        if state is None:
            return
        state.last_run_ms = self._clock_ms()
        error = getattr(event, "exception", None)
        state.last_error = None if error is None else f"{type(error).__name__}: {error}"
