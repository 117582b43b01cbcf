"""Schedules on both databases: every due time is fired once, by whoever is first, whatever clocks and code do."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from onceward import App, ConfigError, Context, Cron, Payload, Pipeline, ScheduleNotFound, StopList
from onceward.model.schedule import GRACE_MS, MOST_AT_ONCE
from onceward.model.times import instant, moment
from onceward.store.op import Request, Rows
from onceward.store.operations.schedules import declare, fire
from onceward.testing import FakeClock, Harness, run_stage
from onceward.testing.clock import START
from onceward.worker.process import WorkerProcess
from onceward.worker.scheduler import ScheduleLook, fire_due
from onceward.worker.worker_orders import Orders
from tests.faults.schedulers import app_with_schedules, expected, fired
from tests.worker.conftest import Start, assert_verified

HOUR = 3_600_000


class Report(Payload, kind="report"):
    about: str = "sales"


class Digest(Payload, kind="digest"):
    pass


report = Pipeline(Report)
digest = Pipeline(Digest, unique="everywhere")
told: list[datetime | None] = []


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


@report.stage
def tell(ctx: Context[Report]) -> None:
    told.append(ctx.scheduled_at)


@digest.stage
def gather(ctx: Context[Digest]) -> None: ...


def hourly(missed: Any = "once", **options: Any) -> Cron:
    return Cron("0 * * * *", Report(), missed=missed, **{"name": "hourly", **options})


def hours(*numbers: int) -> list[datetime]:
    return [moment(START + number * HOUR) for number in numbers]


def look(harness: Harness) -> ScheduleLook:
    """ScheduleLook at the schedules once, as a worker does."""
    app = harness.app
    return fire_due(app._session(), app._schedules, harness.clock.now())


# Firing


def test_a_schedule_fires_at_its_time_and_its_task_knows_which_one_that_is(start: Start) -> None:
    harness = start(report, schedules=[hourly()])
    harness.drain()
    assert told == []
    harness.advance("1h1s")
    harness.drain()
    harness.drain()
    assert told == hours(1)
    [task] = harness.app.tasks.list()
    assert (task.scheduled_at, task.parent, task.depth) == (hours(1)[0], None, 0)
    [status] = harness.app.schedules.list()
    assert (status.name, status.kind, status.expression, status.tz, status.missed) == (
        "hourly", "report", "0 * * * *", "UTC", "once",
    )  # fmt: skip
    assert (status.next_at, status.last_at, status.last_task, status.fired) == (*hours(2, 1), task.id, 1)
    assert (status.paused, status.is_known) == (False, True)


def test_work_that_no_schedule_has_fired_has_no_scheduled_time(start: Start) -> None:
    harness = start(report)
    task = harness.enqueue(Report())
    harness.drain()
    assert told == [None]
    assert harness.task(task).scheduled_at is None
    run_stage(tell, Report())
    run_stage(tell, Report(), scheduled_at=hours(1)[0])
    assert told == [None, None, *hours(1)]


def test_a_drain_does_not_wait_for_schedules(start: Start) -> None:
    harness = start(report, schedules=[hourly()])
    harness.drain()
    assert (harness.clock.now(), told) == (START, [])


@pytest.mark.parametrize(("missed", "expected"), [("once", (5,)), ("all", (1, 2, 3, 4, 5)), ("skip", ())])
def test_what_was_missed_while_no_worker_ran(start: Start, missed: str, expected: tuple[int, ...]) -> None:
    before = start(report, schedules=[hourly(missed)])
    before.advance("5h30m")
    harness = start(report, schedules=[hourly(missed)], after=before)
    harness.drain()
    assert told == hours(*expected)
    [status] = harness.app.schedules.list()
    assert (status.next_at, status.fired) == (hours(6)[0], len(expected))
    harness.advance("30m")
    harness.drain()
    assert told == hours(*expected, 6)


def test_thousands_of_missed_times_are_fired_in_portions(start: Start) -> None:
    harness = start(report, schedules=[Cron("* * * * *", Report(), missed="all")])
    harness.advance(60 * (2 * MOST_AT_ONCE + 7))
    looks = [look(harness) for _ in range(4)]
    assert [one.fired for one in looks] == [MOST_AT_ONCE, MOST_AT_ONCE, 7, 0]
    assert looks[0].next_at == START + (MOST_AT_ONCE + 1) * 60_000
    tasks = sorted(harness.app.tasks.list(limit=2_000), key=lambda task: task.id)
    first = moment(START)
    assert [task.scheduled_at for task in tasks] == [
        first + timedelta(minutes=number + 1) for number in range(2 * MOST_AT_ONCE + 7)
    ]


# Once


def test_of_many_who_see_the_same_time_due_one_fires_it(start: Start) -> None:
    harness = start(report, schedules=[hourly("all")])
    harness.advance("3h")
    [cron] = harness.app._schedules
    now, seen = harness.clock.now(), START + HOUR
    session, begin = harness.app._session(), harness.app._schedules.begin
    fired = [session.transact(lambda: fire(cron, seen, cron.due(seen, now), begin, now)) for _ in range(3)]
    assert [one is not None for one in fired] == [True, False, False]
    harness.drain()
    assert told == hours(1, 2, 3)


def test_what_was_paused_or_changed_since_it_was_seen_due_is_not_fired(start: Start) -> None:
    harness = start(report, schedules=[hourly()])
    harness.advance("1h")
    [cron] = harness.app._schedules
    now = harness.clock.now()

    def fire_what_was_seen() -> Any:
        return harness.app._session().transact(
            lambda: fire(cron, now, cron.due(now, now), harness.app._schedules.begin, now)
        )

    harness.app.schedules.pause("hourly")
    assert fire_what_was_seen() is None
    harness.app.schedules.resume("hourly")
    with harness.app._lock:  # other code means other times, of which one is the same
        harness.app._session().transact(lambda: declare([hourly(tz="Europe/Berlin")], now - 1))
    assert fire_what_was_seen() is None
    assert harness.app.tasks.list() == []


def test_who_dies_before_the_commit_has_fired_nothing(start: Start) -> None:
    harness = start(report, schedules=[hourly()])
    harness.advance("1h")
    [cron] = harness.app._schedules
    now = harness.clock.now()

    def die(*arguments: Any) -> Any:
        yield from harness.app._schedules.begin(*arguments)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.app._session().transact(lambda: fire(cron, now, cron.due(now, now), die, now))
    assert harness.app.tasks.list() == []
    harness.drain()
    assert told == hours(1)


@pytest.mark.parametrize("missed", ["once", "all", "skip"])
def test_a_clock_that_is_set_back_fires_nothing_twice(start: Start, missed: str) -> None:
    harness = start(report, schedules=[hourly(missed)])
    harness.advance("2h")
    harness.drain()
    before = list(told)
    harness.clock.step(-HOUR)
    harness.app._store.clock.measured(None)
    for _ in range(7):
        harness.drain()
        assert told == before
        harness.advance("10m")
    harness.advance("50m")
    harness.drain()
    assert told == [*before, *hours(3)]


@pytest.mark.parametrize(("missed", "expected"), [("once", (3,)), ("all", (1, 2, 3)), ("skip", ())])
def test_a_clock_that_is_set_forward_has_missed_the_times_between(
    start: Start, missed: str, expected: tuple[int, ...]
) -> None:
    harness = start(report, schedules=[hourly(missed)])
    harness.clock.step(3 * HOUR + GRACE_MS + 1)
    harness.app._store.clock.measured(None)
    harness.drain()
    assert told == hours(*expected)


class _Killed(BaseException):
    """The scheduler dies here."""


def test_a_scheduler_killed_at_random_through_a_year_fires_every_time_once(start: Start) -> None:
    """At any statement, the commit too; both clock changes of two continents are in that year."""
    app = start().app
    dice = random.Random(7)
    url, now, end = app.url, START, START + 365 * 24 * HOUR
    fire_due(app._session(), app_with_schedules(url, quarters=False)._schedules, now)
    deaths = 0
    while now < end:
        now = min(end, now + dice.randrange(72 * HOUR))
        schedules = app_with_schedules(url, quarters=False)._schedules
        session = app._store.session(patience_s=5)
        session.run = _mortal(session.run, dice)  # type: ignore[method-assign]
        try:
            fire_due(session, schedules, now)
        except _Killed:
            deaths += 1
        session.close()
    fire_due(app._session(), app_with_schedules(url, quarters=False)._schedules, end)
    assert fired(app) == expected(START, end, quarters=False)
    assert deaths > 50


def _mortal(run: Callable[[Request], Rows], dice: random.Random) -> Callable[[Request], Rows]:
    """Run statements until one of the next, and die before or after it."""
    left = dice.randrange(2, 40)
    is_late = dice.random() < 0.5

    def run_or_die(request: Request) -> Rows:
        nonlocal left
        left -= 1
        if left <= 0 and not is_late:
            raise _Killed
        rows = run(request)
        if left <= 0:
            raise _Killed
        return rows

    return run_or_die


# The rules of any enqueue


def test_work_that_is_unique_everywhere_is_not_enqueued_beside_itself(start: Start) -> None:
    harness = start(digest, schedules=[Cron("0 * * * *", Digest(), missed="all")])
    open_one = harness.enqueue(Digest(), after="10h")
    harness.advance("2h")
    look(harness)
    [task] = harness.app.tasks.list()
    assert (task.id, task.scheduled_at) == (open_one.id, None)
    [status] = harness.app.schedules.list()
    assert (status.fired, status.last_task) == (2, open_one.id)


def test_what_the_stop_list_keeps_out_is_not_enqueued(start: Start) -> None:
    harness = start(report, schedules=[hourly()], stop_list=StopList(keywords=["sales"]))
    harness.advance("1h")
    harness.drain()
    assert (told, harness.app.tasks.list()) == ([], [])
    [status] = harness.app.schedules.list()
    assert (status.fired, status.last_task, status.next_at) == (1, None, hours(2)[0])
    assert not harness.app.schedules.run_now("hourly")


class Fickle(Payload, kind="fickle"):
    def key(self) -> str:
        if is_broken:
            raise ValueError("no key today")
        return "one"


is_broken = False


def test_a_schedule_whose_work_cannot_be_enqueued_keeps_no_other_from_its_times(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fickle = Pipeline(Fickle)

    @fickle.stage
    def work(ctx: Context[Fickle]) -> None: ...

    harness = start(report, fickle, schedules=[Cron("0 * * * *", Fickle(), missed="all", name="first"), hourly()])
    monkeypatch.setattr(sys.modules[__name__], "is_broken", True)
    harness.advance("2h")
    assert look(harness) == ScheduleLook(1, START + 3 * HOUR)
    assert "a schedule could not be fired" in caplog.text
    monkeypatch.undo()
    assert look(harness).fired == 2


# Pause, resume, run now


@pytest.mark.parametrize(("missed", "expected"), [("once", (4,)), ("all", (2, 3, 4)), ("skip", ())])
def test_a_paused_schedule_does_not_fire_and_has_missed_what_came_meanwhile(
    start: Start, missed: str, expected: tuple[int, ...]
) -> None:
    harness = start(report, schedules=[hourly(missed)])
    harness.advance("1h")
    harness.drain()
    harness.app.schedules.pause("hourly")
    harness.advance("3h30m")
    harness.drain()
    assert told == hours(1)
    [status] = harness.app.schedules.list()
    assert (status.paused, status.next_at) == (True, hours(2)[0])
    harness.app.schedules.resume("hourly")
    harness.drain()
    assert told == hours(1, *expected)


def test_a_schedule_can_be_paused_before_any_worker_has_seen_it(store_url: str) -> None:
    clock = FakeClock()
    with App(store_url, [report], schedules=[hourly()], clock=clock) as app:
        [status] = app.schedules.list()
        assert (status.next_at, status.fired, status.is_known) == (hours(1)[0], 0, True)
        app.schedules.pause("hourly")
        clock.advance("2h")
        assert fire_due(app._session(), app._schedules, clock.now()) == ScheduleLook(0, None)
        assert app.schedules.list()[0].paused


def test_run_now_enqueues_besides_the_times(start: Start) -> None:
    harness = start(report, schedules=[hourly()])
    harness.advance("10m")
    begun = harness.app.schedules.run_now("hourly")
    harness.drain()
    assert told == [moment(START + 600_000)]
    assert harness.task(begun).status.word == "succeeded"
    [status] = harness.app.schedules.list()
    assert (status.next_at, status.last_at, status.fired) == (hours(1)[0], None, 0)
    harness.advance("50m")
    harness.drain()
    assert told[1:] == hours(1)


def test_unknown_names_are_refused(start: Start) -> None:
    harness = start(report, schedules=[hourly()])
    for act in (harness.app.schedules.pause, harness.app.schedules.resume):
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'nightly'"):
            act("nightly")
    with pytest.raises(ConfigError, match="no schedule 'nightly' whose work it could enqueue; it has: hourly"):
        harness.app.schedules.run_now("nightly")


def test_a_stage_cannot_run_a_schedule(start: Start) -> None:
    class Push(Payload, kind="push"):
        pass

    push = Pipeline(Push)

    @push.stage
    def press(ctx: Context[Push]) -> None:
        with pytest.raises(ConfigError, match="nothing for a stage"):
            harness.app.schedules.run_now("hourly")

    harness = start(report, push, schedules=[hourly()])
    task = harness.enqueue(Push())
    harness.drain()
    assert harness.task(task).status.word == "succeeded"


# Other code


def test_a_schedule_with_other_times_counts_from_now_on(start: Start) -> None:
    before = start(report, schedules=[hourly("all")])
    before.advance("5h30m")
    changed = Cron("15 * * * *", Report(), missed="all", name="hourly")
    with App(before.app.url, [report], schedules=[changed], clock=before.clock) as app:
        app.run(until_idle=True)
        assert told == []
        before.advance("45m")
        app.run(until_idle=True)
        assert told == [moment(START + 6 * HOUR + 900_000)]


def test_another_way_with_missed_times_changes_no_time(start: Start) -> None:
    before = start(report, schedules=[hourly("skip")])
    before.advance("2h30m")
    harness = start(report, schedules=[hourly("all")], after=before)
    harness.drain()
    assert told == hours(1, 2)
    assert harness.app.schedules.list()[0].missed == "all"


def test_what_is_in_no_code_any_more_is_kept_and_not_fired(start: Start) -> None:
    before = start(report, schedules=[hourly()])
    before.advance("2h")
    harness = start(report, after=before)
    harness.drain()
    assert told == []
    [status] = harness.app.schedules.list()
    assert (status.name, status.is_known, status.next_at) == ("hourly", False, hours(1)[0])


def test_of_two_codes_the_one_that_came_last_decides_until_no_worker_fires_for_it(start: Start) -> None:
    older = start(report, schedules=[hourly("all")])
    newer = start(report, schedules=[Cron("30 * * * *", Report(), missed="all", name="hourly")])
    for _ in range(4):
        for harness in (older, newer):
            harness.advance("15m")
            look(harness)
    assert look(older) == ScheduleLook(0, None)
    older.drain()
    assert told == [moment(START + HOUR // 2)]
    older.advance(GRACE_MS / 1_000 + 1_800 + 1)  # the newer one is gone, and its next time long over
    assert look(older).next_at == START + 2 * HOUR
    older.advance("1h")
    older.drain()
    assert told[1:] == hours(2)


# A real worker


class _Ahead:
    """The machine's clock, set so that a full minute is near."""

    def __init__(self, before_the_minute_s: float) -> None:
        now = time.time()
        self._offset = (-now - before_the_minute_s) % 60

    def now(self) -> int:
        return int((time.time() + self._offset) * 1_000)

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000


@pytest.fixture
def working(store_url: str) -> Iterator[Callable[[App], None]]:
    """Lets a worker work in a thread, until the test is over."""
    stops: list[Callable[[], None]] = []
    threads: list[threading.Thread] = []

    def work(app: App) -> None:
        is_there = threading.Event()

        def started(process: WorkerProcess) -> None:
            stops.append(process.request_stop)
            is_there.set()

        threads.append(threading.Thread(target=lambda: app._work(Orders(), on_start=started)))
        threads[-1].start()
        assert is_there.wait(10)

    yield work
    for stop in stops:
        stop()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_an_idle_worker_fires_within_a_second_of_the_time(store_url: str, working: Callable[[App], None]) -> None:
    clock = _Ahead(1.5)
    ran_at: list[int] = []

    class Prompt(Payload, kind="prompt"):
        pass

    prompt = Pipeline(Prompt)

    @prompt.stage
    def run(ctx: Context[Prompt]) -> None:
        ran_at.append(clock.now())
        assert ctx.scheduled_at is not None
        told.append(ctx.scheduled_at)

    app = App(store_url, [prompt], schedules=[Cron("* * * * *", Prompt())], clock=clock)
    app.prepare()
    working(app)
    give_up_at = time.monotonic() + 20
    while not ran_at:
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    assert told[0] is not None
    assert 0 <= ran_at[0] - instant(told[0]) < 1_000
    assert_verified(app)
    app.close()


def test_a_worker_until_idle_fires_what_is_due_and_waits_for_nothing_else(store_url: str) -> None:
    clock = FakeClock()
    with App(store_url, [report], schedules=[hourly()], clock=clock) as app:
        app.run(until_idle=True)
        assert told == []
        clock.advance("90m")
        app.run(until_idle=True)
        assert told == hours(1)
        assert_verified(app)
