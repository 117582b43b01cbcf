"""What a worker remembers of a governed line: no gate is taken for open, and nobody who stands there is passed over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward.model.source import GateLimits, NotYet
from onceward.model.status import Status
from onceward.model.task import Finish, HandOver, Lease, Move, TryAgain, band_of, lane_of
from onceward.store.attempts import claims
from onceward.store.drivers.session import Session
from onceward.store.governance import gate_claim
from onceward.store.governance.gate_use import take_tokens
from onceward.store.governance.sources import disable, enable
from onceward.store.lines.lines import Placement, look_for_stragglers, put_in_line
from onceward.store.lines.memory import MOST_GOVERNED, LineMemory
from onceward.store.op import Many, Op, Query
from tests.store.conftest import NOON, Hands

SHOP = "shop*1"
LANE = lane_of("default", "note", gates=SHOP)
BURST = 500


class Worker:
    """A worker with a memory of the lines it takes from."""

    def __init__(self, hands: Hands, session: Session, limits: GateLimits) -> None:
        self.hands, self.session = hands, session
        self.id = hands.worker()
        self.memory = LineMemory(("default:note",), lambda _: limits, sweeps=session.dialect == "postgres")

    def claim(self, count: int, slots: int | None = None) -> list[int]:
        """The tasks it gets if it asks for so many; of those behind gates no more than it has slots."""
        return [lease.task for lease in self.lease(count, slots)]

    def lease(self, count: int, slots: int | None = None) -> list[Lease]:
        """The same, as leases."""
        slots = count if slots is None else slots
        before = self.memory

        def claim() -> Op[claims.ClaimResult]:
            self.memory = before.copy()  # what a try remembers that did not commit is forgotten
            return (yield from claims.claim(self.memory, self.id, count, self.hands.now, slots=slots))

        return self.session.transact(claim).leases


@pytest.fixture
def worker(hands: Hands, open_session: Callable[[], Session]) -> Callable[[], Worker]:
    """Workers behind a source that gives five hundred tokens, and none for an hour."""
    limits = GateLimits(interval_us=3_600_000_000, burst=BURST)
    return lambda: Worker(hands, open_session(), limits)


def calls(hands: Hands) -> int:
    [(calls,)] = hands.sql("SELECT calls FROM onceward_gate WHERE name = 'shop'")
    return int(calls)


def test_two_workers_of_one_gate_take_no_token_twice(hands: Hands, worker: Callable[[], Worker]) -> None:
    hands.enqueue(2 * BURST, gates=SHOP)
    first, second = worker(), worker()
    took: list[int] = []
    while more := first.claim(50) + second.claim(50):
        took += more
    assert len(took) == len(set(took)) == BURST == calls(hands)


def test_a_worker_alone_takes_every_token_of_a_gate(hands: Hands, worker: Callable[[], Worker]) -> None:
    hands.enqueue(2 * BURST, gates=SHOP)
    one = worker()
    took = [len(one.claim(50)) for _ in range(BURST // 50 + 2)]
    assert took == [50] * (BURST // 50) + [0, 0]
    assert calls(hands) == BURST


def test_a_plain_task_is_claimed_beside_a_governed_line_that_fills_all_slots(
    hands: Hands, worker: Callable[[], Worker]
) -> None:
    hands.enqueue(BURST, gates=SHOP)
    one = worker()
    assert len(one.claim(20, slots=10)) == 10
    [plain] = hands.enqueue()
    claimed = one.claim(20, slots=10)
    assert plain in claimed
    assert len(claimed) == 11


@pytest.mark.parametrize("change", ["enabled = 0", "paused_until = 1800000000000"])
def test_a_gate_that_was_closed_meanwhile_lets_no_task_pass(
    hands: Hands, worker: Callable[[], Worker], change: str
) -> None:
    hands.enqueue(2 * BURST, gates=SHOP)
    one = worker()
    assert len(one.claim(50)) == len(one.claim(50)) == 50
    hands.sql(f"UPDATE onceward_gate SET {change} WHERE name = 'shop'")
    assert one.claim(50) == []
    assert calls(hands) == 100


def test_what_committed_late_in_a_governed_line_is_found(
    hands: Hands, worker: Callable[[], Worker], open_session: Callable[[], Session]
) -> None:
    """Its number is lower than that of those who were popped already, and it brings the only turn of an empty line."""
    if hands.session.dialect == "sqlite":
        pytest.skip("one writer at a time: nothing commits late")
    [early] = hands.enqueue(key="early", gates=SHOP)
    hands.sql("DELETE FROM onceward_ready")
    hands.sql("DELETE FROM onceward_turn")
    late = open_session()
    late.opened().execute("BEGIN")  # it has a number, and is not visible yet
    place = {"lane": LANE, "band": 2, "at": hands.now, "tasks": [early], "rank": 0}
    late.run(Query("put_in_line", place))
    late.run(Many("insert_turns", [("default:note", LANE, "shop", hands.now)]))
    others = hands.enqueue(60, gates=SHOP)
    one = worker()
    assert one.claim(50) == others[:50]
    late.opened().execute("COMMIT")
    hands.later(30)  # the line is compared with the others again
    found = [task for _ in range(4) for task in one.claim(50)]
    assert sorted(found) == sorted([early, *others[50:]])
    assert hands.sql("SELECT count(*) FROM onceward_turn")[0][0] == 0


def test_what_is_found_behind_the_floor_of_a_governed_line_gets_a_turn_again(
    hands: Hands, worker: Callable[[], Worker]
) -> None:
    """Somebody had locked it, and let go when the line was taken for empty: nothing else would lead to it."""
    if hands.session.dialect == "sqlite":
        pytest.skip("nothing is stepped over")
    tasks = hands.enqueue(3, gates=SHOP)
    one = worker()
    assert hands.do(lambda: look_for_stragglers(one.memory, hands.now)) is False
    one.memory.places.took_governed((LANE, 2), (0, 1_000), hands.now)
    one.memory.places.floor[LANE, 2] = (0, 1_000)
    hands.later(30)
    assert one.claim(5) == []
    assert hands.sql("SELECT count(*) FROM onceward_turn")[0][0] == 0
    assert hands.do(lambda: look_for_stragglers(one.memory, hands.now)) is True
    assert [task for _ in range(3) for task in one.claim(5)] == tasks


def test_of_very_many_governed_lines_the_places_of_some_are_remembered(
    hands: Hands, worker: Callable[[], Worker]
) -> None:
    one = worker()
    for source in range(MOST_GOVERNED + 20):
        hands.enqueue(2, gates=f"shop{source}*1")
    ran = []
    while more := one.claim(7):
        ran += more
        hands.later(30)
    assert len(ran) == len(set(ran)) == 2 * (MOST_GOVERNED + 20)
    assert len(one.memory.places.governed) <= MOST_GOVERNED


def test_what_is_dead_is_not_stepped_over_again_and_again(
    hands: Hands, worker: Callable[[], Worker], open_session: Callable[[], Session]
) -> None:
    """A snapshot is held, so that nothing that was popped can be cleared away."""
    if hands.session.dialect == "sqlite":
        pytest.skip("what was popped is gone")
    hands.enqueue(BURST, gates=SHOP)
    with open_session().reading() as held:
        held.execute("SELECT count(*) FROM onceward_ready")
        one = worker()
        read = []
        for _ in range(8):
            read.append(entries_read(one))
            hands.later(30)  # so that each is a full look
    assert max(read) <= 1.5 * read[0]


def entries_read(worker: Worker) -> int:
    """How many places in lines a claim of fifty has looked at, dead ones too."""

    def entries() -> int:
        query = "SELECT pg_stat_get_xact_tuples_returned('onceward_ready_pkey'::regclass)"
        [(entries,)] = worker.session.opened().execute(query).fetchall()
        return int(entries)

    def counting() -> Op[int]:
        before = entries()
        claimed = yield from claims.claim(worker.memory, worker.id, 50, worker.hands.now, slots=50)
        assert len(claimed.leases) == 50
        return entries() - before

    return worker.session.transact(counting)


HOUR_MS = 3_600_000


def test_a_clock_that_is_set_back_keeps_no_task_behind_a_gate_for_an_hour(
    hands: Hands, open_session: Callable[[], Session]
) -> None:
    hands.enqueue(3, gates=SHOP)
    one = Worker(hands, open_session(), GateLimits(interval_us=60_000_000, burst=1))
    assert len(one.claim(5)) == 1
    assert one.claim(5) == []
    hands.later(-HOUR_MS)
    took = []
    for _ in range(4):
        took.append(len(one.claim(5)))
        hands.later(60_000)
    assert took == [0, 1, 1, 0], "a token a minute, by the clock as it is now"


def test_what_was_ready_when_the_clock_was_set_back_still_is(hands: Hands, open_session: Callable[[], Session]) -> None:
    plain, waiting = hands.enqueue(5), hands.enqueue(key="later", after_ms=1)
    hands.later(-HOUR_MS)
    newcomer = Worker(hands, open_session(), GateLimits())
    assert newcomer.claim(10) == plain
    hands.later(HOUR_MS + 1)
    assert newcomer.claim(10) == waiting, "what waits for a time waits for that time"


def test_a_worker_that_starts_after_the_clock_was_set_back_takes_what_stands_behind_a_gate(
    hands: Hands, open_session: Callable[[], Session]
) -> None:
    tasks = hands.enqueue(3, gates=SHOP)
    hands.later(-HOUR_MS)
    newcomer = Worker(hands, open_session(), GateLimits())
    assert newcomer.claim(5) == tasks


def test_a_clock_that_is_set_back_keeps_no_line_busy(hands: Hands, open_session: Callable[[], Session]) -> None:
    one = Worker(hands, open_session(), GateLimits())
    hands.enqueue(100)
    assert len(one.claim(10)) == 10
    hands.later(-HOUR_MS)
    [urgent] = hands.enqueue(priority=2)
    assert urgent in one.claim(1), "the lines are compared again"


def test_very_many_turns_of_one_line_are_gathered_in_parts(
    hands: Hands, worker: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_claim, "ALL_TURNS", 20)
    for _ in range(50):
        hands.enqueue(gates=SHOP)
    one = worker()
    ran: list[int] = []
    for _ in range(8):
        ran += one.claim(10)
        hands.later(30)
    assert len(ran) == len(set(ran)) == 50
    assert hands.sql("SELECT count(*) FROM onceward_turn")[0][0] == 0


def test_a_clock_that_is_set_back_puts_no_call_off_for_an_hour(hands: Hands) -> None:
    hands.enqueue()
    [lease] = hands.claim(hands.worker())
    limits = GateLimits(interval_us=60_000_000, burst=1)

    def call() -> NotYet | None:
        return hands.do(lambda: take_tokens(lease, "mail", limits, 1, hands.now))

    assert call() is None
    hands.later(-HOUR_MS)
    not_yet = call()
    assert not_yet is not None
    assert not_yet.again_at == hands.now + 60_000
    hands.later(60_000)
    assert call() is None


@pytest.mark.parametrize(
    "move",
    [Finish("first", b"1", Status.SUCCEEDED, None), TryAgain("first", NOON, "again")],
    ids=["in a group", "by itself"],
)
def test_who_has_lost_its_lease_gives_up_no_place_of_its_successor(
    hands: Hands, open_session: Callable[[], Session], move: Move
) -> None:
    ant, bee, cat = (Worker(hands, open_session(), GateLimits(concurrency=1)) for _ in range(3))
    hands.enqueue(gates=SHOP)
    [lost] = ant.lease(1)
    hands.bury(ant.id)
    [held] = bee.lease(1)
    assert (held.task, held.fence) == (lost.task, lost.fence + 1)
    assert hands.commit(lost, move) is False
    hands.enqueue(gates=SHOP)
    assert cat.claim(1) == [], "there is one place, and it is taken"
    assert hands.commit(held, move) is True


@pytest.mark.parametrize("first", [None, SHOP], ids=["no gate", "another gate"])
def test_an_old_place_in_another_line_takes_no_task_past_a_closed_gate(
    hands: Hands, worker: Callable[[], Worker], first: str | None
) -> None:
    [task] = hands.enqueue(gates=first)
    twice = lane_of("default", "note", gates=first)
    hands.do(
        lambda: put_in_line([Placement(task, twice, band_of(0), 0, NOON)], NOON)
    )  # as when it is paused and resumed
    hands.do(lambda: disable(["bank"]))
    one = worker()
    [lease] = one.lease(1)
    hands.commit(lease, HandOver("first", b"1", "second", "default", gates="bank*1"))
    assert [one.claim(1) for _ in range(3)] == [[], [], []]
    hands.do(lambda: enable(["bank"], "bank", NOON))
    assert one.claim(10) == [task], "its own place is still there"
    assert one.claim(10) == []
