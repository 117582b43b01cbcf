"""Tells of attempts that failed and tasks that ended badly, once that is committed: in the log, and to the application.

The function of the application runs in a thread of its own and holds nothing up. What it has no time for is dropped,
and the log says how much.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from onceward.model.decide import is_code_wait
from onceward.model.failure import Failure
from onceward.model.log_quota import FewLines
from onceward.model.retry import error_text
from onceward.model.status import Status
from onceward.model.task import Crash, Expire, Finish, Lease, Move, Park, TryAgain
from onceward.support.logs import EngineLog
from onceward.worker.attempt import Attempt

OnFailure = Callable[[Failure], object]

MOST_WAITING = 1_000
"""How many failures wait for the function of the application before others are dropped."""
LONGEST_END_S = 5.0
"""How long a worker that ends waits for that function."""

LOGGED_MOVES = frozenset({TryAgain, Crash, Expire, Park})
"""The moves, beside ends, of which there may be something to tell."""
_ENDS = {Status.FILTERED: "task filtered", Status.SKIPPED: "task skipped"}

logger = EngineLog("onceward.worker")


class FailureHook:
    """Calls the function of an application with failures, one after the other, in a thread of its own."""

    def __init__(self, function: OnFailure) -> None:
        self._function = function
        self._waiting: deque[Failure] = deque()
        self._changed = threading.Condition()
        self._dropped = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def __call__(self, failure: Failure) -> None:
        """Have the function called; never waits."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._dropped += 1
                return
            self._waiting.append(failure)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="onceward failures", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Wait a little until all that was told is handed over."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(LONGEST_END_S)
        with self._changed:
            self._is_closed = False

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                failure, dropped = self._waiting.popleft(), self._dropped
                self._dropped = 0
            if dropped:
                logger.warning("on_failure is too slow, failures were not handed over", count=dropped)
            call(self._function, failure)


def call(function: OnFailure, failure: Failure) -> None:
    """Call the function of an application; what it raises is a line of the log."""
    try:
        function(failure)
    except BaseException as error:  # it must not end the thread, nor the worker
        logger.warning("on_failure has failed", task=failure.task, error=error_text(error), exc_info=error)


class Failures:
    """Tells of what was committed for the attempts of one process."""

    def __init__(self, on_failure: OnFailure | None) -> None:
        self._on_failure = on_failure
        self._parked = FewLines()

    def tell(self, attempt: Attempt, move: Move, given_up: str | None, now: int) -> None:
        """Tell of a move that is committed, if something has failed or ended; `given_up` is why no retry follows."""
        lease = attempt.lease
        # The traceback of the error leads back to the attempt: let go of it, or what it holds open stays so for long.
        error, attempt.error = attempt.error, None
        values: dict[str, Any] = {"task": lease.task, "kind": lease.kind, "lineage": str(lease.lineage)}
        match move:
            case TryAgain(stage, due_at, reason):
                values |= {"stage": stage, "attempt": lease.failures + 1}
                again = {} if given_up is not None else {"again_in_s": max(0, due_at - now) / 1_000}
                logger.warning("stage failed", **values, error=reason, **again, **_trace(move.trace))
                if given_up is not None:
                    logger.warning("task failed", **values, reason=given_up)
                status = Status.RETRYABLE if given_up is None else Status.FAILED
                self._hand_over(attempt, error, stage, status, reason if given_up is None else given_up, move.trace)
            case Finish(stage, _, status, reason):
                if status is not Status.FAILED:
                    logger.info(_ENDS[status], **values, stage=stage, reason=reason)
                    return
                values |= {"stage": stage, "attempt": lease.failures + 1}
                trace = _trace(move.trace)
                if move.fingerprint:
                    logger.warning("stage failed", **values, error=reason, **trace)
                    trace = {}
                logger.warning("task failed", **values, reason=reason, **trace)
                self._hand_over(attempt, error, stage, status, reason or "", move.trace)
            case Crash(stage, reason, status):
                event = "task failed" if status.is_terminal else "stage failed"
                logger.warning(event, **values, stage=stage, reason=reason)
                self._hand_over(attempt, error, stage, status, reason, None)
            case Expire(stage, reason):
                logger.warning("task failed", **values, stage=stage, reason=reason)
                self._hand_over(attempt, error, stage, Status.FAILED, reason, None)
            case Park(stage, waiting_for, _, reason) if is_code_wait(waiting_for):
                if (left_out := self._parked.next(lease.kind, now)) is not None:
                    more = {"others": left_out} if left_out else {}
                    logger.warning("task parked: it does not fit the code", **values, reason=reason, **more)

    def tell_unclaimed(self, lease: Lease, reason: str) -> None:
        """Tell of a task that has failed by its claim: its budget was spent, and it shall not wait."""
        values = {"task": lease.task, "kind": lease.kind, "lineage": str(lease.lineage)}
        logger.warning("task failed", **values, stage=lease.stage, reason=reason)
        if self._on_failure is not None:
            number = lease.failures + 1
            self._on_failure(
                Failure(lease.task, lease.kind, lease.lineage, lease.stage, number, Status.FAILED, reason, None, None)
            )

    def _hand_over(
        self, attempt: Attempt, error: BaseException | None, stage: str, status: Status, reason: str, trace: str | None
    ) -> None:
        if self._on_failure is not None:
            lease = attempt.lease
            number = lease.failures + 1
            self._on_failure(
                Failure(lease.task, lease.kind, lease.lineage, stage, number, status, reason, trace, error)
            )


def _trace(trace: str | None) -> dict[str, str]:
    return {} if trace is None else {"exception": trace}
