"""Every rule of the engine on both databases: silent at what is normal, raised beyond it, resolved when it is over."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceward import Alert, App, Config, Context, Event, Payload, Pipeline
from onceward.model.payload import identity
from tests.store.conftest import Hands
from tests.worker.conftest import Clockwork, Start

HOUR_MS = 3_600_000


class Scene:
    """A database in which trouble is made by hand, and looked for on a clock moved by hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clockwork = Clockwork(url)
        self.app = self.clockwork.app
        self.hands: Hands = self.clockwork.hands()

    @property
    def now(self) -> int:
        return self.clockwork.clock.now()

    def pass_minutes(self, minutes: float) -> None:
        self.clockwork.clock.advance(minutes * 60)
        self.hands.now = self.now

    def look(self) -> list[Alert]:
        """What lasts after a look."""
        return self.app.alerts.look()

    def rules(self) -> set[str]:
        return {alert.rule for alert in self.look()}

    def add(self, table: str, **columns: Any) -> None:
        """A row, past the engine."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        values = [
            value.bytes if isinstance(value, uuid.UUID) and self.app.dialect == "sqlite" else value
            for value in columns.values()
        ]
        self.hands.sql(f"INSERT INTO onceward_{table} ({names}) VALUES ({marks})", *values)

    def task(self, *, kind: str = "page", key: str = "home", lineage: uuid.UUID, depth: int = 1) -> int:
        """A task that another one has spawned."""
        [task] = self.hands.enqueue(kind=kind, key=key, lineage=lineage)
        self.hands.sql("UPDATE onceward_task SET parent = 1, depth = ? WHERE id = ?", depth, task)
        return task

    def refusal(self, *, kind: str = "page", key: str | None = "home", lineage: uuid.UUID, parent: int = 7) -> None:
        self.add(
            "refusal", lineage=lineage, parent=parent, stage="read", kind=kind, key=key,
            identity=identity(kind, key or ""), rule="cycle", reason="it is its own ancestor", at=self.now,
        )  # fmt: skip

    def log(self, event: Event, task: int = 7) -> None:
        self.add("attempt", task=task, run=1, fence=1, event=int(event), status=2, at=self.now)

    def batch(self, number: int, status: int) -> None:
        self.add("batch", name=f"night {number}", status=status, created_at=self.now, ended_at=self.now)

    def ended_worker(self, how: str) -> None:
        self.add(
            "worker", name="ant", host="hill", pid=1, kinds="", queues="", lease_ms=1_000, started_at=self.now,
            beat_at=self.now, stopped_at=self.now, ended_how=how,
        )  # fmt: skip

    def tick(self, chain: int = 0, how: str | None = "idle") -> None:
        ended_at = None if how is None else self.now
        self.add("tick", chain=chain, started_at=self.now, ended_at=ended_at, how=how)

    def close(self) -> None:
        for session in self.clockwork.opened:
            session.close()
        self.app.close()


@pytest.fixture
def scene(store_url: str) -> Iterator[Scene]:
    """A calm database."""
    made = Scene(store_url)
    assert made.look() == []
    yield made
    made.close()


def test_the_same_work_more_than_three_times_in_a_lineage_refusals_counted(scene: Scene) -> None:
    lineage, other = uuid.uuid4(), uuid.uuid4()
    first = scene.task(lineage=lineage)
    scene.task(lineage=other)
    for _ in range(2):
        scene.refusal(kind="page", key=None, lineage=lineage, parent=8)
    assert scene.look() == []
    for _ in range(3):
        scene.refusal(lineage=lineage, parent=first + 1)

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.lineage, alert.key) == ("repeats", str(lineage), lineage, "home")
    assert (alert.count, alert.threshold, alert.tasks) == (4, 3, (first, first + 1))
    assert alert.sentence.startswith("page 'home' was asked for 4 times in one lineage within the last 1h")
    assert alert.advice
    assert alert.is_open


def test_the_same_key_more_than_twice_whatever_the_pipeline(scene: Scene) -> None:
    lineage = uuid.uuid4()
    tasks = [scene.task(kind=kind, lineage=lineage) for kind in ("page", "shop")]
    scene.task(kind="page", key="other", lineage=lineage)
    assert scene.look() == []
    scene.refusal(kind="board", lineage=lineage, parent=tasks[0])

    [alert] = scene.look()

    assert (alert.rule, alert.key, alert.count, alert.threshold) == ("repeats", "home", 3, 2)
    assert alert.tasks == tuple(tasks)


def test_work_that_no_stage_has_spawned_repeats_nothing(scene: Scene) -> None:
    for _ in range(5):
        scene.hands.enqueue(kind="page", key="home", lineage=uuid.UUID(int=1))

    assert scene.look() == []


def test_what_was_repeated_is_over_after_an_hour(scene: Scene) -> None:
    lineage = uuid.uuid4()
    for _ in range(4):
        scene.refusal(lineage=lineage)
    assert scene.rules() == {"repeats"}
    scene.pass_minutes(30)
    assert scene.rules() == {"repeats"}
    scene.pass_minutes(31)

    assert scene.look() == []
    [alert] = scene.app.alerts.list(open_only=False)
    assert alert.resolved_at is not None
    assert not alert.is_open


def test_a_depth_above_eight(scene: Scene) -> None:
    lineage = uuid.uuid4()
    scene.task(lineage=lineage, depth=8)
    assert scene.look() == []
    deep = scene.task(lineage=lineage, key="down", depth=9)

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.lineage, alert.key) == ("depth", str(lineage), lineage, "down")
    assert (alert.count, alert.threshold, alert.tasks) == (9, 8, (deep,))
    scene.pass_minutes(61)
    assert scene.look() == []


def test_old_tasks_are_not_looked_at_again(scene: Scene) -> None:
    scene.task(lineage=uuid.uuid4(), depth=9)
    scene.pass_minutes(61)
    scene.look()
    scene.pass_minutes(61)
    scene.hands.sql("UPDATE onceward_task SET created_at = ?", scene.now)

    assert scene.look() == [], "it stands before the id at which the last hour began"


@pytest.mark.parametrize(("cycles", "reached", "is_told"), [(9, 9, True), (14, 7, False), (13, 7, True), (6, 6, False)])
def test_the_chain_limit_reached_in_more_than_half_of_the_cycles(
    scene: Scene, cycles: int, reached: int, is_told: bool
) -> None:
    for number in range(cycles):
        for chain in range(3 if number < reached else 1):
            scene.tick(chain)

    found = scene.look()

    assert [alert.rule for alert in found] == (["chain"] if is_told else [])
    scene.pass_minutes(61)
    assert scene.look() == []


def test_more_than_a_hundred_time_outs(scene: Scene) -> None:
    for number in range(100):
        scene.log(Event.TIMED_OUT if number % 2 else Event.EXPIRED, task=number)
    scene.log(Event.RETRY_SCHEDULED)
    assert scene.look() == []
    scene.pass_minutes(1)
    scene.log(Event.EXPIRED, task=4_711)

    [alert] = scene.look()

    assert (alert.rule, alert.count, alert.threshold) == ("time-outs", 101, 100)
    assert len(alert.tasks) == 20
    assert alert.tasks[0] == 4_711
    scene.pass_minutes(59.5)
    assert scene.look() == []


@pytest.mark.parametrize(("failed", "ended", "is_told"), [(3, 20, True), (2, 20, False), (19, 19, False)])
def test_more_than_a_tenth_of_the_batches_failed(scene: Scene, failed: int, ended: int, is_told: bool) -> None:
    for number in range(ended):
        scene.batch(number, 3 if number < failed else 1 + number % 2)
    [task] = scene.hands.enqueue(key="lost")
    scene.hands.sql("UPDATE onceward_task SET status = 7, batch = 1 WHERE id = ?", task)
    scene.hands.sql("UPDATE onceward_task SET batch = (SELECT id FROM onceward_batch WHERE name = 'night 0')")

    found = scene.look()

    assert [(alert.rule, alert.tasks) for alert in found] == ([("batches", (task,))] if is_told else [])
    scene.pass_minutes(61)
    assert scene.look() == []


@pytest.mark.parametrize(("bad", "ended", "is_told"), [(2, 20, True), (1, 20, False), (19, 19, False)])
def test_more_than_a_twentieth_of_the_workers_lost(scene: Scene, bad: int, ended: int, is_told: bool) -> None:
    for number in range(ended):
        scene.ended_worker("was killed by SIGKILL" if number < bad else "stopped")

    found = scene.look()

    assert [alert.rule for alert in found] == (["workers"] if is_told else [])
    scene.pass_minutes(61)
    assert scene.look() == []


@pytest.mark.parametrize("how", ["error: no such table", None])
@pytest.mark.parametrize(("bad", "ended", "is_told"), [(2, 20, True), (1, 20, False), (19, 19, False)])
def test_more_than_a_twentieth_of_the_ticks_ended_in_an_error(
    scene: Scene, how: str | None, bad: int, ended: int, is_told: bool
) -> None:
    for number in range(ended):
        scene.tick(how=how if number < bad else "idle")
    scene.pass_minutes(13)  # by then a tick that has not said how it ended is dead

    found = scene.look()

    assert [alert.rule for alert in found] == (["ticks"] if is_told else [])
    scene.pass_minutes(61)
    assert scene.look() == []


def test_a_tick_that_still_runs_is_no_error(scene: Scene) -> None:
    for _ in range(20):
        scene.tick(how=None)

    assert scene.look() == []


def test_a_lease_that_is_over_for_more_than_two_checks(scene: Scene) -> None:
    worker = scene.hands.worker(lease_ms=300_000)
    scene.hands.enqueue(3)
    held = {lease.task for lease in scene.hands.claim(worker)}
    scene.pass_minutes(7)  # the lease takes five minutes, a check one
    assert scene.look() == []
    scene.pass_minutes(0.1)

    [alert] = scene.look()

    assert (alert.rule, alert.subject) == ("lease", f"ant ({worker})")
    assert set(alert.tasks) == held
    scene.hands.bury(worker)
    assert "lease" not in scene.rules()


def test_a_task_that_was_reclaimed_twice(scene: Scene) -> None:
    [task] = scene.hands.enqueue(key="home")

    def lose_a_worker() -> None:
        worker = scene.hands.worker()
        assert scene.hands.claim(worker)
        scene.hands.bury(worker)

    lose_a_worker()
    assert scene.look() == []
    scene.pass_minutes(90)
    lose_a_worker()

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.key, alert.tasks) == ("reclaims", "note", "home", (task,))
    assert (alert.count, alert.threshold) == (2, 2)
    assert alert.sentence == "1 task of note was taken back from lost workers up to 2 times"
    scene.pass_minutes(61)
    assert scene.look() == []


def test_a_source_that_is_disabled(scene: Scene) -> None:
    scene.add("gate", name="web/example.com", enabled=1, streak=24)
    assert scene.look() == []
    scene.hands.sql("UPDATE onceward_gate SET enabled = 0, streak = 25, why = '25 failures in a row'")

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.count) == ("source", "web/example.com", 25)
    assert alert.sentence == "source web/example.com is disabled: 25 failures in a row"
    scene.hands.sql("UPDATE onceward_gate SET enabled = 1")
    assert scene.look() == []


def test_tasks_whose_data_does_not_fit_the_code(scene: Scene) -> None:
    first, second = scene.hands.enqueue(2, kind="page")
    scene.hands.enqueue(kind="shop")
    park = "UPDATE onceward_task SET status = 3, waiting_for = ? WHERE id = ?"
    scene.hands.sql(park, "signal:code", second)
    assert scene.look() == []
    scene.hands.sql(park, "code:abc", first)
    scene.hands.sql(park, "code:def", second)

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.count, alert.tasks) == ("code", "page", 2, (first, second))
    assert alert.sentence == "2 tasks of page were parked: their stored data does not fit the code"
    scene.hands.sql("UPDATE onceward_task SET status = 0, waiting_for = NULL")
    assert scene.look() == []


def test_a_budget_at_eighty_and_at_a_hundred_percent(scene: Scene) -> None:
    lineage = uuid.uuid4()
    five = {"unit": "usd", "ceiling": 5 * 10**9, "highest": 5 * 10**9, "spent": 3 * 10**9}
    scene.add("budget", name="model", scope=str(lineage), window_at=0, **five)
    scene.add("budget", name="yesterday", scope="", window_at=1, ends_at=scene.now, **{**five, "ceiling": 10})
    scene.add("budget", name="none", scope="", window_at=0, unit="usd", ceiling=0, highest=0)
    [task] = scene.hands.enqueue()
    waits = f"budget:model/{lineage}"
    scene.hands.sql("UPDATE onceward_task SET status = 3, waiting_for = ? WHERE id = ?", waits, task)
    assert scene.look() == []

    scene.hands.sql("UPDATE onceward_budget SET reserved = ? WHERE name = 'model'", 10**9)
    [nearly] = scene.look()
    assert (nearly.rule, nearly.subject) == ("budget nearly spent", f"model/{lineage}")
    assert (nearly.lineage, nearly.count, nearly.threshold, nearly.tasks) == (lineage, 0.8, 0.8, (task,))
    assert nearly.sentence == f"budget model/{lineage} is at 80%: 4.00 USD of 5.00 USD spent or set aside"

    scene.hands.sql("UPDATE onceward_budget SET reserved = ? WHERE name = 'model'", 2 * 10**9)
    [spent] = scene.look()
    assert (spent.rule, spent.subject, spent.count, spent.threshold) == ("budget", f"model/{lineage}", 1, 1)

    scene.hands.sql("UPDATE onceward_budget SET ceiling = ? WHERE name = 'model'", 50 * 10**9)
    assert scene.look() == []
    scene.hands.sql("UPDATE onceward_budget SET is_closed = 1 WHERE name = 'model'")
    assert [alert.sentence.rpartition(", ")[2] for alert in scene.look()] == [
        "and closed by a charge above its estimate"
    ]


def test_a_backlog_that_only_grows(scene: Scene) -> None:
    for _ in range(10):
        assert scene.look() == []
        scene.hands.enqueue(3)
        scene.pass_minutes(5)
    assert scene.look() == [], "the looks do not reach back an hour yet"
    scene.pass_minutes(5)

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.count) == ("backlog", "default:note", 30)
    assert alert.sentence == "the backlog of default:note only grows: from 0 to 30 within the last 1h"
    scene.hands.claim(scene.hands.worker(), 1)
    scene.pass_minutes(1)
    assert scene.look() == []


@pytest.mark.parametrize("drained", [True, False], ids=["drained once", "too small to matter"])
def test_a_backlog_that_does_not_only_grow(scene: Scene, drained: bool) -> None:
    for number in range(13):
        assert scene.look() == []
        if drained and number == 6:
            scene.hands.claim(scene.hands.worker(lease_ms=10 * HOUR_MS))
        scene.hands.enqueue(3 if drained else 1)
        scene.pass_minutes(5)

    assert scene.look() == []


# What the engine itself does comes to the same.


class Page(Payload, kind="page"):
    url: str

    def key(self) -> str:
        return self.url


def test_a_loop_is_told_of(start: Start) -> None:
    page = Pipeline(Page)

    @page.stage
    def read(ctx: Context[Page]) -> None:
        for _ in range(4):
            ctx.spawn(Page("home"))

    harness = start(page)
    task = harness.enqueue(Page("home"))
    harness.drain()

    [alert] = harness.app.alerts.look()

    assert (alert.rule, alert.key, alert.count, alert.tasks) == ("repeats", "home", 5, (task.id,))
    assert alert.lineage == harness.task(task).lineage


def test_a_stage_that_kills_its_workers_is_told_of(start: Start) -> None:
    page = Pipeline(Page)

    @page.stage
    def read(ctx: Context[Page]) -> None: ...

    harness = start(page)
    task = harness.enqueue(Page("home"))
    harness.crash("before read", times=2)
    harness.drain()

    assert [(alert.rule, alert.tasks) for alert in harness.app.alerts.look()] == [("reclaims", (task.id,))]


def test_a_transaction_that_has_been_open_for_fifteen_minutes(scene: Scene) -> None:
    if scene.app.dialect == "sqlite":
        pytest.skip("SQLite does not tell who reads; its log tells that somebody does")
    with psycopg.connect(scene.url, application_name="a report") as connection:
        connection.execute("SELECT count(*) FROM onceward_task")
        assert scene.look() == [], "between two statements it reads nothing"
        connection.rollback()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        row = connection.execute("SELECT pg_backend_pid(), count(*) FROM onceward_task").fetchone()
        assert row is not None
        scene.pass_minutes((time.time() * 1_000 - scene.now) / 60_000 + 14.5)
        assert scene.look() == []
        scene.pass_minutes(1)

        [alert] = scene.look()

    process = row[0]
    assert (alert.rule, alert.subject, alert.threshold) == ("snapshot", f"process {process}", 15)
    assert alert.sentence.startswith(f"process {process} of the server (a report) has had a transaction open for 15")
    assert scene.look() == []


def test_a_log_that_cannot_be_used_again(scene: Scene) -> None:
    if scene.app.dialect == "postgres":
        pytest.skip("the log of PostgreSQL is its own")
    file = Path(f"{scene.url.removeprefix('sqlite:///')}-wal")
    scene.app.settings.set("watch_log", 1_000, author="a test")

    [alert] = scene.look()

    assert (alert.rule, alert.subject, alert.threshold) == ("snapshot", "log", 1_000)
    assert 1_000 < alert.count <= file.stat().st_size
    scene.app.settings.unset("watch_log")
    assert scene.look() == []


def test_a_storm_of_one_kind_is_fifty_alerts(scene: Scene) -> None:
    for number in range(60):
        scene.add("gate", name=f"web/{number:02}", enabled=0)

    assert len(scene.look()) == 50
    scene.hands.sql("UPDATE onceward_gate SET enabled = 1 WHERE name < 'web/30'")
    assert {alert.subject for alert in scene.look()} <= {f"web/{number}" for number in range(30, 60)}
    assert len(scene.look()) == 30


def test_a_storm_of_one_budget_or_source_hides_no_other(scene: Scene) -> None:
    spent = {"unit": "usd", "ceiling": 10**9, "highest": 10**9, "spent": 10**9, "window_at": 0}
    for number in range(1_010):
        scene.add("budget", name="each", scope=str(uuid.UUID(int=number)), **spent)
        scene.add("gate", name=f"a/{number}", enabled=0)
    assert len(scene.look()) == 100

    scene.add("budget", name="whole app", scope="", **spent)
    scene.add("gate", name="model", enabled=0)

    scene.look()
    lasting = [alert.subject for alert in scene.app.alerts.list(limit=1_000)]
    assert len(lasting) == 102
    assert {"whole app", "model"} < set(lasting)


def test_a_threshold_that_is_changed_live_holds_at_once(scene: Scene) -> None:
    scene.task(lineage=uuid.uuid4(), depth=3)
    scene.app.settings.set("watch_depth", 2, author="a test")

    assert [(alert.rule, alert.threshold) for alert in scene.look()] == [("depth", 2)]


def test_thresholds_are_settings(store_url: str) -> None:
    scene = Scene(store_url)
    scene.task(lineage=uuid.uuid4(), depth=3)
    assert scene.look() == []
    strict = App(store_url, config=Config(watch_depth=2)).on(store_url, clock=scene.clockwork.clock)

    assert [alert.threshold for alert in strict.alerts.look()] == [2]

    strict.close()
    scene.close()
