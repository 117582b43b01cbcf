"""Whatever the engine trips over while it begins, judges or commits ends the attempt it concerns, and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from onceward import Context, Payload, Pipeline, Retry, Status
from onceward.model.task import Commit
from onceward.store.attempts.commits import commit
from onceward.store.op import Op
from onceward.testing import Harness
from onceward.worker import writer
from onceward.worker.attempt import Attempt
from onceward.worker.claim_ahead import ClaimAhead
from onceward.worker.decide_move import MoveDecider
from onceward.worker.prepare_attempt import AttemptPreparer
from onceward.worker.stage_runs import StageRuns
from tests.worker.conftest import NOTES, Start, insert_note

BAD = 3
TASKS = 6


class Job(Payload, kind="job"):
    number: int


class Child(Payload, kind="child"):
    number: int


def steps() -> tuple[Pipeline[Job], Pipeline[Child]]:
    """Pipelines that do most of what can be committed."""
    job, child = Pipeline(Job, retry=Retry(retries=1, base="10ms")), Pipeline(Child)

    @job.stage
    async def first(ctx: Context[Job]) -> int:
        ctx.spawn(Child(ctx.payload.number))
        await ctx.acheckpoint(1)
        return ctx.payload.number

    @job.stage
    async def second(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, "second")

    @job.stage(join=True)
    async def last(ctx: Context[Job]) -> None:
        pass

    @child.stage
    async def rest(ctx: Context[Child]) -> None:
        pass

    return job, child


@pytest.fixture
def harness(start: Start) -> Harness:
    """An app with some tasks; the third is the bad one."""
    made = start(*steps(), migrations=[NOTES])
    made.app.enqueue_many([Job(number) for number in range(TASKS)])
    return made


def ended(harness: Harness) -> dict[int, Status]:
    return {one.id: one.status for one in harness.app.tasks.list(kind="job", limit=100)}


@pytest.mark.untroubled("it counts the steps of its transactions")
def test_every_step_of_a_commit_may_fail_and_only_its_own_task_feels_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is a request of the transaction that holds a commit of the bad task."""
    trips = 0
    for step in count():
        harness = start(*steps(), migrations=[NOTES])
        tasks = harness.app.enqueue_many([Job(100 * step + number) for number in range(TASKS)])
        bad, tripped = tasks[BAD].id, []

        def tripping(
            commits: Sequence[Commit], now: int, *, bad: int = bad, step: int = step, tripped: list[int] = tripped
        ) -> Op[Any]:
            inner, answer = commit(commits, now), None
            is_concerned = len(tripped) < 3 and any(one.lease.task == bad for one in commits)
            place = 0
            try:
                while True:
                    request = inner.send(answer)  # type: ignore[arg-type]
                    if is_concerned and place == step:
                        tripped.append(step)
                        raise RuntimeError("tripped")
                    place += 1
                    answer = yield request
            except StopIteration as end:
                return end.value

        monkeypatch.setattr(writer, "commit", tripping)
        harness.drain()
        monkeypatch.setattr(writer, "commit", commit)
        found = {task.id: harness.task(task).status for task in tasks}
        assert found.pop(bad) in (Status.SUCCEEDED, Status.FAILED), step
        assert set(found.values()) == {Status.SUCCEEDED}, step
        trips += len(tripped)
        if not tripped:
            break
    assert trips > 10


def of_bad(arguments: Sequence[Any], bad: int) -> bool:
    return any(isinstance(one, Attempt) and one.lease.task == bad for one in arguments)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (AttemptPreparer, ["prepare"]),
        (StageRuns, ["start"]),
        (MoveDecider, ["after_stage"]),
        (MoveDecider, ["after_error"]),
        (MoveDecider, ["after_stage", "after_error"]),
        (Attempt, ["go_on"]),
        (ClaimAhead, ["go_on"]),
    ],
)
def test_what_trips_around_a_stage_ends_its_own_task(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, where: type, names: list[str]
) -> None:
    bad = harness.app.tasks.list(kind="job", limit=100)[BAD].id

    def tripping(real: Callable[..., Any]) -> Callable[..., Any]:
        def trip(*arguments: Any) -> Any:
            if of_bad(arguments, bad):
                raise RuntimeError("tripped")
            return real(*arguments)

        return trip

    for name in names:
        monkeypatch.setattr(where, name, tripping(getattr(where, name)))
    harness.drain()
    found = ended(harness)
    always_trips = names[0] in ("prepare", "start", "after_stage")
    assert found.pop(bad) is (Status.FAILED if always_trips else Status.SUCCEEDED)
    assert set(found.values()) == {Status.SUCCEEDED}
