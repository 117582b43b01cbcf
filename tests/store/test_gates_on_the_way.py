"""A worker that takes from one governed line again and again: what ends, and what is claimed, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from onceward.model.gates import SourceReport
from onceward.model.source import BreakerRule, GateLimits
from onceward.model.status import Status
from onceward.model.task import Commit, Finish, Lease, lane_of
from onceward.store.attempts import claims, commits
from onceward.store.drivers.session import Session
from onceward.store.lines.lines import COMPARE_EVERY_MS
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Op, Query, Request, Rows
from tests.store.conftest import Hands

SHOP = "shop"
LANE = lane_of("default", "note", gates=SHOP)
RULE = BreakerRule(failures=3, pause_ms=60_000, disable_after=None)
SERVED = (SourceReport(SHOP, (True,), RULE),)
REFUSED = (SourceReport(SHOP, (False,), RULE, error="refused"),)
DONE = Finish("first", None, Status.SUCCEEDED, None)
AMPLE = GateLimits(breaker=RULE)


class Worker:
    """A worker that hands in what has ended and claims in the same transaction, and notes what it asks for."""

    def __init__(self, hands: Hands, session: Session, limits: GateLimits) -> None:
        self.hands, self.session = hands, session
        self.id = hands.worker()
        self.memory = LineMemory(("default:note",), lambda _: limits, sweeps=session.dialect == "postgres")
        self.asked: list[str] = []

    def turn(
        self,
        ended: Sequence[Lease] = (),
        reports: tuple[SourceReport, ...] = SERVED,
        *,
        count: int = 10,
        slots: int | None = None,
    ) -> list[Lease]:
        """What it gets after these have ended, if it asks for so many."""
        before = self.memory

        def one_try() -> Op[claims.ClaimResult]:
            self.asked, self.memory = [], before.copy()
            return self._noted(self._turn(ended, reports, count, slots))

        return self.session.transact(one_try).leases

    def _turn(
        self, ended: Sequence[Lease], reports: tuple[SourceReport, ...], count: int, slots: int | None
    ) -> Op[claims.ClaimResult]:
        now, room = self.hands.now, count if slots is None else slots
        verdicts = yield from commits.commit([Commit(lease, DONE, reports=reports) for lease in ended], now)
        assert verdicts == [True] * len(ended)
        return (yield from claims.claim(self.memory, self.id, count, now, slots=room))

    def _noted(self, operation: Op[claims.ClaimResult]) -> Op[claims.ClaimResult]:
        answer: Rows | None = None
        while True:
            try:
                request: Request = next(operation) if answer is None else operation.send(answer)
            except StopIteration as end:
                claimed: claims.ClaimResult = end.value
                return claimed
            if isinstance(request, Query):
                self.asked.append(request.name)
            answer = yield request


@pytest.fixture
def worker(hands: Hands, open_session: Callable[[], Session]) -> Callable[..., Worker]:
    """Workers behind a source; one that lets every task pass if nothing else is said."""
    return lambda limits=AMPLE: Worker(hands, open_session(), limits)


def gate(hands: Hands, column: str) -> object:
    [(value,)] = hands.sql(f"SELECT {column} FROM onceward_gate WHERE name = '{SHOP}'")
    return value


def test_a_commit_reports_its_success_to_the_gate_that_the_next_claim_passes(
    hands: Hands, worker: Callable[..., Worker]
) -> None:
    hands.enqueue(30, gates=SHOP)
    one = worker()
    ended = one.turn()
    hands.later(5)
    assert len(one.turn(ended)) == 10
    assert gate(hands, "last_success_at") == hands.now
    assert "leave_gates" not in one.asked


def test_a_success_ends_the_failures_that_another_worker_has_met(hands: Hands, worker: Callable[..., Worker]) -> None:
    """The first worker has seen the gate without failures; the failure of the other came in between."""
    hands.enqueue(60, gates=SHOP)
    one, other = worker(), worker()
    mine = one.turn()
    theirs = other.turn()
    other.turn(theirs[:1], REFUSED, slots=0)
    assert gate(hands, "streak") == 1
    assert len(one.turn(mine)) == 10
    assert gate(hands, "streak") == 0
    other.turn(theirs[1:3], REFUSED, slots=0)
    assert (gate(hands, "streak"), gate(hands, "opened")) == (2, 0), "three in all, and never three in a row"


@pytest.mark.parametrize("slots", [0, 10])
def test_a_success_is_reported_to_a_gate_that_the_claim_does_not_pass(
    hands: Hands, worker: Callable[..., Worker], slots: int
) -> None:
    """There is no room, or no token: the claim takes nothing."""
    hands.enqueue(30, gates=SHOP)
    one = worker(GateLimits(interval_us=3_600_000_000, burst=10 if slots else 30, breaker=RULE))
    ended = one.turn()
    hands.sql("UPDATE onceward_gate SET streak = 1, failures = 1")
    assert one.turn(ended, slots=slots) == []
    assert (gate(hands, "streak"), gate(hands, "last_success_at")) == (0, hands.now)


def test_a_task_that_has_ended_leaves_its_place(hands: Hands, worker: Callable[..., Worker]) -> None:
    hands.enqueue(30, gates=SHOP)
    one = worker(GateLimits(concurrency=15))
    first = one.turn()
    second = one.turn()
    assert (len(first), len(second)) == (10, 5)
    assert all(lease.is_inside for lease in [*first, *second])
    assert len(one.turn([*first, *second])) == 10
    assert hands.sql("SELECT count(*) FROM onceward_slot") == [(10,)]


def test_a_popped_task_that_cannot_run_is_not_leased(hands: Hands, worker: Callable[..., Worker]) -> None:
    tasks = hands.enqueue(40, gates=SHOP)
    one = worker()
    one.turn()
    hands.sql(f"UPDATE onceward_task SET status = 7, ended_at = 1 WHERE id = {tasks[12]}")
    hands.sql(f"UPDATE onceward_task SET due_at = {hands.now + 500} WHERE id = {tasks[15]}")
    expected = [task for task in tasks[10:20] if task not in (tasks[12], tasks[15])]
    assert [lease.task for lease in one.turn()] == expected
    assert hands.sql("SELECT task, lane FROM onceward_due") == [(tasks[15], LANE)]
    assert [lease.task for lease in one.turn()] == tasks[20:30], "the line goes on behind them"


def test_what_one_claim_took_from_two_kinds_of_lines_is_taken_back_together(
    hands: Hands, worker: Callable[..., Worker]
) -> None:
    governed, plain = hands.enqueue(3, gates=SHOP), hands.enqueue(3)
    one = worker()
    leases = one.turn()
    assert {lease.task for lease in leases} == {*governed, *plain}
    assert len({lease.token for lease in leases}) == 1
    reclaimed = hands.bury(one.id)
    assert reclaimed is not None
    assert reclaimed.released == 6
    assert {lease.task for lease in worker().turn()} == {*governed, *plain}


def test_a_worker_without_room_locks_no_gate(hands: Hands, worker: Callable[..., Worker]) -> None:
    """Others could not take from the lines behind it for as long."""
    if hands.session.dialect == "sqlite":
        pytest.skip("one writer at a time")
    hands.enqueue(10, gates=SHOP)
    full, free = worker(), worker()
    assert len(free.turn(count=1)) == 1

    def beside() -> Op[int]:
        claimed = yield from claims.claim(full.memory, full.id, 10, hands.now, slots=0)
        assert claimed.held_back > 0
        return len(free.turn(count=5))

    assert full.session.transact(beside) == 5


def test_a_worker_without_room_still_finds_a_closed_door_closed(hands: Hands, worker: Callable[..., Worker]) -> None:
    """Otherwise the turns of closed doors would hide those of open ones from it."""
    hands.enqueue(10, gates=SHOP)
    full = worker()
    assert len(full.turn(count=1)) == 1
    hands.sql(f"UPDATE onceward_gate SET paused_until = {hands.now + 60_000}")
    hands.later(COMPARE_EVERY_MS)
    assert full.turn(slots=0) == []
    assert hands.sql("SELECT DISTINCT next_at FROM onceward_turn") == [(hands.now - COMPARE_EVERY_MS + 60_000,)]


def test_lines_for_which_there_was_no_room_come_first_next_time(hands: Hands, worker: Callable[..., Worker]) -> None:
    for number in range(60):
        hands.enqueue(2, gates=f"{SHOP}{number}")
        hands.later(1)
    hands.later(COMPARE_EVERY_MS)
    one = worker()
    served: list[str | None] = []
    for _ in range(6):
        served += [lease.gates for lease in one.turn()]
        hands.later(COMPARE_EVERY_MS)
    assert served == [f"{SHOP}{number}" for number in range(30) for _ in range(2)]
