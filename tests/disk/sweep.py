"""One operation, done on a disk that fails at one call of it: what the engine says, and what is in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from onceward.errors import OutcomeUnknown, StoreError
from onceward.store.drivers import session as sessions
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.op import Query, Request, Rows
from onceward.testing import FakeClock
from tests.disk.disk import standing_between
from tests.disk.engine import Engine, assert_ends, assert_sound, contents, copied
from tests.disk.failing import KINDS, WAYS, FailingDisk, Fault, Kind
from tests.disk.operations import Operation

PATIENCE_S = 0.02
TROUBLE = (StoreError, ConnectionLost, TryAgainLater)
"""What whoever drives an operation must be ready for. The last two are met by the engine's own threads only."""


@dataclass(slots=True)
class Ready:
    """An operation and a database on which it can be done, as often as one likes."""

    operation: Operation
    pattern: Path
    given: Any
    now: int
    states: list[str] = field(default_factory=list)
    """What is in the database before it and after each of its transactions."""
    calls: Counter[Kind] = field(default_factory=Counter)
    """How often it asks for what, from opening the file to closing it."""
    ending: dict[str, int] = field(default_factory=dict)
    """What was found to be in order and to come to its end, and how many tasks that were."""

    def faults(self) -> Iterator[Fault]:
        """All that can go wrong with it."""
        for kind in KINDS:
            for number in range(1, self.calls[kind] + 1):
                for how in WAYS[kind]:
                    yield from (Fault(kind, number, how, stays) for stays in (False, True))


@dataclass(slots=True)
class Outcome:
    """What came of a fault."""

    hits: int
    """How many calls have failed."""
    acknowledged: bool
    """Whether the operation went through in spite of it."""
    reconciled: int
    """Commits whose answer was lost and which the receipt has decided."""
    tasks: int


def ready(operation: Operation, folder: Path) -> Ready:
    """Prepare an operation, and see what it does when nothing is in the way."""
    pattern, clock = folder / "pattern.db", FakeClock()
    engine = Engine(pattern, clock)
    given = operation.prepare(engine)
    engine.close()
    made = Ready(operation, pattern, given, clock.now())
    file = folder / "reference.db"
    copied(pattern, file)
    made.states.append(contents(file))
    with _noting_commits(file, made.states):
        engine = Engine(file, FakeClock(made.now))
        operation.act(engine, given)
        engine.close()
    copied(pattern, file)
    disk = FailingDisk(str(file))
    with standing_between(disk):
        engine = Engine(file, FakeClock(made.now))
        operation.act(engine, given)
        engine.close()
    made.calls = disk.counts
    assert contents(file) == made.states[-1], "what is compared must be the same every time"
    return made


@contextmanager
def _noting_commits(file: Path, states: list[str]) -> Iterator[None]:
    """Note what is in a database after every commit."""
    run = SqliteSession.run

    def noting(self: SqliteSession, request: Request) -> Rows:
        rows = run(self, request)
        if type(request) is Query and request.name == "commit":
            states.append(contents(file))
        return rows

    with patch.object(SqliteSession, "run", noting):
        yield


def strike(prepared: Ready, fault: Fault, file: Path, *, thoroughly: bool) -> Outcome:
    """Do the operation on a failing disk, and judge.

    All of a transaction is there or nothing; what was acknowledged is there; an error is one of the engine's; after a
    single fault the same engine goes on; the file is healthy; a new engine goes on and ends everything. That last one
    is tried for every state that a database is found in, or `thoroughly` after every fault.
    """
    copied(prepared.pattern, file)
    disk = FailingDisk(str(file), fault)
    with standing_between(disk), patch.multiple(sessions, FIRST_PAUSE_S=0.001, LONGEST_PAUSE_S=0.01):
        engine = Engine(file, FakeClock(prepared.now), PATIENCE_S)
        trouble = _tried(prepared, engine)
        if not fault.stays:
            with disk.healthy():
                _judge(prepared, file, trouble)
                if trouble is not None:
                    _repeat(prepared, engine, file)
                    trouble = None
        reconciled = engine.reconciled
        engine.close()
    _judge(prepared, file, trouble)
    assert_sound(file)
    state = contents(file)
    if thoroughly or state not in prepared.ending:
        prepared.ending[state] = assert_ends(file, prepared.now + 1_000_000) if state else 0
    return Outcome(disk.hits, trouble is None, reconciled, prepared.ending[state])


def _tried(prepared: Ready, engine: Engine) -> Exception | None:
    """Do it; what was raised, if that is something that a caller can be told."""
    try:
        prepared.operation.act(engine, prepared.given)
    except TROUBLE as trouble:
        return trouble
    return None


def _judge(prepared: Ready, file: Path, trouble: Exception | None) -> None:
    """Acknowledged is there, refused is not; of several transactions those that come first."""
    state, states = contents(file), prepared.states
    assert state in states, f"neither whole nor nothing after {trouble!r}"
    if trouble is None:
        assert state == states[-1], "acknowledged, and not there"
    elif not (isinstance(trouble, OutcomeUnknown) or prepared.operation.may_be_repeated):
        assert state == states[0], f"done, and refused with {trouble!r}"


def _repeat(prepared: Ready, engine: Engine, file: Path) -> None:
    """The engine that met a single fault does all that is left."""
    if contents(file) != prepared.states[-1]:
        prepared.operation.act(engine, prepared.given)
        assert contents(file) == prepared.states[-1]
