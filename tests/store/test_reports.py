"""Reports: what people see is what is stored, on both databases alike."""

from __future__ import annotations

import uuid

import pytest

from onceward.model.status import Event, Status
from onceward.model.task import (
    CURSOR_PART,
    LARGEST_INLINE,
    NEVER,
    Advance,
    Finish,
    Keep,
    Park,
    Part,
    Report,
    TryAgain,
)
from onceward.store.attempts import workers
from onceward.store.operations import task_actions
from onceward.store.reports import tasks
from onceward.store.reports.tasks import DueLater, Progress, ReadyLine, StoredPart
from tests.store.conftest import NOON, Hands

numbered = pytest.mark.untroubled("it names tasks by their numbers, and a lost try uses some up")
LARGE = b'"' + b"x" * LARGEST_INLINE + b'"'


def test_a_task_is_shown_with_its_worker_and_its_times(hands: Hands) -> None:
    lineage = uuid.uuid4()
    [task] = hands.enqueue(key="a key", payload=LARGE, priority=1, lineage=lineage)
    row = hands.do(lambda: tasks.task(task))
    assert row is not None
    assert (row.kind, row.key, row.status, row.priority, row.payload) == ("note", "a key", Status.PENDING, 1, LARGE)
    assert (row.lineage, row.parent, row.depth, row.run, row.queue) == (lineage, None, 0, 1, "default")
    assert (row.worker, row.worker_name, row.started_at, row.ended_at, row.reason) == (None, None, None, None, None)

    ant = hands.worker("ant")
    hands.later(1_000)
    [lease] = hands.claim(ant)
    hands.later(1_000)
    hands.do(lambda: workers.renew([ant], hands.now))
    hands.commit(lease, TryAgain("first", hands.now + 5_000, "no luck"))
    row = hands.do(lambda: tasks.task(task))
    assert row is not None
    assert (row.status, row.stage, row.failures, row.reason) == (Status.RETRYABLE, "first", 1, "no luck")
    assert (row.worker, row.worker_name, row.beat_at) == (ant, "ant", NOON + 2_000)
    assert (row.created_at, row.started_at, row.due_at) == (NOON, NOON + 1_000, NOON + 7_000)


def test_a_task_that_is_not_there_is_none(hands: Hands) -> None:
    assert hands.do(lambda: tasks.task(404)) is None
    assert hands.do(lambda: tasks.events(404)) == []
    assert hands.do(lambda: tasks.results(404)) == []
    assert hands.do(lambda: tasks.progress(404)) is None


def test_results_are_those_of_the_present_run_in_the_order_they_were_stored(hands: Hands) -> None:
    ant = hands.worker()
    [task] = hands.enqueue()
    [lease] = hands.claim(ant)
    hands.commit(lease, Keep("zoo", (Part("zoo", "once/pay", b"1"), Part("zoo", CURSOR_PART, b"2"))))
    hands.later(1)
    hands.commit(lease, Advance("zoo", LARGE, "arc"))
    hands.later(1)
    hands.commit(lease, Finish("arc", b"3", Status.SUCCEEDED, None))
    assert hands.do(lambda: tasks.results(task)) == [
        StoredPart("zoo", CURSOR_PART, b"2", NOON),
        StoredPart("zoo", "once/pay", b"1", NOON),
        StoredPart("zoo", "", LARGE, NOON + 1),
        StoredPart("arc", "", b"3", NOON + 2),
    ]
    hands.do(lambda: task_actions.reopen(task, fresh=True, stage=None, forget=[], now=hands.now))
    assert hands.do(lambda: tasks.results(task)) == []


def test_the_log_names_workers_and_begins_at_the_beginning(hands: Hands) -> None:
    [task] = hands.enqueue()
    ant = hands.worker("ant")
    [lease] = hands.claim(ant)
    hands.commit(lease, Advance("first", b"1", "last"))
    hands.do(lambda: task_actions.cancel(task, "not wanted", hands.now))
    log = hands.do(lambda: tasks.events(task))
    assert [(row.event, row.status, row.worker_name, row.stage, row.note, row.fence) for row in log] == [
        (Event.STAGE_COMMITTED, Status.RUNNING, "ant", "first", None, 1),
        (Event.CANCELLED, Status.CANCELLED, None, "last", "not wanted", 1),
    ]
    assert log[0].worker == ant


def test_progress_is_the_last_that_was_told(hands: Hands) -> None:
    [task] = hands.enqueue()
    [lease] = hands.claim(hands.worker())
    hands.commit(lease, Report("first", 1, 10, None))
    hands.commit(lease, Report("first", 2, 10, "half a moment"))
    assert hands.do(lambda: tasks.progress(task)) == Progress("first", 2, 10, "half a moment", NOON)


@pytest.fixture
def shelf(hands: Hands) -> Hands:
    """Eight tasks: 1 to 4 are notes, 5 to 7 are pages with keys, 8 has failed."""
    hands.enqueue(4)
    for key in ("https://a.example/1", "https://a.example/2", "https://b.example/%_*"):
        hands.enqueue(kind="page", key=key)
    hands.enqueue(kind="lost", priority=2)
    [lease] = hands.claim(hands.worker("ant", lease_ms=1_000), 1)
    hands.commit(lease, Finish("first", None, Status.FAILED, "broken"))
    return hands


def ids(hands: Hands, **filters: object) -> list[int]:
    return [row.id for row in hands.do(lambda: tasks.tasks(**filters))]  # type: ignore[arg-type]


@numbered
def test_tasks_come_newest_first_page_by_page(shelf: Hands) -> None:
    assert ids(shelf) == [8, 7, 6, 5, 4, 3, 2, 1]
    assert ids(shelf, limit=3) == [8, 7, 6]
    assert ids(shelf, limit=3, before=6) == [5, 4, 3]
    assert ids(shelf, limit=0) == []


@numbered
def test_tasks_are_found_by_what_they_are(shelf: Hands) -> None:
    assert ids(shelf, kind="page") == [7, 6, 5]
    assert ids(shelf, status=Status.FAILED) == [8]
    assert ids(shelf, status=Status.PENDING, kind="page", limit=2) == [7, 6]
    assert ids(shelf, status=Status.SKIPPED) == []
    row = shelf.do(lambda: tasks.task(6))
    assert row is not None
    assert ids(shelf, lineage=row.lineage) == [6]
    assert ids(shelf, lineage=uuid.uuid4()) == []


@numbered
def test_a_key_matches_whole_or_by_its_beginning_and_knows_no_other_wildcard(shelf: Hands) -> None:
    assert ids(shelf, key="https://a.example/1") == [5]
    assert ids(shelf, key="https://a.example/*") == [6, 5]
    assert ids(shelf, key="https://b.example/%*") == [7]
    assert ids(shelf, key="https://%*") == []
    assert ids(shelf, key="https://a.example/") == []
    assert ids(shelf, key="*") == [8, 7, 6, 5, 4, 3, 2, 1]


@numbered
def test_stuck_tasks_are_those_whose_worker_is_silent_for_longer_than_its_lease(shelf: Hands) -> None:
    slow, fast = shelf.worker("slow", lease_ms=1_000), shelf.worker("fast", lease_ms=1_000)
    held = sorted(lease.task for lease in shelf.claim(slow, 2))
    shelf.claim(fast, 2)
    shelf.later(1_001)
    assert len(ids(shelf, stuck_at=shelf.now)) == 4
    shelf.do(lambda: workers.renew([fast], shelf.now))
    assert ids(shelf, stuck_at=shelf.now) == held[::-1]
    assert ids(shelf, stuck_at=shelf.now, limit=1) == held[1:]
    assert ids(shelf, stuck_at=shelf.now, kind="nothing") == []
    assert ids(shelf, stuck_at=shelf.now, status=Status.FAILED) == []
    shelf.bury(slow)
    assert ids(shelf, stuck_at=shelf.now) == []


@numbered
def test_counts_have_a_number_for_every_status(shelf: Hands) -> None:
    assert shelf.do(tasks.counts) == {
        **dict.fromkeys(Status, 0),
        Status.PENDING: 7,
        Status.FAILED: 1,
    }


@numbered
def test_living_workers_are_shown_with_what_they_hold(shelf: Hands) -> None:
    bee, cat = shelf.worker("bee"), shelf.worker("cat")
    [_, lease, _] = shelf.claim(bee, 3)
    shelf.commit(lease, Finish("first", None, Status.SUCCEEDED, None))
    shelf.do(lambda: workers.stop(cat, "stopped", shelf.now))
    [ant, seen] = shelf.do(tasks.workers)
    assert (ant.name, ant.holds) == ("ant", 0)
    assert (seen.id, seen.name, seen.host, seen.pid, seen.holds) == (bee, "bee", "host", 7, 2)
    assert (seen.started_at, seen.beat_at, seen.lease_ms) == (NOON, NOON, 300_000)


def test_the_backlog_is_what_may_run_now_and_later(hands: Hands) -> None:
    assert hands.do(tasks.backlog).oldest_ready_ms(hands.now) is None
    hands.enqueue(3)
    hands.later(500)
    [cancelled, _] = hands.enqueue(2, kind="page", priority=-1)
    hands.do(lambda: task_actions.cancel(cancelled, "not wanted", hands.now))
    hands.enqueue(2, after_ms=60_000)
    hands.enqueue(1, after_ms=30_000)
    [lease] = hands.claim(hands.worker(), 1)
    hands.commit(lease, Park("first", "signal:go", hands.now + 10, "waits"))
    parked = hands.enqueue(priority=2)
    [lease] = hands.claim(hands.worker(), 1)
    assert [lease.task] == parked
    hands.commit(lease, Park("first", "signal:go", NEVER, "waits"))
    backlog = hands.do(tasks.backlog)
    assert backlog.ready == [ReadyLine("default:note", 0, 2, NOON), ReadyLine("default:page", -1, 1, NOON + 500)]
    assert backlog.later == [DueLater("default:note", 3, NOON + 30_500)]
    assert (backlog.ready_tasks, backlog.later_tasks, backlog.oldest_ready_ms(NOON + 700)) == (3, 3, 700)
