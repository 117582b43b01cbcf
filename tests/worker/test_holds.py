"""Holds: money and tokens that a task keeps set aside beyond its stages, under a name, until they are settled."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from onceward import (
    App,
    Budget,
    BudgetStatus,
    ConfigError,
    Context,
    Failed,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    Source,
    Status,
    Waiting,
)
from onceward.testing import Harness, run_stage
from tests.worker.conftest import Start, statuses, words

usd = Budget("usd", 5)
tokens = Budget("tokens", 1_000, unit="tokens")


class Work(Payload, kind="work"):
    """A batch at a provider: what it may cost, what it costs in the end, and how often it is polled."""

    number: int
    most: str = "2"
    cost: str = "1.5"
    polls: int = 3
    ending: str = "settle"


def batches(
    budget: Budget = usd, more: tuple[Budget, ...] = (), *, retry: Retry | None = None, **options: Any
) -> Pipeline[Work]:
    """A pipeline that holds what a batch may cost, submits it, polls it and settles."""
    pipeline = Pipeline(Work, retry=retry or Retry(retries=0), **options)

    @pipeline.stage(holds=(budget, *more))
    def submit(ctx: Context[Work]) -> str:
        ctx.hold(budget, ctx.payload.most, name="batch")
        for one in more:
            ctx.hold(one, 100, name="batch")
        return "id"

    @pipeline.stage
    def poll(ctx: Context[Work]) -> str:
        polls = (ctx.cursor or 0) + 1
        if polls <= ctx.payload.polls:
            ctx.checkpoint(polls)
            raise Waiting(after="1m")
        match ctx.payload.ending:
            case "settle":
                ctx.settle(budget, ctx.payload.cost, name="batch")
                for one in more:
                    ctx.settle(one, 40, name="batch")
            case "release":
                ctx.release("batch")
            case "fail":
                raise Failed("the provider has lost it")
        return str(ctx.held(budget, name="batch"))

    return pipeline


def only(app: App, name: str | None = None) -> BudgetStatus:
    [status] = app.budgets.list(name)
    return status


def figures(harness: Harness, name: str = "usd") -> tuple[Decimal, Decimal, Decimal]:
    """What is spent, set aside and held of a budget."""
    status = only(harness.app, name)
    return status.spent, status.reserved, status.held


def amounts(*texts: str) -> tuple[Decimal, ...]:
    return tuple(Decimal(text) for text in texts)


def test_a_hold_stays_over_many_polls_and_is_settled_by_a_later_stage(start: Start) -> None:
    harness = start(batches(more=(tokens,)))
    task = harness.enqueue(Work(1))
    harness.drain(wait_for_due=False)
    assert figures(harness) == amounts("0", "2", "2")
    assert figures(harness, "tokens") == amounts("0", "100", "100")
    held = sorted(harness.app.budgets.holds(), key=lambda one: one.budget)
    assert [(one.task, one.kind, one.name, one.budget, one.amount, one.state) for one in held] == [
        (task.id, "work", "batch", "tokens", Decimal(100), "held"),
        (task.id, "work", "batch", "usd", Decimal(2), "held"),
    ]
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert harness.task(task).result("poll") == "None"
    assert harness.task(task).cost == Decimal("1.5")
    assert figures(harness) == amounts("1.5", "0", "0")
    assert figures(harness, "tokens") == amounts("40", "0", "0")
    assert harness.app.budgets.holds() == []


def test_what_is_released_is_free_again(start: Start) -> None:
    harness = start(batches(more=(tokens,)))
    harness.enqueue(Work(1, ending="release"))
    harness.drain()
    assert figures(harness) == figures(harness, "tokens") == amounts("0", "0", "0")


def test_a_hold_that_does_not_fit_waits_for_the_budget_and_is_woken_when_it_does(start: Start) -> None:
    harness = start(batches())
    tasks = [harness.enqueue(Work(number)) for number in range(3)]
    harness.drain(wait_for_due=False)
    waiting = harness.task(tasks[2])
    assert (waiting.status, waiting.waiting_for, waiting.failures) == (Status.WAITING, "budget:usd", 0)
    assert only(harness.app).waiting == 1
    assert harness.app.budgets.holds()[-1].state == "waiting"
    assert "to hold 2.00 USD as 'batch'; a limit of 6.00 USD would do" in waiting.reason  # type: ignore[operator]
    harness.drain()
    assert statuses(harness, tasks) == ["succeeded"] * 3
    assert figures(harness) == amounts("4.5", "0", "0")
    assert words(harness, tasks[2])[:3] == ["parked", "woken", "stage committed"]


def test_a_hold_that_waits_is_not_woken_before_there_is_enough_for_it(start: Start) -> None:
    harness = start(batches())
    first = harness.enqueue(Work(1, most="4", cost="3.5"))
    second = harness.enqueue(Work(2, most="2"))
    harness.drain()
    assert statuses(harness, [first, second]) == ["succeeded", "waiting"]
    assert words(harness, second) == ["parked"]
    harness.app.budgets.set_limit("usd", "5.49")
    harness.drain()
    assert words(harness, second) == ["parked"]
    harness.app.budgets.set_limit("usd", "5.50")
    harness.drain()
    assert harness.task(second).status is Status.SUCCEEDED


def test_a_stage_that_draws_from_the_budget_it_holds_of_is_not_woken_again_and_again(start: Start) -> None:
    pipeline = Pipeline(Work)
    runs: list[int] = []

    @pipeline.stage(budget=usd, estimate=2)
    def submit(ctx: Context[Work]) -> None:
        runs.append(ctx.payload.number)
        ctx.hold(usd, 4, name="batch")
        ctx.release("batch")

    harness = start(pipeline)
    task = harness.enqueue(Work(1))
    harness.drain()
    harness.app.budgets.set_limit("usd", "5.99")
    harness.drain()
    assert (harness.task(task).waiting_for, runs) == ("budget:usd", [1])
    harness.app.budgets.set_limit("usd", 6)
    harness.drain()
    assert (harness.task(task).status, runs) == (Status.SUCCEEDED, [1, 1])


def test_a_stage_with_an_estimate_of_its_own_leaves_the_hold_alone(start: Start) -> None:
    pipeline = Pipeline(Work)

    @pipeline.stage(budget=usd, estimate=1)
    def ask(ctx: Context[Work]) -> None:
        ctx.hold(usd, 2, name="batch")
        ctx.charge(usd, "0.5")

    @pipeline.stage(budget=usd, estimate=1)
    def poll(ctx: Context[Work]) -> None:
        ctx.charge(usd, "0.5")
        if ctx.task.deferrals < 2:
            raise Waiting(after="1m")
        ctx.settle(usd, 1, name="batch")

    harness = start(pipeline)
    harness.enqueue(Work(1))
    harness.drain(wait_for_due=False)
    assert figures(harness) == amounts("1", "2", "2")
    harness.drain()
    assert figures(harness) == amounts("3", "0", "0")


@pytest.mark.parametrize("point", ["after claim", "before submit", "after submit", "inside commit", "before poll"])
def test_a_hold_is_kept_through_deaths_and_set_aside_once(start: Start, point: str) -> None:
    harness = start(batches(retry=Retry(retries=5)))
    task = harness.enqueue(Work(1))
    harness.crash(point, times=2)
    harness.drain(wait_for_due=False)
    assert harness.crashes == 2
    assert figures(harness) == amounts("0", "2", "2")
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert figures(harness) == amounts("1.5", "0", "0")


def test_a_hold_of_a_failed_attempt_stays_for_the_next_one(start: Start) -> None:
    pipeline = Pipeline(Work, retry=Retry(retries=3, base="1s"))

    @pipeline.stage(holds=usd)
    def ask(ctx: Context[Work]) -> str:
        before = ctx.held(usd, name="batch")
        ctx.hold(usd, 2, name="batch")
        ctx.settle(usd, 1, name="batch")
        if ctx.task.attempt < 3:
            raise Retryable("not yet")
        return str(before)

    harness = start(pipeline)
    task = harness.enqueue(Work(1))
    harness.drain()
    assert harness.task(task).result("ask") == "2"
    assert figures(harness) == amounts("1", "0", "0")


@pytest.mark.parametrize("ending", ["nothing", "fail", "cancel"])
def test_a_hold_that_its_task_leaves_behind_is_spent(start: Start, ending: str) -> None:
    harness = start(batches())
    task = harness.enqueue(Work(1, ending=ending))
    harness.drain(wait_for_due=ending != "cancel")
    if ending == "cancel":
        harness.app.tasks.cancel(task.id)
        harness.drain()
    assert figures(harness) == amounts("2", "0", "0")
    assert harness.app.budgets.holds()[0].state == "lost"


def test_a_task_that_is_opened_again_settles_what_had_counted_as_spent(start: Start) -> None:
    harness = start(batches())
    task = harness.enqueue(Work(1))
    harness.drain(wait_for_due=False)
    harness.app.tasks.cancel(task.id)
    harness.drain()
    assert figures(harness) == amounts("2", "0", "0")
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert figures(harness) == amounts("1.5", "0", "0")


def test_a_stage_that_holds_again_after_its_task_had_ended_sets_the_same_aside_again(start: Start) -> None:
    harness = start(batches())
    task = harness.enqueue(Work(1))
    harness.drain(wait_for_due=False)
    harness.app.tasks.cancel(task.id)
    harness.drain()
    harness.app.tasks.retry(task.id, stage="submit")
    harness.drain(wait_for_due=False)
    assert figures(harness) == amounts("0", "2", "2")
    harness.drain()
    assert figures(harness) == amounts("1.5", "0", "0")


def test_a_fresh_run_holds_anew_and_what_the_run_before_held_is_spent(start: Start) -> None:
    harness = start(batches())
    task = harness.enqueue(Work(1))
    harness.drain(wait_for_due=False)
    harness.app.tasks.cancel(task.id)
    harness.app.tasks.retry(task.id, fresh=True)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert figures(harness) == amounts("3.5", "0", "0")
    assert harness.app.budgets.holds() == []


def test_a_pruned_task_leaves_no_hold(start: Start) -> None:
    harness = start(batches())
    harness.enqueue(Work(1, ending="nothing"))
    harness.drain()
    harness.clock.advance(40 * 86_400)
    harness.app.tasks.prune(older_than="1d")
    harness.drain()
    assert harness.app.budgets.holds() == []
    assert figures(harness) == amounts("2", "0", "0")


def test_what_is_done_at_expiry_may_settle_a_hold(start: Start) -> None:
    pipeline = batches(deadline="2m")

    @pipeline.at_expiry
    def give_up(ctx: Context[Work]) -> None:
        ctx.settle(usd, "0.25", name="batch")

    harness = start(pipeline)
    task = harness.enqueue(Work(1, polls=1_000))
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert figures(harness) == amounts("0.25", "0", "0")


def test_a_hold_is_settled_piece_by_piece(start: Start) -> None:
    pipeline = Pipeline(Work)

    @pipeline.stage(holds=usd)
    def harvest(ctx: Context[Work]) -> list[str]:
        ctx.hold(usd, 2, name="batch")
        ctx.settle(usd, "0.5", name="batch", keep_rest=True)
        ctx.checkpoint(1)
        ctx.settle(usd, "0.5", name="batch", keep_rest=True)
        return [str(ctx.held(usd, name="batch"))]

    @pipeline.stage
    def wait(ctx: Context[Work]) -> str:
        if not ctx.cursor:
            ctx.checkpoint(1)
            raise Waiting(after="1m")
        seen = str(ctx.held(usd, name="batch"))
        ctx.settle(usd, "0.25", name="batch")
        return seen

    harness = start(pipeline)
    task = harness.enqueue(Work(1))
    harness.drain(wait_for_due=False)
    assert figures(harness) == amounts("1", "1", "1")
    harness.drain()
    assert harness.task(task).result("wait") == "1"
    assert figures(harness) == amounts("1.25", "0", "0")


def test_settling_more_than_was_held_is_recorded_and_closes_the_budget(start: Start) -> None:
    harness = start(batches())
    harness.enqueue(Work(1, cost="2.5"))
    harness.drain()
    assert figures(harness) == amounts("2.5", "0", "0")
    assert only(harness.app).is_closed


def test_a_hold_of_money_draws_on_the_budget_of_its_lineage(start: Start) -> None:
    harness = start(batches())
    task = harness.enqueue(Work(1), limits=Limits(budget="1"))
    harness.drain()
    assert harness.task(task).waiting_for == f"budget:lineage/{harness.task(task).lineage}"
    harness.app.lineages.raise_limits(task.id, Limits(budget="2"))
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert figures(harness, "lineage") == figures(harness) == amounts("1.5", "0", "0")


def test_a_hold_belongs_to_the_window_in_which_it_was_made(start: Start) -> None:
    daily = Budget("usd", 3, per="day")
    harness = start(batches(daily))
    first, second = harness.enqueue(Work(1, polls=2_000)), harness.enqueue(Work(2, polls=0))
    harness.drain(wait_for_due=False)
    assert statuses(harness, [first, second]) == ["pending", "waiting"]
    harness.clock.advance(86_400)
    harness.drain(wait_for_due=False)
    assert harness.task(second).status is Status.SUCCEEDED
    assert figures(harness) == amounts("1.5", "0", "0")


def test_a_hold_that_can_never_be_or_whose_budget_says_so_fails_its_task(start: Start) -> None:
    harness = start(batches(Budget("usd", 3, when_spent="fail")))
    tasks = [harness.enqueue(Work(1, most="4")), harness.enqueue(Work(2)), harness.enqueue(Work(3))]
    harness.drain(wait_for_due=False)
    assert statuses(harness, tasks) == ["failed", "pending", "failed"]
    assert "4.00 USD to hold as 'batch' is above the limit" in harness.task(tasks[0]).reason  # type: ignore[operator]
    assert "has not enough left" in harness.task(tasks[2]).reason  # type: ignore[operator]


def test_a_larger_amount_under_the_same_name_raises_the_hold_and_a_smaller_one_does_not_lower_it(start: Start) -> None:
    pipeline = Pipeline(Work)

    @pipeline.stage(holds=usd)
    def ask(ctx: Context[Work]) -> list[str]:
        seen = []
        for amount in (2, 3, 1):
            ctx.hold(usd, amount, name="batch")
            seen.append(str(ctx.held(usd, name="batch")))
        return seen

    harness = start(pipeline)
    task = harness.enqueue(Work(1))
    harness.drain()
    assert harness.task(task).result("ask") == ["2", "3", "3"]
    assert figures(harness)[0] == Decimal(3)


def test_what_cannot_be_held_or_settled_is_an_error() -> None:
    def nothing(ctx: Context[Work]) -> None:
        """Do nothing."""

    calls, listed = Budget("calls", 5, unit="calls"), Budget("source", 5, scope="source")
    pipeline = Pipeline(Work)
    with pytest.raises(ConfigError, match="cannot hold calls of budget 'calls': only USD and tokens"):
        pipeline.stage(holds=calls)(nothing)
    with pytest.raises(ConfigError, match="is for each source, and the stage has none"):
        pipeline.stage(holds=listed)(nothing)
    with pytest.raises(ConfigError, match="it is a Budget, or several"):
        pipeline.stage(holds="usd")(nothing)  # type: ignore[call-overload]

    @pipeline.stage(holds=usd, source=Source("web"))
    def ask(ctx: Context[Work]) -> None:
        match ctx.payload.number:
            case 1:
                ctx.hold(tokens, 1, name="batch")
            case 2:
                ctx.hold(usd, 0, name="batch")
            case 3:
                ctx.settle(usd, 1, name="batch")

    for number, message in enumerate(("holds nothing of", "an amount above zero", "ctx.hold comes first"), start=1):
        with pytest.raises(ConfigError, match=message):
            run_stage(ask, Work(number))
