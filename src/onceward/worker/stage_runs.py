"""Stages while they run: on the event loop, in a thread, or in a process of their own, each with its time limit.

Whatever a stage returns or raises comes back by one way, `ended`, on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from onceward.config import Config
from onceward.desk import Desk
from onceward.errors import LeaseLost
from onceward.running_stage import current
from onceward.stage import Stage
from onceward.worker import points
from onceward.worker.attempt import Attempt
from onceward.worker.isolated import run_isolated
from onceward.worker.presence import NO_LIMIT, Presence
from onceward.worker.threads import StageThreads

Ended = Callable[[Attempt, Stage[Any, Any], Any, BaseException | None], None]
"""Told of an attempt whose stage has returned a value or raised an error."""


class StageRuns:
    """Runs the stages of one process."""

    def __init__(
        self,
        config: Config,
        *,
        ended: Ended,
        threads: StageThreads,
        presence: Presence | None,
        desk: Desk,
        app_path: str | None,
        isolates: bool,
        limit_ms: Callable[[Attempt], int],
        now: Callable[[], int],
        monotonic: Callable[[], int],
    ) -> None:
        self.config = config
        self._ended = ended
        self._threads = threads
        self._presence = presence
        self._desk = desk
        self._app_path = app_path
        self._isolates = isolates
        self._limit_ms = limit_ms
        self._now = now
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self.has_zombie_thread = False
        """Whether a thread is lost to a stage that does not end."""

    def start(self, attempt: Attempt) -> None:
        """Run the stage of an attempt."""
        stage = attempt.stage
        attempt.ended = attempt.timed_out = False
        if stage.isolation is not None and self._isolates:
            self._start_clock(attempt)
            attempt.task = self._loop.create_task(self._run_isolated(attempt))
        elif stage.is_async:
            self._start_clock(attempt)
            attempt.task = self._loop.create_task(self._run_async(attempt))
        else:
            attempt.task = attempt.limit_at = None
            attempt.ticket = [None]
            self._threads.submit(
                lambda: self._run_in_thread(attempt),
                lambda value, error: self._ended(attempt, stage, value, error),
            )

    def _start_clock(self, attempt: Attempt) -> None:
        """From here on the stage is running: its time limit counts, and it is a suspect if the process dies."""
        stage = attempt.stage
        attempt.started_at = self._monotonic()
        attempt.timeout_ms = stage.limit_ms(self.config.stage_timeout_ms)
        attempt.over_at = attempt.started_at + attempt.lease.clock_at + self._limit_ms(attempt) - self._now()
        attempt.limit_at = attempt.limit_from(attempt.started_at)
        if self._presence is not None:
            attempt.slot = self._presence.enter(attempt.lease.task, attempt.limit_at or NO_LIMIT)
        if points.hook is not None:
            points.reach(f"before {stage.name}")

    def leave(self, attempt: Attempt) -> None:
        """The stage is no suspect any more, whatever the process dies of."""
        if attempt.slot is not None and self._presence is not None:
            self._presence.leave(attempt.slot)
            attempt.slot = None

    def stop_if_late(self, attempt: Attempt, now: int) -> None:
        """Cancel the stage of an attempt if its time is up."""
        if attempt.limit_at is None or now < attempt.limit_at or attempt.ended or attempt.timed_out:
            return
        attempt.timed_out = True
        if attempt.task is not None:
            attempt.task.cancel()
        else:
            # A thread cannot be stopped. Its stage has failed all the same, and what it says is not heard.
            self.has_zombie_thread = True
            self._threads.abandon_one()
            self._ended(attempt, attempt.stage, None, None)

    def _run_in_thread(self, attempt: Attempt) -> Any:
        if not attempt.take_ticket():
            raise LeaseLost(f"task {attempt.lease.task} was given back before its stage began")
        self._start_clock(attempt)
        current.set(attempt.context)
        return attempt.stage.function(attempt.context)

    async def _run_async(self, attempt: Attempt) -> None:
        stage = attempt.stage
        current.set(attempt.context)
        try:
            value = await stage.function(attempt.context)
        except BaseException as error:  # a verdict, an error, a cancellation: all belong to the stage
            self._ended(attempt, stage, None, error)
        else:
            self._ended(attempt, stage, value, None)

    async def _run_isolated(self, attempt: Attempt) -> None:
        stage = attempt.stage
        try:
            value = await run_isolated(attempt, self._app_path, self._desk)
        except BaseException as error:  # as above; a death of its process is an error too, of a kind of its own
            self._ended(attempt, stage, None, error)
        else:
            self._ended(attempt, stage, value, None)
