"""The process of isolated stages, one run or several: `python -m onceward.worker.disposable DESCRIPTOR`."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from onceward.authoring.calls import Closed
from onceward.authoring.context import Context
from onceward.authoring.current_stage import current, fields_of_stage
from onceward.errors import ConfigError, LeaseLost, PayloadError
from onceward.model.cache import AnswerTaken, Cached
from onceward.model.decide import fault_of, safe_text
from onceward.model.holds import NotEnough
from onceward.model.outcome import Failed, Filtered, Skipped, Verdict, Waiting, WaitingForBudget, unwrapped
from onceward.model.source import NotYet
from onceward.model.task import NO_EFFECTS, Effects, Fill, Filled, Hold, Keep, Lease, Move, Report, Take
from onceward.model.times import SystemClock
from onceward.model.tracebacks import trace_of
from onceward.store.governance.cache import look_up
from onceward.support.logs import stages_in_records
from onceward.worker import find_app, observing
from onceward.worker.engine_threads import off_loop
from onceward.worker.isolated import (
    FilledNotice,
    FillRequest,
    HoldRequest,
    KeepRequest,
    LeaseQuery,
    ProgressNotice,
    StageRaised,
    StageReturned,
    StageStart,
    TakeRequest,
    WorkerAnswer,
    framed,
    read_answer,
    read_start,
    verdict_name,
    writes_by_name,
)
from onceward.worker.process_limits import end_with_parent, limited, memory_mb
from onceward.worker.stage_processes import LENGTH


class FarDesk:
    """The desk of a context whose worker is another process."""

    def __init__(self, connection: socket.socket, app: Any) -> None:
        self._connection = connection
        self._app = app
        self._lock = threading.Lock()
        self.spawner = app._spawner
        self.closed = Closed()

    def keep(self, _lease: Lease, move: Move, effects: Effects) -> bool:
        if isinstance(move, Take):
            answer = self._ask(TakeRequest(move))
        elif isinstance(move, Hold):
            answer = self._ask(HoldRequest(move))
        elif isinstance(move, Fill):
            answer = self._ask(FillRequest(move))
        elif isinstance(move, Filled):
            answer = self._ask(FilledNotice(move))
        else:
            assert isinstance(move, Keep)
            answer = self._ask(
                KeepRequest(move.stage, list(move.parts), writes_by_name(effects.writes), effects.spawns, effects.bill)
            )
        if answer.again_at is not None and isinstance(move, Take):
            raise NotYet(move.gate, answer.again_at, is_full=answer.is_full)
        if answer.short is not None:
            raise NotEnough(*answer.short)
        if answer.is_taken:
            raise AnswerTaken
        if answer.error is not None:
            raise LeaseLost(answer.error)
        return answer.accepted

    async def akeep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        return await off_loop(self.keep, lease, move, effects)

    def now(self) -> int:
        return SystemClock().now()

    def sleep(self, ms: int) -> None:
        time.sleep(ms / 1_000)

    async def asleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1_000)

    def report(self, _lease: Lease, move: Report) -> None:
        with self._lock:
            self._connection.sendall(framed(ProgressNotice(move.stage, move.done, move.total, move.note)))

    def is_held(self, _lease: Lease) -> bool:
        return self._ask(LeaseQuery()).accepted

    def setting(self, name: str) -> Any:
        return self._app.settings.get(name)

    def read(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return self._app.read(function, *arguments)

    async def aread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return await off_loop(self.read, function, arguments)

    def look_up(self, source: str, hashed: bytes) -> Cached | None:
        found: Cached | None = self._app._ask(lambda: look_up(source, hashed))
        return found

    async def alook_up(self, source: str, hashed: bytes) -> Cached | None:
        return await off_loop(self.look_up, source, hashed)

    def _ask(self, message: Any) -> WorkerAnswer:
        with self._lock:  # several calls of one stage may be under way
            self._connection.sendall(framed(message))
            return read_answer(received(self._connection))


def received(connection: socket.socket) -> bytes:
    """One message."""
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    pieces = []
    while count:
        piece = connection.recv(count)
        if not piece:
            sys.exit("the worker is gone")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def serve(connection: socket.socket) -> None:
    """Run stages one after the other, until the worker closes its end."""
    while (message := _next(connection)) is not None:
        start = read_start(message)
        connection.sendall(framed(msgspec.structs.replace(_ran(start, connection), memory_mb=memory_mb())))
        if not start.is_kept:
            return


def _next(connection: socket.socket) -> bytes | None:
    """Return the first message of the next run; None if there is none, because the worker has closed its end."""
    head = connection.recv(LENGTH.size, socket.MSG_WAITALL)
    return _exactly(connection, LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else None


def _ran(start: StageStart, connection: socket.socket) -> StageReturned | StageRaised:
    """Run one stage, and return what it did."""
    app = find_app.load(start.app, "an isolated stage")
    pipeline = app._registry[start.lease.kind]
    stage = pipeline._stage_named(start.stage)
    payload = pipeline._read(start.lease.payload, start.lease.version)
    parts = {(name, part): value for name, part, value in start.parts}
    context: Context[Any] = Context(payload, start.lease, stage, parts, start.signals, FarDesk(connection, app))
    if observing.observer is not None:
        observing.observer.begins_apart(start.lease, stage)
    token = current.set(context)
    try:
        with limited(start.limits, for_good=not start.is_kept), stages_in_records(fields_of_stage):
            value = asyncio.run(stage.function(context)) if stage.is_async else stage.function(context)
        data = stage._stored(value)
        effects = context._end()
        return StageReturned(data, writes_by_name(effects.writes), *effects[1:])
    except BaseException as error:  # a verdict or an error: both are told to the worker
        try:
            return _raised(unwrapped(error), pipeline, context)
        except Exception as odd:  # it cannot be asked what it is, or the rows of a verdict cannot cross
            return _raised(odd, pipeline, context)
    finally:
        current.reset(token)


def _raised(error: BaseException, pipeline: Any, context: Context[Any]) -> StageRaised:
    effects = context._end()
    kept = effects if isinstance(error, Filtered | Skipped | Failed | Waiting) else NO_EFFECTS
    writes = writes_by_name(kept.writes)
    verdict = verdict_name(error)
    if isinstance(error, Verdict) and verdict is not None:
        after_ms, until = getattr(error, "after_ms", None), getattr(error, "until", None)
        if isinstance(error, WaitingForBudget):
            until = error.waiting_for
        return StageRaised(
            verdict, safe_text(error.reason), writes, after_ms, until, spawns=kept.spawns, reports=effects.reports,
            bill=effects.bill,
        )  # fmt: skip
    fault = fault_of(error, pipeline.retry, SystemClock().now())
    fault = msgspec.structs.replace(
        fault,
        reason=safe_text(fault.reason),
        trace=trace_of(error),
        is_permanent=fault.is_permanent or isinstance(error, PayloadError | ConfigError),
    )
    return StageRaised(None, fault.reason, writes, fault=fault, reports=effects.reports, bill=effects.bill)


if __name__ == "__main__":
    end_with_parent()
    serve(socket.socket(fileno=int(sys.argv[1])))
