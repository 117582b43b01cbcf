"""Connections to PostgreSQL that outlive a test, as a worker's outlives its tasks: what was planned stays planned.

A connection that has just been opened plans every statement, and reads the catalogue for it: that took longer than the
tests. Sessions are new in every test; only what they close is kept, and handed to the next one of the same make.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import psycopg

from onceward.store.drivers.postgres import PostgresSession
from onceward.store.drivers.server_liveness import WatchedConnection
from onceward.store.drivers.wire import Wire

_Make = tuple[Callable[[Any], None] | None, bool, bool]
"""What was done to a connection when it was opened, whether it only reads, and whether it prepares."""


_IS_AS_IT_WAS = "SELECT true FROM pg_prepared_statements WHERE name LIKE 'onceward%%' HAVING count(*) = %s"
"""Whether nobody who was lent a connection has dropped what was prepared on it."""


class Warm:
    """The connections that are kept for one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: defaultdict[_Make, list[tuple[WatchedConnection, Wire]]] = defaultdict(list)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """While this lasts, sessions on the database take from here what is there, and leave here what they close."""
        really_open, really_close = PostgresSession.opened, PostgresSession.close

        def opened(session: PostgresSession) -> psycopg.Connection[Any]:
            if session._connection is None and session._url == self._url:
                self._hand_over(session)
            return really_open(session)

        def close(session: PostgresSession) -> None:
            if session._url == self._url:
                self._take_back(session)
            really_close(session)

        try:
            with mock.patch.multiple(PostgresSession, opened=opened, close=close):
                yield
        finally:
            for connection, _ in [one for idle in self._idle.values() for one in idle]:
                connection.close()

    def _hand_over(self, session: PostgresSession) -> None:
        idle = self._idle[_make(session)]
        while idle:
            connection, wire = idle.pop()
            with suppress(psycopg.Error):
                if connection.execute(_IS_AS_IT_WAS, [len(wire._names)]).fetchone():
                    session._connection, session._wire = connection, wire
                    session.measure_clock()
                    return
            connection.close()

    def _take_back(self, session: PostgresSession) -> None:
        connection, wire = session._connection, session._wire
        if connection is None or wire is None or session.in_transaction() or session.is_lost():
            return
        session._connection = session._wire = None
        self._idle[_make(session)].append((connection, wire))


def _make(session: PostgresSession) -> _Make:
    return session._on_connect, session._read_only, session._prepare
