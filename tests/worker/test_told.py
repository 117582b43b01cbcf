"""A claim from a line that a worker was told of: on PostgreSQL one statement, which takes what needs nothing else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from onceward.model.status import Status
from onceward.model.task import Advance, Commit, Finish, Lease, TryAgain, band_of, lane_of
from onceward.store.attempts.quick_claim import QuickClaim, quick_claim_statement
from onceward.store.drivers.session_errors import WentBack
from onceward.store.lines.memory import LineMemory
from onceward.store.lines.pause_scopes import pause, resume
from onceward.store.operations.task_actions import signal
from onceward.worker.writer import Item, Wish, Writer
from tests.store.conftest import Hands
from tests.worker.conftest import Clockwork

LINE = (lane_of("default", "note"), band_of(0))
DONE = Finish("write", None, Status.SUCCEEDED, None)
LARGE = b'"' + b"x" * 10_000 + b'"'


@pytest.fixture
def hands(clockwork: Clockwork) -> Hands:
    """What clients and workers do, by hand."""
    return clockwork.hands()


def writer_of(hands: Hands, name: str = "ant") -> Writer:
    """A worker that looks at one line."""
    sweeps = hands.session.dialect == "postgres"
    return Writer(
        hands.session, hands.worker(name), LineMemory((LINE[0],), sweeps=sweeps), LineMemory((), sweeps=sweeps)
    )


def told_of(writer: Writer, count: int = 10) -> list[Lease]:
    """What a worker claims when it is told of the line."""
    return writer.write((), Wish(count, line=LINE)).claimed.leases


def looking(writer: Writer) -> list[Lease]:
    """What it claims when it looks at all its lines."""
    return writer.write((), Wish(10)).claimed.leases


def tasks(leases: list[Lease]) -> list[int]:
    return [one.task for one in leases]


def test_it_is_a_claim_like_any_other(hands: Hands) -> None:
    hands.enqueue(2, key="same")
    ant, bee = writer_of(hands), writer_of(hands, "bee")
    [by_word], [by_look] = told_of(ant, 1), bee.write((), Wish(1)).claimed.leases
    ours = {"task": 0, "token": b"", "worker": 0, "lineage_bytes": b""}
    assert msgspec.structs.replace(by_word, **ours) == msgspec.structs.replace(by_look, **ours)
    rows = hands.sql("SELECT worker, token FROM onceward_task ORDER BY id")
    assert [(worker, bytes(token)) for worker, token in rows] == [(one.worker, one.token) for one in (by_word, by_look)]
    assert hands.sql("SELECT count(*) FROM onceward_ready") == [(0,)]
    assert hands.commit(by_word, DONE) is True


def test_they_come_in_order_and_the_next_claim_goes_on_behind_them(hands: Hands) -> None:
    first = hands.enqueue(5)
    writer = writer_of(hands)
    assert [tasks(told_of(writer, 2)), tasks(told_of(writer, 2))] == [first[:2], first[2:4]]
    more = hands.enqueue(2)
    assert tasks(looking(writer)) == [first[4], *more]


def with_a_result(hands: Hands, task: int) -> None:
    """It has done a stage."""
    [one] = hands.claim(hands.worker("elder"), 1)
    hands.commit(one, Advance("first", b"1", "second"))
    hands.commit(msgspec.structs.replace(one, stage="second", touched=1), TryAgain("second", hands.now, "not yet"))


def with_a_signal(hands: Hands, task: int) -> None:
    """Somebody has sent it something."""
    hands.do(lambda: signal(task, "go", b"1", hands.now))


@pytest.mark.parametrize("prepare", [with_a_result, with_a_signal], ids=lambda one: one.__name__)
def test_what_has_a_past_is_claimed_with_it(hands: Hands, prepare: Callable[[Hands, int], None]) -> None:
    [old] = hands.enqueue()
    prepare(hands, old)
    [new] = hands.enqueue()
    writer = writer_of(hands)
    at_once = told_of(writer)
    written = writer.write((), Wish(10))
    if hands.session.dialect == "postgres":
        assert tasks(at_once) == [new]
        assert tasks(written.claimed.leases) == [old], "it was not stepped over"
        assert written.claimed.parts or written.claimed.signals
    assert sorted(tasks([*at_once, *written.claimed.leases])) == [old, new]


def test_a_large_payload_is_read(hands: Hands) -> None:
    hands.enqueue(payload=LARGE)
    writer = writer_of(hands)
    assert [one.payload for one in [*told_of(writer), *looking(writer)]] == [LARGE]


def test_what_is_not_due_stays_out(hands: Hands) -> None:
    hands.enqueue(after_ms=1_000)
    writer = writer_of(hands)
    assert told_of(writer) == []
    assert looking(writer) == []


def test_a_clock_that_is_behind_keeps_no_worker_from_what_stands_in_line(hands: Hands, clockwork: Clockwork) -> None:
    hands.later(5)
    ids = hands.enqueue()
    assert clockwork.clock.now() < hands.now
    assert tasks(told_of(writer_of(hands))) == ids


def test_a_clock_that_was_set_back_is_heeded(hands: Hands, clockwork: Clockwork) -> None:
    writer = writer_of(hands)
    writer.memory.latest = clockwork.clock.now() + 60_000
    assert tasks(told_of(writer)) == []
    ids = hands.enqueue()
    assert tasks(told_of(writer)) == ids
    assert writer.memory.latest == clockwork.clock.now()


@pytest.mark.parametrize("scope", ["everything", "queue:default", "pipeline:other"])
def test_a_pause_that_no_worker_has_read_yet_is_kept(hands: Hands, scope: str) -> None:
    writer = writer_of(hands)
    assert looking(writer) == []
    hands.do(lambda: pause(scope, "an operator", hands.now))
    ids = hands.enqueue()
    if hands.session.dialect == "postgres":
        assert told_of(writer) == []
    writer.memory.pauses_read_at = 0
    assert tasks(looking(writer)) == (ids if scope == "pipeline:other" else [])
    hands.do(lambda: resume(scope, hands.now))
    assert tasks(looking(writer)) == ([] if scope == "pipeline:other" else ids)


def test_who_comes_too_late_writes_nothing_at_all(hands: Hands) -> None:
    if hands.session.dialect == "sqlite":
        pytest.skip("there it is rolled back")
    hands.enqueue()
    ant, bee = writer_of(hands), writer_of(hands, "bee")
    assert told_of(ant)
    bee.session.insists = True
    next_number = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
    before = hands.sql(next_number)
    assert told_of(bee) == []
    assert hands.sql(next_number) == before, "it has begun no transaction that would have to be synced to the disk"
    assert bee.session.last_receipt is None, "what was not written is not missed"


def test_a_worker_that_was_declared_dead_claims_nothing(hands: Hands) -> None:
    hands.enqueue()
    writer = writer_of(hands)
    hands.bury(writer.worker)
    assert told_of(writer) == []
    assert hands.sql("SELECT count(*) FROM onceward_ready") == [(1,)]


def test_whose_past_is_gone_claims_nothing(hands: Hands, clockwork: Clockwork) -> None:
    hands.enqueue(2)
    writer = writer_of(hands)
    writer.session = clockwork.session()
    writer.session.insists = True
    assert len(told_of(writer, 1)) == 1
    assert writer.session.last_receipt is not None
    hands.sql("DELETE FROM onceward_receipt")
    if hands.session.dialect == "postgres":
        assert told_of(writer, 1) == []
    with pytest.raises(WentBack):
        looking(writer)
    assert hands.sql("SELECT count(*) FROM onceward_ready") == [(1,)]


def test_who_has_a_gate_to_pass_is_not_taken_by_an_old_place_in_a_line_without(hands: Hands) -> None:
    [task] = hands.enqueue()
    hands.sql("UPDATE onceward_task SET gates = 'shop*1'")
    writer = writer_of(hands)
    assert told_of(writer) == looking(writer) == []
    looking(writer)  # it is put into the line of its gates
    assert hands.sql("SELECT lane, task FROM onceward_ready") == [("default:note@shop*1", task)]


def test_what_was_claimed_without_a_reply_is_not_read_where_the_past_is_gone(
    hands: Hands, clockwork: Clockwork
) -> None:
    hands.enqueue()
    writer = writer_of(hands)
    writer.session = clockwork.session()
    writer.session.insists = True
    [lease] = told_of(writer)
    statement = quick_claim_statement(writer.memory, QuickClaim(LINE, lease.token, writer.worker, 10, hands.now))
    if hands.session.dialect == "postgres":
        assert [row[0] for row in writer.session.answer_to(statement, b"receipt")] == [lease.task]
    hands.sql("DELETE FROM onceward_receipt")
    with pytest.raises(WentBack):
        writer.session.answer_to(statement, b"receipt")


def test_how_far_it_has_come_in_a_line_of_shares_is_marked_by_the_next_transaction(hands: Hands) -> None:
    ids = hands.enqueue(2)
    hands.sql("UPDATE onceward_ready SET rank = 7")
    writer = writer_of(hands)
    [one] = told_of(writer, 1)
    writer.write([Item(Commit(one, DONE), lambda _: None)], None)
    assert hands.sql("SELECT rank FROM onceward_mark") == [(7,)]
    assert tasks(looking(writer)) == ids[1:]
