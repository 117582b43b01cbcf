"""A store that has trouble: any of its transactions may be lost before, on the way or after its commit, or be slow.

The dice are thrown for every try of a transaction, in front of the real sessions of both databases. Who calls the
store is not told: a lost connection, a deadlock and a lost reply are the session's own business (`transact`), and the
same tests must pass with them. `ONCEWARD_TEST_FAULTS=seed:probability` does that to tests/store and tests/worker.

A test that counts what a session does, or provokes trouble of its own, says why it is not for this:
`@pytest.mark.untroubled("…")`.
"""

from __future__ import annotations

import os
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import pytest

from onceward.store.drivers import postgres, sqlite3_client, sqlite_store
from onceward.store.drivers import session as sessions
from onceward.store.drivers.postgres import PostgresSession
from onceward.store.drivers.session import Patience, Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.drivers.sqlite3_client import ClientSqliteSession
from onceward.store.op import AtomicStatement, Op, Query, Request, Rows
from tests.proof.tally import Tally

ASKED_FOR = "ONCEWARD_TEST_FAULTS"
SHORT = (1, 0.2)
"""Seed and probability of the chosen tests in `make test`."""
MIDDLE = 10
"""Up to which statement of a transaction the connection is lost in the middle."""
SLOW_S = 0.002

BEFORE, MIDDLE_LOST, BUSY, UNSENT, REPLY_LOST, SLOW = (
    "lost before it began",
    "lost in the middle",
    "asked to try again",
    "lost before the commit was sent",
    "lost with the reply to the commit",
    "slow",
)
Result = TypeVar("Result")
DONE: Counter[tuple[str, str]] = Counter()
"""What the tests of this process have met, on which database."""
KINDS = (BEFORE, MIDDLE_LOST, BUSY, UNSENT, REPLY_LOST, REPLY_LOST, SLOW)


@dataclass
class Plan:
    """What happens to one try of a transaction, and at which of its statements if that matters."""

    kind: str
    place: int
    statement: int = 0
    may_be_busy: bool = True
    """Not where the operation itself makes something of that: it has its own tests."""


@dataclass
class Trouble:
    """The dice, and what they have done."""

    seed: int
    probability: float
    patience_s: float | None = None
    """How long a session is patient, if that is to be other than usual: without patience its caller is told."""
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    dice: random.Random = field(init=False)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def plan(self, *, settling: bool = False) -> Plan | None:
        """What is to happen to a try that begins now; to one that asks what has become of another one, too."""
        with self._mutex:
            if self.dice.random() >= self.probability:
                return None
            return Plan(self.dice.choice(KINDS), 1 + self.dice.randrange(3 if settling else MIDDLE))

    def happens(self, kind: str, session: Session) -> None:
        """Count it."""
        with self._mutex:
            self.done[kind, session.dialect] += 1

    def at(self, plan: Plan, session: Session, request: Request) -> None:
        """A statement is about to be sent."""
        if isinstance(request, Query) and request.name in ("wait_briefly", "savepoint"):
            plan.may_be_busy = False
        plan.statement += 1
        if plan.kind == SLOW and plan.statement == plan.place:
            self.happens(SLOW, session)
            time.sleep(SLOW_S)
        elif plan.kind == BUSY and plan.statement >= plan.place and plan.may_be_busy:
            plan.kind = ""
            self.happens(BUSY, session)
            raise TryAgainLater("deadlock, by the dice")
        elif plan.kind == BEFORE or (plan.kind == MIDDLE_LOST and plan.statement == plan.place):
            self.lose(plan, session, plan.kind)

    def lose(self, plan: Plan, session: Session, kind: str) -> None:
        """The connection is gone, and with it what was not committed."""
        plan.kind = ""
        self.happens(kind, session)
        session.discard()
        raise ConnectionLost(f"{kind}, by the dice")

    def at_commit(self, plan: Plan, session: Session, commit: Callable[[], None]) -> None:
        """A commit is about to be sent."""
        if plan.kind in (BEFORE, MIDDLE_LOST, UNSENT):  # in the middle: it was shorter than that
            self.lose(plan, session, UNSENT)
        commit()
        if plan.kind == REPLY_LOST:
            self.lose(plan, session, REPLY_LOST)

    def put_before_the_store(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From here on every session that a store of this process opens has it."""
        monkeypatch.setattr(Troubled, "trouble", self)
        monkeypatch.setattr(sessions, "FIRST_PAUSE_S", 0.001)
        monkeypatch.setattr(sqlite_store, "SqliteSession", TroubledSqlite)
        monkeypatch.setattr(sqlite3_client, "ClientSqliteSession", TroubledClient)
        monkeypatch.setattr(postgres, "PostgresSession", TroubledPostgres)


class Troubled(Session):
    """A session that asks the dice."""

    trouble: ClassVar[Trouble] = Trouble(0, 0.0)
    _plan: Plan | None = None

    def begin_with_receipt(self, token: bytes, before: bytes | None) -> None:
        self._plan = self.trouble.plan()
        self._meet(Query("begin"))
        super().begin_with_receipt(token, before)

    def run(self, request: Request) -> Rows:
        if isinstance(request, Query) and "receipt" in request.params:
            return self._run_whole(request)
        if not (isinstance(request, Query) and request.name in ("commit", "rollback")):
            self._meet(request)
        return super().run(request)  # type: ignore[safe-super]

    def commit(self) -> None:
        plan, self._plan = self._plan, None
        if plan is None:
            super().commit()
        else:
            self.trouble.at_commit(plan, self, super().commit)

    def _run_whole(self, request: Query) -> Rows:
        """A statement that is its own transaction, from its beginning to its commit."""
        plan = self.trouble.plan()
        if plan is None:
            return super().run(request)  # type: ignore[safe-super]
        rows: Rows = []

        def commit() -> None:
            nonlocal rows
            rows = super(Troubled, self).run(request)  # type: ignore[safe-super]

        plan.place = 1
        self.trouble.at(plan, self, request)
        self.trouble.at_commit(plan, self, commit)
        return rows

    def transact_statement(self, statement: AtomicStatement) -> Rows:
        self._be_no_more_patient()
        return super().transact_statement(statement)

    def _be_no_more_patient(self) -> None:
        if self.trouble.patience_s is not None:
            self._patience_s = min(self._patience_s, self.trouble.patience_s)

    def transact(self, operation: Callable[[], Op[Result]]) -> Result:
        self._be_no_more_patient()
        return self._planned(None, lambda: super(Troubled, self).transact(operation))

    def patiently(self, work: Callable[[], Result]) -> Result:
        return super().patiently(lambda: self._planned(self.trouble.plan(), work))

    def _has_committed(self, token: bytes, patience: Patience) -> bool:
        plan = self.trouble.plan(settling=True)
        return self._planned(plan, lambda: super(Troubled, self)._has_committed(token, patience))

    def _planned(self, plan: Plan | None, work: Callable[[], Result]) -> Result:
        self._plan = plan
        try:
            return work()
        finally:
            self._plan = None

    def _meet(self, request: Request) -> None:
        if self._plan is not None:
            self.trouble.at(self._plan, self, request)


class TroubledSqlite(Troubled, SqliteSession):
    """SQLite through apsw."""


class TroubledClient(Troubled, ClientSqliteSession):
    """SQLite through the library that the program uses."""


class TroubledPostgres(Troubled, PostgresSession):
    """PostgreSQL."""


def asked_for() -> tuple[int, float] | None:
    """Seed and probability, if somebody wants trouble everywhere."""
    seed, _, probability = os.environ.get(ASKED_FOR, "").partition(":")
    return (int(seed), float(probability)) if seed else None


def vary(metafunc: pytest.Metafunc, chosen: Collection[str]) -> None:
    """Have the tests of chosen modules run once more, with trouble, where not all are to have it."""
    if asked_for() is None and metafunc.module.__name__.rpartition(".")[2] in chosen and not unfit(metafunc.definition):
        metafunc.parametrize("store_trouble", [None, SHORT], ids=[pytest.HIDDEN_PARAM, "trouble"], indirect=True)


def unfit(item: pytest.Item | pytest.Function) -> str | None:
    """Why trouble is nothing for this test, if it is not."""
    mark = item.get_closest_marker("untroubled")
    return None if mark is None else str(mark.args[0])


@pytest.fixture(autouse=True)
def store_trouble(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trouble | None]:
    """The dice in front of the store of this test, if there are to be any."""
    wanted = getattr(request, "param", None) or asked_for()
    if wanted is None:
        yield None
        return
    if reason := unfit(request.node):
        pytest.skip(f"not for a store with trouble: {reason}")
    seed, probability = wanted
    trouble = Trouble(zlib.crc32(f"{seed} {request.node.nodeid}".encode()), probability)
    trouble.put_before_the_store(monkeypatch)
    yield trouble
    DONE.update(trouble.done)


@pytest.fixture(scope="session", autouse=True)
def trouble_is_counted() -> Iterator[None]:
    """What all tests of this process have met, for the table."""
    yield
    for store in sorted({store for _, store in DONE}):
        faults = sum(count for (kind, where), count in DONE.items() if where == store and kind != SLOW)
        fault = "store operation lost, in doubt or to be tried again"
        Tally(matrix="F38", fault=fault, store=store, faults=faults, reconciled=DONE[REPLY_LOST, store]).keep()
    DONE.clear()
