"""Pruning: what has been over for long enough goes whole, and nothing else goes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from onceward.model.source import GateLimits
from onceward.model.status import Status
from onceward.model.task import LARGEST_INLINE, NEVER, Advance, Finish, Park, Report
from onceward.model.times import StoreClock
from onceward.store.attempts import claims, workers
from onceward.store.drivers.session import Session
from onceward.store.lines.memory import LineMemory
from onceward.store.op import drive
from onceward.store.operations import pruning, task_actions
from onceward.store.operations.pruning import Pruned, prune
from onceward.store.verify.verify import verify
from tests.store.conftest import NOON, Hands
from tests.store.test_verify import live

HOUR, DAY = 3_600_000, 86_400_000
DONE = Finish("last", b"1", Status.SUCCEEDED, None)


def large(letter: bytes) -> bytes:
    return b'"' + letter * LARGEST_INLINE + b'"'


def count(hands: Hands, table: str) -> int:
    number: int = hands.sql(f"SELECT count(*) FROM onceward_{table}")[0][0]
    return number


def counted(hands: Hands) -> dict[str, int]:
    tables = ("task", "checkpoint", "attempt", "signal", "progress", "blob", "claim", "worker", "ready", "due")
    return {table: count(hands, table) for table in tables}


def finished(hands: Hands, worker: int, tasks: int = 1, payload: bytes = b"{}") -> list[int]:
    """Tasks that have run to their end."""
    ids = hands.enqueue(tasks, payload=payload, priority=2)
    leases = hands.claim(worker, tasks)
    assert sorted(lease.task for lease in leases) == ids
    hands.commit_all([(lease, Advance("first", payload, "last")) for lease in leases])
    hands.commit_all([(lease, Report("last", 1, 1, None)) for lease in leases])
    hands.commit_all([(lease, DONE) for lease in leases])
    return ids


def test_a_task_goes_whole_and_later_ones_stay(hands: Hands) -> None:
    ant = hands.worker()
    [old] = hands.enqueue(payload=large(b"a"))
    hands.do(lambda: task_actions.signal(old, "go", b"1", hands.now))
    [lease] = hands.claim(ant)
    hands.commit(lease, Advance("first", large(b"b"), "last"))
    hands.commit(lease, Report("last", 1, 2, None))
    hands.commit(lease, DONE)
    hands.do(lambda: workers.stop(ant, "stopped", hands.now))
    hands.later(DAY)
    young = finished(hands, hands.worker("bee"))
    pruned = prune(hands.session, NOON + 1, hands.now)
    assert pruned == Pruned(tasks=1, checkpoints=2, events=3, blobs=2, claims=1, workers=1)
    assert hands.sql("SELECT id FROM onceward_task") == [(young[0],)]
    assert counted(hands) == {
        "task": 1, "checkpoint": 2, "attempt": 2, "signal": 0, "progress": 1, "blob": 0, "claim": 1, "worker": 1,
        "ready": 0, "due": 0,
    }  # fmt: skip
    assert verify(hands.session, hands.now).ok


def test_nothing_goes_that_has_not_ended(hands: Hands) -> None:
    hands.enqueue(2)
    hands.enqueue(1, after_ms=DAY)
    [running, waiting] = hands.claim(hands.worker(), 2)
    hands.commit(waiting, Park("first", "signal:go", NEVER, "waits"))
    before = counted(hands)
    assert prune(hands.session, NOON + 100 * DAY, hands.now) == Pruned()
    assert counted(hands) == before
    assert hands.commit(running, DONE) is True


def test_what_ends_at_the_limit_stays(hands: Hands) -> None:
    finished(hands, hands.worker())
    assert prune(hands.session, NOON, hands.now).tasks == 0
    assert prune(hands.session, NOON + 1, hands.now).tasks == 1


def test_it_takes_no_more_than_it_is_allowed(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "TASKS_AT_ONCE", 2)
    monkeypatch.setattr(pruning, "CLAIMS_AT_ONCE", 1)
    ant = hands.worker()
    ids = finished(hands, ant, 3) + finished(hands, ant, 4)
    hands.do(lambda: workers.mark_low_claim(ant, NEVER))
    assert prune(hands.session, NOON + 1, hands.later(1), limit=5).tasks == 5
    assert hands.sql("SELECT id FROM onceward_task ORDER BY id") == [(task,) for task in ids[5:]]
    assert prune(hands.session, NOON + 1, hands.now, limit=0).tasks == 0
    assert prune(hands.session, NOON + 1, hands.now).tasks == 2
    assert (count(hands, "task"), count(hands, "claim")) == (0, 0)


def test_a_claim_stays_as_long_as_one_of_its_tasks(hands: Hands) -> None:
    ant = hands.worker()
    hands.enqueue(2)
    [gone, stays] = hands.claim(ant, 2)
    hands.commit(gone, DONE)
    hands.commit(stays, Park("first", "signal:go", NEVER, "waits"))
    hands.do(lambda: workers.stop(ant, "stopped", hands.now))
    hands.later(DAY)
    pruned = prune(hands.session, hands.now, hands.now)
    assert (pruned.tasks, pruned.claims, pruned.workers) == (1, 0, 0)
    assert verify(hands.session, hands.now).ok


def test_a_claim_that_a_living_worker_may_look_through_stays(hands: Hands) -> None:
    ant = hands.worker()
    finished(hands, ant)
    finished(hands, ant)
    hands.later(DAY)
    assert prune(hands.session, hands.now, hands.now).claims == 0
    [(first,), (second,)] = hands.sql("SELECT seq FROM onceward_claim ORDER BY seq")
    hands.do(lambda: workers.mark_low_claim(ant, second))
    assert prune(hands.session, hands.now, hands.now).claims == 1
    assert hands.sql("SELECT seq FROM onceward_claim") == [(second,)]
    assert first < second


def test_a_large_value_stays_as_long_as_anything_points_at_it(hands: Hands) -> None:
    ant = hands.worker()
    finished(hands, ant, payload=large(b"a"))
    hands.enqueue(payload=large(b"a"))
    hands.later(DAY)
    assert prune(hands.session, hands.now, hands.now).blobs == 0
    [lease] = hands.claim(ant)
    assert lease.payload == large(b"a")
    hands.commit(lease, DONE)
    hands.later(DAY)
    assert prune(hands.session, hands.now, hands.now).blobs == 1
    assert count(hands, "blob") == 0


def test_places_left_by_a_task_that_is_gone_go_too(hands: Hands) -> None:
    cancelled = hands.enqueue() + hands.enqueue(after_ms=DAY)
    for task in cancelled:
        hands.do(lambda task=task: task_actions.cancel(task, "not wanted", hands.now))  # type: ignore[misc]
    hands.later(DAY)
    hands.enqueue()
    pruned = prune(hands.session, hands.now, hands.now)
    assert (pruned.tasks, pruned.places) == (2, 2)
    assert (count(hands, "ready"), count(hands, "due")) == (1, 0)


def test_a_task_that_was_cancelled_inside_a_gate_leaves_it_when_it_goes(hands: Hands) -> None:
    [task] = hands.enqueue(gates="shop*1")
    memory = LineMemory(("default:note",), lambda _: GateLimits(concurrency=1), hands.session.dialect == "postgres")
    worker = hands.worker()
    hands.do(lambda: claims.claim(memory, worker, 1, hands.now, slots=1))
    hands.do(lambda: task_actions.cancel(task, "not wanted", hands.now))
    assert count(hands, "slot") == 1
    hands.later(DAY)
    hands.do(lambda: pruning.prune_tasks([task], hands.now))  # and whoever prunes gets no further
    assert verify(hands.session, hands.now).ok
    assert count(hands, "slot") == 0


class SetByHand:
    """A clock that can be set, beside one that cannot."""

    def __init__(self) -> None:
        self.wall, self.steady = NOON, 0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> int:
        return self.steady

    def pass_by(self, length_ms: int) -> None:
        """Time goes by on both."""
        self.wall += length_ms
        self.steady += length_ms


@pytest.mark.parametrize(
    ("watched_ms", "set_by_ms", "kept"),
    [(0, 0, 2), (HOUR, 0, 1), (2 * HOUR, 2 * HOUR, 2), (2 * HOUR, -2 * HOUR, 2), (25 * HOUR, 0, 1)],
    ids=["not watched yet", "an hour", "set ahead just now", "set back just now", "a day"],
)
def test_receipts_are_kept_for_an_hour_that_was_watched_else_for_a_day(
    hands: Hands, watched_ms: int, set_by_ms: int, kept: int
) -> None:
    """One receipt of this moment, one from just over an hour ago, one from over a day ago."""
    base = SetByHand()
    clock = hands.session.clock = StoreClock(base)
    base.pass_by(watched_ms)
    base.wall += set_by_ms
    clock.measured(None)
    hands.sql("DELETE FROM onceward_receipt")
    for age_ms in (0, HOUR + 1, 24 * HOUR + 1):
        token = age_ms.to_bytes(16, "big")
        hands.sql("INSERT INTO onceward_receipt (token, at) VALUES (?, ?)", token, clock.now() - age_ms)
    prune(hands.session, NOON, clock.now())
    [(left,)] = hands.sql("SELECT count(*) FROM onceward_receipt WHERE at <= ? AND at > 0", clock.now() - 1)
    assert left == kept - 1, "of the old ones"


def test_what_was_written_just_before_the_clock_was_set_ahead_is_kept(hands: Hands) -> None:
    base = SetByHand()
    clock = hands.session.clock = StoreClock(base)
    base.pass_by(5 * HOUR)
    token = bytes(16)
    hands.sql("INSERT INTO onceward_receipt (token, at) VALUES (?, ?)", token, clock.now())
    base.wall += 3 * HOUR
    clock.measured(None)
    prune(hands.session, NOON, clock.now())
    assert hands.sql("SELECT 1 FROM onceward_receipt WHERE token = ?", token) == [(1,)]


def test_verify_stays_silent_whatever_was_pruned(hands: Hands) -> None:
    live(hands)
    ended = hands.sql("SELECT count(*) FROM onceward_task WHERE status >= 4")[0][0]
    asked_for = hands.sql(
        "SELECT count(*) FROM onceward_task c JOIN onceward_task p ON p.id = c.parent"
        " WHERE c.status >= 4 AND p.status < 4"
    )[0][0]
    total = 0
    while pruned := prune(hands.session, hands.now + 1, hands.later(1), limit=1).tasks:
        total += pruned
        report = verify(hands.session, hands.now)
        assert report.ok, [breach.sentence for check in report.checks for breach in check.breaches]
    assert total == ended - asked_for
    assert hands.sql("SELECT count(*) FROM onceward_task WHERE status >= 4") == [(asked_for,)]


def test_a_task_that_was_opened_again_since_it_was_found_stays(hands: Hands) -> None:
    [task] = finished(hands, hands.worker())
    hands.do(lambda: task_actions.reopen(task, fresh=False, stage=None, forget=[], now=hands.now))
    assert hands.do(lambda: pruning.prune_tasks([task], NEVER)) == Pruned()
    assert verify(hands.session, hands.now).ok


def test_a_value_that_is_being_stored_again_survives(hands: Hands, open_session: Callable[[], Session]) -> None:
    """Somebody enqueues the very payload whose last task is pruned at that moment."""
    if hands.session.dialect == "sqlite":
        pytest.skip("one writer at a time")
    finished(hands, hands.worker(), payload=large(b"a"))
    hands.later(DAY)
    client = Hands(open_session())
    original = client.session.run
    seen: list[str] = []

    def pruned_in_between(request):  # type: ignore[no-untyped-def]
        rows = original(request)
        seen.append(getattr(request, "name", ""))
        if seen[-1] == "insert_blobs":  # the value is there already; no task points at it yet
            prune(hands.session, hands.now, hands.now)
        return rows

    client.session.run = pruned_in_between  # type: ignore[method-assign]
    [task] = client.enqueue(payload=large(b"a"))
    assert "insert_blobs" in seen
    [lease] = hands.claim(hands.worker())
    assert (lease.task, lease.payload) == (task, large(b"a"))
    assert verify(hands.session, hands.now).ok


def test_a_value_that_is_being_deleted_is_stored_anew(hands: Hands, open_session: Callable[[], Session]) -> None:
    """The other order: the value is deleted first, and whoever needs it waits for that and inserts it."""
    if hands.session.dialect == "sqlite":
        pytest.skip("one writer at a time")
    [old] = finished(hands, hands.worker(), payload=large(b"a"))
    client = Hands(open_session())
    hands.sql("BEGIN")
    assert drive(pruning.prune_tasks([old], NEVER), hands.session).blobs == 1
    waiting = threading.Thread(target=lambda: client.enqueue(payload=large(b"a")))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    hands.sql("COMMIT")
    waiting.join()
    [lease] = hands.claim(hands.worker())
    assert lease.payload == large(b"a")
