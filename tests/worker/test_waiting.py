"""Waiting for time and for signals: costs no attempt, holds no slot, and no signal is ever missed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from onceward import ConfigError, Context, IllegalTransition, Payload, Pipeline, Status, TaskNotFound, Waiting
from onceward.model.task import NEVER, Commit, Finish, Park
from onceward.store.attempts import commits
from onceward.store.op import Query, drive
from onceward.store.operations import task_actions
from tests.worker.conftest import Clockwork, Start, words


class Order(Payload, kind="order"):
    limit: str | None = None


class Approval(msgspec.Struct):
    by: str
    amount: int


def approval_pipeline(seen: list[Any]) -> Pipeline[Order]:
    order = Pipeline(Order)

    @order.stage
    def prepare(ctx: Context[Order]) -> str:
        return "prepared"

    @order.stage
    def approve(ctx: Context[Order]) -> str:
        approval = ctx.signal("approved", Approval)
        seen.append(approval)
        if approval is None:
            if ctx.payload.limit is not None and len(seen) > 1:
                return "nobody came"
            raise Waiting(until="approved", after=ctx.payload.limit)
        return f"{ctx.result(prepare)}, approved by {approval.by}"

    return order


def test_a_poll_costs_no_attempt_and_moves_nothing_but_time(start: Start) -> None:
    order = Pipeline(Order)
    looks: list[int] = []

    @order.stage
    def poll(ctx: Context[Order]) -> int:
        looks.append(ctx.task.attempt)
        if ctx.task.deferrals < 10:
            raise Waiting(after="1m")
        return ctx.task.deferrals

    harness = start(order)
    task = harness.enqueue(Order())
    began = harness.clock.now()
    harness.drain(wait_for_due=False)
    parked = harness.task(task)
    assert (parked.status, parked.reason) == (Status.PENDING, "asked to be polled again")
    assert parked.due_at == parked.created_at + timedelta(minutes=1)
    harness.drain()
    assert looks == [1] * 11
    assert harness.task(task).result(poll) == 10
    assert harness.clock.now() == began + 600_000
    assert harness.task(task).failures == 0


def test_a_signal_ends_the_wait_and_hands_over_its_value(start: Start) -> None:
    seen: list[Any] = []
    harness = start(approval_pipeline(seen))
    task = harness.enqueue(Order())
    harness.drain()
    waiting = harness.task(task)
    assert (waiting.status, waiting.waiting_for) == (Status.WAITING, "signal:approved")
    assert waiting.reason == "waiting for the signal 'approved'"
    harness.app.tasks.signal(task.id, "approved", Approval("Ada", 7))
    assert harness.task(task).status is Status.PENDING
    harness.drain()
    assert seen == [None, Approval("Ada", 7)]
    assert harness.task(task).results["approve"] == "prepared, approved by Ada"
    assert words(harness, task) == ["stage committed", "parked", "signalled", "woken", "finished"]


def test_a_signal_may_come_before_a_task_waits_for_it(start: Start) -> None:
    seen: list[Any] = []
    harness = start(approval_pipeline(seen))
    task = harness.enqueue(Order())
    harness.app.tasks.signal(task.id, "approved", {"by": "Ada", "amount": 7})
    harness.drain()
    assert seen == [Approval("Ada", 7)]
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_fresh_run_needs_a_new_signal(start: Start) -> None:
    seen: list[Any] = []
    harness = start(approval_pipeline(seen))
    task = harness.enqueue(Order())
    harness.app.tasks.signal(task.id, "approved", Approval("Ada", 7))
    harness.drain()
    harness.app.tasks.retry(task.id, fresh=True)
    harness.drain()
    assert harness.task(task).status is Status.WAITING
    harness.app.tasks.signal(task.id, "approved", Approval("Bob", 8))
    harness.drain()
    assert seen == [Approval("Ada", 7), None, Approval("Bob", 8)]


def test_another_signal_does_not_end_the_wait(start: Start) -> None:
    seen: list[Any] = []
    harness = start(approval_pipeline(seen))
    task = harness.enqueue(Order())
    harness.drain()
    harness.app.tasks.signal(task.id, "rejected")
    harness.drain()
    assert harness.task(task).status is Status.WAITING
    assert seen == [None]


def test_a_wait_with_a_limit_ends_by_itself(start: Start) -> None:
    seen: list[Any] = []
    harness = start(approval_pipeline(seen))
    task = harness.enqueue(Order("7d"))
    began = harness.clock.now()
    harness.drain()
    assert seen == [None, None]
    assert harness.clock.now() == began + 7 * 86_400_000
    assert harness.task(task).results["approve"] == "nobody came"
    assert words(harness, task) == ["stage committed", "parked", "woken", "finished"]


def patient_pipeline(runs: list[bool], *, gives_up: bool) -> Pipeline[Order]:
    """A stage that waits at most seven days for its approval, and tells of each run whether the time was over."""
    order = Pipeline(Order)

    @order.stage
    def approve(ctx: Context[Order]) -> str:
        assert ctx.is_fresh  # a wait stores nothing that an earlier attempt has made
        runs.append(ctx.timed_out("approved"))
        if ctx.signal("approved") is not None:
            return "approved"
        if runs[-1] and gives_up:
            return "nobody answered"
        raise Waiting(until="approved", after="7d")

    return order


def test_a_stage_sees_that_its_wait_ran_out_of_time_also_after_a_crash(start: Start) -> None:
    runs: list[bool] = []
    harness = start(patient_pipeline(runs, gives_up=True))
    task = harness.enqueue(Order())
    harness.drain(wait_for_due=False)
    harness.crash("after approve")
    assert harness.drain()
    assert runs == [False, True, True]
    assert harness.task(task).results["approve"] == "nobody answered"


def test_a_signal_that_comes_late_is_no_time_out(start: Start) -> None:
    runs: list[bool] = []
    harness = start(patient_pipeline(runs, gives_up=False))
    task = harness.enqueue(Order())
    harness.drain()
    harness.app.tasks.signal(task.id, "approved")
    harness.drain()
    assert runs == [False, True, False]
    assert harness.task(task).results["approve"] == "approved"


def test_a_task_that_is_opened_again_has_the_whole_time_to_wait(start: Start) -> None:
    runs: list[bool] = []
    harness = start(patient_pipeline(runs, gives_up=True))
    task = harness.enqueue(Order())
    harness.drain(wait_for_due=False)
    harness.app.tasks.cancel(task.id)
    harness.app.tasks.retry(task.id)
    harness.drain(wait_for_due=False)
    assert runs == [False, False]


def test_a_drain_ends_when_only_waits_for_signals_are_left_and_names_them(start: Start) -> None:
    runs: list[bool] = []
    harness = start(patient_pipeline(runs, gives_up=False))
    first, second = harness.enqueue(Order()), harness.enqueue(Order(), after="1d")
    drained = harness.drain()
    assert drained
    assert runs == [False, False, True, True]
    assert drained.waits == {first.id: "approved", second.id: "approved"}
    assert str(drained).startswith(f"everything is done, but task {first.id} waits for the signal 'approved'")


def test_a_wait_whose_limit_has_passed_before_it_is_written_ends_too(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    [task] = hands.enqueue()
    ant = hands.worker()
    for gone_ms in (0, 5):
        [lease] = hands.claim(ant)
        assert hands.commit(lease, Park("first", "signal:go", hands.now - gone_ms, "waits a moment"))
        hands.later(1)
    [lease] = hands.claim(ant)
    assert (lease.task, lease.fence) == (task, 3)
    hands.commit(lease, Finish("first", None, Status.SUCCEEDED, None))


def test_the_limit_of_a_wait_that_a_signal_has_ended_does_nothing_more(start: Start) -> None:
    order = Pipeline(Order)
    calls: list[str] = []

    @order.stage
    def approve(ctx: Context[Order]) -> None:
        calls.append("approve")
        if ctx.signal("approved") is None:
            raise Waiting(until="approved", after="1h")

    @order.stage
    def ship(ctx: Context[Order]) -> None:
        calls.append("ship")
        if ctx.signal("shipped") is None:
            raise Waiting(until="shipped")

    harness = start(order)
    task = harness.enqueue(Order())
    harness.drain(wait_for_due=False)
    harness.app.tasks.signal(task.id, "approved")
    harness.drain()  # the hour passes, and the task waits for another signal by then
    harness.advance("2h")
    harness.drain()
    assert calls == ["approve", "approve", "ship"]
    assert harness.task(task).waiting_for == "signal:shipped"
    harness.app.tasks.signal(task.id, "shipped")
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_signal_that_comes_while_the_stage_runs_is_not_missed(start: Start) -> None:
    order = Pipeline(Order)
    seen: list[Any] = []
    meanwhile: list[Callable[[], None]] = []

    @order.stage
    def approve(ctx: Context[Order]) -> None:
        seen.append(ctx.signal("approved"))
        while meanwhile:
            meanwhile.pop()()
        if ctx.signal("approved") is None:
            raise Waiting(until="approved")

    harness = start(order)
    task = harness.enqueue(Order())
    meanwhile.append(lambda: harness.app.tasks.signal(task.id, "approved", "yes"))
    harness.drain()
    assert seen == [None, "yes"]
    assert harness.task(task).status is Status.SUCCEEDED
    assert words(harness, task) == ["signalled", "parked", "woken", "finished"]


def test_the_last_value_of_a_signal_counts(start: Start) -> None:
    seen: list[Any] = []
    harness = start(approval_pipeline(seen))
    task = harness.enqueue(Order())
    harness.app.tasks.signal(task.id, "approved", Approval("Ada", 1))
    harness.app.tasks.signal(task.id, "approved", Approval("Bob", 2))
    harness.drain()
    assert seen == [Approval("Bob", 2)]


def test_a_signal_for_no_task_is_refused(start: Start) -> None:
    harness = start(approval_pipeline([]))
    task = harness.enqueue(Order())
    harness.app.tasks.signal(task.id, "approved", Approval("Ada", 7))
    harness.drain()
    with pytest.raises(IllegalTransition, match=f"task {task.id} is succeeded; a signal cannot reach it any more"):
        harness.app.tasks.signal(task.id, "approved")
    with pytest.raises(TaskNotFound, match=f"there is no task {task.id + 1_000}"):
        harness.app.tasks.signal(task.id + 1_000, "approved")
    for name in ("", "a\x00b", "\ud800"):
        with pytest.raises(ConfigError, match="is no name of a signal"):
            harness.app.tasks.signal(task.id, name)
    with pytest.raises(ConfigError, match="None is what a stage reads as long as 'approved' has not come"):
        harness.app.tasks.signal(task.id, "approved", None)


# Whoever parks a task and whoever signals it meet at the task's row: on PostgreSQL, two transactions at once.


@pytest.fixture
def together(clockwork: Clockwork, store_url: str) -> Callable[[Callable[[], None], Callable[[], None]], None]:
    """Runs one transaction, another that has to wait for it, and lets the first commit when the second waits."""
    if store_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer: there the two cannot meet")

    def run(second: Callable[[], None], commit_first: Callable[[], None]) -> None:
        thread = threading.Thread(target=second)
        thread.start()
        with psycopg.connect(store_url, autocommit=True) as watcher:
            while not watcher.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ).fetchall():
                assert thread.is_alive(), "the second transaction did not wait for the first"
        commit_first()
        thread.join()

    return run


Together = Callable[[Callable[[], None], Callable[[], None]], None]


def test_a_signal_that_waits_for_the_park_wakes_the_task(clockwork: Clockwork, together: Together) -> None:
    hands, other = clockwork.hands(), clockwork.hands()
    [task] = hands.enqueue()
    ant = hands.worker()
    [lease] = hands.claim(ant)
    park = Commit(lease, Park("first", "signal:go", NEVER, "waits"))
    hands.session.run(Query("begin"))
    assert drive(commits.commit([park], hands.now), hands.session) == [True]
    together(
        lambda: other.do(lambda: task_actions.signal(task, "go", b"1", other.now)),
        lambda: hands.session.run(Query("commit")) and None,
    )
    [lease] = hands.claim(ant)
    assert lease.signals == 1
    hands.commit(lease, Finish("first", None, Status.SUCCEEDED, None))


def test_a_park_that_waits_for_the_signal_does_not_sleep(clockwork: Clockwork, together: Together) -> None:
    hands, other = clockwork.hands(), clockwork.hands()
    [task] = hands.enqueue()
    ant = hands.worker()
    [lease] = hands.claim(ant)
    other.session.opened()
    other.session.run(Query("begin"))
    drive(task_actions.signal(task, "go", b"1", other.now), other.session)
    verdicts: list[Any] = []
    together(
        lambda: verdicts.append(hands.commit(lease, Park("first", "signal:go", NEVER, "waits"))),
        lambda: other.session.run(Query("commit")) and None,
    )
    assert verdicts == [True]
    [lease] = hands.claim(ant)
    assert lease.signals == 1
    hands.commit(lease, Finish("first", None, Status.SUCCEEDED, None))
