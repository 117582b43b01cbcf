"""Leases: renewed while their worker lives, reclaimed when it has been silent long enough, and not by a clock alone."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Config, Event, Status
from onceward.model.task import Finish, Lease
from onceward.store.attempts import claims, workers
from onceward.worker import crash_points
from onceward.worker.housekeeping import Housekeeping
from tests.store.conftest import Hands
from tests.worker.conftest import Clockwork, ask

DONE = Finish("first", b"1", Status.SUCCEEDED, None)


class Machine:
    """A machine with one worker on it, and the housekeeping of that worker; its clock is the test's."""

    def __init__(self, clockwork: Clockwork, name: str, config: Config | None = None) -> None:
        self.clockwork = clockwork
        self.hands = clockwork.hands()
        self.worker = self.hands.worker(name)
        self.dead: set[int] = set()
        self.suspects_found = 0
        self.housekeeping = Housekeeping(
            clockwork.session(),
            config or Config(),
            mine=lambda: [self.worker],
            declared_dead=self.dead.update,
            suspects_found=self._count_suspects,
            check_presence=False,
        )

    def _count_suspects(self) -> None:
        self.suspects_found += 1

    def claim(self) -> Lease:
        self.hands.now = self.clockwork.clock.now()
        [lease] = self.hands.claim(self.worker, 1)
        return lease

    def finish(self, lease: Lease) -> Any:
        self.hands.now = self.clockwork.clock.now()
        return self.hands.commit(lease, DONE)

    @property
    def reclaimed(self) -> list[str]:
        return [one.worker for one in self.housekeeping.reclaimed]


def status_of(hands: Hands, task: int) -> Status:
    [(status,)] = hands.sql("SELECT status FROM onceward_task WHERE id = ?", task)
    return Status(status)


def log_of(hands: Hands, task: int) -> list[tuple[Event, str | None]]:
    rows = hands.sql("SELECT event, note FROM onceward_attempt WHERE task = ? ORDER BY id", task)
    return [(Event(event), note) for event, note in rows]


@pytest.fixture
def ant(clockwork: Clockwork) -> Machine:
    return Machine(clockwork, "ant")


@pytest.fixture
def bee(clockwork: Clockwork) -> Machine:
    return Machine(clockwork, "bee")


def test_a_fourteen_minute_stage_never_looks_stale(clockwork: Clockwork, ant: Machine, bee: Machine) -> None:
    ant.hands.enqueue()
    lease = ant.claim()
    renewals_before = beat_of(ant)
    for _ in range(14 * 60):
        clockwork.clock.advance("1s")
        ant.housekeeping.step()
        bee.housekeeping.step()
        assert bee.reclaimed == []
    assert beat_of(ant) - renewals_before == 14 * 60 // 20
    assert ant.dead == set()
    assert ant.finish(lease) is True


def beat_of(machine: Machine) -> int:
    [(beat,)] = machine.hands.sql("SELECT beat FROM onceward_worker WHERE id = ?", machine.worker)
    return int(beat)


@pytest.mark.parametrize("offset_s", [0, 25, 59])
def test_a_dead_worker_is_reclaimed_after_its_lease_and_one_check_but_not_before(
    clockwork: Clockwork, ant: Machine, bee: Machine, offset_s: int
) -> None:
    ant.hands.enqueue()
    lease = ant.claim()
    clockwork.clock.advance(offset_s)
    for second in range(offset_s, 300):
        bee.housekeeping.step()
        assert bee.reclaimed == [], f"after {second} s"
        clockwork.clock.advance("1s")
    for _ in range(60):
        bee.housekeeping.step()
        clockwork.clock.advance("1s")
    assert bee.reclaimed == ["ant"]
    assert status_of(bee.hands, lease.task) is Status.PENDING
    [(event, note)] = log_of(bee.hands, lease.task)
    assert event is Event.CRASHED
    assert str(note).startswith("ant was silent for 5m")
    assert bee.suspects_found >= 1


def test_a_clock_that_is_set_back_does_not_keep_the_dead_alive(
    clockwork: Clockwork, ant: Machine, bee: Machine
) -> None:
    ant.hands.enqueue()
    ant.claim()
    bee.housekeeping.step()
    clockwork.clock.step(-3_600_000)
    for second in range(300):
        assert bee.reclaimed == [], f"after {second} s"
        clockwork.clock.advance("1s")
        bee.housekeeping.step()
    for _ in range(60):
        clockwork.clock.advance("1s")
        bee.housekeeping.step()
    assert bee.reclaimed == ["ant"]


def test_a_worker_that_has_found_no_work_looks_at_once(clockwork: Clockwork, ant: Machine, bee: Machine) -> None:
    ant.hands.enqueue()
    ant.claim()
    bee.housekeeping.step()
    clockwork.clock.advance("250s")
    bee.housekeeping.step()
    clockwork.clock.advance("50s")
    bee.housekeeping.step()
    assert bee.reclaimed == [], "its last look is 50 s old"
    bee.housekeeping.hurry()
    bee.housekeeping.step()
    assert bee.reclaimed == ["ant"]


def test_a_step_of_the_clock_alone_reclaims_nothing(clockwork: Clockwork, ant: Machine, bee: Machine) -> None:
    ant.hands.enqueue()
    lease = ant.claim()
    for _ in range(5):
        for _ in range(60):
            clockwork.clock.advance("1s")
            ant.housekeeping.step()
            bee.housekeeping.step()
        clockwork.clock.step(86_400_000)  # somebody sets the clock of the database's machine
        bee.housekeeping.step()
    assert bee.reclaimed == []
    clockwork.clock.step(-5 * 86_400_000)  # and puts it right again
    for _ in range(120):
        clockwork.clock.advance("1s")
        ant.housekeeping.step()
        bee.housekeeping.step()
    assert bee.reclaimed == []
    assert ant.finish(lease) is True


def test_a_worker_that_has_just_begun_must_look_twice(clockwork: Clockwork, ant: Machine) -> None:
    ant.hands.enqueue()
    lease = ant.claim()
    clockwork.clock.step(86_400_000)
    newcomer = Machine(clockwork, "newcomer")
    newcomer.housekeeping.step()
    assert newcomer.reclaimed == []
    clockwork.clock.advance("20s")
    ant.housekeeping.step()
    clockwork.clock.advance("40s")
    newcomer.housekeeping.step()
    assert newcomer.reclaimed == [], "its beat has moved between the two looks"
    assert ant.finish(lease) is True


def test_a_worker_that_was_declared_dead_is_told_and_can_neither_renew_nor_claim(
    clockwork: Clockwork, ant: Machine, bee: Machine
) -> None:
    ant.hands.enqueue(2)
    lease = ant.claim()
    ant.housekeeping.step()
    bee.housekeeping.step()
    clockwork.clock.advance("360s")  # ant is frozen
    bee.housekeeping.step()
    assert bee.reclaimed == ["ant"]
    before = beat_of(ant)
    ant.housekeeping.step()  # ant thaws
    assert ant.dead == {ant.worker}
    assert beat_of(ant) == before
    ant.hands.now = clockwork.clock.now()
    with pytest.raises(claims.WorkerBuried, match="was declared dead and may not claim any more"):
        ant.hands.claim(ant.worker)
    assert ant.finish(lease) is False
    bee.hands.now = clockwork.clock.now()
    for mine in bee.hands.claim(bee.worker):
        assert bee.finish(mine) is True


def test_a_worker_that_renews_just_in_time_is_not_buried(clockwork: Clockwork, ant: Machine, bee: Machine) -> None:
    ant.hands.enqueue()
    lease = ant.claim()
    [seen] = [one for one in ask(bee.hands.session, workers.living_workers) if one.id == ant.worker]
    clockwork.clock.advance("400s")
    ant.housekeeping.step()  # between bee's look and bee's burial
    death = workers.Death("was silent", None)
    assert bee.housekeeping.bury(seen, death) is None
    assert ant.finish(lease) is True


def test_two_who_find_the_same_dead_worker_bury_it_once(clockwork: Clockwork, ant: Machine, bee: Machine) -> None:
    cat = Machine(clockwork, "cat")
    [task] = ant.hands.enqueue()
    ant.claim()
    for machine in (bee, cat):
        machine.housekeeping.step()
    clockwork.clock.advance("360s")
    for machine in (bee, cat):
        machine.housekeeping.step()
    assert (bee.reclaimed, cat.reclaimed) == (["ant"], [])
    assert len(log_of(bee.hands, task)) == 1


class _Died(BaseException):
    """Whoever was tidying up has died."""


def test_a_sweeper_that_dies_during_reclaim_has_reclaimed(clockwork: Clockwork, ant: Machine, bee: Machine) -> None:
    [task] = ant.hands.enqueue()
    ant.claim()
    bee.housekeeping.step()
    clockwork.clock.advance("360s")

    def die(point: str) -> None:
        if point == "during reclaim":
            raise _Died

    crash_points.hook = die
    try:
        with pytest.raises(_Died):
            bee.housekeeping.step()
    finally:
        crash_points.hook = None
    cat = Machine(clockwork, "cat")
    cat.housekeeping.step()
    lease = cat.claim()
    assert (lease.task, lease.fence) == (task, 2)
    assert cat.finish(lease) is True


def test_a_shorter_lease_is_reclaimed_sooner(clockwork: Clockwork) -> None:
    quick = Config(lease="30s")
    bee = Machine(clockwork, "bee", quick)
    hands = clockwork.hands()
    worker = hands.worker("ant", lease_ms=30_000)
    hands.enqueue()
    hands.claim(worker, 1)
    for _ in range(29):
        bee.housekeeping.step()
        clockwork.clock.advance("1s")
    assert bee.reclaimed == []
    for _ in range(7):
        bee.housekeeping.step()
        clockwork.clock.advance("1s")
    assert bee.reclaimed == ["ant"]


def test_renewing_is_one_statement_for_all_workers_of_a_process(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    children = [hands.worker(f"child {number}") for number in range(5)]
    assert hands.do(lambda: workers.renew(children, hands.now)) == set(children)
    hands.bury(children[2])
    assert hands.do(lambda: workers.renew(children, hands.now)) == set(children) - {children[2]}


def test_a_lease_that_was_taken_away_is_known_by_its_token(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    hands.enqueue(3)
    ant, bee = hands.worker("ant"), hands.worker("bee")
    first, second, third = hands.claim(ant)
    assert ask(hands.session, lambda: workers.still_held([first, second, third])) == {
        first.task, second.task, third.task,
    }  # fmt: skip
    hands.commit(third, DONE)
    hands.bury(ant, frozenset())
    again = hands.claim(bee, 1)
    assert ask(hands.session, lambda: workers.still_held([first, second, third])) == set()
    assert ask(hands.session, lambda: workers.still_held(again)) == {again[0].task}
