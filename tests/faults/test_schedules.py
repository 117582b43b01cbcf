"""Real processes and one schedule: they race for its times, and die through a year with both changes of the clock."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from onceward import App, ScheduleStatus
from onceward.model.times import instant
from onceward.store.op import Op, Query
from onceward.worker.scheduler import fire_due
from tests.faults.counting import keep
from tests.faults.fleet import begin, wait_until
from tests.faults.schedulers import MINUTE_MS, QUARTERS, app_with_schedules, expected, fired
from tests.faults.work import DATABASE
from tests.nursery import Process
from tests.proof.tally import SEED

PROCESSES = 8
DAY_MS = 86_400_000
SUMMER = instant(datetime(2026, 6, 1, tzinfo=UTC))


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """The app with its schedules, on a new database; in the end all invariants hold."""
    with app_with_schedules(request.getfixturevalue(f"migrated_{request.param}_url")) as made:
        made.prepare()
        yield made
        assert made.verify().ok


def test_eight_processes_race_for_every_time_and_one_of_them_fires_it(app: App) -> None:
    race(app, rounds=40)


@pytest.mark.torture
def test_eight_processes_race_for_every_time_of_a_month(app: App) -> None:
    race(app, rounds=30 * 96)


def race(app: App, *, rounds: int) -> None:
    """Every quarter of an hour all of them look at once."""
    fire_due(app._session(), app._schedules, SUMMER)
    times = [SUMMER + number * 15 * MINUTE_MS for number in range(1, rounds + 1)]
    with racers(app.url) as ask:
        answers = [ask(now) for now in times]
    due = expected(SUMMER, times[-1])
    assert fired(app) == due
    assert [sum(answer) for answer in answers] == [Counter(at for _, at in due)[now] for now in times]
    keep(app, "F54", f"{PROCESSES} processes race for the times of a schedule", faults=rounds)


@contextmanager
def racers(url: str) -> Iterator[Callable[[int], list[int]]]:
    """Processes that look at the schedules when told what time it is; what each of them has fired."""
    command = ["python", "-m", "tests.faults.schedulers", "race", url]
    processes = [begin(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(PROCESSES)]

    def said(process: Process) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def ask(now: int) -> list[int]:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{now}\n")
            process.stdin.flush()
        return [int(said(process)) for process in processes]

    try:
        assert [said(process) for process in processes] == ["ready"] * PROCESSES
        yield ask
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_the_children_of_a_supervisor_fire_what_is_due(app: App, tmp_path: Path) -> None:
    """A supervisor knows no schedules. One is due when they start, another while they are idle."""
    quarter = 15 * MINUTE_MS
    due_at = app._store.clock.now() // quarter * quarter
    fire_due(app._session(), app._schedules, due_at - 1)
    command = ["onceward", "run", "tests.faults.schedulers:app", "--processes", "2"]
    with (tmp_path / "log").open("wb") as log:
        supervisor = begin(command, {DATABASE: app.url}, stderr=log)
    try:
        first = wait_until(lambda: fired(app), "the first is fired")
        [quarters] = [one for one in app.schedules.list() if one.name == QUARTERS]
        app._transact(lambda: _set_back(quarters, due_at - quarter))
        wait_until(lambda: len(fired(app)) >= len(first) + 2, "both that were missed since are fired")
    finally:
        supervisor.terminate()
        assert supervisor.wait(60) == 0
    again = Counter(at for name, at in fired(app) if name == QUARTERS)
    assert (again[due_at], again[due_at - quarter]) == (2, 1)


def _set_back(found: ScheduleStatus, next_at: int) -> Op[None]:
    """Let a schedule be due again, as an operator with SQL could."""
    yield Query(
        "advance_schedule",
        {
            "name": found.name,
            "expression": found.expression,
            "tz": found.tz,
            "seen": instant(found.next_at),
            "next_at": next_at,
            "last_at": None,
            "fired": 0,
        },
    )


@pytest.mark.parametrize("change", ["2026-03-28T20:00Z", "2026-10-24T20:00Z"])
def test_schedulers_killed_at_random_while_the_clock_changes_fire_every_time_once(
    app: App, tmp_path: Path, change: str
) -> None:
    start = instant(datetime.fromisoformat(change))
    killed = live_through(app, tmp_path / "now", start, start + DAY_MS // 2, step_ms=60 * MINUTE_MS, death_within=60)
    assert killed


@pytest.mark.torture
def test_schedulers_killed_at_random_through_a_year_fire_every_time_once(app: App, tmp_path: Path) -> None:
    start = instant(datetime(2026, 1, 1, tzinfo=UTC))
    killed = live_through(
        app, tmp_path / "now", start, start + 365 * DAY_MS, step_ms=6 * 60 * MINUTE_MS, death_within=400
    )
    assert killed > 50


def live_through(app: App, clock: Path, start: int, end: int, *, step_ms: int, death_within: int) -> int:
    """Let three processes fire what is due through some time; whoever is killed is replaced. How many were."""
    fire_due(app._session(), app._schedules, start)
    clock.write_text(str(start))
    killed = 0
    living: list[Process] = []
    seeds = count((SEED - 1) * 1_000_000)

    def begin_one() -> Process:
        numbers = (end, step_ms, death_within, next(seeds))
        return begin(["python", "-m", "tests.faults.schedulers", "live", app.url, str(clock), *map(str, numbers)])

    try:
        living += [begin_one() for _ in range(3)]
        while living:
            one = living.pop(0)
            code = one.wait(300)
            if code != 0:
                assert code == -9, f"a scheduler ended with {code}"
                killed += 1
                living.append(begin_one())
    finally:
        for one in living:
            one.kill()
            one.wait()
    assert fired(app) == expected(start, end)
    keep(app, "F54", "scheduler killed at random while the clock changes", faults=killed)
    return killed
