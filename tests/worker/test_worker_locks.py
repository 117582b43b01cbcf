"""On PostgreSQL a worker holds a lock that the server drops with its connection: its death shows on any machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import psycopg
import pytest

from onceward.model.times import StoreClock, SystemClock
from onceward.store.attempts.workers import HeldLocks, renew, show_lock
from onceward.store.drivers.postgres import PostgresStore, connect
from onceward.store.drivers.server_liveness import WatchedConnection
from onceward.worker.wakeup import HeldLock
from onceward.worker.worker_lock import ShownLock
from tests.pooler import IS_BETWEEN
from tests.worker.conftest import Clockwork, assert_verified
from tests.worker.test_leases import Machine

pytestmark = [
    pytest.mark.skipif(IS_BETWEEN, reason="behind a pooler no lock is held"),
    pytest.mark.untroubled("it looks at real connections"),
]
DIED = "died: its connection to the database is gone"


@pytest.fixture
def clockwork(migrated_postgres_url: str) -> Iterator[Clockwork]:
    made = Clockwork(migrated_postgres_url)
    yield made
    assert_verified(made.app)
    for session in made.opened:
        session.close()
    made.app.close()


class Holder:
    """A worker on another machine, with a task, and the connection on which it holds its lock."""

    def __init__(self, clockwork: Clockwork) -> None:
        self._store = clockwork.app._store
        self.hands = clockwork.hands()
        self.worker = self.hands.worker("ant")
        [self.task] = self.hands.enqueue()
        self.hands.claim(self.worker, 1)
        self.hold()

    def hold(self) -> None:
        self.connection: WatchedConnection = connect(self._store.url, "onceward listener")
        server_run = self._store.hold_lock(self.connection, self.worker)
        assert server_run is not None
        self.hands.do(lambda: show_lock(self.worker, server_run, self.hands.now))

    def beat(self) -> None:
        self.hands.do(lambda: renew([self.worker], self.hands.now))

    def how_it_ended(self) -> str | None:
        [(how,)] = self.hands.sql("SELECT ended_how FROM onceward_worker WHERE id = ?", self.worker)
        return None if how is None else str(how)


@pytest.fixture
def ant(clockwork: Clockwork) -> Iterator[Holder]:
    holder = Holder(clockwork)
    yield holder
    holder.connection.close()


@pytest.fixture
def bee(clockwork: Clockwork) -> Machine:
    return Machine(clockwork, "bee")


def watch(clockwork: Clockwork, bee: Machine, seconds: int) -> None:
    for _ in range(seconds):
        clockwork.clock.advance("1s")
        bee.housekeeping.hurry()
        bee.housekeeping.step()


def wait_for_the_server(ant: Holder) -> None:
    """A server notices in its own time that a connection was closed."""
    with psycopg.connect(ant._store.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [ant.connection.info.backend_pid])


def test_a_worker_whose_lock_was_missing_in_two_looks_is_buried_and_its_task_runs_again(
    clockwork: Clockwork, ant: Holder, bee: Machine
) -> None:
    watch(clockwork, bee, 10)
    wait_for_the_server(ant)
    seconds = 0
    while ant.how_it_ended() is None:
        seconds += 1
        watch(clockwork, bee, 1)
    assert 5 <= seconds <= 11
    assert ant.how_it_ended() == DIED
    bee.hands.now = clockwork.clock.now()
    assert bee.housekeeping.reclaimed[0].suspects == 1


def test_a_worker_that_is_paused_keeps_its_lock_and_is_left_alone(
    clockwork: Clockwork, ant: Holder, bee: Machine
) -> None:
    watch(clockwork, bee, 240)
    assert ant.how_it_ended() is None


def test_a_worker_without_its_lock_that_beats_is_left_alone(clockwork: Clockwork, ant: Holder, bee: Machine) -> None:
    wait_for_the_server(ant)
    for _ in range(10):
        watch(clockwork, bee, 4)
        ant.beat()
    assert ant.how_it_ended() is None


def test_a_worker_that_holds_its_lock_again_is_left_alone(clockwork: Clockwork, ant: Holder, bee: Machine) -> None:
    for _ in range(4):
        wait_for_the_server(ant)
        watch(clockwork, bee, 5)
        ant.connection.close()
        ant.hold()
    watch(clockwork, bee, 30)
    assert ant.how_it_ended() is None


def test_a_worker_that_has_said_that_it_holds_no_lock_is_judged_by_its_lease(
    clockwork: Clockwork, ant: Holder, bee: Machine
) -> None:
    wait_for_the_server(ant)
    ant.hands.do(lambda: show_lock(ant.worker, None, ant.hands.now))
    watch(clockwork, bee, 120)
    assert ant.how_it_ended() is None


def test_a_worker_of_another_schema_with_the_same_number_holds_another_lock(
    clockwork: Clockwork, ant: Holder, bee: Machine
) -> None:
    url = ant._store.url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA elsewhere")
    elsewhere = Clockwork(f"{url}&options=-csearch_path%3Delsewhere")
    stranger = Holder(elsewhere)
    assert stranger.worker == ant.worker
    wait_for_the_server(ant)
    watch(clockwork, bee, 11)
    assert ant.how_it_ended() == DIED
    stranger.connection.close()
    elsewhere.app.close()
    stranger.hands.session.close()


@pytest.mark.parametrize(
    ("server_run", "up_ms", "is_missing"),
    [
        ("00000001 500", 1_000, True),
        ("00000001 400", 59_999, False),
        ("00000001 400", 60_000, True),
        ("00000002 400", 3_600_000, False),
    ],
    ids=["same run", "just restarted", "restarted long ago", "before a failover"],
)
def test_a_lock_is_missed_only_where_it_would_be_held(server_run: str, up_ms: int, is_missing: bool) -> None:
    held = HeldLocks("00000001 500", up_ms, frozenset({7}))
    assert held.is_missing(8, server_run) is is_missing
    assert not held.is_missing(7, server_run)


def test_behind_a_pooler_no_lock_is_held(migrated_postgres_url: str) -> None:
    clock = StoreClock(SystemClock())
    with closing(connect(migrated_postgres_url, "onceward listener")) as connection:
        assert PostgresStore(migrated_postgres_url, clock, prepare=False).hold_lock(connection, 1) is None
        connection.backend = None
        assert PostgresStore(migrated_postgres_url, clock).hold_lock(connection, 1) is None


@dataclass
class Ear:
    """A listener of which a test says what it holds."""

    held: HeldLock | None = None
    asked: list[bool] = field(default_factory=list)

    def ask_soon(self) -> None:
        self.asked.append(True)


def test_the_row_of_a_worker_says_on_which_run_of_the_server_it_holds_its_lock(clockwork: Clockwork) -> None:
    hands, session, ear = clockwork.hands(), clockwork.session(), Ear()
    worker = hands.worker("ant")
    lock = ShownLock(session, ear, lambda: worker)  # type: ignore[arg-type]

    def shown(after_ms: int = 0) -> tuple[str | None, int]:
        clockwork.clock.advance(after_ms / 1_000)
        lock.step()
        [(server_run, beat)] = hands.sql("SELECT server_run, beat FROM onceward_worker WHERE id = ?", worker)
        return server_run, beat

    assert shown() == (None, 0)
    ear.held = HeldLock(1, "1 5")
    assert shown() == ("1 5", 1)
    assert shown(60_000) == ("1 5", 1)
    ear.held = None
    assert shown(500) == ("1 5", 1), "it may be held again in a moment"
    ear.held = HeldLock(2, "1 5")
    assert shown(200) == ("1 5", 2), "a new connection is a beat"
    ear.held = None
    assert shown(500) == ("1 5", 2)
    assert shown(1_000) == (None, 3)
    ear.held = HeldLock(3, "1 5")
    assert shown() == ("1 5", 4)
    session.discard()
    session.opened()
    assert ear.asked == []
    assert shown() == ("1 5", 5), "its session was on another connection before"
    assert ear.asked == [True]
