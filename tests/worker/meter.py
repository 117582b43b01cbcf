"""Counts what a piece of work costs: calls of the engine's functions, statements, round trips and commits.

Counts do not depend on the machine or its load, so a test can hold the engine to them. Python's calls are those into
functions of `onceward`; a generator that goes on counts as a call, as Python's profiler has it. Python 3.11 also counts
a comprehension as a call, later versions do not: a bound that holds on 3.11 holds everywhere.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from unittest import mock

import apsw

import onceward
from onceward.store.drivers.session import Session
from onceward.store.drivers.wire import Wire
from onceward.testing import harness
from onceward.worker import crash_points

ENGINE = str(Path(onceward.__file__).parent)
NOT_COUNTED = {Wire._wait.__code__, crash_points.reach.__code__}
"""A function that is called as often as an answer takes time, and one that only a harness has called."""


class Cost(NamedTuple):
    """What some work has cost."""

    calls: int
    statements: int
    round_trips: int
    """Messages to a server of which the answer was waited for. A file has none."""
    commits: int

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(mine - its for mine, its in zip(self, other, strict=True)))


class Meter:
    """Counts from `counting` on; sessions must be opened after that, except those of PostgreSQL."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        """By function, for a look at where a cost comes from."""
        self.texts: Counter[str] = Counter()
        self._round_trips = 0
        self._commits = 0

    def cost_of(self, work: Callable[[], object]) -> Cost:
        """Do some work and count what it costs."""
        before = self._total()
        gc.disable()  # what it would call has nothing to do with the work
        sys.setprofile(self._profile)
        try:
            work()
        finally:
            sys.setprofile(None)
            gc.enable()
        return self._total() - before

    def busiest(self) -> str:
        """The functions that were called most often since the beginning."""
        return ", ".join(f"{code.co_qualname} {times}" for code, times in self.calls.most_common(20))

    def _total(self) -> Cost:
        return Cost(self.calls.total(), self.texts.total(), self._round_trips, self._commits)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in NOT_COUNTED or code.co_filename == harness.__file__:
            return
        if code.co_filename.startswith(ENGINE):
            self.calls[code] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count meanwhile what goes to databases."""
        send, run_text, prepare, confirm = Wire._send, Wire.run_text, Wire._prepared, Session._confirm

        def counted_send(wire: Wire, statement: Any) -> None:
            self.texts[statement.text] += 1
            self._round_trips += 1
            send(wire, statement)

        def counted_text(wire: Wire, text: str) -> int:
            self.texts.update(one for one in text.split(";") if one.strip())
            self._round_trips += 1
            return run_text(wire, text)

        def counted_prepare(wire: Wire, text: str, types: tuple[int, ...]) -> bytes:
            self.texts[f"PREPARE {text}"] += 1
            self._round_trips += 1
            return prepare(wire, text, types)

        def counted_confirm(session: Session, token: bytes) -> None:
            self._commits += 1
            confirm(session, token)

        apsw.connection_hooks.append(self._trace)
        try:
            with (
                mock.patch.multiple(Wire, _send=counted_send, run_text=counted_text, _prepared=counted_prepare),
                mock.patch.object(Session, "_confirm", counted_confirm),
            ):
                yield
        finally:
            apsw.connection_hooks.remove(self._trace)

    def _trace(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._begun)

    def _begun(self, event: dict[str, Any]) -> None:
        if not event["trigger"]:
            self.texts[event["sql"]] += 1
