"""Actions on all tasks that match a filter: in portions, by any process, stopped, and each task once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from onceward import App, ConfigError, Context, Failed, Payload, Pipeline, Status, Waiting
from onceward.errors import BulkNotFound, FilterError
from onceward.operations.bulk import BulkStatus
from onceward.store.drivers.session import Session
from onceward.store.operations import bulk as store
from onceward.store.operations.bulk import LEASE_MS, Carrying
from onceward.store.operations.pruning import prune
from onceward.testing import Harness
from onceward.worker import bulk_carrier
from onceward.worker.bulk_carrier import BulkCarrier
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import Orders
from tests.worker.conftest import Start, assert_verified

COUNT = 25


class Page(Payload, kind="page"):
    number: int

    def key(self) -> str:
        return f"page {self.number}"


class Question(Payload, kind="question"):
    number: int


page = Pipeline(Page)
question = Pipeline(Question)


@page.stage
def fetch(ctx: Context[Page]) -> None:
    raise Failed(f"no answer from host {ctx.payload.number}")


@question.stage
def ask(ctx: Context[Question]) -> None:
    if not ctx.signal("approved"):
        raise Waiting(until="approved")


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "TASKS_AT_ONCE", 4)


@pytest.fixture
def failed(start: Start) -> Harness:
    """An app with 25 failed pages and three questions that wait."""
    harness = start(page, question)
    harness.app.enqueue_many([Page(number) for number in range(COUNT)])
    harness.app.enqueue_many([Question(number) for number in range(3)])
    harness.drain()
    return harness


@pytest.fixture
def session(failed: Harness) -> Iterator[Session]:
    """A connection of a process that carries an action on."""
    opened = failed.app._store.session(patience_s=5)
    yield opened
    opened.close()


def how_many(app: App, wanted: str) -> int:
    return app.tasks.count(wanted).n


def test_a_retry_reopens_all_failed_tasks_that_match_in_portions(failed: Harness) -> None:
    app = failed.app
    seen: list[BulkStatus] = []
    begun = app.bulk.start("retry", "kind:page", author="ada")
    assert (begun.state, begun.filter, begun.author) == ("open", "kind:page status:failed", "ada")
    assert (begun.expected.n, begun.expected.is_exact, begun.progress) == (COUNT, True, 0)
    ended = app.bulk.carry_on(begun.id, seen.append)
    assert [one.done for one in seen] == [4, 8, 12, 16, 20, 24, 25]
    assert (ended.state, ended.done, ended.left_alone, ended.progress) == ("done", COUNT, 0, 1)
    assert how_many(app, "status:pending kind:page") == COUNT
    assert app.bulk.list() == [ended]


def test_only_what_was_there_and_matched_is_retried(failed: Harness) -> None:
    app = failed.app
    begun = app.bulk.start("retry", 'kind:page error:"host 1"')
    app.enqueue(Page(1_000))
    failed.drain()
    assert how_many(app, 'status:failed error:"host 1"') == 12
    ended = app.bulk.carry_on(begun.id)
    assert (ended.done, begun.expected.n) == (11, 11)
    assert [one.key for one in app.tasks.search("status:failed error:1000").tasks] == ["page 1000"]


def test_what_fails_again_meanwhile_is_not_retried_twice(failed: Harness, session: Session) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    carrying = Carrying(session, begun.id)
    while (row := carrying.portion()) is not None and row.state == 0:
        failed.drain()
    failed.drain()
    assert how_many(app, "status:failed attempts:2") == COUNT


def test_tasks_that_have_changed_by_then_are_left_alone(failed: Harness, session: Session) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    carrying = Carrying(session, begun.id)
    real = Session.transact
    changed: list[int] = []

    def change_before_the_second(mine: Session, operation: object) -> object:
        if mine is session:
            changed.append(1)
            if len(changed) == 2:  # the first takes the action, the second is the portion
                app.tasks.retry(COUNT)
        return real(mine, operation)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "transact", change_before_the_second)
        row = carrying.portion()
    assert row is not None
    assert (row.done, row.left_alone) == (3, 1)
    carrying.leave()
    ended = app.bulk.carry_on(begun.id)
    assert (ended.done, ended.left_alone) == (COUNT - 1, 1)


def test_a_stop_ends_it_and_keeps_what_was_done(failed: Harness, session: Session) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    carrying = Carrying(session, begun.id)
    carrying.portion()
    stopped = app.bulk.stop(begun.id)
    assert (stopped.state, stopped.done) == ("stopped", 4)
    assert stopped.ended_at is not None
    assert carrying.portion() is None
    assert app.bulk.carry_on(begun.id) == stopped
    assert app.bulk.stop(begun.id) == stopped
    assert how_many(app, "status:failed") == COUNT - 4


def test_a_stop_in_the_middle_of_a_portion_undoes_it(failed: Harness, session: Session) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    carrying = Carrying(session, begun.id)
    carrying.portion()
    row = session.transact(lambda: carrying._take(session.clock.now()))
    assert row is not None
    app.bulk.stop(begun.id)
    matcher = session.ask(lambda: store._matcher(row))
    with pytest.raises(store.Lost):
        session.transact(lambda: carrying._do(row, matcher, [20, 21], 20))
    assert how_many(app, "status:failed") == COUNT - 4


def test_another_process_goes_on_when_the_lease_is_over(failed: Harness, session: Session) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    Carrying(session, begun.id).portion()  # and dies
    assert app.bulk.carry_on(begun.id).done == 4
    assert session.ask(lambda: store.untaken(session.clock.now())) == []
    failed.advance(f"{LEASE_MS + 1}ms")
    assert session.ask(lambda: store.untaken(session.clock.now())) == [begun.id]
    assert app.bulk.carry_on(begun.id).done == COUNT


def test_two_that_believe_to_have_it_do_nothing_twice(failed: Harness, session: Session) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    first = Carrying(session, begun.id)
    first.portion()
    row = session.transact(lambda: first._take(session.clock.now()))
    assert row is not None
    failed.advance(f"{LEASE_MS + 1}ms")
    assert app.bulk.carry_on(begun.id).done == COUNT
    matcher = session.ask(lambda: store._matcher(row))
    with pytest.raises(store.Lost):
        session.transact(lambda: first._do(row, matcher, [18, 19, 20, 21], 18))


def test_a_cancellation_is_for_open_tasks_and_keeps_its_reason(failed: Harness) -> None:
    app = failed.app
    app.enqueue_many([Page(number) for number in range(100, 110)])
    ended = app.bulk.carry_on(app.bulk.start("cancel", "kind:page", reason="sold out").id)
    assert (ended.done, ended.filter, ended.reason) == (10, "kind:page status:open", "sold out")
    assert {one.reason for one in app.tasks.search("status:cancelled").tasks} == {"sold out"}
    assert how_many(app, "status:waiting") == 3
    ended = app.bulk.carry_on(app.bulk.start("cancel", "status:failed,waiting").id)
    assert (ended.done, ended.left_alone) == (3, COUNT)


def test_an_approval_is_for_what_waits_for_it(failed: Harness) -> None:
    app = failed.app
    ended = app.bulk.carry_on(app.bulk.start("approve", "").id)
    assert (ended.done, ended.filter) == (3, "waiting:signal:approved")
    failed.drain()
    assert how_many(app, "kind:question status:succeeded") == 3


def test_ages_count_from_when_it_began(failed: Harness) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "created<1h")
    failed.advance("2h")
    assert app.bulk.carry_on(begun.id).done == COUNT


def test_a_preview_changes_nothing(failed: Harness) -> None:
    preview = failed.app.bulk.preview("retry", "kind:page")
    assert (preview.filter, preview.count.n) == ("kind:page status:failed", COUNT)
    assert failed.app.bulk.list() == []
    assert how_many(failed.app, "status:failed") == COUNT


def test_a_carrier_carries_on_and_ends(failed: Harness) -> None:
    app = failed.app
    begun = app.bulk.start("retry", "kind:page")
    carrier = BulkCarrier(lambda: app._store.session(patience_s=5), ["page"])
    carrier.carry([begun.id])
    thread = carrier._thread
    assert isinstance(thread, threading.Thread)
    thread.join(timeout=30)
    carrier.stop()
    assert app.bulk.get(begun.id).state == "done"


def test_a_process_that_attends_carries_on_what_another_has_begun(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_carrier, "LOOK_EVERY_MS", 20)
    with App(store_url, [page]) as app, App(store_url) as web:
        carrier = web.bulk.attend()
        try:
            app.enqueue_many([Page(number) for number in range(COUNT)])
            begun = app.bulk.start("cancel", "kind:page")
            give_up_at = time.monotonic() + 30
            while app.bulk.get(begun.id).is_open and time.monotonic() < give_up_at:
                threading.Event().wait(0.02)
        finally:
            carrier.stop()
        assert app.bulk.get(begun.id).done == COUNT


def test_a_worker_carries_on_what_was_begun(store_url: str) -> None:
    with App(store_url, [page]) as app:
        app.enqueue_many([Page(number) for number in range(COUNT)])
        app.run(until_idle=True)
        begun = app.bulk.start("retry", "kind:page")

        def watch(process: WorkerProcess) -> None:
            with App(store_url) as other:
                while other.bulk.get(begun.id).is_open:
                    threading.Event().wait(0.05)
            process.request_stop()

        app._work(Orders(), lambda process: threading.Thread(target=watch, args=(process,), daemon=True).start())
        assert app.bulk.get(begun.id).done == COUNT
        assert_verified(app)


def test_old_ones_are_pruned_and_open_ones_stay(failed: Harness, session: Session) -> None:
    app = failed.app
    ended = app.bulk.carry_on(app.bulk.start("retry", "id:1").id)
    still = app.bulk.start("retry", "kind:page")
    failed.advance("1h")
    now = session.clock.now()
    prune(session, now - 7_200_000, now)
    assert [one.id for one in app.bulk.list()] == [still.id, ended.id]
    prune(session, now, now)
    assert [one.id for one in app.bulk.list()] == [still.id]


def test_what_cannot_be_meant_is_refused(failed: Harness) -> None:
    with pytest.raises(ConfigError, match="there are: retry, cancel, approve"):
        failed.app.bulk.start("delete", "kind:page")  # type: ignore[arg-type]
    with pytest.raises(FilterError, match="did you mean kind"):
        failed.app.bulk.start("retry", "knd:page")
    for ask_for in (failed.app.bulk.get, failed.app.bulk.stop, failed.app.bulk.carry_on):
        with pytest.raises(BulkNotFound, match="there is no action 4711"):
            ask_for(4711)


def test_all_of_it_has_an_awaited_form(failed: Harness) -> None:
    async def act() -> None:
        bulk = failed.app.bulk
        assert (await bulk.apreview("retry", "kind:page")).count.n == COUNT
        begun = await bulk.astart("retry", "kind:page")
        assert (await bulk.acarry_on(begun.id)).done == COUNT
        assert await bulk.aget(begun.id) == (await bulk.alist())[0] == await bulk.astop(begun.id)

    asyncio.run(act())
    assert failed.app.tasks.get(1).status is Status.PENDING


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_a_hundred_thousand_failed_tasks_are_retried_in_portions_and_can_be_stopped(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    many = 100_000
    with App(store_url, [page]) as app:
        old = ({"id": number, "status": "failed", "number": number} for number in range(many))
        assert app.tasks.import_items(old, kind="page").total == many
        begun = app.bulk.start("retry", "kind:page")
        seen: list[int] = []

        def stop_halfway(status: BulkStatus) -> None:
            seen.append(status.done)
            if status.done >= many // 2:
                app.bulk.stop(begun.id)

        stopped = app.bulk.carry_on(begun.id, stop_halfway)
        assert (stopped.state, stopped.done) == ("stopped", many // 2)
        assert len(seen) == many // 2 // 200
        again = app.bulk.carry_on(app.bulk.start("retry", "kind:page").id)
        assert (again.state, again.done, again.left_alone) == ("done", many // 2, 0)
        left = app.stats.counts()
        assert (left[Status.PENDING], left[Status.FAILED]) == (many, 0)
        assert_verified(app)
