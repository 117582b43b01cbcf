"""The operations of the engine, one by one: what must be there before, and what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from onceward import Status
from onceward.model.budget import Bill, Charge
from onceward.model.task import Advance, Commit, Finish, HandOver, Lease, TryAgain
from onceward.store.attempts.workers import renew
from onceward.worker.scheduler import fire_due
from tests.disk.engine import Engine, Order, Piece, Question, insert_note


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that the engine does, in one transaction or in some."""

    name: str
    prepare: Callable[[Engine], Any]
    """Brings a database to where it can be done; what it returns is given to `act`."""
    act: Callable[[Engine, Any], object]
    may_be_repeated: bool = False
    """Whether doing it again does no harm, so that an error says nothing of what is done already."""


def nothing(engine: Engine) -> None:
    engine.app.prepare()


def _orders(engine: Engine, count: int) -> int:
    engine.app.enqueue_many([Order(number) for number in range(count)])
    return engine.register()


def _claimed(engine: Engine, count: int = 2) -> list[Lease]:
    return engine.claim(_orders(engine, count))


def _at_split(engine: Engine) -> list[Lease]:
    leases = _claimed(engine)
    for lease in leases:
        engine.commit(_taken(lease))
    return leases


def _taken(lease: Lease) -> Commit:
    return Commit(lease, Advance("take", b"1", "split"), ((insert_note, (lease.task, "take")),))


def _split(engine: Engine, lease: Lease) -> Commit:
    spawner, mine = engine.app._spawner, Order(lease.task - 1)
    children = tuple(spawner.child(lease, Piece(mine.number * 10 + number)) for number in range(3))
    spawns = spawner.together(mine, children, (), ())
    return Commit(lease, HandOver("split", b"1", "close", "default", joins=True), spawns=spawns)


def _before_the_last_piece(engine: Engine) -> Lease:
    worker = _orders(engine, 1)
    [lease] = engine.claim(worker)
    engine.commit(_taken(lease))
    written = engine.commit(_split(engine, lease))
    *others, last = [*written.claimed.leases, *engine.claim(worker)]
    for one in others:
        engine.commit(_made(one))
    return last


def _made(lease: Lease) -> Commit:
    return Commit(lease, Finish("make", None, Status.SUCCEEDED, None), ((insert_note, (lease.task, "make")),))


def _ended_and_claimed(engine: Engine, lease: Lease) -> object:
    """End a task and claim its parent: with the next transaction where trouble has left its rows one of their own."""
    written = engine.commit(_made(lease))
    return written.verdicts if written.claimed.leases else engine.claim(lease.worker)


def _asked(engine: Engine) -> list[Lease]:
    engine.app.enqueue_many([Question(1), Question(2)])
    return engine.claim(engine.register())


def _answered(lease: Lease) -> Commit:
    bill = Bill((Charge("usd", 200_000_000),), frees=True)
    effects = ((insert_note, (lease.task, "ask")),)
    return Commit(lease, Finish("ask", None, Status.SUCCEEDED, None), effects, bill=bill)


def _declared(engine: Engine) -> None:
    engine.app.prepare()
    fire_due(engine.session, engine.app._schedules, engine.now)
    engine.clock.advance("2d")


def _ended(engine: Engine) -> None:
    for lease in _asked(engine):
        engine.commit(_answered(lease))
    engine.clock.advance("40d")


def _look(engine: Engine, task: int) -> Iterator[object]:
    yield engine.app.verify().ok
    yield engine.app.tasks.get(task).status
    yield engine.app.stats.counts()
    yield engine.app.read(lambda connection: connection.execute("SELECT count(*) FROM onceward_task").fetchall())


OPERATIONS = [
    Operation("enqueue", nothing, lambda engine, _: engine.app.enqueue(Order(1)).id),
    Operation(
        "enqueue in bulk",
        nothing,
        lambda engine, _: len(engine.app.enqueue_many([Order(number, "x" * 500) for number in range(200)])),
    ),
    Operation("claim", lambda engine: _orders(engine, 5), lambda engine, worker: len(engine.claim(worker))),
    Operation(
        "renew",
        lambda engine: _orders(engine, 2),
        lambda engine, worker: engine.session.transact(lambda: renew([worker], engine.now)),
    ),
    Operation(
        "commit a stage with effects",
        _claimed,
        lambda engine, leases: engine.commit(*map(_taken, leases)).verdicts,
    ),
    Operation(
        "commit a failure",
        _claimed,
        lambda engine, leases: (
            engine.commit(
                *(Commit(lease, TryAgain("take", engine.now + 1_000, "no luck")) for lease in leases)
            ).verdicts
        ),
    ),
    Operation(
        "spawn",
        _at_split,
        lambda engine, leases: engine.commit(*(_split(engine, lease) for lease in leases)).verdicts,
    ),
    Operation("join", _before_the_last_piece, lambda engine, lease: _ended_and_claimed(engine, lease)),
    Operation("settle a budget", _asked, lambda engine, leases: engine.commit(*map(_answered, leases)).verdicts),
    Operation("reclaim", lambda engine: _claimed(engine)[0].worker, lambda engine, worker: engine.bury(worker)),
    Operation(
        "tick of a schedule",
        _declared,
        lambda engine, _: fire_due(engine.session, engine.app._schedules, engine.now).fired,
    ),
    Operation("prune", _ended, lambda engine, _: engine.app.tasks.prune(), may_be_repeated=True),
    Operation("migrate", lambda engine: None, lambda engine, _: engine.app.migrate(), may_be_repeated=True),
    Operation(
        "verify and read",
        lambda engine: _claimed(engine)[0].task,
        lambda engine, task: [*_look(engine, task)],
        may_be_repeated=True,
    ),
]
