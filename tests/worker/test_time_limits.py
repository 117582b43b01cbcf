"""The time limits of a task, its batch and its lineage on a clock moved by hand, and what is done at expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from onceward import (
    App,
    Budget,
    Config,
    ConfigError,
    Context,
    Enqueued,
    Failed,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Source,
    Status,
    Task,
    Waiting,
)
from onceward.model.status import Event
from onceward.model.task import Commit, Defer, Expire, Finish, Park, Release, TryAgain
from onceward.model.time_limits import after_last_stage, in_time
from onceward.store.attempts.claims import claim
from onceward.store.attempts.commits import commit
from onceward.store.attempts.expiry import expire_lineages, expire_tasks
from onceward.store.attempts.workers import NewWorker, register, stop
from onceward.store.lines.memory import LineMemory
from onceward.testing import Harness
from tests.unit.values import lease
from tests.worker.conftest import NOTES, Start, insert_note, notes, statuses, words

HOUR = 3_600_000


class Job(Payload, kind="job"):
    name: str = "a"

    def key(self) -> str:
        return self.name


class Part(Payload, kind="part"):
    name: str = "a"

    def key(self) -> str:
        return self.name


def polled(**options: object) -> Pipeline[Job]:
    """Work at a provider that never has a result."""
    job: Pipeline[Job] = Pipeline(Job, **options)  # type: ignore[arg-type]

    @job.stage
    def submit(ctx: Context[Job]) -> str:
        return f"remote-{ctx.payload.name}"

    @job.stage
    def poll(ctx: Context[Job]) -> None:
        raise Waiting(after="5m")

    return job


# A task


def test_a_task_that_is_polled_for_too_long_has_failed(start: Start) -> None:
    harness = start(polled())
    task = harness.enqueue(Job())
    harness.drain()
    found = harness.task(task)
    assert (found.status, found.reason) == (Status.FAILED, "exceeded 2 h")
    assert found.ended_at - found.started_at == timedelta(hours=2)
    assert words(harness, task)[-2:] == ["deferred", "expired"]


def test_time_counts_from_the_last_finished_stage(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def first(ctx: Context[Job]) -> None:
        if ctx.task.deferrals < 3:
            raise Waiting(after="30m")

    @job.stage
    def second(ctx: Context[Job]) -> None:
        if ctx.task.deferrals < 6:
            raise Waiting(after="30m")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert harness.task(task).ended_at - harness.task(task).created_at == timedelta(hours=3)


def test_retries_end_by_time_where_the_policy_says_so(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job, retry=Retry(retries=None, base="5m", factor=1, jitter=False))

    @job.stage
    def ask(ctx: Context[Job]) -> None:
        raise ConnectionError("refused")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h"
    assert words(harness, task) == ["retry scheduled"] * 24 + ["expired"]


def test_a_retry_that_is_due_after_the_limit_is_not_waited_for(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job, retry=Retry(base="24h", jitter=False), deadline="90m")

    @job.stage
    def ask(ctx: Context[Job]) -> None:
        raise ConnectionError("refused")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("89m")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.RETRYABLE
    harness.advance("1m")
    harness.drain(wait_for_due=False)
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, "exceeded 1h30m")
    harness.drain()


def test_a_provider_with_a_window_of_its_own_gets_it(start: Start) -> None:
    harness = start(polled(deadline="25h"))
    task = harness.enqueue(Job())
    harness.drain()
    found = harness.task(task)
    assert found.reason == "exceeded 25 h"
    assert found.ended_at - found.started_at == timedelta(hours=25)


def test_the_setting_holds_where_the_pipeline_says_nothing_and_may_be_raised_live(start: Start) -> None:
    harness = start(polled(), config=Config(task_limit="1h"))
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.app.settings.set("task_limit", "3h")
    harness.advance("1h")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.PENDING
    harness.drain()
    assert harness.task(task).reason == "exceeded 3 h"


def test_a_task_that_had_no_attempt_never_fails_by_its_own_time(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def work(ctx: Context[Job]) -> None: ...

    harness = start(job)
    task = harness.enqueue(Job())
    harness.advance("100d")
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_lease_that_is_given_back_stops_the_clock(start: Start) -> None:
    """As a worker that ends gives back what it had claimed ahead, and nobody works for days."""
    harness = start(polled())
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("1h")
    claim_and_release(harness)
    harness.advance("30h")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.PENDING
    harness.advance("59m")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.PENDING
    harness.advance("1m")
    harness.drain(wait_for_due=False)
    assert harness.task(task).reason == "exceeded 2 h"


def claim_and_release(harness: Harness) -> None:
    """Be a worker that claims what there is and gives it back."""
    app, now = harness.app, harness.clock.now()
    session = app._store.session()
    new = NewWorker("by hand", "here", 1, None, "", "", 60_000)
    worker = session.transact(lambda: register(new, now))
    memory = LineMemory(app._registry.lanes(None), None, app.dialect == "postgres")
    claimed = session.transact(lambda: claim(memory, worker, 10, now))
    assert claimed.leases
    session.transact(lambda: commit([Commit(one, Release()) for one in claimed.leases], now))
    session.transact(lambda: stop(worker, "stopped", now))
    session.close()


def test_time_spent_waiting_for_a_signal_does_not_count(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def approve(ctx: Context[Job]) -> None:
        if ctx.task.deferrals == 0:
            raise Waiting(after="1h")
        if ctx.signal("approved") is None:
            raise Waiting(until="approved")
        raise Waiting(after="10m")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status is Status.WAITING
    harness.advance("30h")
    harness.drain()
    assert harness.task(task).status is Status.WAITING
    harness.app.tasks.signal(task.id, "approved")
    harness.advance("30h")
    woken_at = harness.clock.now()
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h"
    ended_ms = harness.task(task).ended_at.timestamp() * 1_000
    assert ended_ms - woken_at == pytest.approx(HOUR, abs=2), "one of its two hours had gone by before it waited"


def test_time_spent_waiting_for_children_does_not_count(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def divide(ctx: Context[Job]) -> None:
        ctx.spawn(Part())

    @job.stage(join=True)
    def gather(ctx: Context[Job]) -> str:
        return ctx.children[0].status

    part: Pipeline[Part] = Pipeline(Part)

    @part.stage
    def wait(ctx: Context[Part]) -> None:
        if ctx.signal("go") is None:
            raise Waiting(until="go")

    harness = start(job, part)
    task = harness.enqueue(Job())
    harness.drain()
    harness.advance("40h")
    harness.drain()
    [child] = harness.app.tasks.list(kind="part")
    harness.app.tasks.signal(child.id, "go")
    harness.drain()
    assert harness.task(task).result(gather) == "succeeded"


def test_a_paused_task_does_not_fail_by_its_own_time(start: Start) -> None:
    harness = start(polled())
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.app.lineages.pause(task.id)
    harness.advance("3h")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.PENDING
    harness.app.lineages.resume(task.id)
    harness.advance("3h")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.PENDING, "its time goes on with the next claim"
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h"


@pytest.mark.parametrize("scope", [{}, {"pipeline": "job"}, {"queue": "default"}, {"source": "model"}])
def test_what_an_operator_has_paused_keeps_its_time(start: Start, scope: dict[str, str]) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage(source=Source("model"))
    def poll(ctx: Context[Job]) -> None:
        raise Waiting(after="5m")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.app.workers.pause(**scope)
    harness.advance("3h")
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is Status.PENDING
    harness.app.workers.resume(**scope)
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h"


def test_an_operators_retry_begins_with_a_new_clock(start: Start) -> None:
    harness = start(polled())
    task = harness.enqueue(Job())
    harness.drain()
    harness.advance("10h")
    harness.app.tasks.retry(task.id)
    harness.advance("10h")
    began_at = harness.clock.now()
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h"
    assert harness.task(task).ended_at.timestamp() * 1_000 - began_at == pytest.approx(2 * HOUR, abs=2)


def test_a_reclaimed_task_whose_time_is_over_has_failed(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def work(ctx: Context[Job]) -> None:
        harness.advance("2h")

    harness = start(job, config=Config(max_lost_workers=100))
    task = harness.enqueue(Job())
    harness.crash("after work", times=5)
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h"
    assert words(harness, task) == ["crashed", "expired"]


def test_a_stage_that_has_run_for_too_long_is_not_tried_again(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage(timeout=None)
    def work(ctx: Context[Job]) -> None:
        harness.advance("2h")
        raise ConnectionError("reset")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    assert (harness.task(task).reason, words(harness, task)) == ("exceeded 2 h", ["expired"])


@pytest.mark.parametrize("keeps_on", [False, True])
def test_a_worker_ends_a_stage_whose_task_is_out_of_time(store_url: str, keeps_on: bool) -> None:
    """On a clock that nobody moves; a stage that shows that it gets on has more time for itself, its task has not."""
    job: Pipeline[Job] = Pipeline(Job, deadline="700ms")

    @job.stage(timeout="500ms" if keeps_on else None)
    async def work(ctx: Context[Job]) -> None:
        for number in range(1_000):
            await asyncio.sleep(0.05)
            if keeps_on:
                await ctx.acheckpoint(number)

    with App(store_url, [job]) as app:
        task = app.enqueue(Job())
        app.run(until_idle=True)
        found = app.tasks.get(task.id)
        assert (found.status, found.reason) == (Status.FAILED, "exceeded 0.7s")
        assert found.ended_at - found.started_at < timedelta(seconds=20)
        assert app.verify().ok


def test_one_failing_task_never_stops_its_neighbours(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job, retry=Retry(retries=None, base="1m", factor=1, jitter=False))

    @job.stage
    def ask(ctx: Context[Job]) -> str:
        if ctx.payload.name == "bad":
            raise ConnectionError("refused")
        return "fine"

    harness = start(job)
    tasks = [harness.enqueue(Job(name)) for name in ("a", "bad", "b", "c")]
    harness.drain()
    assert statuses(harness, tasks) == ["succeeded", "failed", "succeeded", "succeeded"]
    good = max(harness.task(task).ended_at for task in tasks if harness.task(task).status is Status.SUCCEEDED)
    assert good == harness.task(tasks[0]).created_at


def test_what_ends_at_once_leaves_nothing_to_look_at(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def work(ctx: Context[Job]) -> None: ...

    harness = start(job)
    harness.enqueue(Job())
    harness.drain()
    assert rows(harness.app, "onceward_time_limit") == 0


def test_repeated_polls_leave_one_row_and_none_when_the_task_has_ended(start: Start) -> None:
    harness = start(polled())
    harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    for _ in range(3):
        harness.advance("5m")
        harness.drain(wait_for_due=False)
    assert rows(harness.app, "onceward_time_limit") == 1
    harness.drain()
    assert rows(harness.app, "onceward_time_limit") == 0


def rows(app: App, table: str) -> int:
    count: int = app.read(lambda connection: connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])
    return count


def test_many_run_out_of_time_at_once(start: Start) -> None:
    harness = start(polled())
    tasks = [harness.enqueue(Job(f"{number}")) for number in range(300)]
    harness.drain(wait_for_due=False)
    harness.advance("2h")
    harness.drain(wait_for_due=False)
    assert set(statuses(harness, tasks)) == {"failed"}


# A batch


def test_a_batch_without_a_deadline_has_that_of_the_settings(start: Start) -> None:
    harness = start(polled(deadline="300h"), config=Config(deadline="24h"))
    with harness.app.batch("night") as batch:
        batch.add(Job("a"))
        batch.add(Job("b"))
    harness.drain()
    found = harness.app.batches.get("night")
    assert (found.status, found.reason, found.failed) == ("failed", "batch exceeded 24 h", 2)
    assert found.ended_at - found.created_at == timedelta(hours=24, minutes=0)
    assert [harness.task(task).reason for task in batch.tasks] == ["batch exceeded 24 h"] * 2


def test_a_batch_and_its_tasks_end_in_one_transaction(start: Start) -> None:
    harness = start(polled(deadline="300h"))
    with harness.app.batch("night", deadline="1h") as batch:
        for number in range(20):
            batch.add(Job(f"{number}"))
    harness.drain(wait_for_due=False)
    harness.advance("1h")
    harness.drain(wait_for_due=False)
    ended = {harness.task(task).ended_at for task in batch.tasks} | {harness.app.batches.get("night").ended_at}
    assert len(ended) == 1


# A lineage


def spawning() -> tuple[Pipeline[Job], Pipeline[Part]]:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def divide(ctx: Context[Job]) -> None:
        ctx.spawn(Part("quick"))
        ctx.spawn(Part("slow"))

    @job.stage(join=True)
    def gather(ctx: Context[Job]) -> None: ...

    part: Pipeline[Part] = Pipeline(Part, deadline="900h")

    @part.stage
    def work(ctx: Context[Part]) -> None:
        if ctx.payload.name == "slow":
            raise Waiting(after="1h")

    return job, part


def part_of(harness: Harness, task: Enqueued, name: str) -> Task:
    """A child of a task."""
    [found] = harness.app.tasks.find(Part(name), lineage=harness.task(task).lineage).tasks
    return found


def test_a_lineage_fails_at_its_deadline_with_what_is_open_of_it(start: Start) -> None:
    harness = start(*spawning())
    task = harness.enqueue(Job())
    other = harness.enqueue(Job("b"), limits=Limits(deadline="96h"))
    harness.drain(wait_for_due=False)
    harness.advance("48h")
    harness.drain(wait_for_due=False)
    quick, slow = (part_of(harness, task, name) for name in ("quick", "slow"))
    assert harness.task(task).reason == "lineage exceeded 48 h"
    assert (quick.status, slow.status, slow.reason) == (Status.SUCCEEDED, Status.FAILED, "lineage exceeded 48 h")
    assert harness.task(other).status is Status.WAITING
    harness.advance("48h")
    harness.drain(wait_for_due=False)
    assert harness.task(other).reason == "lineage exceeded 96 h"
    session = harness.app._store.session()
    assert expire_lineages(session, harness.clock.now()) == 0
    session.close()


def test_a_lineage_that_ended_in_time_is_looked_at_once_and_never_again(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def divide(ctx: Context[Job]) -> None:
        ctx.spawn(Part())

    part: Pipeline[Part] = Pipeline(Part)

    @part.stage
    def work(ctx: Context[Part]) -> None: ...

    harness = start(job, part)
    harness.enqueue(Job())
    harness.drain()
    harness.advance("48h")
    harness.drain()
    overdue = harness.app.read(lambda one: one.execute("SELECT overdue FROM onceward_lineage").fetchall())
    assert [bool(row[0]) for row in overdue] == [True]


def test_a_lineage_that_gets_more_room_only_is_not_ended_again(start: Start) -> None:
    harness = start(*spawning())
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("48h")
    harness.drain(wait_for_due=False)
    slow = part_of(harness, task, "slow")
    harness.app.lineages.raise_limits(harness.task(task).lineage, Limits(max_tasks=20_000))
    harness.app.tasks.retry(slow.id)
    harness.advance("10h")
    harness.drain(wait_for_due=False)
    assert harness.task(slow.id).status is Status.PENDING


def test_a_lineage_that_gets_more_time_is_looked_at_again(start: Start) -> None:
    harness = start(*spawning())
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("48h")
    harness.drain(wait_for_due=False)
    slow = part_of(harness, task, "slow")
    harness.app.lineages.raise_limits(harness.task(task).lineage, Limits(deadline="60h"))
    harness.app.tasks.retry(slow.id)
    harness.drain(wait_for_due=False)
    assert harness.task(slow.id).status is Status.PENDING
    harness.advance("12h")
    harness.drain(wait_for_due=False)
    assert harness.task(slow.id).reason == "lineage exceeded 60 h"


def test_a_root_that_has_never_spawned_has_its_own_time_only(start: Start) -> None:
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def work(ctx: Context[Job]) -> None:
        if ctx.signal("go") is None:
            raise Waiting(until="go")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    harness.advance("300h")
    harness.app.tasks.signal(task.id, "go")
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


# A branch


def branching() -> tuple[Pipeline[Job], Pipeline[Part]]:
    """A root with a child that has an hour and a child of its own, and another that has the time of the lineage."""
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage
    def divide(ctx: Context[Job]) -> None:
        ctx.spawn(Part("short"), limits=Limits(deadline="1h"))
        ctx.spawn(Part("long"))

    @job.stage(join=True)
    def gather(ctx: Context[Job]) -> list[str]:
        return [child.status for child in ctx.children]

    part: Pipeline[Part] = Pipeline(Part, deadline="900h")

    @part.stage
    def begin(ctx: Context[Part]) -> None:
        if ctx.payload.name == "short":
            ctx.spawn(Part("below"))

    @part.stage
    def work(ctx: Context[Part]) -> None:
        raise Waiting(after="10m")

    return job, part


def parts_of(harness: Harness, task: Enqueued) -> dict[str, tuple[str, str | None]]:
    """How the descendants of a root stand."""
    parts = {name: part_of(harness, task, name) for name in ("short", "below", "long")}
    return {name: (part.status.word, part.reason if part.ended_at else None) for name, part in parts.items()}


def test_a_branch_fails_at_its_own_deadline_and_nothing_beside_it(start: Start) -> None:
    harness = start(*branching())
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("59m")
    harness.drain(wait_for_due=False)
    assert {status for status, _ in parts_of(harness, task).values()} == {"pending"}
    harness.advance("1m")
    harness.drain(wait_for_due=False)
    over = ("failed", "branch exceeded 1 h")
    assert parts_of(harness, task) == {"short": over, "below": over, "long": ("pending", None)}
    assert harness.task(task).status is Status.WAITING
    harness.advance("47h")
    harness.drain(wait_for_due=False)
    assert parts_of(harness, task)["long"] == ("failed", "lineage exceeded 48 h")
    session = harness.app._store.session()
    assert expire_lineages(session, harness.clock.now()) == 0
    session.close()


def test_a_branch_that_gets_more_time_is_looked_at_again(start: Start) -> None:
    harness = start(*branching())
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    short, below = (part_of(harness, task, name).id for name in ("short", "below"))
    with pytest.raises(ConfigError, match=f"the branch of task {short} has deadline 1h: raise that first"):
        harness.app.lineages.raise_limits(below, Limits(deadline="2h"))
    harness.app.lineages.raise_limits(short, Limits(deadline="2h"))
    harness.advance("1h")
    harness.drain(wait_for_due=False)
    assert parts_of(harness, task)["below"] == ("pending", None)
    harness.advance("1h")
    harness.drain(wait_for_due=False)
    assert parts_of(harness, task)["below"] == ("failed", "branch exceeded 2 h")
    harness.app.lineages.raise_limits(short, Limits(deadline="3h"))
    harness.app.tasks.retry(below)
    harness.drain(wait_for_due=False)
    assert parts_of(harness, task)["below"] == ("pending", None)
    harness.advance("1h")
    harness.drain(wait_for_due=False)
    assert parts_of(harness, task)["below"] == ("failed", "branch exceeded 3 h")


def test_a_branch_that_has_a_deadline_alone_gets_the_room_of_its_lineage(start: Start) -> None:
    harness = start(*branching())
    task = harness.enqueue(Job(), limits=Limits(max_tasks=3))
    harness.drain(wait_for_due=False)
    assert not harness.app.tasks.find(Part("below"), lineage=harness.task(task).lineage).tasks
    harness.app.lineages.raise_limits(harness.task(task).lineage, Limits(max_tasks=4))
    short = part_of(harness, task, "short").id
    harness.app.tasks.cancel(short)
    harness.app.tasks.retry(short, fresh=True)
    harness.drain(wait_for_due=False)
    assert part_of(harness, task, "below").status is Status.PENDING


# What is done at expiry


class Provider:
    """A provider of remote batches, with a ledger of its own."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.trouble: Iterator[type[BaseException]] = iter(())

    def cancel(self, remote: str) -> list[str]:
        """Cancel remote work; what it has done already was paid for."""
        self.cancelled.append(remote)
        for trouble in self.trouble:
            raise trouble
        return [f"{remote}: answer"]


def remote(provider: Provider, **options: object) -> Pipeline[Job]:
    job: Pipeline[Job] = Pipeline(Job, **options)  # type: ignore[arg-type]

    @job.stage
    def submit(ctx: Context[Job]) -> str:
        return f"remote-{ctx.payload.name}"

    @job.stage
    def poll(ctx: Context[Job]) -> None:
        raise Waiting(after="5m")

    @job.at_expiry
    def cancel(ctx: Context[Job]) -> None:
        for answer in ctx.once("cancelled", lambda: provider.cancel(ctx.result(submit)), type=list[str]):
            ctx.write(insert_note, ctx.task.id, answer)

    return job


def test_remote_work_is_cancelled_and_what_was_paid_is_kept(start: Start) -> None:
    provider = Provider()
    harness = start(remote(provider), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    found = harness.task(task)
    assert (found.status, found.reason, found.stage) == (Status.FAILED, "exceeded 2 h", "poll")
    assert provider.cancelled == ["remote-a"]
    assert notes(harness.app) == [(task.id, "remote-a: answer")]
    assert words(harness, task)[-2:] == ["expired", "finished"]


def test_it_passes_the_gates_of_its_pipeline_and_of_its_source(start: Start) -> None:
    cancelled: list[int] = []
    job: Pipeline[Job] = Pipeline(Job, concurrency=1)

    @job.stage
    def poll(ctx: Context[Job]) -> None:
        raise Waiting(after="30m")

    @job.at_expiry(source=Source("provider", rate="1/min", burst=1))
    def cancel(ctx: Context[Job]) -> None:
        cancelled.append(harness.clock.now())

    harness = start(job)
    tasks = [harness.enqueue(Job(name)) for name in "abc"]
    harness.drain()
    assert statuses(harness, tasks) == ["failed"] * 3
    assert [second - first for first, second in pairwise(cancelled)] == [60_000, 60_000]


def test_also_when_the_batch_or_the_lineage_is_over(start: Start) -> None:
    provider = Provider()
    harness = start(remote(provider, deadline="900h"), migrations=[NOTES])
    with harness.app.batch("night", deadline="1h") as batch:
        batch.add(Job("begun"))
        batch.add(Job("not begun"), after="2h")
    other = harness.enqueue(Job("lineage"), limits=Limits(deadline="3h"))
    harness.drain(wait_for_due=False)
    harness.advance("1h")
    harness.drain(wait_for_due=False)
    assert provider.cancelled == ["remote-begun"]
    found = harness.app.batches.get("night")
    assert (found.status, found.reason, found.failed) == ("failed", "batch exceeded 1 h", 2)
    harness.advance("2h")
    harness.drain(wait_for_due=False)
    assert provider.cancelled == ["remote-begun", "remote-lineage"]
    assert harness.task(other).reason == "lineage exceeded 3 h"


@pytest.mark.parametrize("point", ["before !cancel", "after !cancel", "inside commit", "after claim"])
def test_it_survives_the_death_of_its_worker(start: Start, point: str) -> None:
    provider = Provider()
    harness = start(remote(provider), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("2h")
    harness.crash(point, times=2)
    harness.drain()
    assert harness.crashes == 2
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, "exceeded 2 h")
    assert notes(harness.app) == [(task.id, "remote-a: answer")]
    assert words(harness, task).count("finished") == 1


def test_what_it_charges_is_kept(start: Start) -> None:
    usd = Budget("usd", limit=5)
    job: Pipeline[Job] = Pipeline(Job)

    @job.stage(budget=usd, estimate=1)
    def submit(ctx: Context[Job]) -> None:
        raise Waiting(after="5m")

    @job.at_expiry(budget=usd, estimate=1)
    def cancel(ctx: Context[Job]) -> None:
        ctx.charge(usd, "0.25")
        if ctx.task.attempt == 1:
            raise ConnectionError("it was paid for all the same")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    assert (harness.task(task).reason, harness.task(task).cost) == ("exceeded 2 h", Decimal("0.5"))
    [budget] = harness.app.budgets.list()
    assert budget.spent >= Decimal("0.5")


def test_it_is_tried_again_after_an_error_and_given_up_in_the_end(start: Start) -> None:
    provider = Provider()
    provider.trouble = iter([ConnectionError, ConnectionError])
    harness = start(remote(provider), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert (len(provider.cancelled), harness.task(task).reason) == (3, "exceeded 2 h")
    assert len(notes(harness.app)) == 1
    provider.trouble = iter([ConnectionError] * 100)
    task = harness.enqueue(Job("b"))
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h; at its expiry: failed after 3 retries: ConnectionError"
    assert len(provider.cancelled) == 7


def test_it_has_its_time_too(start: Start) -> None:
    job = polled()

    @job.at_expiry(timeout="1m")
    async def cancel(ctx: Context[Job]) -> None:
        raise Waiting(after="10m")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    found = harness.task(task)
    assert (found.status, found.reason) == (Status.FAILED, "exceeded 2 h")
    assert found.ended_at - found.started_at == timedelta(hours=4) - timedelta(milliseconds=1)


def test_it_may_say_why_but_never_make_a_success_of_it(start: Start) -> None:
    job = polled()

    @job.at_expiry
    def cancel(ctx: Context[Job]) -> None:
        raise Failed("the provider had lost it")

    harness = start(job)
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).reason == "exceeded 2 h; at its expiry: the provider had lost it"


def test_a_task_that_is_retried_after_its_expiry_goes_on_where_it_stood(start: Start) -> None:
    provider = Provider()
    harness = start(remote(provider), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    harness.app.tasks.retry(task.id)
    harness.drain(wait_for_due=False)
    assert (harness.task(task).status, harness.task(task).stage) == (Status.PENDING, "poll")
    harness.drain()
    assert (harness.task(task).reason, provider.cancelled) == ("exceeded 2 h", ["remote-a"] * 2)


def test_code_that_no_longer_has_it_ends_the_task_at_once(start: Start) -> None:
    provider = Provider()
    harness = start(remote(provider), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    harness.advance("2h")
    session = harness.app._store.session()
    assert expire_tasks(session, {"job": 2 * HOUR}, harness.clock.now()) == 1
    session.close()
    assert harness.task(task).status is Status.PENDING
    later = start(polled(), after=harness)
    later.drain()
    assert (later.task(task).status, later.task(task).reason) == (Status.FAILED, "exceeded 2 h")


def test_only_one_thing_is_done_at_expiry() -> None:
    job = polled()

    @job.at_expiry
    def cancel(ctx: Context[Job]) -> None: ...

    with pytest.raises(ConfigError, match="has something to do at expiry already"):
        job.at_expiry(lambda ctx: None)


# The rules alone


def test_only_what_would_run_again_is_ended_by_time() -> None:
    begun = lease(clock_at=1_000)
    again, later = TryAgain("s", 50, "x"), Defer("s", 50, "x")
    wait, end = Park("s", "signal:go", 50, "x"), Finish("s", None, Status.SUCCEEDED, None)
    assert in_time(again, begun, HOUR, 1_000 + HOUR) == Expire("s", "exceeded 1 h")
    assert in_time(later, begun, HOUR, 1_000 + HOUR) == Expire("s", "exceeded 1 h")
    assert in_time(again, begun, HOUR, 999 + HOUR) == TryAgain("s", 50, "x", over_at=1_000 + HOUR)
    assert [in_time(move, begun, HOUR, 9 * HOUR) for move in (wait, end)] == [wait, end]


def test_what_comes_after_the_last_stage_is_the_end_unless_it_is_tried_again() -> None:
    over = lease(expiry="exceeded 1 h")
    assert after_last_stage(None, over, "poll") == Finish("poll", None, Status.FAILED, "exceeded 1 h")
    again = after_last_stage(TryAgain("!x", 5, "no", b"f", 1, 2, 9), over, "poll")
    assert again == TryAgain("poll", 5, "no", over_at=9)
    parked = after_last_stage(Park("!x", "signal:go", 5, "it waits"), over, "poll")
    assert parked == Finish("poll", None, Status.FAILED, "exceeded 1 h; at its expiry: it waits")


def test_deadlines_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="it lies between 1 ms and ten years"):
        Pipeline(Job, deadline="0s")
    with pytest.raises(ConfigError, match="None until the time limit"):
        Retry(retries=-1)
    assert Event.EXPIRED == 19
