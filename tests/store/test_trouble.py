"""Whatever trouble a store has: nothing is lost or doubled, and nobody is told what is not so."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward import App, Connection, Context, Enqueued, Event, Migration, Payload, Pipeline, Status
from onceward.errors import OutcomeUnknown, StoreUnavailable
from onceward.worker import committer
from tests.proof.tally import SEED, Tally
from tests.store.trouble import BUSY, KINDS, REPLY_LOST, SLOW, Trouble

pytestmark = pytest.mark.untroubled("it makes its own trouble")

NOTES = Migration("notes", "CREATE TABLE note (task integer NOT NULL, text varchar(40) NOT NULL)")


class Job(Payload, kind="job"):
    """Something to do."""

    number: int

    def key(self) -> str:
        return str(self.number)


jobs = Pipeline(Job)


def insert_note(connection: Connection, task: int, text: str) -> None:
    marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
    connection.execute(f"INSERT INTO note (task, text) VALUES ({marks})", (task, text))


begins: list[Callable[[], None]] = []
"""What is done when the first stage runs."""


@jobs.stage
def first(ctx: Context[Job]) -> int:
    while begins:
        begins.pop()()
    ctx.write(insert_note, ctx.task.id, "first")
    return ctx.payload.number


@jobs.stage
async def second(ctx: Context[Job]) -> None:
    ctx.write(insert_note, ctx.task.id, "second")


@jobs.stage
async def third(ctx: Context[Job]) -> None:
    """It leaves no rows behind: such stages are written by the event loop where that is near."""


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """An app on a migrated database; in the end verified, without trouble."""
    with App(request.getfixturevalue(f"migrated_{request.param}_url"), [jobs], migrations=[NOTES]) as made:
        made.migrate()
        made.close()
        yield made


@pytest.fixture
def begin_trouble(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Trouble]]:
    """Puts trouble before the store of the app, until the test ends or wants it to end."""

    def begin(probability: float, patience_s: float | None = None, seed: int = SEED) -> Trouble:
        trouble = Trouble(seed, probability, patience_s)
        trouble.put_before_the_store(monkeypatch)
        return trouble

    yield begin
    monkeypatch.undo()
    app.close()
    breaches = [breach.sentence for check in app.verify().checks for breach in check.breaches]
    assert breaches == []


def kinds_met(trouble: Trouble) -> Counter[str]:
    """How often which kind of trouble was met, on whichever database."""
    met: Counter[str] = Counter()
    for (kind, _), count in trouble.done.items():
        met[kind] += count
    return met


def stored(app: App) -> Counter[int]:
    """How often each job is there."""
    return Counter(int(task.key or -1) for task in app.tasks.list(limit=100_000))


def test_every_kind_of_trouble_is_met_by_the_session_and_hidden(
    app: App, begin_trouble: Callable[..., Trouble]
) -> None:
    trouble = begin_trouble(0.6)
    for number in range(60):
        app.enqueue(Job(number))
    assert set(kinds_met(trouble)) == set(KINDS)
    doubts = app._raw_session().doubts
    assert doubts.committed > 0
    assert doubts.not_committed > 0
    app.close()
    assert stored(app) == Counter(range(60))


@pytest.mark.parametrize("threads", [1, 8])
def test_a_caller_without_patience_is_told_nothing_that_is_not_so(
    app: App, begin_trouble: Callable[..., Trouble], threads: int
) -> None:
    ask_without_patience(app, begin_trouble(0.5, patience_s=0.0), threads, 80)


@pytest.mark.torture
@pytest.mark.parametrize("threads", [1, 8])
def test_many_callers_without_patience_are_told_nothing_that_is_not_so(
    app: App, begin_trouble: Callable[..., Trouble], threads: int
) -> None:
    ask_without_patience(app, begin_trouble(0.5, patience_s=0.0), threads, 5_000)


def ask_without_patience(app: App, trouble: Trouble, threads: int, count: int) -> None:
    """Whoever got an answer finds its task; who was told that the database is away does not, now or later; and who was
    told that nobody knows finds out by its receipt."""
    there: set[int] = set()
    not_there: set[int] = set()
    unknown: dict[int, OutcomeUnknown] = {}

    def ask(numbers: range) -> None:
        for number in numbers:
            try:
                app.enqueue(Job(number))
            except OutcomeUnknown as doubt:
                unknown[number] = doubt
            except StoreUnavailable:
                not_there.add(number)
            else:
                there.add(number)

    asking = [threading.Thread(target=ask, args=[range(place, count, threads)]) for place in range(threads)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(there) + len(not_there) + len(unknown) == count
    assert all((there, not_there, unknown)), "everything has happened"

    trouble.probability = 0.0
    known = {number: app._raw_session().settle(doubt) for number, doubt in unknown.items()}
    found = stored(app)
    assert found == Counter(there | {number for number, has_committed in known.items() if has_committed})
    assert set(known.values()) == {True, False} or count < 100
    done = kinds_met(trouble)
    Tally(
        matrix="F32",
        fault="answer to an enqueue lost, and not to be found out at once",
        store=app.dialect,
        faults=done.total() - done[SLOW],
        accepted=len(there),
        reconciled=len(unknown),
    ).keep()


def test_cancelling_twice_is_noticed_even_if_the_first_answer_was_lost(
    app: App, begin_trouble: Callable[..., Trouble]
) -> None:
    ids = [app.enqueue(Job(number)).id for number in range(40)]
    app.close()
    begin_trouble(0.6)
    for task in ids:
        app.tasks.cancel(task)  # it would raise if it met its own cancellation
    assert {task.status for task in app.tasks.list(limit=100)} == {Status.CANCELLED}
    for task in ids:
        assert [one.event for one in app.tasks.get(task).history].count(Event.CANCELLED) == 1


def test_a_worker_whose_database_is_away_again_and_again_does_everything_once(
    app: App, begin_trouble: Callable[..., Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in_trouble(app, begin_trouble, monkeypatch, 60)


@pytest.mark.torture
def test_a_worker_does_everything_once_for_long(
    app: App, begin_trouble: Callable[..., Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in_trouble(app, begin_trouble, monkeypatch, 3_000)


def work_in_trouble(
    app: App, begin_trouble: Callable[..., Trouble], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A worker in this process, with sessions that give up at once: what it hears it has to bear itself."""
    monkeypatch.setattr(committer, "PAUSE_AFTER_TROUBLE_S", 0.01)
    trouble = begin_trouble(0.0, patience_s=0.0)
    ids: list[Enqueued] = []
    done = kinds_met(trouble)
    while not (done[REPLY_LOST] and done[BUSY]):  # a worker with much to do needs few transactions for it
        ids += app.enqueue_many([Job(len(ids) + number) for number in range(count)])
        app.close()
        begins.append(lambda: setattr(trouble, "probability", 0.3))  # who cannot even begin says so, and does not work
        app.run(until_idle=True, concurrency=4)
        trouble.probability = 0.0
        done = kinds_met(trouble)
    assert {app.tasks.get(one.id).status for one in ids} == {Status.SUCCEEDED}
    notes: list[Any] = app.read(lambda connection: connection.execute("SELECT task, text FROM note").fetchall())
    assert Counter(map(tuple, notes)) == Counter((one.id, stage) for one in ids for stage in ("first", "second"))
    Tally(
        matrix="F32",
        fault="worker's transaction lost, in doubt or refused",
        store=app.dialect,
        faults=done.total() - done[SLOW],
        accepted=len(ids),
        commits=3 * len(ids),
        reconciled=done[REPLY_LOST],
    ).keep()
