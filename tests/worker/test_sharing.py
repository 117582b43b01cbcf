"""Group commit: callers of one process share transactions, and each has an outcome of its own (decision 32)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from onceward import App, Context, Payload, Pipeline
from onceward.client.enqueueing import Enqueued
from onceward.client.group_commit import Sharing, Turn
from onceward.errors import OutcomeUnknown, StoreUnavailable

CALLERS = 8
PATIENCE_S = 30
COUNTED = pytest.mark.untroubled("it counts receipts, and what is asked about a lost try leaves one")


class Note(Payload, kind="note"):
    name: str

    def key(self) -> str:
        return self.name


note = Pipeline(Note)


@note.stage
def read(ctx: Context[Note]) -> None:
    """Nothing: these tests enqueue."""


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    with App(request.getfixturevalue(f"migrated_{request.param}_url"), [note]) as app:
        app.prepare()
        yield app


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CALLERS + 2) as pool:
        yield pool


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def asking_together(app: App, calls: Sequence[Callable[[], Any]], threads: ThreadPoolExecutor) -> list[Future[Any]]:
    """Calls that have come while somebody else had the connection: the first leads, the others wait with it."""
    with app._lock:
        asked = [threads.submit(calls[0])]
        until(lambda: app._sharing._is_led)
        for place, call in enumerate(calls[1:], 1):
            asked.append(threads.submit(call))
            until(lambda place=place: len(app._sharing._waiting) == place)  # type: ignore[misc]
    return asked


def transactions(app: App) -> int:
    return int(app.read(lambda connection: connection.execute("SELECT count(*) FROM onceward_receipt").fetchone()[0]))


def refuse(app: App, key: str) -> None:
    """Let the database itself refuse a task: no check of ours knows of it."""
    connection = app._session().opened()
    if app.dialect == "sqlite":
        connection.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT ON onceward_task WHEN NEW.key = '{key}' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
        return
    connection.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF NEW.key = '{key}' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$"
    )
    connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON onceward_task FOR EACH ROW EXECUTE FUNCTION refuse()")


@COUNTED
def test_a_caller_that_comes_meanwhile_shares_the_next_transaction(app: App, threads: ThreadPoolExecutor) -> None:
    before = transactions(app)
    calls = [lambda place=place: app.enqueue(Note(f"n{place}")) for place in range(CALLERS)]
    made = [one.result(PATIENCE_S) for one in asking_together(app, calls, threads)]
    assert [app.tasks.get(one.id).key for one in made] == [f"n{place}" for place in range(CALLERS)]
    assert sorted(one.id for one in made) == [one.id for one in made], "in the order in which they came"
    assert transactions(app) == before + 1


@COUNTED
def test_coroutines_share_transactions_with_each_other(app: App) -> None:
    async def all_of_them() -> list[Enqueued]:
        with app._lock:
            asked = [asyncio.ensure_future(app.aenqueue(Note(f"n{place}"))) for place in range(CALLERS)]
            await asyncio.sleep(0)
            assert len(app._sharing._waiting) == CALLERS - 1
        return await asyncio.gather(*asked)

    before = transactions(app)
    made = asyncio.run(all_of_them())
    assert [app.tasks.get(one.id).key for one in made] == [f"n{place}" for place in range(CALLERS)]
    assert transactions(app) == before + 1


def test_a_coroutine_that_gives_up_before_its_turn_enqueues_nothing_and_holds_no_other_up(app: App) -> None:
    async def one_gives_up() -> list[Enqueued]:
        with app._lock:
            asked = [asyncio.ensure_future(app.aenqueue(Note(f"n{place}"))) for place in range(3)]
            await asyncio.sleep(0)
            assert len(app._sharing._waiting) == 2
            asked[1].cancel()
            await asyncio.wait([asked[1]])
        return [await asked[0], await asked[2]]

    made = asyncio.run(one_gives_up())
    assert [app.tasks.get(one.id).key for one in made] == ["n0", "n2"]
    assert sum(app.stats.counts().values()) == 2
    assert app.enqueue(Note("later")).created


def test_one_that_the_database_refuses_fails_alone(app: App, threads: ThreadPoolExecutor) -> None:
    refuse(app, "bad")
    calls: list[Callable[[], Any]] = [
        lambda: app.enqueue(Note("first")),
        lambda: app.enqueue_many([Note("whole"), Note("bad")]),
        lambda: app.enqueue(Note("bad")),
        lambda: app.enqueue_many([Note("second"), Note("third")]),
    ]
    first, many, bad, others = asking_together(app, calls, threads)
    assert app.tasks.get(first.result(PATIENCE_S).id).key == "first"
    assert [app.tasks.get(one.id).key for one in others.result(PATIENCE_S)] == ["second", "third"]
    for failed in (many, bad):
        assert "not this one" in str(failed.exception(PATIENCE_S))
    assert sum(app.stats.counts().values()) == 3, "all of a call, or nothing"


def test_a_group_whose_connection_is_killed_is_enqueued_once(
    migrated_postgres_url: str, threads: ThreadPoolExecutor
) -> None:
    url = migrated_postgres_url
    with App(url, [note]) as app, psycopg.connect(url, autocommit=True) as other:
        app.prepare()
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE onceward_task IN ACCESS EXCLUSIVE MODE")
            calls = [lambda place=place: app.enqueue(Note(f"n{place}")) for place in range(CALLERS)]
            asked = asking_together(app, calls, threads)
            stuck = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            until(lambda: other.execute(stuck).fetchone() is not None)
            other.execute(f"SELECT pg_terminate_backend(pid) FROM ({stuck}) AS stuck")
        made = [one.result(PATIENCE_S) for one in asked]
        assert [app.tasks.get(one.id).key for one in made] == [f"n{place}" for place in range(CALLERS)]
        assert sum(app.stats.counts().values()) == CALLERS


def test_a_database_that_cannot_be_reached_is_an_error_of_its_own_for_each(threads: ThreadPoolExecutor) -> None:
    turn = Turn()
    tried: list[int] = []

    def write(asked: Sequence[int], _: Callable[[], None]) -> Sequence[int]:
        tried.append(len(asked))
        raise StoreUnavailable("gone")

    errors = [one.exception(PATIENCE_S) for one in _together(Sharing(turn, write), turn, threads, 3)]
    assert [str(error) for error in errors] == ["gone"] * 3
    assert len({id(error) for error in errors}) == 3
    assert tried == [3], "nobody tries again alone what says nothing of what was asked for"


def test_an_unknown_outcome_carries_to_each_its_own_result(threads: ThreadPoolExecutor) -> None:
    turn = Turn()

    def write(asked: Sequence[int], _: Callable[[], None]) -> Sequence[int]:
        doubt = OutcomeUnknown("who knows")
        doubt.token, doubt.result = b"receipt", [one * 10 for one in asked]
        raise doubt

    doubts = [one.exception(PATIENCE_S) for one in _together(Sharing(turn, write), turn, threads, 3)]
    assert [(doubt.token, doubt.result) for doubt in doubts if isinstance(doubt, OutcomeUnknown)] == [
        (b"receipt", 0),
        (b"receipt", 10),
        (b"receipt", 20),
    ]


@pytest.mark.parametrize("is_sent", [False, True])
def test_an_interrupted_leader_takes_no_other_caller_with_it(threads: ThreadPoolExecutor, is_sent: bool) -> None:
    turn = Turn()
    tried: list[Sequence[int]] = []

    def write(asked: Sequence[int], is_whole: Callable[[], None]) -> Sequence[int]:
        tried.append(asked)
        if len(tried) == 1:
            if is_sent:
                is_whole()
            raise KeyboardInterrupt
        return asked

    leader, *others = _together(Sharing(turn, write), turn, threads, 3)
    assert isinstance(leader.exception(PATIENCE_S), KeyboardInterrupt)
    if is_sent:  # it may have committed: to write it again could be twice
        assert [type(one.exception(PATIENCE_S)) for one in others] == [OutcomeUnknown, OutcomeUnknown]
        assert tried == [[0, 1, 2]]
    else:
        assert [one.result(PATIENCE_S) for one in others] == [1, 2]
        assert tried == [[0, 1, 2], [1, 2]]


def test_a_forked_process_does_not_wait_for_a_leader_that_stayed_behind(threads: ThreadPoolExecutor) -> None:
    turn = Turn()
    sharing: Sharing[int, int] = Sharing(turn, lambda asked, _: list(asked))
    is_in, may_go = threading.Event(), threading.Event()

    def lead() -> None:
        with turn, sharing._mutex:
            sharing._is_led = True
            is_in.set()
            may_go.wait(PATIENCE_S)

    held = threads.submit(lead)
    assert is_in.wait(PATIENCE_S)
    child = os.fork()
    if child == 0:
        os._exit(0 if sharing.ask(7, 1) == 7 else 1)
    try:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        may_go.set()
        held.result(PATIENCE_S)


def _together(sharing: Sharing[int, int], turn: Turn, threads: ThreadPoolExecutor, count: int) -> list[Future[int]]:
    """The callers 0, 1, 2, … of one group."""
    with turn:
        asked = [threads.submit(sharing.ask, 0, 1)]
        until(lambda: sharing._is_led)
        for place in range(1, count):
            asked.append(threads.submit(sharing.ask, place, 1))
            until(lambda place=place: len(sharing._waiting) == place)  # type: ignore[misc]
    return asked
