"""Tells the application of tasks that have failed without a stage of this process: their worker has died, or their time
was over in line.

A supervisor runs no code of the application, so it has its children tell: each of them reads what failed from a pipe.
What no child has room for is dropped, as what a slow function has no time for is.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from onceward.model.failure import Failure
from onceward.model.status import Status
from onceward.store.attempts.engine_failures import EngineFailure, read_failures
from onceward.store.drivers.session import Session
from onceward.support.logs import EngineLog

MOST_DELIVERED = 1_000
"""How many tasks that ended together the application is told of, and how many wait for a child."""
LONGEST_REASON = 500
LONGEST_LINE = 4_096
"""What a pipe takes whole or not at all."""

logger = EngineLog("onceward.worker")


class FailureDelivery:
    """Logs such tasks, a line for each, and hands them to `on_failure` where the application has one."""

    def __init__(self, session: Session, on_failure: Callable[[Failure], object] | None) -> None:
        self._session = session
        self._on_failure = on_failure

    def __call__(self, failures: Sequence[EngineFailure]) -> None:
        """Tell of these, whose failure is committed."""
        if not failures:
            return
        if (left_out := len(failures) - MOST_DELIVERED) > 0:
            logger.warning("many tasks have failed at once, not all are told of one by one", count=left_out)
        for failure in self._session.ask(lambda: read_failures(failures[:MOST_DELIVERED])):
            values = {"task": failure.task, "kind": failure.kind, "lineage": str(failure.lineage)}
            if failure.has_ended:
                logger.warning("task failed", **values, reason=failure.reason)
            else:
                logger.warning("stage failed", **values, error=failure.reason)
            if self._on_failure is not None:
                self._on_failure(failure)


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """A failure as it crosses to a child. It has no traceback: nothing was raised."""

    task: int
    kind: str
    lineage: str
    stage: str | None
    attempt: int
    status: int
    reason: str

    @property
    def failure(self) -> Failure:
        """What the application is told."""
        lineage, status = uuid.UUID(self.lineage), Status(self.status)
        return Failure(self.task, self.kind, lineage, self.stage, self.attempt, status, self.reason, None, None)


_read_line = msgspec.json.Decoder(_Line).decode


class ChildFailures:
    """The failures that a supervisor has its children tell of."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque(maxlen=MOST_DELIVERED)

    @property
    def has_any(self) -> bool:
        """Whether no child has been told of some yet."""
        return bool(self._waiting)

    def add(self, failure: Failure) -> None:
        """Have one of them tell of this, when one can."""
        one = failure
        reason = one.reason[:LONGEST_REASON]
        line = _Line(one.task, one.kind, str(one.lineage), one.stage, one.attempt, int(one.status), reason)
        data = msgspec.json.encode(line) + b"\n"
        if len(data) <= LONGEST_LINE:
            self._waiting.append(data)

    def hand_over(self, pipes: Iterable[int]) -> None:
        """Write what waits to the first of some pipes that has room; never waits."""
        for pipe in pipes:
            with suppress(OSError):  # full, or its child is gone
                while self._waiting:
                    os.write(pipe, self._waiting[0])
                    self._waiting.popleft()


def deliver_from_pipe(pipe: int, on_failure: Callable[[Failure], object]) -> None:
    """Tell of what a supervisor writes, in a thread, until it is gone."""

    def listen() -> None:
        with os.fdopen(pipe, "rb") as lines:
            for data in lines:
                on_failure(_read_line(data).failure)

    threading.Thread(target=listen, name="onceward failures of others", daemon=True).start()
