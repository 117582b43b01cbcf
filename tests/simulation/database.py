"""The database of a simulation, and the ways in which a connection to it can fail.

Real: the schema, every statement, SQLite itself (in memory), and all that `Session` does about transactions, receipts
and doubts. Simulated: there is one connection, which all sessions share because one transaction runs at a time; and
what the way to the database does to a transaction, which is decided when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import apsw

from onceward.client import client
from onceward.errors import StoreError
from onceward.model.times import StoreClock
from onceward.store.drivers.lending import Lending
from onceward.store.drivers.lent_connection import GuardedConnection, call_all
from onceward.store.drivers.migrate import Migration, apply_app_migrations, migrate
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.op import Call, Op, Query, Request, Result, Rows
from tests.simulation import stand_ins

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.world import World

TABLES = Migration(
    "simulated",
    "CREATE TABLE effect (task integer NOT NULL, run integer NOT NULL, stage text NOT NULL, part text NOT NULL, "
    "fence integer NOT NULL)",
)
"""The rows of an application: without a key, so that a row written twice is there twice."""


MISTAKES = (TypeError, AttributeError, LookupError, NameError, AssertionError, StoreError)
"""What no transaction raises unless the engine is wrong. (Of errors of the store, the nameless.)"""


class Crashed(BaseException):
    """A process dies here. Nothing in the engine catches this and goes on."""


class Database:
    """A migrated database in memory, emptied for each world and restored from a copy of itself when a world asks."""

    def __init__(self) -> None:
        self.owner: SimulatedSession | None = None
        """Whose transaction is open."""
        # All processes share its statements; with as few as usual they would be prepared again and again.
        self.connection = apsw.Connection(":memory:", statementcachesize=2_000)
        self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        session = SqliteSession(":memory:", StoreClock(_Noon()))
        session._connection = self.connection
        migrate(session, 0)
        apply_app_migrations(session, [TABLES], 0)
        self.connection.authorizer = self._allow
        kept = {"onceward_schema", "onceward_app_migration"}
        names = [name for (name,) in self.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        self._emptied = self._before_what_they_name([name for name in names if name not in kept])

    def _allow(self, *asked: Any) -> int:
        return apsw.SQLITE_OK if self.owner is None else self.owner._allow(*asked)

    def _before_what_they_name(self, tables: list[str]) -> list[str]:
        """Tables in an order in which they can be emptied. (Without foreign keys any would do; but to turn these off
        makes SQLite prepare every statement anew, which takes longer than a world.)"""
        named = {
            table: {row[2] for row in self.connection.execute(f"PRAGMA foreign_key_list({table})")} - {table}
            for table in tables
        }
        found: list[str] = []
        while named:
            free = [table for table in named if not any(table in others for others in named.values())]
            assert free, f"foreign keys go round in {sorted(named)}"
            found += free
            for table in free:
                del named[table]
        return found

    def empty(self) -> None:
        """Begin with an empty database."""
        self.roll_back()
        self.connection.execute("BEGIN")
        for name in self._emptied:
            self.connection.execute(f"DELETE FROM {name}")
        self.connection.execute("COMMIT")

    def copy(self) -> bytes:
        """All that is committed now."""
        return self.connection.serialize("main")

    def restore(self, copy: bytes) -> None:
        """Be as it was when that copy was made."""
        self.connection.deserialize("main", copy)

    def roll_back(self) -> None:
        """Drop what is not committed."""
        self.owner = None
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK /* onceward */")

    def ask(self, text: str, *params: Any) -> list[Any]:
        """Look at the database past the engine."""
        return self.connection.execute(text, params).fetchall()


class _Noon:
    def now(self) -> int:
        return 0

    def monotonic(self) -> int:
        return 0


class Trouble(NamedTuple):
    """What happens to one transaction, and before which of its requests; None is its commit."""

    kind: str
    at: int | None


class SimulatedLending(Lending):
    """Loans that are measured by the clock of a world, without a thread."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def _lend_for_a_while(self, session: Session, connection: GuardedConnection, request: Call) -> None:
        until = self._world.ms + round((self.limit_s or 0) * 1_000)
        call_all(request.functions, connection)
        if self._world.ms > until:
            session.discard()
            raise TimeoutError("simulated: a write took too long")


class SimulatedSession(SqliteSession):
    """A session of a simulated process. Its connection is the one connection there is."""

    def __init__(
        self, machine: Machine, *, read_only: bool = False, patience_s: float = 60.0, is_spared: bool = False
    ) -> None:
        super().__init__("simulated", machine.clock, read_only=read_only, patience_s=patience_s)
        self.is_near = machine.world.plan.is_near  # type: ignore[misc]
        self._machine = machine
        self._world: World = machine.world
        self.lending = SimulatedLending(self._world)
        self._database = machine.world.database
        self._is_spared = is_spared
        """Whether nothing happens to it: it only looks."""
        self._is_cut = False
        self._is_writing = False
        self._trouble: Trouble | None = None
        self._requests = 0
        self._world.sessions.append(self)
        machine.sessions.append(self)

    def _open(self) -> apsw.Connection:
        if not self._is_spared and self._world.is_struck("connect"):
            raise ConnectionLost("simulated: the database cannot be reached")
        return self._database.connection

    def discard(self) -> None:
        self._trouble = None
        if self._database.owner is self:
            self._database.roll_back()
        self._connection = None

    def in_transaction(self) -> bool:
        return self._database.owner is self

    def transact(self, operation: Callable[[], Op[Result]]) -> Result:
        try:
            return super().transact(operation)
        except MISTAKES as error:  # whoever has asked would make the best of it, and nobody would hear of it
            if isinstance(error, StoreError) and type(error) is not StoreError:
                raise
            self._world.unexpected(error, f"in a transaction of {self._machine.name}")
            raise

    def cut(self) -> None:
        """The connection is gone, of which the session hears when it uses it next."""
        self._is_cut = True

    def run(self, request: Request) -> Rows:
        name = request.name if type(request) is Query else ""
        if name == "rollback":
            self._trouble = None
            self._database.roll_back()
            return []
        if self._database.owner is not self:
            return self._run_outside(request, name)
        if name == "commit":
            return self._commit(request)
        self._requests += 1
        if self._trouble is not None and self._requests == self._trouble.at:
            self._strike(self._trouble.kind)
        return super().run(request)

    def _run_outside(self, request: Request, name: str) -> Rows:
        """A request outside of a transaction, or one that begins it."""
        if name == "begin" and not self._is_spared:
            self._world.freeze_before_writing(self._machine)
        assert self._database.owner is None, "two transactions at once"
        if self._is_cut or (name != "begin" and not self._is_spared and self._world.is_struck("read")):
            self._is_cut = False
            self._lose()
        rows = super().run(request)
        if name in ("begin", "begin_reading"):
            self._database.owner = self
            self._is_writing = name == "begin"
            if self._is_writing:
                self._world.ledger.begin()
                self._requests, self._trouble = 0, self._world.trouble_for_transaction()
        return rows

    def _strike(self, kind: str) -> None:
        """The transaction comes to nothing."""
        self._world.struck(kind, self._machine)
        self._trouble = None
        self._database.roll_back()
        if kind == "crash":
            raise Crashed
        if kind == "locked":
            raise TryAgainLater("simulated: a lock was not free in time")
        self._lose()

    def _lose(self) -> None:
        self._connection = None
        raise ConnectionLost("simulated: the connection is gone")

    def _commit(self, request: Request) -> Rows:
        """The end of a transaction, which may happen although nobody hears of it."""
        kind = "" if self._trouble is None else self._trouble.kind
        if kind in ("connection lost", "locked", "crash"):
            self._strike(kind)  # it was to come earlier, or at the commit itself, which never arrives
        self._trouble = None
        super().run(request)
        self._database.owner = None
        if self._is_writing:
            self._world.committed(self._machine)
            self._world.let_reply_travel()
        if kind:
            self._world.struck(kind, self._machine)
            if kind == "crash after commit":
                raise Crashed
            if kind == "reply lost, then a pause":
                self._world.pause(self._machine)
            self._lose()
        return []


class SimulatedStore:
    """The store as the code of one simulated process sees it."""

    dialect = "sqlite"
    is_memory = True
    path = "simulated"
    place = "simulated"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.clock = machine.clock
        self.presence_folder = machine.presence_folder

    def session(self, *, read_only: bool = False, patience_s: float = 60.0) -> Session:
        """A new session."""
        return SimulatedSession(self._machine, read_only=read_only, patience_s=patience_s)

    def client_session(self, *, read_only: bool = False) -> Session:
        """The session of a program that enqueues and asks."""
        return self.session(read_only=read_only)


@contextmanager
def simulated_stores() -> Iterator[None]:
    """While this lasts, whoever opens a store opens that of the process that is being started."""

    def open_store(*_: Any, **__: Any) -> SimulatedStore:
        return SimulatedStore(stand_ins.here.opening)

    with mock.patch.object(client, "open_store", open_store):
        yield
