"""What claims remember of their lines does not grow with time, in a worker or in the database."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward.model.task import lane_of
from onceward.store.attempts import claims
from onceward.store.drivers.session import Session
from onceward.store.lines.memory import (
    MARK_EVERY_MS,
    MOST_GOVERNED,
    MOST_SNAPSHOTS,
    REMEMBERED_MS,
    LineMemory,
    forget_lines,
)
from tests.store.conftest import Hands
from tests.store.test_fair_share import Crew

pytestmark = pytest.mark.untroubled("it keeps what one try remembers of its lines for the next; a worker forgets that")
SHOP = "shop*1"
HOURS = 30


@pytest.mark.parametrize("claims_made", [100, pytest.param(20_000, marks=pytest.mark.torture)])
def test_a_reader_remembers_few_moments_while_a_transaction_of_others_stays_open(
    hands: Hands, open_session: Callable[[], Session], claims_made: int
) -> None:
    if hands.session.dialect == "sqlite":
        pytest.skip("there are no transactions beside ours")
    worker, memory, most = hands.worker(), LineMemory((lane_of("default", "note"),)), 0

    def claim_one() -> int:
        hands.enqueue()
        claimed = hands.do(lambda: claims.claim(memory, worker, 1, hands.later(MARK_EVERY_MS)))
        return len(claimed.leases)

    other = open_session().opened()
    other.execute("BEGIN; SELECT pg_current_xact_id()")
    for _ in range(claims_made):
        assert claim_one() == 1
        most = max(most, len(memory.places.snapshots))
    assert MOST_SNAPSHOTS // 2 < most <= MOST_SNAPSHOTS
    assert memory.places.floor == {}, "whatever the other one does may still come behind"
    other.execute("ROLLBACK")
    place = memory.places.highest[lane_of("default", "note"), 2]
    for _ in range(30):
        assert claim_one() == 1
    assert memory.places.floor[lane_of("default", "note"), 2] > place, (
        "it is over, and nothing behind is looked at again"
    )


@pytest.fixture
def crew(hands: Hands) -> Crew:
    crew = Crew(hands)
    crew.sees("leaf")
    return crew


def marks(hands: Hands) -> int:
    [(count,)] = hands.sql("SELECT count(*) FROM onceward_mark WHERE lane LIKE ?", "%@%")
    return int(count)


def test_a_reader_has_forgotten_a_line_before_its_marks_go(crew: Crew) -> None:
    crew.root("first", 200, gates=SHOP)
    while crew.work(20):
        crew.hands.later(1_000)  # so that it sweeps, and knows that nothing comes behind
    crew.hands.later(25 * REMEMBERED_MS)
    crew.hands.do(lambda: forget_lines(crew.hands.now))
    assert marks(crew.hands) == 0
    crew.root("second", 3, gates=SHOP)
    assert crew.work(10) == ["second"] * 3


def test_marks_of_lines_that_are_not_used_go_however_many_there_are(crew: Crew) -> None:
    for host in range(MOST_GOVERNED + 5):
        crew.root(f"first {host}", 3, gates=f"{SHOP} host{host}*1")
    crew.work(10_000)
    assert marks(crew.hands) >= MOST_GOVERNED
    assert len(crew.leaves.places.marked) <= MOST_GOVERNED
    crew.hands.later(25 * REMEMBERED_MS)
    crew.hands.do(lambda: forget_lines(crew.hands.now))
    assert marks(crew.hands) == 0
    crew.root("second", 3, gates=f"{SHOP} host{MOST_GOVERNED}*1")
    assert crew.work(10) == ["second"] * 3


def test_the_mark_of_a_line_in_use_stays_and_nothing_there_is_overlooked(crew: Crew) -> None:
    """Its tasks all stand at the rank to which a lineage has brought it, so that claims come no further."""
    crew.root("huge", 40, gates=SHOP)
    assert len(crew.work(100)) == 40
    for _ in range(2 * HOURS):
        crew.hands.later(REMEMBERED_MS // 2)
        crew.hands.do(lambda: forget_lines(crew.hands.now))
        crew.hands.enqueue(2, kind="leaf", gates=SHOP)
        assert len(crew.work(2)) == 2
    assert marks(crew.hands) > 0


def test_a_line_in_which_tasks_stand_keeps_its_mark(crew: Crew) -> None:
    crew.root("huge", 40, gates=SHOP)
    crew.work(20)
    crew.hands.later(25 * REMEMBERED_MS)
    crew.hands.do(lambda: forget_lines(crew.hands.now))
    assert marks(crew.hands) > 0
    assert crew.work(100) == ["huge"] * 20
