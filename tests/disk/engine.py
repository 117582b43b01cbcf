"""An engine with a little of everything, on a database file: what the sweeps do to it, and what it must come to."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from onceward import App, Budget, Config, Connection, Context, Cron, Migration, Payload, Pipeline, Status
from onceward.model.task import Commit, Lease
from onceward.store.attempts.workers import Death, NewWorker, bury, living_workers, register
from onceward.store.drivers.session import Session
from onceward.store.governance.budget_waits import declare
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Op, drive
from onceward.testing import FakeClock, Harness
from onceward.worker.writer import Item, Wish, Writer, Written

NOTES = Migration("notes", "CREATE TABLE note (task integer NOT NULL, text text NOT NULL)")
CHECKPOINT_PAGES = 24
"""Often enough that the small transactions of a sweep come to checkpoints too."""


class Order(Payload, kind="order"):
    """A task that leaves a row, spawns three others, waits for them and leaves another row."""

    number: int
    text: str = ""


class Piece(Payload, kind="piece"):
    """One of those three."""

    number: int


class Question(Payload, kind="question"):
    """A task that costs money."""

    number: int


class Daily(Payload, kind="daily"):
    """A task of a schedule."""


order, piece, question, daily = Pipeline(Order), Pipeline(Piece), Pipeline(Question), Pipeline(Daily)
usd = Budget("usd", 100)


def insert_note(connection: Connection, task: int, text: str) -> None:
    """An effect."""
    connection.execute("INSERT INTO note (task, text) VALUES (?, ?)", (task, text))


@order.stage
def take(ctx: Context[Order]) -> int:
    ctx.write(insert_note, ctx.task.id, "take")
    return 1


@order.stage
def split(ctx: Context[Order]) -> int:
    for number in range(3):
        ctx.spawn(Piece(ctx.payload.number * 10 + number))
    return 1


@order.stage(join=True)
def close(ctx: Context[Order]) -> None:
    ctx.write(insert_note, ctx.task.id, "close")


@piece.stage
def make(ctx: Context[Piece]) -> None:
    ctx.write(insert_note, ctx.task.id, "make")


@question.stage(budget=usd, estimate="0.5")
def ask(ctx: Context[Question]) -> None:
    ctx.charge(usd, "0.2")
    ctx.write(insert_note, ctx.task.id, "ask")


@daily.stage
def remind(ctx: Context[Daily]) -> None:
    ctx.write(insert_note, ctx.task.id, "remind")


LEAVES = {"order": ("close", "take"), "piece": ("make",), "question": ("ask",), "daily": ("remind",)}
"""The rows that a task of each kind leaves."""


def app_on(file: Path, clock: FakeClock | None = None, *, synchronous: str = "full", patience_s: float = 60.0) -> App:
    """The engine on a database file. Whoever asks for fewer syncs than it does gets what they deserve."""

    def set_pragmas(connection: Any) -> None:
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")

    return App(
        f"sqlite:///{file}",
        [order, piece, question, daily],
        migrations=[NOTES],
        on_connect=set_pragmas,
        schedules=[Cron("0 6 * * *", Daily(), name="daily")],
        clock=clock,
        config=Config(database_wait=f"{patience_s * 1_000:.0f}ms"),
    )


class Engine:
    """The engine on a file: a client, and a worker whose transactions are made one by one."""

    def __init__(self, file: Path, clock: FakeClock, patience_s: float = 60.0) -> None:
        self.file = file
        self.clock = clock
        self.app = app_on(file, clock, patience_s=patience_s)
        self.session = self.app._store.session(patience_s=patience_s)
        self.worker = 0

    @property
    def now(self) -> int:
        return self.clock.now()

    @property
    def reconciled(self) -> int:
        """How many commits had no reply and were decided by their receipts."""
        doubts = [session.doubts for session in (self.session, self.app._client) if session is not None]
        return sum(one.committed + one.not_committed for one in doubts)

    def register(self) -> int:
        """Become a worker."""

        def enter() -> Op[int]:
            yield from declare(self.app._registry.budgets.values(), self.now)
            return (yield from register(NewWorker("ant", "host", 7, None, "", "", 300_000), self.now))

        self.worker = self.session.transact(enter)
        return self.worker

    def writer(self, worker: int) -> Writer:
        """The transactions of a worker."""
        registry = self.app._registry
        limits_of = registry.limits_of if registry.governs else None

        def memory(*, suspect: bool = False) -> LineMemory:
            lanes = registry.lanes(None, suspect=suspect)
            return LineMemory(lanes, limits_of, sweeps=False, budgets_of=registry.budgets_of)

        return Writer(self.session, worker, memory(), memory(suspect=True))

    def claim(self, worker: int, count: int = 20) -> list[Lease]:
        """What the worker gets."""
        return list(self.writer(worker).write((), Wish(count, slots=count)).claimed.leases)

    def commit(self, *wanted: Commit) -> Written:
        """Hand in moves of attempts, and claim what there is, in one transaction."""
        written = self.writer(wanted[0].lease.worker).write([Item(one, lambda _: None) for one in wanted], Wish(20))
        assert list(written.verdicts) == [True] * len(wanted)
        return written

    def bury(self, worker: int) -> object:
        """Take back what a worker has held."""
        return _bury(self.session, worker, self.now)

    def close(self) -> None:
        """Let go of the file."""
        self.session.close()
        self.app.close()


def _bury(session: Session, worker: int, now: int) -> object:
    [seen] = [one for one in session.transact(living_workers) if one.id == worker]
    death = Death("was killed", frozenset())
    return session.transact(lambda: bury(seen, death, 3, lambda _: 1_000, now))


def contents(file: Path) -> str:
    """All that is in a database, apart from receipts and random bytes."""
    with closing(apsw.Connection(str(file))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
        return "\n".join(
            f"{name}: {sorted(map(_plain, connection.execute(f'SELECT * FROM {name}')))}"
            for (name,) in tables
            if name not in ("onceward_receipt", "sqlite_stat1")
        )


def _plain(row: tuple[Any, ...]) -> str:
    return repr(tuple(len(value) if isinstance(value, bytes) else value for value in row))


def assert_sound(file: Path) -> None:
    """The file is a healthy database."""
    with closing(apsw.Connection(str(file))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def assert_ends(file: Path, now: int) -> int:
    """A new engine finds nothing wrong, goes on, and ends everything: each effect once. Returns how many tasks."""
    harness = Harness(app_on(file), url=f"sqlite:///{file}")
    try:
        harness.clock.advance((now - harness.clock.now()) / 1_000)
        assert_verified(harness.app)
        session = harness.app._session()
        for seen in drive(living_workers(), session):
            _bury(session, seen.id, now)
        harness.drain(wait_for_due=True)
        assert_verified(harness.app)
        tasks = harness.app.read(lambda connection: connection.execute(_TASKS).fetchall())
        assert {status for _, _, status in tasks} <= {Status.SUCCEEDED}
        notes = harness.app.read(lambda connection: connection.execute("SELECT task, text FROM note").fetchall())
        assert len(notes) == len(set(notes))
        are_there = {task for task, _, _ in tasks}  # rows of the application's own stay when a task is pruned
        assert {note for note in notes if note[0] in are_there} == {
            (task, text) for task, kind, _ in tasks for text in LEAVES[kind]
        }
        return len(tasks)
    finally:
        harness.app.close()


_TASKS = "SELECT id, kind, status FROM onceward_task"


def assert_verified(app: App) -> None:
    """Every promise of the engine holds."""
    breaches = [breach.sentence for check in app.verify().checks for breach in check.breaches]
    assert breaches == [], breaches


def copied(pattern: Path, file: Path) -> None:
    """A database like another one, which nobody has open."""
    for end in ("-wal", "-shm", "-journal"):
        Path(f"{file}{end}").unlink(missing_ok=True)
    if pattern.exists():
        file.write_bytes(pattern.read_bytes())
        os.chmod(file, 0o600)
    else:
        file.unlink(missing_ok=True)
