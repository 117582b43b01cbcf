"""Stages while they run: on the event loop, in a thread, or in a process of their own, each with its time limit.

Whatever a stage returns or raises comes back by one way, `ended`, on the event loop.

On the event loop a stage is awaited by a carrier, an asyncio task that goes on to the next stage when one has ended: a
task for each stage would cost more than a stage that does little. While something waits there is one carrier more than
run; it begins when the one before it has to wait. A carrier whose stage has left a trace in it ends, and the next stage
finds a new one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from onceward.authoring.current_stage import current
from onceward.authoring.stage import Stage
from onceward.authoring.worker_port import Desk
from onceward.errors import LeaseLost
from onceward.settings.config import Config
from onceward.worker import crash_points, observing
from onceward.worker.attempt import Attempt
from onceward.worker.isolated import run_isolated
from onceward.worker.runner_ports import Place
from onceward.worker.stage_processes import StageProcesses

Ended = Callable[[Attempt, Stage[Any, Any], Any, BaseException | None], None]
"""Told of an attempt whose stage has returned a value or raised an error."""

LONGEST_CLEANUP_MS = 10_000
"""How long a stage that was cancelled may take to end; one that goes on all the same is left alone."""
CARRY_ON_MS = 2
"""How long a carrier goes from stage to stage before others on the event loop have their turn."""


class StageRuns:
    """Runs the stages of one process."""

    def __init__(
        self,
        config: Config,
        place: Place,
        *,
        ended: Ended,
        begin_next: Callable[[], bool],
        desk: Desk,
        limit_ms: Callable[[Attempt], int],
        monotonic: Callable[[], int],
    ) -> None:
        self.config = config
        self._ended = ended
        self._begin_next = begin_next
        """Begins attempts until one waits to be carried; false if there is none, or no slot for it."""
        self._threads = place.threads
        self._presence = place.presence
        self._desk = desk
        self._app_path = place.app_path
        self._isolates = place.isolates
        self._processes = StageProcesses()
        self._limit_ms = limit_ms
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_native_id()
        self.ahead_ms = 0
        """How far the clock of the database is ahead of the one that is never set."""
        self._waiting: deque[Attempt] = deque()
        """Those whose stages are to run on the event loop."""
        self._carrier_is_coming = False
        self._surroundings = copy_context()
        """The context variables of the worker: a stage sees these, and none that another stage has set."""
        self._left_behind: list[Attempt] = []
        """Stages in threads that have lost their leases, and may not have ended."""
        self.has_zombie_thread = False
        """Whether a thread is lost to a stage that does not end."""

    def start(self, attempt: Attempt) -> bool:
        """Run the stage of an attempt; whether it waits for a carrier."""
        stage = attempt.stage
        attempt.ended = attempt.timed_out = False
        attempt.task = attempt.limit_at = None
        if stage.isolation is not None and self._isolates:
            self._start_clock(attempt, self._thread)
            attempt.task = self._loop.create_task(self._run_isolated(attempt))
        elif stage.is_async:
            self._waiting.append(attempt)
            if not self._carrier_is_coming:
                self._call_carrier()
            return True
        else:
            attempt.ticket = [None]
            self._threads.submit(
                lambda: self._run_in_thread(attempt),
                lambda value, error: self._make_room(attempt, stage, value, error),
            )
        return False

    def _start_clock(self, attempt: Attempt, thread: int) -> None:
        """From here on the stage is running: its time limit counts, and it is a suspect if the process dies."""
        stage = attempt.stage
        attempt.started_at = now = self._monotonic()
        attempt.timeout_ms = stage.timeout_ms if stage.declares_timeout else self.config.stage_timeout_ms
        attempt.over_at = attempt.lease.clock_at + self._limit_ms(attempt) - self.ahead_ms
        attempt.limit_at = attempt.limit_from(now)
        if self._presence is not None:
            attempt.slot = self._presence.enter(attempt.lease.task, attempt.limit_at, thread)
        if crash_points.hook is not None:
            crash_points.reach(f"before {stage.name}")

    def leave(self, attempt: Attempt) -> None:
        """The stage is no suspect any more, whatever the process dies of."""
        if attempt.slot is not None and self._presence is not None:
            self._presence.leave(attempt.slot)
            attempt.slot = None

    def stop_if_late(self, attempt: Attempt, now: int) -> None:
        """Cancel the stage of an attempt if its time is up, and go on without it if it does not heed that."""
        if attempt.timed_out:
            if not attempt.ended and now >= attempt.timed_out_at + LONGEST_CLEANUP_MS:
                self._make_room(attempt, attempt.stage, None, None)
            return
        if attempt.limit_at is None or now < attempt.limit_at or attempt.ended:
            return
        attempt.timed_out = True
        attempt.timed_out_at = now
        if attempt.task is not None:
            attempt.task.cancel()
        else:
            # A thread cannot be stopped. Its stage has failed all the same, and what it says is not heard.
            self._lose_thread()
            self._make_room(attempt, attempt.stage, None, None)

    def leave_behind(self, attempt: Attempt) -> None:
        """A stage in a thread has lost its lease. Its next use of its context raises; it has a while to get there."""
        attempt.timed_out_at = self._monotonic()
        self._left_behind.append(attempt)

    def look_behind(self, now: int) -> None:
        """Treat a stage that goes on without its lease as one that goes on after its time limit."""
        for attempt in self._left_behind[:]:
            is_late = now >= attempt.timed_out_at + LONGEST_CLEANUP_MS
            if attempt.ended or is_late:
                self._left_behind.remove(attempt)
            if is_late and not attempt.ended:
                self._lose_thread()

    def _lose_thread(self) -> None:
        self.has_zombie_thread = True
        self._threads.abandon_one()

    def _run_in_thread(self, attempt: Attempt) -> Any:
        if not attempt.take_ticket():
            raise LeaseLost(f"task {attempt.lease.task} was given back before its stage began")
        self._start_clock(attempt, threading.get_native_id())
        if observing.observer is not None:
            observing.observer.begins(attempt)
        current.set(attempt.context)
        return attempt.stage.function(attempt.context)

    def _call_carrier(self) -> None:
        """Have one more carrier begin soon; the caller has seen that none is coming."""
        self._carrier_is_coming = True
        self._loop.create_task(self._carry(), context=self._surroundings.copy())

    async def _carry(self) -> None:
        """Run stages, one after the other, until nothing waits, one has left a trace, or it is the turn of others."""
        self._carrier_is_coming = False
        carrier = asyncio.current_task()
        assert carrier is not None
        current.set(None)
        untouched = copy_context()
        turn_ends_at = 0
        while self._waiting or self._begin_next():
            attempt = self._waiting.popleft()
            if attempt.ended or attempt.lost:
                continue  # it was given back, or taken from us, before it could begin
            if self._waiting and not self._carrier_is_coming:
                self._call_carrier()
            stage = attempt.stage
            self._start_clock(attempt, self._thread)
            attempt.task = carrier
            if observing.observer is not None:
                observing.observer.begins(attempt)
            current.set(attempt.context)
            value, error = None, None
            try:
                value = await stage.function(attempt.context)
            except BaseException as raised:  # a verdict, an error, a cancellation: all belong to the stage
                error = raised
            attempt.task = None
            self._ended(attempt, stage, value, error)
            current.set(None)
            turn_ends_at = turn_ends_at or attempt.started_at + CARRY_ON_MS
            has_trace = error is not None or carrier.cancelling() or not _is_same(copy_context(), untouched)
            if has_trace or attempt.started_at >= turn_ends_at:
                if not self._carrier_is_coming:
                    self._call_carrier()
                return

    async def close(self) -> None:
        """End the processes that are kept for isolated stages."""
        await self._processes.close()

    async def _run_isolated(self, attempt: Attempt) -> None:
        stage = attempt.stage
        if observing.observer is not None:
            observing.observer.begins(attempt)
        try:
            value = await run_isolated(attempt, self._app_path, self._desk, self._processes)
        except BaseException as error:  # as above; a death of its process is an error too, of a kind of its own
            self._make_room(attempt, stage, None, error)
        else:
            self._make_room(attempt, stage, value, None)

    def _make_room(self, attempt: Attempt, stage: Stage[Any, Any], value: Any, error: BaseException | None) -> None:
        """Note the end of a stage without a carrier; another may begin."""
        self._ended(attempt, stage, value, error)
        self._begin_next()


def _is_same(context: Context, other: Context) -> bool:
    """Whether two contexts have the same variables with the same values."""
    try:
        return context == other
    except Exception:  # values of the application's own types, of which one is no more than like the other
        return False
