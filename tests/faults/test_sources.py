"""Sources under many processes, judged by the service itself: who came when, and how many were inside at once."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from onceward import Status
from onceward.operations.sources import SourceState
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, Worker, wait_until
from tests.faults.outside import (
    BURST,
    FAILURES,
    PAUSE,
    PER_SECOND,
    PLACES,
    PORT,
    Crowded,
    Dead,
    Fragile,
    Good,
    Limited,
    Outside,
    Slow,
    make_app,
)
from tests.proof.tally import SEED

WORKED_OFF_S = 120.0
WARMING_UP_S = 0.5


@pytest.fixture
def outside() -> Iterator[Outside]:
    """The service."""
    with Outside() as outside:
        yield outside


@pytest.fixture(params=["sqlite", "postgres"])
def governed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A database, and worker processes that go to the service; at the end all invariants hold."""
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    with Fleet(url, tmp_path, make_app, "tests.faults.outside") as fleet:
        yield fleet
        fleet.verified()


def start(fleet: Fleet, outside: Outside, processes: int, *, pause: str = "1s", concurrency: int = 10) -> list[Worker]:
    """Start worker processes, and wait until all of them look for work."""
    environment = {PORT: str(outside.port), PAUSE: pause}
    settings = {"concurrency": concurrency, "poll": "500ms"}
    workers = [fleet.start(settings=settings, environment=environment) for _ in range(processes)]
    pids = {worker.pid for worker in workers}
    wait_until(lambda: pids <= set(fleet.living_pids()), "all are at work", fleet.said)
    return workers


# The bucket


@pytest.mark.alone
def test_8_processes_never_pass_the_bucket_and_use_it(governed: Fleet, outside: Outside) -> None:
    share_a_bucket(governed, outside, seconds=4)


@pytest.mark.torture
def test_8_processes_never_pass_the_bucket_and_use_it_for_30_s(governed: Fleet, outside: Outside) -> None:
    share_a_bucket(governed, outside, seconds=30)


def share_a_bucket(fleet: Fleet, outside: Outside, *, seconds: float) -> None:
    """600 a minute, for 8 processes that could do far more."""
    start(fleet, outside, 8)
    most = BURST + PER_SECOND * seconds
    fleet.enqueue(Limited(number) for number in range(round(most * 1.5) + 20))
    first = wait_until(lambda: outside.of("limited"), "somebody comes", fleet.state)[0].came_at
    wait_until(lambda: time.time() > first + seconds, "time is up", limit_s=seconds + 10)
    visits = [visit for visit in outside.of("limited") if visit.came_at <= first + seconds]
    claimed = claimed_at(fleet)
    granted = sorted(claimed[visit.task] for visit in visits)
    assert worst_window(granted) <= BURST, "more were let in than the bucket holds"
    # At the service the bound holds but for the time in which some were on their way longer than others.
    on_the_way = [visit.came_at - claimed[visit.task] for visit in visits]
    uneven_s = max(on_the_way) - min(on_the_way)
    assert worst_window(sorted(visit.came_at for visit in visits)) <= BURST + PER_SECOND * uneven_s
    assert len(visits) >= 0.95 * most, f"only {len(visits)} of {most:g} calls were made\n{fleet.state()}"
    fleet.app.workers.pause()
    still(fleet)


def claimed_at(fleet: Fleet) -> dict[int, float]:
    """When each task was claimed last."""
    found: dict[int, float] = {}
    for at, tasks in fleet.sql("SELECT at, tasks FROM onceward_claim ORDER BY seq"):
        ids = json.loads(tasks) if isinstance(tasks, str) else tasks
        found.update(dict.fromkeys(ids, at / 1_000))
    return found


def worst_window(times: list[float]) -> float:
    """The largest number of calls in any window, beyond what comes into the bucket while it lasts."""
    tokens = worst = 0.0
    before = times[0]
    for at in times:
        # The largest sum over all windows that end here: that of those that end at the call before, or one call alone.
        tokens = max(0.0, tokens - PER_SECOND * (at - before)) + 1
        worst, before = max(worst, tokens), at
    return worst - 1e-3  # times are floats


def still(fleet: Fleet) -> None:
    """Wait until nothing runs."""
    wait_until(lambda: not fleet.counts().get(Status.RUNNING), "all is still", fleet.state)


# The neighbours


@pytest.mark.alone
def test_a_dead_and_a_slow_source_cost_the_others_nothing(governed: Fleet, outside: Outside) -> None:
    stand_beside_trouble(governed, outside, rounds=2, seconds=1.5)


@pytest.mark.torture
def test_a_dead_and_a_slow_source_cost_the_others_nothing_for_long(governed: Fleet, outside: Outside) -> None:
    stand_beside_trouble(governed, outside, rounds=5, seconds=8)


def stand_beside_trouble(fleet: Fleet, outside: Outside, *, rounds: int, seconds: float) -> None:
    """Eight sources with two places each, beside a dead one and one of a call a minute, and without them, in turns."""
    outside.takes_s["good"] = 0.1
    outside.down.add("dead")
    fleet.app.workers.pause(source="dead")
    fleet.app.workers.pause(source="slow")
    enough = round(8 * 20 * (WARMING_UP_S + seconds) * rounds * 2.5)
    fleet.enqueue(Good(number % 8, number) for number in range(enough))
    fleet.enqueue(Dead(number) for number in range(500))
    fleet.enqueue(Slow(number) for number in range(500))
    start(fleet, outside, 2, concurrency=40)
    wait_until(lambda: len(outside.of("good")) > 100, "they are at work", fleet.state)
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rounds):
        alone.append(speed(outside, seconds))
        fleet.app.workers.resume(source="dead")
        fleet.app.workers.resume(source="slow")
        beside.append(speed(outside, seconds))
        fleet.app.workers.pause(source="dead")
        fleet.app.workers.pause(source="slow")
    assert outside.of("dead"), "it was tried"
    assert len(outside.of("slow")) <= 1 + rounds * seconds * 2 / 60 + 1
    assert fleet.counts()[Status.PENDING] > 100, "there was work all the time"
    share = statistics.fmean(beside) / statistics.fmean(alone)
    assert share >= 0.95, f"alone {alone}, beside trouble {beside} calls a second"
    fleet.app.workers.pause()
    still(fleet)


def speed(outside: Outside, seconds: float) -> float:
    """How many calls a second come to the good ones, from a moment on."""
    time.sleep(WARMING_UP_S)
    before, began = len(outside.of("good")), time.monotonic()
    time.sleep(seconds)
    return (len(outside.of("good")) - before) / (time.monotonic() - began)


# The breaker


def test_half_open_is_one_probe_under_many_processes(governed: Fleet, outside: Outside) -> None:
    probe(governed, outside, processes=6, openings=2, pause_s=0.5)


@pytest.mark.torture
def test_half_open_is_one_probe_under_16_processes_again_and_again(governed: Fleet, outside: Outside) -> None:
    probe(governed, outside, processes=16, openings=25, pause_s=1.0)


def probe(fleet: Fleet, outside: Outside, *, processes: int, openings: int, pause_s: float) -> None:
    """Many processes want to know whether a source is back, and one of them asks."""
    start(fleet, outside, processes, pause=f"{round(pause_s * 1_000)}ms")
    outside.takes_s["fragile"] = 0.2
    outside.down.add("fragile")
    tasks = fleet.enqueue(Fragile(number) for number in range(40))
    wait_until(lambda: opened(fleet) >= 1, "its breaker opens", fleet.state)
    began = time.time() + 0.3  # whoever was let in before has come by then
    wait_until(lambda: opened(fleet) >= openings, "it opens again and again", fleet.state, limit_s=WORKED_OFF_S)
    outside.down.clear()
    wait_until(lambda: fleet.ended() == len(tasks), "all is done", fleet.state, limit_s=WORKED_OFF_S)
    visits = [visit for visit in outside.of("fragile") if visit.came_at > began]
    failed = [visit for visit in visits if visit.failed]
    assert len(failed) == opened(fleet) - 1, "each probe that failed has opened it once, and nobody came besides"
    assert all(later.came_at - one.came_at >= pause_s for one, later in pairwise(failed))
    [first, *others] = [visit for visit in visits if not visit.failed]
    assert all(other.came_at > first.left_at for other in others), "others came before the probe was over"
    [status] = fleet.app.sources.get("fragile")
    assert (status.state, status.streak) == (SourceState.OPEN, 0)
    keep(fleet.app, "F58", f"breaker half-open under {processes} processes", faults=opened(fleet))


def opened(fleet: Fleet) -> int:
    """How often the breaker has opened."""
    return sum(count for (count,) in fleet.sql("SELECT opened FROM onceward_gate WHERE name = 'fragile'"))


def test_an_outage_is_probed_and_not_stormed(governed: Fleet, outside: Outside) -> None:
    live_through_an_outage(governed, outside, outage_s=2, pause_s=0.25)


@pytest.mark.torture
def test_an_outage_of_60_s_is_probed_and_not_stormed(governed: Fleet, outside: Outside) -> None:
    live_through_an_outage(governed, outside, outage_s=60, pause_s=5)


def live_through_an_outage(fleet: Fleet, outside: Outside, *, outage_s: float, pause_s: float) -> None:
    """A source that works is gone for a while, and comes back."""
    start(fleet, outside, 4, pause=f"{round(pause_s * 1_000)}ms")
    outside.takes_s["fragile"] = 0.02
    tasks = fleet.enqueue(Fragile(number) for number in range(300))
    wait_until(lambda: len(outside.of("fragile")) > 50, "they are at work", fleet.state)
    outside.down.add("fragile")
    time.sleep(outage_s)
    outside.down.clear()
    attempts = sum(visit.failed for visit in outside.of("fragile"))
    allowed = FAILURES + outage_s / pause_s
    assert attempts <= 1.1 * allowed, f"{attempts} attempts, {allowed:g} are allowed\n{fleet.state()}"
    assert attempts > FAILURES, "it was tried again"
    wait_until(lambda: fleet.ended() == len(tasks), "all is done", fleet.state, limit_s=WORKED_OFF_S)
    keep(fleet.app, "F57", f"source down for {outage_s:g} s", faults=attempts)


# The places


def test_places_of_killed_workers_come_back_and_are_never_too_many(governed: Fleet, outside: Outside) -> None:
    kill_who_is_inside(governed, outside, kills=2)


@pytest.mark.torture
def test_places_of_killed_workers_come_back_again_and_again(governed: Fleet, outside: Outside) -> None:
    kill_who_is_inside(governed, outside, kills=25)


def kill_who_is_inside(fleet: Fleet, outside: Outside, *, kills: int) -> None:
    """Four places, always taken; and now and then somebody who holds one is killed."""
    dice = random.Random(SEED * 7)
    outside.takes_s["crowded"] = 0.15
    tasks = fleet.enqueue(Crowded(number) for number in range(40 + 50 * kills))
    start(fleet, outside, 4, concurrency=3)
    killed: dict[int, float] = {}
    for _ in range(kills):
        seen = len(outside.visits)
        wait_until(lambda seen=seen: len(outside.visits) > seen + 8, "they are at work", fleet.state)
        pid = dice.choice(wait_until(fleet.busy_pids, "somebody is inside", fleet.state))
        outside.lose(pid)
        killed[pid] = time.time()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        start(fleet, outside, 1, concurrency=3)
    wait_until(lambda: fleet.ended() == len(tasks), "all is done", fleet.state, limit_s=WORKED_OFF_S)
    assert outside.most["crowded"] == PLACES, "all places were used, and never more"
    assert set(fleet.counts()) == {Status.SUCCEEDED}
    fault = "worker killed while it is inside a source"
    keep(fleet.app, "F01", fault, faults=kills, recovery_s=recovered_s(fleet.app, killed))
