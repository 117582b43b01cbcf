"""Sends statements to PostgreSQL past the driver's cursors, each prepared once.

A cursor does far more for a statement than the engine needs: in a process that was idle, with cold caches, it takes
0.2 ms longer than the statement itself.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

from onceward.store.drivers.server_liveness import WatchedConnection
from onceward.store.drivers.session import quietly
from onceward.store.op import Rows

MOST_PREPARED = 1_000
"""How many statements stay prepared. There are fewer, but each has a form for every width of its numbers; a
forgotten one is planned again, which takes longer than running it."""
_CANCEL_LIMIT_S = 2.0
_LOOK_EVERY_MS = 100
_FINE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class Statement(NamedTuple):
    """A text with `$1` and so on, and its values."""

    text: str
    values: Sequence[Any] = ()


class Wire:
    """One connection of the driver, used without its cursors, by one thread at a time."""

    def __init__(self, connection: WatchedConnection, *, prepare: bool) -> None:
        self._connection = connection
        self._server = connection.pgconn
        self._prepare = prepare
        self._values = Transformer(connection)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._prepared_so_far = 0
        self._answer = select.poll()
        self._answer.register(self._server.socket, select.POLLIN)
        self._room = select.poll()
        self._room.register(self._server.socket, select.POLLIN | select.POLLOUT)

    def run(self, statement: Statement) -> Rows:
        """Run a statement and return its rows."""
        try:
            self._send(statement)
            return self._rows(self._only_answer())
        except BaseException as error:
            self._abandon_if_interrupted(error)
            raise

    def run_text(self, text: str) -> int:
        """Run statements without parameters; returns the row count of the last."""
        try:
            self._server.send_query(text.encode())
            answer = last = self._next_answer()
            while answer is not None:
                last, answer = answer, self._next_answer()
            return self._checked(last).ntuples
        except BaseException as error:
            self._abandon_if_interrupted(error)
            raise

    def _abandon_if_interrupted(self, error: BaseException) -> None:
        """After an interrupt, cancel the statement and close: no later statement may read its answer."""
        if not isinstance(error, Exception):
            quietly(lambda: self._connection.cancel_safe(timeout=_CANCEL_LIMIT_S))
            quietly(self._connection.close)

    def is_lost(self) -> bool:
        """Whether the server has hung up between two statements."""
        try:
            while self._server.status != ConnStatus.BAD and self._answer.poll(0):
                self._server.consume_input()
        except psycopg.OperationalError:
            return True
        return self._server.status == ConnStatus.BAD

    def forget(self) -> None:
        """Forget the prepared statements: a function that borrowed the connection has dropped them."""
        self._names.clear()

    def _send(self, statement: Statement) -> None:
        text, values = statement
        types: tuple[int, ...] = ()
        formats: Sequence[Format] = ()
        sent: Sequence[Any] = ()
        if values:
            sent = self._values.dump_sequence(values, [PyFormat.AUTO] * len(values))
            types, formats = self._values.types or (), self._values.formats or ()
        if self._prepare:
            name = self._names.get((text, types)) or self._prepared(text, types)
            self._server.send_query_prepared(name, sent, formats, Format.BINARY)
        else:
            self._server.send_query_params(text.encode(), sent, types, formats, Format.BINARY)

    def _prepared(self, text: str, types: tuple[int, ...]) -> bytes:
        if len(self._names) >= MOST_PREPARED:
            oldest = self._names.pop(next(iter(self._names)))
            self._server.send_query_params(b"DEALLOCATE " + oldest, None)
            self._only_answer()
        self._prepared_so_far += 1
        name = b"onceward_%d" % self._prepared_so_far
        self._server.send_prepare(name, text.encode(), types)
        self._only_answer()
        self._names[text, types] = name
        return name

    def _only_answer(self) -> PGresult:
        answer = self._next_answer()
        while (later := self._next_answer()) is not None:
            # The rows of a statement come before the commit that ends it, which may fail.
            answer = answer if later.status in _FINE else later
        while self._server.notifies() is not None:
            pass  # behind a pooler: for a program that has listened on this connection before
        return self._checked(answer)

    def _next_answer(self) -> PGresult | None:
        """The next answer to a statement; None after the last."""
        server = self._server
        while server.flush():  # the send buffer is full: the server may have to send an answer first
            self._wait(self._room)
            server.consume_input()
        while server.is_busy():
            self._wait(self._answer)
            server.consume_input()
        return server.get_result()

    def _wait(self, ready: select.poll) -> None:
        if ready.poll(_LOOK_EVERY_MS):
            return
        watch = self._connection.watch()
        while not ready.poll(_LOOK_EVERY_MS):
            watch.look()

    def _checked(self, answer: PGresult | None) -> PGresult:
        if answer is not None and answer.status in _FINE:
            return answer
        if self._server.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self._server.get_error_message())
        if answer is None:
            raise psycopg.OperationalError("the server has given no answer")
        raise psycopg.errors.error_from_result(answer)

    def _rows(self, answer: PGresult) -> Rows:
        count = answer.ntuples
        if not count:
            return []
        self._values.set_pgresult(answer)
        return self._values.load_rows(0, count, tuple)
