"""The seven ways in which a poller of remote work fails, each ended by one of the six limits on time.

A provider takes work and tells how it stands. Tasks are the items of a job, which is a batch; they are polled every
five minutes. Nothing here waits: the clock is moved by hand, and every run of the schedule is one `drain`.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from onceward import (
    App,
    BatchStatus,
    Config,
    Connection,
    Context,
    Migration,
    NextTick,
    Payload,
    Pipeline,
    Retry,
    Source,
    Status,
    Waiting,
)
from onceward.store.attempts.expiry import expire_batches
from onceward.testing import Harness
from tests.worker.conftest import Start, statuses, words

ANSWERS = Migration(
    "answers", "CREATE TABLE answer (item varchar(40) NOT NULL, text varchar(40) NOT NULL CHECK (text <> ''))"
)
POLL = "5m"


class Item(Payload, kind="item"):
    name: str

    def key(self) -> str:
        return self.name


class Overloaded(ConnectionError):
    """The provider has too much to do."""


class Provider:
    """Remote work: what is asked of it, and how it answers."""

    def __init__(self) -> None:
        self.polls: Counter[str] = Counter()
        self.failing: set[str] = set()
        self.stuck: set[str] = set()
        self.empty: set[str] = set()
        self.cancelled: list[str] = []

    def status(self, item: str) -> str | None:
        self.polls[item] += 1
        if item in self.failing:
            raise Overloaded("503")
        if item in self.stuck:
            return None
        return "" if item in self.empty else f"answer to {item}"


def insert_answer(connection: Connection, item: str, text: str) -> None:
    marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
    connection.execute(f"INSERT INTO answer (item, text) VALUES ({marks})", (item, text))


def items(provider: Provider) -> Pipeline[Item]:
    """Polled work, as S1 has it: transient errors have no count limit, the time limit ends them."""
    model = Source("model", retries=0, breaker=None)
    item: Pipeline[Item] = Pipeline(Item, retry=Retry(retries=None, base=POLL, factor=1, jitter=False))

    @item.stage
    def submit(ctx: Context[Item]) -> str:
        return f"remote/{ctx.payload.name}"

    @item.stage(calls=10)
    def poll(ctx: Context[Item]) -> str:
        answer = ctx.call(model, lambda: provider.status(ctx.payload.name))
        if answer is None:
            raise Waiting(after=POLL)
        ctx.write(insert_answer, ctx.payload.name, answer)
        return answer

    @item.at_expiry
    def cancel(ctx: Context[Item]) -> None:
        provider.cancelled.append(ctx.result(submit))

    return item


class Poller:
    """A job of items, and the schedule that looks after it every five minutes."""

    def __init__(self, start: Start, **options: object) -> None:
        self.provider = Provider()
        self.harness: Harness = start(items(self.provider), migrations=[ANSWERS], **options)
        self.tasks: dict[str, int] = {}

    def job(self, *names: str, name: str = "job", **options: str) -> None:
        with self.harness.app.batch(name, **options) as batch:  # type: ignore[arg-type]
            for one in names:
                batch.add(Item(one))
        self.tasks |= dict(zip(names, batch.tasks, strict=True))

    def cycles(self, count: int) -> None:
        """So many scheduled runs, the first of them now."""
        for number in range(count):
            if number:
                self.harness.advance(POLL)
            self.harness.drain(wait_for_due=False)

    def status(self, name: str) -> Status:
        return self.harness.task(self.tasks[name]).status

    def reason(self, name: str) -> str | None:
        return self.harness.task(self.tasks[name]).reason

    def took(self, name: str) -> timedelta:
        task = self.harness.task(self.tasks[name])
        assert task.ended_at is not None
        return task.ended_at - task.created_at

    @property
    def batch(self) -> BatchStatus:
        return self.harness.app.batches.get("job")


@pytest.fixture
def poller(start: Start) -> Poller:
    return Poller(start)


def test_scenario_1_a_single_item_keeps_failing(poller: Poller) -> None:
    poller.provider.failing = {"bad"}
    poller.job("good", "bad")
    poller.cycles(25)
    assert poller.status("good") is Status.SUCCEEDED
    assert (poller.status("bad"), poller.reason("bad")) == (Status.FAILED, "exceeded 2 h")
    assert poller.took("bad") == timedelta(hours=2)
    asked = poller.provider.polls["bad"]
    assert asked == 24, "every five minutes, and not again when its time is over"
    poller.cycles(10)
    assert poller.provider.polls["bad"] == asked
    assert (poller.batch.status, poller.batch.succeeded, poller.batch.failed) == ("partial", 1, 1)


def test_scenario_1_a_permanent_error_is_not_asked_for_two_hours(start: Start) -> None:
    item: Pipeline[Item] = Pipeline(Item, retry=Retry(retries=None, permanent=(ValueError,)))
    asked = []

    @item.stage
    def poll(ctx: Context[Item]) -> None:
        asked.append(ctx.payload.name)
        raise ValueError("no such model")

    harness = start(item)
    task = harness.enqueue(Item("a"))
    harness.drain()
    assert (harness.task(task).reason, asked) == ("ValueError: no such model", ["a"])


def test_scenario_2_all_items_take_too_long(poller: Poller) -> None:
    names = [f"item {number}" for number in range(20)]
    poller.provider.stuck = set(names)
    poller.job(*names)
    poller.cycles(26)
    assert {poller.status(name) for name in names} == {Status.FAILED}
    assert {poller.reason(name) for name in names} == {"exceeded 2 h"}
    assert (poller.batch.status, poller.batch.failed, poller.batch.open) == ("failed", 20, 0)
    assert sorted(poller.provider.cancelled) == sorted(f"remote/{name}" for name in names)
    before = poller.provider.polls.total()
    poller.cycles(5)
    assert poller.provider.polls.total() == before, "nothing is left to poll"


def test_scenario_3_items_get_stuck_in_processing(poller: Poller) -> None:
    poller.provider.stuck = {"stuck"}
    poller.job("a", "stuck", "b")
    poller.cycles(12)
    assert [poller.status(name) for name in ("a", "b")] == [Status.SUCCEEDED] * 2
    assert poller.status("stuck") is Status.PENDING
    poller.cycles(15)
    assert (poller.status("stuck"), poller.reason("stuck")) == (Status.FAILED, "exceeded 2 h")
    assert words(poller.harness, poller.tasks["stuck"])[-2:] == ["expired", "finished"]
    assert (poller.batch.status, poller.batch.succeeded, poller.batch.failed) == ("partial", 2, 1)


def test_scenario_3_an_item_that_waited_for_two_hours_and_began_a_minute_ago_goes_on(poller: Poller) -> None:
    poller.provider.stuck = {"late"}
    poller.job("late")
    poller.harness.advance("2h")
    poller.cycles(2)
    assert poller.status("late") is Status.PENDING
    poller.provider.stuck = set()
    poller.cycles(2)
    assert poller.status("late") is Status.SUCCEEDED


def test_scenario_4_a_job_runs_for_days(start: Start) -> None:
    poller = Poller(start, config=Config(task_limit="1000h"))
    poller.provider.stuck = {"a", "b"}
    poller.job("a", "b", "c")
    poller.cycles(3)
    poller.harness.advance("47h")
    poller.cycles(1)
    assert poller.batch.status == "open"
    poller.harness.advance("1h")
    poller.cycles(1)
    assert (poller.batch.status, poller.batch.reason) == ("failed", "batch exceeded 48 h")
    assert [poller.reason(name) for name in ("a", "b")] == ["batch exceeded 48 h"] * 2
    assert statuses(poller.harness, list(poller.tasks.values())) == ["failed", "failed", "succeeded"]
    assert sorted(poller.provider.cancelled) == ["remote/a", "remote/b"]
    before = poller.provider.polls.total()
    poller.cycles(3)
    assert poller.provider.polls.total() == before


def test_scenario_4_a_late_answer_changes_nothing(start: Start) -> None:
    """The job is failed while an item of it is being polled, and the answer comes after that."""
    poller = Poller(start)
    poller.job("slow", deadline="1h")

    def status(item: str) -> str:
        poller.harness.advance("1h")
        session = poller.harness.app._store.session()
        expire_batches(session, poller.harness.clock.now())
        session.close()
        return "too late"

    poller.provider.status = status  # type: ignore[method-assign]
    poller.cycles(2)
    assert (poller.status("slow"), poller.reason("slow")) == (Status.FAILED, "batch exceeded 1 h")
    answers = poller.harness.app.read(lambda one: one.execute("SELECT item FROM answer").fetchall())
    assert answers == []


def test_scenario_5_a_run_keeps_triggering_itself(store_url: str) -> None:
    provider = Provider()
    triggered: list[NextTick] = []
    app = App(store_url, [items(provider)], migrations=[ANSWERS])
    app.enqueue_many([Item(f"item {number}") for number in range(60)])
    for _schedule in range(2):
        triggered.clear()
        reports = [app.tick(max_tasks=10, chain=2, trigger=triggered.append)]
        while len(triggered) == len(reports):
            left = triggered[-1].chain_left
            reports.append(app.tick(max_tasks=10, chain=2, chain_left=left, trigger=triggered.append))
        assert [report.tasks for report in reports] == [10, 10, 10], "three runs, not more"
        assert [report.triggered for report in reports] == [True, True, False]
    assert app.stats.counts()[Status.SUCCEEDED] == 60
    assert app.verify().ok
    app.close()


def test_scenario_6_a_write_to_the_database_fails(poller: Poller) -> None:
    poller.provider.empty = {"bad"}  # the table refuses an empty answer
    poller.job("good", "bad")
    poller.cycles(3)
    assert (poller.status("good"), poller.status("bad")) == (Status.SUCCEEDED, Status.RETRYABLE)
    poller.cycles(3)
    assert poller.status("bad") is Status.FAILED
    assert (poller.reason("bad") or "").startswith("failed the same way 5 times in a row: "), "no need to wait 2 h"
    assert poller.batch.status == "partial"


@pytest.mark.parametrize("point", ["after claim", "before poll", "after poll", "inside commit"])
def test_scenario_7_a_run_crashes_in_the_middle(start: Start, point: str) -> None:
    poller = Poller(start)
    poller.job("a", "b", "c")
    poller.harness.crash(point)
    poller.cycles(3)
    assert poller.harness.crashes == 1
    assert [poller.status(name) for name in ("a", "b", "c")] == [Status.SUCCEEDED] * 3
    answers = poller.harness.app.read(lambda one: sorted(one.execute("SELECT item FROM answer").fetchall()))
    assert [tuple(row) for row in answers] == [("a",), ("b",), ("c",)]


def test_scenario_7_a_run_that_crashes_again_and_again_is_ended_by_time(start: Start) -> None:
    poller = Poller(start, config=Config(max_lost_workers=1_000))
    poller.provider.stuck = {"a"}
    poller.job("a")
    for _ in range(24):
        poller.harness.crash("after poll")
        poller.harness.drain(wait_for_due=False)
        poller.harness.advance(POLL)
    assert poller.harness.crashes == 24
    poller.cycles(2)
    assert (poller.status("a"), poller.reason("a")) == (Status.FAILED, "exceeded 2 h")
    assert poller.provider.cancelled == ["remote/a"]
