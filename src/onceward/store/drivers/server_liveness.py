"""Detects a PostgreSQL server that stands still, so that no session waits for it for ever (decision 44).

A busy server sends nothing until its statement is done, and a server that stands still sends nothing either: its
machine confirms every packet, so no keepalive fails. So after 10 s without an answer a second connection asks the
current primary whether the session's backend exists and is at work. While it is, the session waits on, however long.
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
"""After how long without an answer a session asks, and asks again while its backend is at work."""
ASK_AGAIN_S = 1.0
"""After how long it asks again otherwise: its answer may have been on its way meanwhile."""
LOST_AFTER_S = 30.0
"""After how long without any server answering the connection is lost, as with a dead machine."""
ANSWER_LIMIT_S = 10.0
"""How long an answer to the question may take."""
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
    """The server will not answer on this connection any more."""


class BackendState(Enum):
    """What the primary says of the backend that should answer."""

    AT_WORK = "the backend is at work, or its server is alive and cannot say"
    NOT_AT_WORK = "the primary knows of no such backend at work"
    NO_ANSWER = "no server answers"


class Backend(NamedTuple):
    """The server process at the other end of a connection, unique among all servers."""

    pid: int
    began_at: int


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that stops waiting for a server that stands still."""

    backend: Backend | None = None
    """The server process at the other end; None behind a pooler."""
    _ask: Callable[[], BackendState] = staticmethod(lambda: BackendState.NO_ANSWER)

    @classmethod
    def to(cls, address: Mapping[str, Any]) -> WatchedConnection:
        """A connection on which every statement is a transaction of its own."""
        connection = cls.connect(autocommit=True, **address)
        try:
            connection.backend = _backend(connection)
            connection._ask = partial(ask_backend_state, address, connection.backend)
        except BaseException:
            quietly(connection.close)
            raise
        return connection

    def watch(self) -> Watch:
        """Watch a wait that begins now."""
        return Watch(self._ask, self.pgconn.finish)

    def wait(self, gen: PQGen[Found], interval: float = 0.1, timeout: float | None = None) -> Found:
        """Wait as psycopg does, but watch the server."""
        if timeout is not None:  # a caller with a timeout expects silence
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
    """One wait for an answer: since when the server is silent, and what a question found out."""

    def __init__(self, ask: Callable[[], BackendState], hang_up: Callable[[], None]) -> None:
        self._ask = ask
        self._hang_up = hang_up
        self._alive_at = time.monotonic()
        self._ask_at = self._alive_at + ASK_AFTER_S
        self._inquiry: _Inquiry | None = None
        self._was_missed = False

    def look(self) -> None:
        """Note more silence; hang up and raise `ServerSilent` if no answer will come."""
        now = time.monotonic()
        if self._inquiry is None:
            if now >= self._ask_at:
                self._inquiry = _Inquiry(self._ask)
        elif self._inquiry.state is not None:
            self._heed(self._inquiry.state, now)
            self._inquiry = None
        if now - self._alive_at >= LOST_AFTER_S:
            self._give_up(f"no server has answered for {LOST_AFTER_S:g} s: the server stands still")

    def _heed(self, state: BackendState, now: float) -> None:
        if state is BackendState.NOT_AT_WORK and self._was_missed:
            self._give_up("the server that was asked is not at work on it any more, if it is still there")
        self._was_missed = state is BackendState.NOT_AT_WORK
        self._ask_at = now + (ASK_AFTER_S if state is BackendState.AT_WORK else ASK_AGAIN_S)
        if state is not BackendState.NO_ANSWER:
            self._alive_at = now

    def _give_up(self, why: str) -> None:
        self._hang_up()  # an answer that still comes is not read
        raise ServerSilent(why)


class _Inquiry:
    """A question on a second connection, while the first may still answer."""

    def __init__(self, ask: Callable[[], BackendState]) -> None:
        self.state: BackendState | None = None
        self._ask = ask
        threading.Thread(target=self._run, name="onceward inquiry", daemon=True).start()

    def _run(self) -> None:
        self.state = self._ask()


class _QuestionConnection(psycopg.Connection[Any]):
    """A connection for one question, with a limit for its answer."""

    def wait(self, gen: PQGen[Found], interval: float = 0.1, timeout: float | None = ANSWER_LIMIT_S) -> Found:
        """Wait as psycopg does, but with a limit."""
        return super().wait(gen, interval, timeout)


def ask_backend_state(address: Mapping[str, Any], backend: Backend | None) -> BackendState:
    """Ask the primary whether a backend is at work; without a backend, whether the server answers."""
    try:
        connection = _QuestionConnection.connect(autocommit=True, **address)
        try:
            if backend is None:
                connection.execute(_IS_THERE)
                return BackendState.AT_WORK
            is_at_work = connection.execute(_IS_AT_WORK, backend).fetchone()
            return BackendState.AT_WORK if is_at_work else BackendState.NOT_AT_WORK
        finally:
            quietly(connection.close)
    except psycopg.Error as error:
        # A server that has no connection left, or is just starting, is alive.
        return BackendState.AT_WORK if "FATAL" in str(error) else BackendState.NO_ANSWER


def _backend(connection: psycopg.Connection[Any]) -> Backend | None:
    """The backend of a connection; None behind a pooler, which may change it at any time."""
    row = connection.execute(_WHO_AM_I).fetchone()
    if row is None or row[0] != connection.info.backend_pid:
        return None
    return Backend(*row)
