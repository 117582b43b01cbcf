"""Waiting for PostgreSQL without waiting for ever.

A server that works on a statement says nothing until it is done, and one that stands still says nothing either: its
machine confirms every packet, so no keepalive finds that out. So whoever has waited for a while asks after its
connection on another one. That leads to whoever leads now, who knows whether there is such a process and whether it is
at work. While it is, it is waited for, however long that takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from onceward.store.drivers.session import quietly

Found = TypeVar("Found")
ASK_AFTER_S = 10.0
"""How long nothing is heard before somebody asks, and after each answer that says to wait on."""
ASK_AGAIN_S = 1.0
"""How long it takes to ask again after any other answer: ours may have been on its way meanwhile."""
LOST_AFTER_S = 30.0
"""How long nobody at all may answer: as for a machine that is gone."""
ANSWER_LIMIT_S = 10.0
"""How long whoever is asked after another may take."""
_WHO_AM_I = (
    "SELECT pg_backend_pid(), (extract(epoch FROM backend_start) * 1000000)::bigint "
    "FROM pg_stat_get_activity(pg_backend_pid())"
)
_IS_AT_WORK = (
    "SELECT true FROM pg_stat_get_activity(%s) "
    "WHERE (extract(epoch FROM backend_start) * 1000000)::bigint = %s AND state NOT LIKE 'idle%%'"
)
_IS_THERE = "SELECT true"


class ServerSilent(psycopg.OperationalError):
    """Nobody answers on this connection any more, nor will."""


class BackendState(Enum):
    """What is known of the process that should answer."""

    AT_WORK = "it is at work, or nobody can say that it is not"
    NOT_AT_WORK = "whoever leads now knows of no such work"
    NO_ANSWER = "nobody answers"


class Backend(NamedTuple):
    """The process of the server at the other end of a connection; in all servers there is no other one like it."""

    pid: int
    began_at: int


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that gives up waiting for a server that stands still."""

    backend: Backend | None = None
    """The process of the server at the other end; None behind a pooler."""
    _ask: Callable[[], BackendState] = staticmethod(lambda: BackendState.NO_ANSWER)

    @classmethod
    def to(cls, place: Mapping[str, Any]) -> WatchedConnection:
        """A connection on which every statement is a transaction of its own."""
        connection = cls.connect(autocommit=True, **place)
        try:
            connection.backend = _backend(connection)
            connection._ask = partial(ask_backend_state, place, connection.backend)
        except BaseException:
            quietly(connection.close)
            raise
        return connection

    def watch(self) -> Watch:
        """For a wait that begins now."""
        return Watch(self._ask, self.pgconn.finish)

    def wait(self, gen: PQGen[Found], interval: float = 0.1, timeout: float | None = None) -> Found:
        """As of old; but not for ever."""
        if timeout is not None:  # whoever sets a limit expects silence
            return super().wait(gen, interval, timeout)
        return super().wait(self._watched(gen), interval)

    def _watched(self, gen: PQGen[Found]) -> PQGen[Found]:
        watch = self.watch()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == Ready.NONE:
                    watch.look()
                else:
                    watch = self.watch()
                wanted = gen.send(ready)
        except StopIteration as end:
            found: Found = end.value
            return found


class Watch:
    """One wait: since when nothing is heard, and what has been found out about that."""

    def __init__(self, ask: Callable[[], BackendState], hang_up: Callable[[], None]) -> None:
        self._ask = ask
        self._hang_up = hang_up
        self._alive_at = time.monotonic()
        self._ask_at = self._alive_at + ASK_AFTER_S
        self._inquiry: _Inquiry | None = None
        self._was_missed = False

    def look(self) -> None:
        """Still nothing is heard. Hangs up and raises `ServerSilent` if nothing will be."""
        now = time.monotonic()
        if self._inquiry is None:
            if now >= self._ask_at:
                self._inquiry = _Inquiry(self._ask)
        elif self._inquiry.found is not None:
            self._heed(self._inquiry.found, now)
            self._inquiry = None
        if now - self._alive_at >= LOST_AFTER_S:
            self._give_up(f"nobody has answered for {LOST_AFTER_S:g} s: the server stands still")

    def _heed(self, found: BackendState, now: float) -> None:
        if found is BackendState.NOT_AT_WORK and self._was_missed:
            self._give_up("the server that was asked is not at work on it any more, if it is still there")
        self._was_missed = found is BackendState.NOT_AT_WORK
        self._ask_at = now + (ASK_AFTER_S if found is BackendState.AT_WORK else ASK_AGAIN_S)
        if found is not BackendState.NO_ANSWER:
            self._alive_at = now

    def _give_up(self, why: str) -> None:
        self._hang_up()  # whatever still comes is an answer to nobody
        raise ServerSilent(why)


class _Inquiry:
    """A question on another connection, while the answer to the first one may still come."""

    def __init__(self, ask: Callable[[], BackendState]) -> None:
        self.found: BackendState | None = None
        self._ask = ask
        threading.Thread(target=self._run, name="onceward inquiry", daemon=True).start()

    def _run(self) -> None:
        self.found = self._ask()


class _QuestionConnection(psycopg.Connection[Any]):
    """A connection for one question, which waits for its answer for a while only."""

    def wait(self, gen: PQGen[Found], interval: float = 0.1, timeout: float | None = ANSWER_LIMIT_S) -> Found:
        """As of old; but not for long."""
        return super().wait(gen, interval, timeout)


def ask_backend_state(place: Mapping[str, Any], backend: Backend | None) -> BackendState:
    """Ask whoever leads now about a process; if it is not known which one, whether anybody is there."""
    try:
        connection = _QuestionConnection.connect(autocommit=True, **place)
        try:
            if backend is None:
                connection.execute(_IS_THERE)
                return BackendState.AT_WORK
            is_at_work = connection.execute(_IS_AT_WORK, backend).fetchone()
            return BackendState.AT_WORK if is_at_work else BackendState.NOT_AT_WORK
        finally:
            quietly(connection.close)
    except psycopg.Error as error:
        # A server that has no connection left for us, or is just starting, is alive.
        return BackendState.AT_WORK if "FATAL" in str(error) else BackendState.NO_ANSWER


def _backend(connection: psycopg.Connection[Any]) -> Backend | None:
    """The process at the other end; None behind a pooler, which gives us another one when it likes."""
    row = connection.execute(_WHO_AM_I).fetchone()
    if row is None or row[0] != connection.info.backend_pid:
        return None
    return Backend(*row)
