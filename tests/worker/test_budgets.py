"""Budgets: what is set aside before a stage runs, what is spent when it ends, who waits and who is woken."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from onceward import (
    App,
    Budget,
    BudgetNotFound,
    BudgetStatus,
    Cause,
    Config,
    ConfigError,
    Connection,
    Context,
    Failed,
    Filtered,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    Rule,
    Skipped,
    Source,
    Status,
    Waiting,
)
from onceward.store.governance.budget_waits import WOKEN_AT_ONCE, sweep_budgets
from onceward.store.governance.budgets import change_accounts, lock_accounts, set_aside
from onceward.testing import Harness, run_stage
from tests.worker.conftest import Start, assert_verified, statuses, words

DAY_S = 86_400


class Ask(Payload, kind="ask"):
    number: int
    cost: str = "0.01"


class Tell(Payload, kind="tell"):
    number: int


def asking(budget: Any, *, estimate: Any = 0.02, charges: bool = True, **options: Any) -> Pipeline[Ask]:
    """A pipeline whose one stage charges what its payload says."""
    pipeline = Pipeline(Ask, **options)
    budgets = budget if isinstance(budget, tuple) else (budget,)

    @pipeline.stage(budget=budget, estimate=estimate)
    def ask(ctx: Context[Ask]) -> int:
        for one in budgets if charges else ():
            ctx.charge(one, ctx.payload.cost)
        return ctx.payload.number

    return pipeline


def only(app: App, name: str | None = None) -> BudgetStatus:
    [status] = app.budgets.list(name)
    return status


def counts(harness: Harness) -> dict[str, int]:
    return {status.word: count for status, count in harness.app.stats.counts().items() if count}


def usd(text: str) -> Decimal:
    return Decimal(text)


@pytest.mark.parametrize("behind_ms", [5, 3_600_000])
def test_a_clock_that_is_behind_lets_no_task_pass_a_budget(start: Start, behind_ms: int) -> None:
    """Whoever stands in line was due by somebody's clock, and is claimed by one that is behind it: for its money."""
    money = Budget("money", "0.05")
    harness = start(asking(money))
    for number in range(3):
        harness.enqueue(Ask(number, cost="0.02"))
    harness.clock.step(-behind_ms)
    harness.app._store.clock.measured(None)
    harness.enqueue(Ask(3, cost="0.02"))  # brings the claim to their line
    harness.drain(wait_for_due=False)
    assert only(harness.app).spent == usd("0.04")
    assert counts(harness) == {"succeeded": 2, "waiting": 2}


def test_no_more_runs_than_a_budget_allows_and_the_rest_waits(start: Start) -> None:
    harness = start(asking(Budget("usd", 0.10)))
    harness.app.enqueue_many([Ask(number) for number in range(20)])
    harness.drain()
    assert counts(harness) == {"succeeded": 9, "waiting": 11}
    assert sorted(task.payload.number for task in harness.app.tasks.list(status="succeeded")) == list(range(9))  # type: ignore[union-attr]
    waiting = harness.app.tasks.list(status="waiting")[0]
    assert waiting.waiting_for == "budget:usd"
    assert (waiting.failures, waiting.deferrals, waiting.started_at) == (0, 0, None)
    status = only(harness.app)
    assert (status.limit, status.spent, status.reserved, status.left) == (usd("0.1"), usd("0.09"), 0, usd("0.01"))
    assert (status.name, status.scope, status.unit, status.per, status.waiting) == ("usd", "", "usd", "total", 11)


def test_raising_a_budget_wakes_those_who_fit_at_once(start: Start) -> None:
    harness = start(asking(Budget("usd", 0.10)))
    harness.app.enqueue_many([Ask(number) for number in range(20)])
    harness.drain()
    [status] = harness.app.budgets.set_limit("usd", "0.13", author="ada")
    assert status.limit == usd("0.13")
    assert counts(harness) == {"succeeded": 9, "waiting": 9, "pending": 2}
    harness.drain()
    assert counts(harness) == {"succeeded": 12, "waiting": 8}
    harness.app.budgets.set_limit("usd", 5)
    harness.drain()
    assert counts(harness) == {"succeeded": 20}
    assert only(harness.app).spent == usd("0.2")
    task = harness.app.tasks.list()[0]
    assert task.cost == usd("0.01")
    assert words(harness, task.id)[:2] == ["parked", "woken"]


def test_a_task_that_fits_is_woken_however_many_wait_before_it_that_do_not(start: Start) -> None:
    harness = start(asking(Budget("usd", 1), estimate=lambda ask: ask.cost))
    harness.app.enqueue_many([Ask(0, "1"), *(Ask(number, "0.5") for number in range(1, WOKEN_AT_ONCE + 2))])
    small = harness.enqueue(Ask(-1, "0.01"))
    harness.drain()
    harness.app.budgets.set_limit("usd", "1.02")
    assert counts(harness) == {"succeeded": 1, "waiting": WOKEN_AT_ONCE + 1, "pending": 1}
    harness.drain()
    assert harness.task(small).status is Status.SUCCEEDED
    harness.app.budgets.set_limit("usd", "1.51")
    harness.drain()
    assert harness.app.tasks.list(status="succeeded")[-2].payload == Ask(1, "0.5")


def test_a_task_with_few_calls_is_woken_however_many_wait_before_it_with_more(start: Start) -> None:
    web, calls = Source("web"), Budget("calls", 2, unit="calls")
    twice, once = Pipeline(Ask), Pipeline(Tell)

    @twice.stage(source=web, calls=2, budget=calls)
    def ask(ctx: Context[Ask]) -> None:
        ctx.call(web, lambda: None)
        ctx.call(web, lambda: None)

    @once.stage(source=web, budget=calls)
    def tell(ctx: Context[Tell]) -> None:
        ctx.call(web, lambda: None)

    harness = start(twice, once)
    harness.app.enqueue_many([Ask(number) for number in range(WOKEN_AT_ONCE + 2)])
    small = harness.enqueue(Tell(1))
    harness.drain()
    assert counts(harness) == {"succeeded": 1, "waiting": WOKEN_AT_ONCE + 2}
    harness.app.budgets.set_limit("calls", 3)
    harness.drain()
    assert harness.task(small).status is Status.SUCCEEDED


def test_a_limit_that_an_operator_has_set_stays_and_may_be_lower(start: Start) -> None:
    harness = start(asking(Budget("usd", 1)))
    harness.app.budgets.set_limit("usd", 0)
    harness.app.enqueue(Ask(1))
    harness.drain()
    assert counts(harness) == {"waiting": 1}
    again = start(asking(Budget("usd", 2)), after=harness)
    again.drain()
    assert counts(again) == {"waiting": 1}, "what the code says does not undo what the operator has said"
    again.app.budgets.set_limit("usd", 3)
    again.drain()
    assert counts(again) == {"succeeded": 1}


def test_the_last_word_about_a_limit_counts_with_and_without_the_code(start: Start, store_url: str) -> None:
    harness = start(asking(Budget("usd", 0.10, per="day")))
    harness.enqueue(Ask(1))
    harness.drain()
    bare = App(store_url).on(store_url, clock=harness.clock)
    try:
        for app, limit in ((harness.app, 5), (bare, 3), (harness.app, 4), (bare, 2)):
            assert [one.limit for one in app.budgets.set_limit("usd", limit)] == [limit]
    finally:
        bare.close()
    harness.clock.advance(DAY_S)
    harness.enqueue(Ask(2))
    harness.drain()
    assert only(harness.app).limit == 2


def test_a_higher_limit_in_the_code_wakes_those_who_wait(start: Start) -> None:
    harness = start(asking(Budget("usd", 0.02)))
    harness.app.enqueue_many([Ask(1), Ask(2)])
    harness.drain()
    assert counts(harness) == {"succeeded": 1, "waiting": 1}
    again = start(asking(Budget("usd", 0.04)), after=harness)
    again.drain()
    assert counts(again) == {"succeeded": 2}


@pytest.mark.parametrize("instead", [None, Budget("llm-usd", "0.05")])
def test_those_who_wait_for_a_budget_that_the_code_no_longer_has_go_on(start: Start, instead: Budget | None) -> None:
    old = start(asking(Budget("usd", 0.04)))
    tasks = [old.enqueue(Ask(number, cost="0.02")) for number in range(6)]
    old.drain()
    assert statuses(old, tasks) == ["succeeded"] * 2 + ["waiting"] * 4
    pipeline = Pipeline(Ask)

    @pipeline.stage(budget=instead, estimate=None if instead is None else 0.02)
    def ask(ctx: Context[Ask]) -> int:
        if instead is not None:
            ctx.charge(instead, ctx.payload.cost)
        return ctx.payload.number

    harness = start(pipeline, after=old)
    harness.drain()
    held = 0 if instead is None else 2
    assert statuses(harness, tasks) == ["succeeded"] * (6 - held) + ["waiting"] * held
    assert {harness.task(task).waiting_for for task in tasks} == ({None, "budget:llm-usd"} if held else {None})
    assert words(harness, tasks[2]).count("woken") == 1


def test_a_window_that_is_over_wakes_those_who_wait(start: Start) -> None:
    harness = start(asking(Budget("usd", 0.02, per="day")))
    harness.app.enqueue_many([Ask(1), Ask(2)])
    harness.drain()
    assert counts(harness) == {"succeeded": 1, "waiting": 1}
    status = only(harness.app)
    assert (status.per, status.resets_at is not None) == ("day", True)
    harness.clock.advance(DAY_S)
    harness.drain()
    assert counts(harness) == {"succeeded": 2}
    assert only(harness.app).spent == usd("0.01")


@pytest.mark.parametrize(("before", "after"), [*permutations(("hour", "day", "total"), 2)])
def test_a_budget_whose_window_the_code_has_changed_begins_anew_when_the_code_says(
    start: Start, before: Any, after: Any
) -> None:
    old = start(asking(Budget("usd", "0.02", per=before), estimate="0.01"))
    old.clock.advance(DAY_S - old.clock.now() // 1_000 % DAY_S)
    for number in range(6):  # from midnight on, two an hour
        old.app.enqueue_many([Ask(2 * number), Ask(2 * number + 1)])
        old.drain(wait_for_due=False)
        old.clock.advance(3_600)
    old.app.enqueue_many([Ask(number) for number in range(20, 50)])
    old.drain(wait_for_due=False)
    done = counts(old)["succeeded"]
    harness = start(asking(Budget("usd", "0.02", per=after), estimate="0.01"), after=old)
    harness.drain(wait_for_due=False)
    assert counts(harness)["succeeded"] - done in (0, 2)
    [shown] = harness.app.budgets.list()
    assert (shown.per, shown.left, shown.waiting) == (after, 0, 42 - counts(harness)["succeeded"])
    done = counts(harness)["succeeded"]
    harness.app.budgets.set_limit("usd", "0.03")
    harness.drain(wait_for_due=False)
    assert counts(harness)["succeeded"] == done + 1
    harness.clock.advance({"hour": 3_600, "day": DAY_S, "total": 10 * DAY_S}[after])
    harness.drain(wait_for_due=False)
    assert counts(harness)["succeeded"] == done + (1 if after == "total" else 4)


@pytest.mark.parametrize("ending", ["returns", "filtered", "skipped", "failed", "waiting"])
def test_a_stage_that_ends_by_result_or_verdict_frees_what_it_did_not_charge(start: Start, ending: str) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask)

    @pipeline.stage(budget=budget, estimate=0.5)
    def ask(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.1")
        if ctx.task.deferrals:
            return
        match ending:
            case "filtered":
                raise Filtered("no")
            case "skipped":
                raise Skipped("no")
            case "failed":
                raise Failed("no")
            case "waiting":
                raise Waiting(after="1s")

    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    harness.drain()
    cost = usd("0.2") if ending == "waiting" else usd("0.1")
    status = only(harness.app)
    assert (status.spent, status.reserved) == (cost, 0)
    assert harness.task(task).cost == cost


@pytest.mark.parametrize(("charges", "spent"), [((), usd("0.5")), ((0,), usd("0")), (("0.1", "0.05"), usd("0.15"))])
@pytest.mark.parametrize("error", [RuntimeError, Retryable])
def test_of_a_stage_that_fails_what_it_charged_is_spent_or_else_all_that_was_set_aside(
    start: Start, charges: tuple[Any, ...], spent: Decimal, error: type[BaseException]
) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask, retry=Retry(retries=0))

    @pipeline.stage(budget=budget, estimate=0.5)
    def ask(ctx: Context[Ask]) -> None:
        for one in charges:
            ctx.charge(budget, one)
        raise error("boom")

    harness = start(pipeline)
    harness.enqueue(Ask(1))
    harness.drain()
    assert counts(harness) == {"failed": 1}
    assert (only(harness.app).spent, only(harness.app).reserved) == (spent, 0)


def test_charges_survive_rows_that_cannot_be_written(start: Start) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask, retry=Retry(retries=0))

    def broken(_connection: Connection) -> None:
        raise ValueError("no such row")

    @pipeline.stage(budget=budget, estimate=0.5)
    def ask(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.1")
        ctx.write(broken)

    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert (only(harness.app).spent, only(harness.app).reserved) == (usd("0.1"), 0)
    assert harness.task(task).cost == usd("0.1")


@pytest.mark.parametrize("is_async", [False, True])
def test_charges_survive_a_checkpoint_whose_rows_cannot_be_written(start: Start, is_async: bool) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask, retry=Retry(retries=1))

    def broken(_connection: Connection) -> None:
        raise ValueError("no such row")

    def ask(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.2")
        if ctx.task.attempt == 1:
            ctx.write(broken)
        ctx.checkpoint(1)

    async def ask_async(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.2")
        if ctx.task.attempt == 1:
            ctx.write(broken)
        await ctx.acheckpoint(1)

    pipeline.stage(budget=budget, estimate=0.5)(ask_async if is_async else ask)
    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    harness.drain()
    assert words(harness, task)[-1] == "finished"
    assert (only(harness.app).spent, only(harness.app).reserved) == (usd("0.4"), 0), "once for each attempt"
    assert harness.task(task).cost == usd("0.4")


def test_of_a_stage_that_takes_too_long_what_it_charged_is_spent_or_else_all_that_was_set_aside(store_url: str) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask, retry=Retry(retries=0))

    @pipeline.stage(budget=budget, estimate=0.4, timeout="100ms")
    async def ask(ctx: Context[Ask]) -> None:
        if ctx.payload.number:
            ctx.charge(budget, "0.1")
        await asyncio.sleep(60)

    with App(store_url, [pipeline]) as app:
        app.enqueue_many([Ask(0), Ask(1)])
        app.run(until_idle=True)
        assert {task.status for task in app.tasks.list()} == {Status.FAILED}
        assert (only(app).spent, only(app).reserved) == (usd("0.5"), 0)
        assert_verified(app)


def test_what_was_taken_and_had_not_begun_is_free_again_when_a_worker_stops(store_url: str) -> None:
    budget = Budget("usd", 10)
    pipeline = Pipeline(Ask)
    begun: list[int] = []

    @pipeline.stage(budget=budget, estimate=1)
    def ask(ctx: Context[Ask]) -> None:
        begun.append(ctx.payload.number)
        if len(begun) == 1:  # a second one would end at once what runs, and what that has cost nobody knows
            os.kill(os.getpid(), signal.SIGTERM)
        ctx.charge(budget, "0.5")

    with App(store_url, [pipeline], config=Config(threads=1, concurrency=4)) as app:
        app.enqueue_many([Ask(number) for number in range(4)])
        app.run()
        status = only(app)
        assert (status.spent, status.reserved) == (len(begun) * usd("0.5"), 0)
        assert app.stats.counts()[Status.PENDING] == 4 - len(begun)
        assert_verified(app)


@pytest.mark.parametrize("point", ["after claim", "before ask", "after ask", "inside commit"])
def test_a_crash_keeps_what_was_set_aside_as_spent(start: Start, point: str) -> None:
    harness = start(asking(Budget("usd", 1), estimate=0.4))
    task = harness.enqueue(Ask(1))
    harness.crash(point)
    harness.drain()
    assert harness.crashes == 1
    assert harness.task(task).status is Status.SUCCEEDED
    status = only(harness.app)
    lost = usd("0") if point == "inside commit" and status.spent == usd("0.01") else usd("0.4")
    assert (status.spent, status.reserved) == (lost + usd("0.01"), 0)


def test_a_cancelled_attempt_is_spent_and_its_own_word_is_refused(start: Start) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask)
    apps: list[App] = []

    @pipeline.stage(budget=budget, estimate=0.4)
    def ask(ctx: Context[Ask]) -> None:
        apps[0].tasks.cancel(ctx.task.id)
        ctx.charge(budget, "0.3")

    harness = start(pipeline)
    apps.append(harness.app.on(harness.app.url, clock=harness.clock))
    harness.enqueue(Ask(1))
    harness.drain()
    apps[0].close()
    assert counts(harness) == {"cancelled": 1}
    with harness.app._lock:
        sweep_budgets(harness.app._session(), harness.clock.now())
    status = only(harness.app)
    assert (status.spent, status.reserved) == (usd("0.4"), 0)


def test_a_checkpoint_settles_what_was_charged_so_far(start: Start) -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask, retry=Retry(retries=0))
    seen: list[tuple[Decimal, Decimal]] = []
    apps: list[App] = []

    @pipeline.stage(budget=budget, estimate=0.5)
    def ask(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.2")
        ctx.checkpoint(1)
        [status] = apps[0].budgets.list()
        seen.append((status.spent, status.reserved))
        if ctx.payload.number == 2:
            raise RuntimeError("boom")
        ctx.charge(budget, "0.1")

    harness = start(pipeline)
    apps.append(harness.app.on(harness.app.url, clock=harness.clock))
    harness.enqueue(Ask(1))
    harness.drain()
    assert seen == [(usd("0.2"), usd("0.3"))]
    assert only(harness.app).spent == usd("0.3")
    harness.enqueue(Ask(2))
    harness.drain()
    apps[0].close()
    assert only(harness.app).spent == usd("0.5"), "what it has charged before it failed, and no more"
    assert only(harness.app).reserved == 0


def test_a_charge_above_the_estimate_is_recorded_and_closes_the_budget(start: Start) -> None:
    harness = start(asking(Budget("usd", 1)))
    harness.enqueue(Ask(1, "0.03"))
    harness.drain()
    status = only(harness.app)
    assert (status.spent, status.left, status.is_closed) == (usd("0.03"), 0, True)
    harness.app.alerts.look()
    assert ("budget", "usd") in [(alert.rule, alert.subject) for alert in harness.app.alerts.list()]
    second = harness.enqueue(Ask(2))
    harness.drain()
    assert harness.task(second).waiting_for == "budget:usd"
    assert "closed because a charge was above its estimate" in harness.app.why(second.id).sentence
    harness.app.budgets.set_limit("usd", 1)
    harness.drain()
    assert harness.task(second).status is Status.SUCCEEDED


def test_a_closed_budget_holds_those_who_say_that_they_cost_nothing(start: Start) -> None:
    harness = start(asking(Budget("usd", 1), estimate=0))
    first = harness.enqueue(Ask(1, cost="0.60"))
    harness.drain()
    later = [harness.enqueue(Ask(number, cost="0.60")) for number in (2, 3)]
    harness.drain()
    assert statuses(harness, [first, *later]) == ["succeeded", "waiting", "waiting"]
    assert (only(harness.app).spent, only(harness.app).is_closed) == (usd("0.6"), True)
    harness.app.budgets.set_limit("usd", 2)
    harness.drain()
    assert statuses(harness, [first, *later]) == ["succeeded", "succeeded", "succeeded"]  # both were taken together


def test_charges_that_cannot_be_added_up_are_an_error_of_the_stage(start: Start) -> None:
    tokens = Budget("tokens", 10, unit="tokens")
    pipeline = Pipeline(Ask)

    @pipeline.stage(budget=tokens, estimate=1)
    def ask(ctx: Context[Ask]) -> None:
        for _ in range(3):
            ctx.charge(tokens, 4 * 10**9)

    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    harness.drain()
    history = harness.task(task).history
    assert any("more than 4,000,000,000 cannot be counted" in str(one.note) for one in history)
    assert (harness.task(task).status, harness.task(task).failures) == (Status.WAITING, 1)
    assert (only(harness.app).spent, only(harness.app).reserved, only(harness.app).is_closed) == (4 * 10**9, 0, True)


def test_charges_of_many_tasks_that_fit_into_no_number_end_them_all_the_same(start: Start) -> None:
    """By a wrong unit, say: each may be charged, all of them do not fit into 64 bits."""
    harness = start(asking(Budget("tokens", 1_000, unit="tokens"), estimate=1))
    tasks = harness.app.enqueue_many([Ask(number, "4000000000") for number in range(4)])
    harness.drain()
    assert {harness.task(task).status for task in tasks} == {Status.SUCCEEDED}
    rows = harness.app.read(lambda one: one.execute("SELECT spent, overcharged FROM onceward_budget").fetchall())
    assert [tuple(map(type, row)) for row in rows] == [(int, int)]


def test_a_charge_for_a_budget_that_the_stage_does_not_declare_is_an_error(start: Start) -> None:
    budget, other = Budget("usd", 1), Budget("other", 1)
    pipeline = Pipeline(Ask, retry=Retry(retries=0))

    @pipeline.stage(budget=budget, estimate=0.5)
    def ask(ctx: Context[Ask]) -> None:
        ctx.charge(budget if ctx.payload.number else other, -1)

    harness = start(pipeline)
    tasks = [harness.enqueue(Ask(number)) for number in range(2)]
    harness.drain()
    reasons = [harness.task(task).reason or "" for task in tasks]
    assert "does not draw from a budget 'other'; it has: usd" in reasons[0]
    assert "not below zero" in reasons[1]


def test_when_spent_fail_fails_the_task_with_the_reason(start: Start) -> None:
    harness = start(asking(Budget("usd", 0.03, when_spent="fail")))
    tasks = [harness.enqueue(Ask(number, "0.02")) for number in range(2)]
    harness.drain()
    assert [harness.task(task).status.word for task in tasks] == ["succeeded", "failed"]
    assert (harness.task(tasks[1]).reason or "").startswith("budget usd is spent: 0.01 USD of 0.03 USD is left, ")


def test_an_estimate_of_a_function_above_the_limit_fails_that_task(start: Start) -> None:
    harness = start(asking(Budget("usd", 1), estimate=lambda payload: payload.number))
    small, large = harness.enqueue(Ask(1)), harness.enqueue(Ask(2))
    harness.drain()
    assert harness.task(small).status is Status.SUCCEEDED
    assert harness.task(large).status is Status.FAILED
    assert "2.00 USD, is above the limit of budget 'usd', 1.00 USD" in (harness.task(large).reason or "")


def test_all_budgets_of_a_task_or_none(start: Start) -> None:
    large, small = Budget("large", 10), Budget("small", 0.02)
    harness = start(asking((large, small)))
    harness.app.enqueue_many([Ask(number, "0.02") for number in range(3)])
    harness.drain()
    assert counts(harness) == {"succeeded": 1, "waiting": 2}
    by_name = {one.name: one for one in harness.app.budgets.list()}
    assert (by_name["large"].spent, by_name["large"].reserved) == (usd("0.02"), 0)
    assert (by_name["small"].waiting, by_name["large"].waiting) == (2, 0)


def test_each_pipeline_source_lineage_and_batch_has_its_own(start: Start) -> None:
    scopes: tuple[Any, ...] = ("pipeline", "source", "lineage", "batch")
    budgets = tuple(Budget(f"per-{scope}", 1, scope=scope) for scope in scopes)
    pipeline = Pipeline(Ask)

    @pipeline.stage(source=Source("web", per=lambda _: "host"), budget=budgets, estimate=0.02)
    def ask(ctx: Context[Ask]) -> None:
        for one in budgets:
            ctx.charge(one, "0.01")

    harness = start(pipeline)
    alone = harness.enqueue(Ask(1))
    with harness.app.batch("night") as batch:
        batch.add(Ask(2))
    harness.drain()
    found = {(one.name, one.scope): one.spent for one in harness.app.budgets.list()}
    lineages = {str(task.lineage) for task in harness.app.tasks.list()}
    [(number,)] = harness.app.read(lambda connection: connection.execute("SELECT id FROM onceward_batch").fetchall())
    assert found == {
        ("per-pipeline", "ask"): usd("0.02"),
        ("per-source", "web/host"): usd("0.02"),
        **{("per-lineage", lineage): usd("0.01") for lineage in lineages},
        ("per-batch", str(number)): usd("0.01"),
    }
    assert len(lineages) == 2
    assert harness.task(alone).cost == usd("0.04")


def test_the_next_stage_draws_anew_and_what_comes_without_a_budget_does_not(start: Start) -> None:
    budget = Budget("usd", 0.05)
    pipeline = Pipeline(Ask, concurrency=5)

    @pipeline.stage(budget=budget, estimate=0.02)
    def first(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.02")

    @pipeline.stage(budget=budget, estimate=0.02)
    def second(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.02")

    @pipeline.stage
    def last(ctx: Context[Ask]) -> None: ...

    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    other = harness.enqueue(Ask(2))
    harness.drain()
    assert only(harness.app).spent == usd("0.04")
    assert {harness.task(one).stage for one in (task, other)} == {"second"}
    harness.app.budgets.set_limit("usd", 1)
    harness.drain()
    assert counts(harness) == {"succeeded": 2}
    assert only(harness.app).spent == usd("0.08")


def test_tokens_are_counted_like_money_and_cost_no_usd(start: Start) -> None:
    tokens = Budget("tokens", 1_000, unit="tokens", per="hour")
    harness = start(asking(tokens, estimate=400))
    tasks = [harness.enqueue(Ask(number, "400")) for number in range(3)]
    harness.drain()
    assert counts(harness) == {"succeeded": 2, "waiting": 1}
    assert harness.task(tasks[0]).cost == 0
    harness.clock.advance(3_600)
    harness.drain()
    assert counts(harness) == {"succeeded": 3}


# Calls


def test_calls_are_charged_by_themselves(start: Start) -> None:
    web, calls = Source("web", retries=3), Budget("calls", 10, unit="calls")
    pipeline = Pipeline(Ask)
    made = [0]

    def call() -> int:
        made[0] += 1
        if made[0] == 1:
            raise ConnectionError("no")
        return made[0]

    @pipeline.stage(source=web, calls=2, budget=calls)
    def ask(ctx: Context[Ask]) -> None:
        ctx.call(web, call)
        ctx.call(web, call)

    harness = start(pipeline)
    harness.enqueue(Ask(1))
    harness.drain()
    status = only(harness.app)
    assert (made[0], status.spent, status.reserved, status.is_closed) == (3, 3, 0, False)


def test_a_call_beyond_those_set_aside_is_set_aside_first_or_not_made(start: Start) -> None:
    web, calls = Source("web", retries=0), Budget("calls", 2, unit="calls", per="hour")
    pipeline = Pipeline(Ask)
    made: list[int] = []

    @pipeline.stage(source=web, budget=calls, calls=lambda _payload: 10)
    def ask(ctx: Context[Ask]) -> None:
        for number in range(3):
            ctx.once(str(number), lambda number=number: ctx.call(web, lambda: made.append(number)))  # type: ignore[misc]

    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    harness.drain(wait_for_due=False)
    assert made == [0, 1]
    assert "budget calls is spent" in str(harness.task(task).reason)
    assert (only(harness.app).spent, only(harness.app).is_closed) == (2, False)
    harness.clock.advance(3_600)
    harness.drain()
    assert made == [0, 1, 2]
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_call_after_the_window_of_its_attempt_draws_from_the_next_one(start: Start) -> None:
    web, calls = Source("web", retries=0), Budget("calls", 2, unit="calls", per="hour")
    pipeline = Pipeline(Ask)
    made: list[int] = []
    harnesses: list[Harness] = []

    @pipeline.stage(source=web, budget=calls, calls=lambda _payload: 10)
    def ask(ctx: Context[Ask]) -> None:
        for number in range(3):
            if ctx.is_fresh and number == 0:
                harnesses[0].clock.advance(3_599)
            ctx.once(str(number), lambda number=number: ctx.call(web, lambda: made.append(number)))  # type: ignore[misc]

    harnesses.append(start(pipeline))
    task = harnesses[0].enqueue(Ask(1))
    harnesses[0].drain(wait_for_due=False)  # the second that is left of the window is waited for, and is over
    assert made == [0, 1]
    assert "budget calls is spent" in str(harnesses[0].task(task).reason)
    harnesses[0].drain()
    assert made == [0, 1, 2]
    assert (harnesses[0].task(task).status, harnesses[0].task(task).deferrals) == (Status.SUCCEEDED, 1)
    assert only(harnesses[0].app).spent == 1


# Tasks


def test_a_budget_of_tasks_refuses_roots_and_children(start: Start) -> None:
    budget = Budget("listings", 3, unit="tasks", per="day")
    parent, child = Pipeline(Ask), Pipeline(Tell)

    @parent.stage
    def ask(ctx: Context[Ask]) -> None:
        for number in range(ctx.payload.number):
            ctx.spawn(Tell(number))

    @child.stage(budget=budget)
    def tell(ctx: Context[Tell]) -> None: ...

    harness = start(parent, child)
    assert harness.enqueue(Tell(100))
    root = harness.enqueue(Ask(4))
    harness.drain()
    lineage = harness.app.lineages.get(root.id)
    assert len(lineage.root.children) == 2
    assert {refusal.rule for refusal in lineage.root.refusals} == {Rule.BUDGET}
    assert "budget listings is spent: 3 tasks" in lineage.root.refusals[0].reason
    refused = harness.enqueue(Tell(101))
    assert not refused
    assert refused.reason == "budget listings is spent: 3 tasks"
    some = harness.app.enqueue_many([Ask(0), Tell(102)])
    assert [bool(one) for one in some] == [True, False]
    with pytest.raises(ConfigError, match="budget listings is spent"), harness.app.batch("more") as batch:
        batch.add(Tell(103))
    harness.clock.advance(DAY_S)
    assert harness.enqueue(Tell(104))
    assert only(harness.app).spent == 1


def test_a_pipeline_may_ask_for_an_error_when_its_budget_of_tasks_is_spent(start: Start) -> None:
    parent, child = Pipeline(Ask), Pipeline(Tell, refused={"budget": "raise"})

    @parent.stage
    def ask(ctx: Context[Ask]) -> None:
        ctx.spawn(Tell(1))

    @child.stage(budget=Budget("none", 0, unit="tasks"))
    def tell(ctx: Context[Tell]) -> None: ...

    harness = start(parent, child)
    root = harness.enqueue(Ask(1))
    harness.drain()
    assert harness.task(root).status is Status.FAILED
    assert "budget none is spent" in (harness.task(root).reason or "")


def test_a_root_that_is_there_already_is_not_counted_twice(start: Start) -> None:
    pipeline = Pipeline(Tell, unique="everywhere")

    @pipeline.stage(budget=Budget("tells", 5, unit="tasks"))
    def tell(ctx: Context[Tell]) -> None: ...

    harness = start(pipeline)
    first, second = harness.enqueue(Tell(1)), harness.enqueue(Tell(1))
    assert (first.created, second.created) == (True, False)
    assert only(harness.app).spent == 1


def test_a_root_that_is_there_already_is_counted_by_no_batch_and_found_where_its_budget_is_spent(start: Start) -> None:
    pipeline = Pipeline(Tell, unique="everywhere")

    @pipeline.stage(budget=Budget("tells", 2, unit="tasks"))
    def tell(ctx: Context[Tell]) -> None: ...

    harness = start(pipeline)
    first = harness.enqueue(Tell(1))
    for name in ("one", "two"):
        with harness.app.batch(name) as batch:
            batch.add(Tell(1))
        assert batch.tasks == []
    assert only(harness.app).spent == 1
    assert harness.enqueue(Tell(2))
    again, other = harness.app.enqueue_many([Tell(1), Tell(3)])
    assert (again.existing, bool(other), other.reason) == (first.id, False, "budget tells is spent: 2 tasks")
    with harness.app.batch("three") as batch:
        batch.add(Tell(1))
    with pytest.raises(ConfigError, match="budget tells is spent"), harness.app.batch("four") as batch:
        batch.add(Tell(3))
    harness.drain()
    assert (len(harness.app.tasks.list()), only(harness.app).spent) == (2, 2)


def test_what_follows_a_batch_is_counted_when_the_batch_opens(start: Start) -> None:
    ask, tell = Pipeline(Ask), Pipeline(Tell, unique="everywhere")

    @ask.stage
    def asking(ctx: Context[Ask]) -> None: ...

    @tell.stage(budget=Budget("tells", 2, unit="tasks", per="day"))
    def telling(ctx: Context[Tell]) -> None: ...

    harness = start(ask, tell)
    for number in range(2):
        with harness.app.batch(f"batch {number}", then=Tell(7)) as batch:
            batch.add(Ask(number))
    assert only(harness.app).spent == 2
    refused = "batch 'one more' cannot be followed: budget tells is spent: 2 tasks"
    with pytest.raises(ConfigError, match=refused), harness.app.batch("one more", then=Tell(8)) as batch:
        batch.add(Ask(3))
    harness.drain()
    assert len(harness.app.tasks.list(kind="tell")) == only(harness.app).spent


# Lineages


def spawning(**limits: Any) -> tuple[Pipeline[Tell], Pipeline[Ask]]:
    """A root that spawns five children, each of which costs 0.02, the last two in a branch with limits of its own."""
    root, child = Pipeline(Tell), Pipeline(Ask)

    @root.stage
    def tell(ctx: Context[Tell]) -> None:
        for number in range(5):
            ctx.spawn(Ask(number, "0.02"), limits=Limits(**limits) if limits and number > 2 else None)

    @child.stage(estimate=0.02)
    def ask(ctx: Context[Ask]) -> None:
        ctx.charge("lineage", ctx.payload.cost)

    return root, child


def test_children_draw_from_the_budget_of_their_lineage(start: Start) -> None:
    harness = start(*spawning())
    root = harness.app.enqueue(Tell(1), limits=Limits(budget="0.06"))
    free = harness.app.enqueue(Tell(2))
    harness.drain()
    limited = harness.app.lineages.get(root.id)
    assert limited.counts == {Status.WAITING: 2, Status.SUCCEEDED: 4}
    assert limited.cost == usd("0.06")
    assert [branch.cost for branch in limited.root.children].count(usd("0.02")) == 3
    assert harness.app.lineages.get(free.id).counts == {Status.SUCCEEDED: 6}
    [status] = harness.app.budgets.list("lineage")
    assert (status.scope, status.spent, status.waiting) == (str(limited.id), usd("0.06"), 2)
    waiting = harness.app.tasks.list(status="waiting")[0]
    why = harness.app.why(waiting.id)
    assert why.cause is Cause.BUDGET
    assert f"budget lineage of {limited.id}, of which 0.00 USD of 0.06 USD is left" in why.sentence
    limits = harness.app.lineages.raise_limits(root.id, Limits(budget="0.08"))
    assert limits.budget == usd("0.08")
    harness.drain()
    assert harness.app.lineages.get(root.id).counts == {Status.WAITING: 1, Status.SUCCEEDED: 5}
    harness.app.budgets.set_limit("lineage", 1, scope=str(limited.id))
    harness.drain()
    assert harness.app.lineages.get(root.id).counts == {Status.SUCCEEDED: 6}


def test_a_child_narrows_the_budget_for_its_branch_alone(start: Start) -> None:
    harness = start(*spawning(budget="0.01"))
    root = harness.app.enqueue(Tell(1), limits=Limits(budget=1))
    harness.drain()
    lineage = harness.app.lineages.get(root.id)
    assert lineage.counts == {Status.WAITING: 2, Status.SUCCEEDED: 4}
    branches = [one for one in harness.app.budgets.list("lineage") if one.limit == usd("0.01")]
    assert [(one.waiting, one.spent) for one in branches] == [(1, 0), (1, 0)]
    waiting = [branch.id for branch in lineage.root.children if branch.status is Status.WAITING]
    harness.app.lineages.raise_limits(waiting[0], Limits(budget="0.02"))
    harness.drain()
    assert harness.task(waiting[0]).status is Status.SUCCEEDED
    assert harness.task(waiting[1]).status is Status.WAITING
    with pytest.raises(ConfigError, match="raise that first"):
        harness.app.lineages.raise_limits(waiting[1], Limits(budget=2))


def test_a_lineage_without_a_budget_has_none_to_raise(start: Start) -> None:
    harness = start(*spawning())
    root = harness.app.enqueue(Tell(1))
    harness.drain()
    with pytest.raises(ConfigError, match="no budget of its own"):
        harness.app.lineages.raise_limits(root.id, Limits(budget=2))
    with pytest.raises(ConfigError, match="of which lineage"):
        harness.app.budgets.set_limit("lineage", 2)


def test_a_batch_may_have_a_budget_of_its_own(start: Start) -> None:
    harness = start(asking(Budget("usd", 10)))
    with harness.app.batch("night", limits=Limits(budget="0.05")) as batch:
        for number in range(4):
            batch.add(Ask(number, "0.02"))
    harness.drain()
    assert counts(harness) == {"succeeded": 2, "waiting": 2}
    [status] = harness.app.budgets.list("lineage")
    assert (status.limit, status.spent, status.waiting) == (usd("0.05"), usd("0.04"), 2)
    harness.app.budgets.set_limit("lineage", 1, scope=status.scope)
    harness.drain()
    assert counts(harness) == {"succeeded": 4}


# Looking after them


def test_why_names_the_budget_and_the_time_it_frees(start: Start) -> None:
    harness = start(asking(Budget("usd", 0.02, per="day")))
    tasks = [harness.enqueue(Ask(number, "0.02")) for number in range(2)]
    harness.drain()
    why = harness.app.why(tasks[1].id)
    assert why.cause is Cause.BUDGET
    assert why.until == only(harness.app).resets_at
    assert "waits for budget usd, of which 0.00 USD of 0.02 USD is left, and it may need 0.02 USD" in why.sentence


def test_an_unknown_budget_is_not_raised(start: Start) -> None:
    harness = start(asking(Budget("usd", 1)))
    with pytest.raises(BudgetNotFound, match="this app has: usd"):
        harness.app.budgets.set_limit("eur", 1)
    with pytest.raises(ConfigError, match="not below zero"):
        harness.app.budgets.set_limit("usd", -1)
    with pytest.raises(ConfigError, match="author"):
        harness.app.budgets.set_limit("usd", 1, author="")
    assert only(harness.app).limit == 1


def test_a_scope_may_have_a_limit_of_its_own(start: Start) -> None:
    harness = start(asking(Budget("usd", "0.02", scope="lineage")))
    tasks = [harness.enqueue(Ask(number, "0.02")) for number in range(2)]
    special = str(harness.task(tasks[0]).lineage)
    harness.app.budgets.set_limit("usd", 0, scope=special)
    harness.drain()
    assert [harness.task(task).status.word for task in tasks] == ["waiting", "succeeded"]
    harness.app.budgets.set_limit("usd", 5)
    harness.drain()
    assert harness.task(tasks[0]).status is Status.WAITING, "what was said of it in particular stands"
    harness.app.budgets.set_limit("usd", 5, scope=special)
    harness.drain()
    assert harness.task(tasks[0]).status is Status.SUCCEEDED


def test_a_retry_that_finds_its_budget_spent_waits_and_keeps_its_failures(start: Start) -> None:
    budget = Budget("usd", "0.5")
    pipeline = Pipeline(Ask, retry=Retry(retries=1, base="1s", jitter=False))

    @pipeline.stage(budget=budget, estimate=0.4)
    def ask(ctx: Context[Ask]) -> None:
        if ctx.task.attempt == 1:
            raise RuntimeError("boom")

    harness = start(pipeline)
    task = harness.enqueue(Ask(1))
    harness.drain()
    assert (harness.task(task).status, harness.task(task).failures) == (Status.WAITING, 1)
    harness.app.budgets.set_limit("usd", 1)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_clock_that_is_set_back_or_forward_passes_no_ceiling(start: Start) -> None:
    harness = start(asking(Budget("usd", "0.02", per="hour")))
    for number, step in enumerate((0, 3_600, -3_600, 0)):
        harness.clock.step(step * 1_000)
        harness.enqueue(Ask(number, "0.02"))
        harness.drain(wait_for_due=False)
    spent = harness.app.read(
        lambda connection: connection.execute("SELECT window_at, spent FROM onceward_budget").fetchall()
    )
    assert all(amount <= 20_000_000 for _, amount in spent)


def test_a_clock_that_was_set_back_does_not_wake_those_who_wait_again_and_again(start: Start) -> None:
    harness = start(asking(Budget("usd", "0.02", per="hour")))
    tasks = [harness.enqueue(Ask(number, "0.02")) for number in range(3)]
    harness.drain()
    harness.clock.advance(3_600)
    harness.drain()
    before = [len(harness.task(task).history) for task in tasks]
    harness.clock.step(-3_600_000)
    for _ in range(3):
        harness.drain(wait_for_due=False)
    assert [len(harness.task(task).history) for task in tasks] == before


def test_a_stage_alone_tells_what_it_has_charged() -> None:
    budget = Budget("usd", 1)
    pipeline = Pipeline(Ask)

    @pipeline.stage(budget=budget, estimate=0.5)
    def ask(ctx: Context[Ask]) -> None:
        ctx.charge(budget, "0.1")
        ctx.checkpoint(1)
        ctx.charge(budget, 0.2)

    assert run_stage(ask, Ask(1)).charges == {"usd": usd("0.3")}


def test_the_sweep_of_budgets_does_not_wait_for_a_worker_that_is_stuck(store_url: str) -> None:
    with App(store_url, [asking(Budget("usd", "0.01"), estimate="0.01", charges=False)]) as app:
        app.enqueue_many([Ask(1), Ask(2)])
        app.run(until_idle=True)
        if app.dialect != "postgres":
            return  # one writer at a time: nobody is stuck there without everybody being so
        stuck, mine = app._store.session(patience_s=60), app._store.session(patience_s=60)
        app.budgets.set_limit("usd", 0)
        app.enqueue(Ask(3))
        app.run(until_idle=True)
        stuck.opened().execute("BEGIN")
        stuck.opened().execute("SELECT 1 FROM onceward_task FOR UPDATE")
        mine.opened().execute("UPDATE onceward_budget SET ceiling = 1000000000, highest = 1000000000")
        began = time.monotonic()
        assert sweep_budgets(mine, app._store.clock.now()) == 0
        assert time.monotonic() - began < 5
        stuck.opened().execute("ROLLBACK")
        assert sweep_budgets(mine, app._store.clock.now()) == 1
        stuck.close()
        mine.close()


class Other(Payload, kind="other"):
    number: int


def test_what_is_long_over_is_forgotten_with_its_budgets(start: Start) -> None:
    daily = Budget("daily", 1, per="day")
    other = Pipeline(Other)

    @other.stage(budget=daily, estimate=1)
    def work(ctx: Context[Other]) -> None: ...

    harness = start(*spawning(budget="0.5"), other)
    harness.app.enqueue(Tell(1), limits=Limits(budget=1))
    harness.app.enqueue(Other(1))
    harness.drain()
    assert {one.name for one in harness.app.budgets.list()} == {"lineage", "daily"}
    harness.clock.advance(40 * DAY_S)
    harness.app.tasks.prune("30d")
    rows = harness.app.read(lambda connection: connection.execute("SELECT name FROM onceward_budget").fetchall())
    assert list(rows) == []


def test_the_budget_of_a_batch_is_forgotten_with_the_batch(start: Start) -> None:
    harness = start(asking(Budget("each", 1, scope="batch"), estimate=1))
    for name in ("old", "young"):
        harness.clock.advance(20 * DAY_S)
        with harness.app.batch(name) as batch:
            batch.add(Ask(1, "1"))
        harness.app.budgets.set_limit("each", 2, scope=str(batch.id))
        harness.drain()
    assert [one.spent for one in harness.app.budgets.list("each")] == [1, 1]
    harness.clock.advance(15 * DAY_S)
    harness.app.tasks.prune("30d")
    assert [one.scope for one in harness.app.budgets.list("each")] == [str(batch.id)]
    said = "SELECT scope FROM onceward_budget_limit"
    limits = harness.app.read(lambda connection: connection.execute(said).fetchall())
    assert [tuple(row) for row in limits] == [(str(batch.id),)]


def test_suspects_draw_from_their_budget_like_others(start: Start) -> None:
    harness = start(asking(Budget("usd", "0.9"), estimate="0.4"))
    tasks = [harness.enqueue(Ask(number, "0.1")) for number in range(2)]
    harness.crash("before ask", times=1)
    harness.drain()
    harness.drain()  # a worker that has found no suspect that may run looks for others when it is told to
    assert harness.crashes == 1
    status = only(harness.app)
    assert status.spent == usd("0.8")
    assert status.spent + status.reserved <= status.limit
    assert sorted(harness.task(task).status.word for task in tasks) == ["waiting", "waiting"]
    harness.app.budgets.set_limit("usd", 2)
    harness.drain()
    assert counts(harness) == {"succeeded": 2}


def test_a_task_whose_budget_another_transaction_holds_is_put_back_and_not_waited_for(store_url: str) -> None:
    """A transaction that has settled something holds a budget; it must not wait for the holder of another."""
    pipeline = asking(Budget("usd", 1))
    with App(store_url, [pipeline]) as app:
        task = app.enqueue(Ask(1)).id
        rule = pipeline.stages[0].costs.drawn[0]
        key = ("usd", "", 0)
        first, second = app._store.session(patience_s=5), app._store.session(patience_s=5)
        now = app._store.clock.now()
        first.transact(lambda: lock_accounts({key: rule}, now))
        if app.dialect == "postgres":
            other = second.opened()
            other.execute("BEGIN")
            other.execute("SELECT 1 FROM onceward_budget FOR UPDATE")
        decided = first.transact(lambda: set_aside([task], app._registry.budgets_of, now, now, waits=False))
        if app.dialect == "postgres":
            assert [one.task for one in decided.put_back] == [task]
            assert not decided.held
            other.execute("ROLLBACK")
        else:
            assert list(decided.held) == [task]
            first.transact(lambda: change_accounts([(key, (-20_000_000, 0, 0))]))
        first.close()
        second.close()
        app.run(until_idle=True)
        assert app.tasks.get(task).status is Status.SUCCEEDED
        assert_verified(app)


# What a stage can see, and what is said


def test_a_lineage_whose_budget_says_so_fails_its_children_and_its_root_goes_on(start: Start) -> None:
    root, child = Pipeline(Ask), Pipeline(Tell, retry=Retry(retries=0))

    @root.stage
    def fan_out(ctx: Context[Ask]) -> None:
        for number in range(4):
            ctx.spawn(Tell(number))

    @root.stage(join=True)
    def gather(ctx: Context[Ask]) -> list[str]:
        return sorted(one.status for one in ctx.children)

    @child.stage(estimate="0.2")
    def tell(ctx: Context[Tell]) -> None:
        ctx.charge("lineage", "0.2")

    harness = start(root, child)
    task = harness.enqueue(Ask(1), limits=Limits(budget="0.5", when_spent="fail"))
    harness.drain()
    assert harness.task(task).result("gather") == ["failed", "failed", "succeeded", "succeeded"]
    [reason] = {one.reason for one in harness.app.tasks.list(status="failed")}
    assert reason is not None
    assert reason.startswith("budget lineage is spent: ")
    assert reason.endswith("0.10 USD of 0.50 USD is left, and a task may need 0.20 USD; a limit of 0.60 USD would do")
    with pytest.raises(ConfigError, match="it is 'wait' or 'fail', beside a budget"):
        Limits(when_spent="fail")
    with pytest.raises(ConfigError, match="decided when a lineage begins"):
        harness.app.lineages.raise_limits(task.id, Limits(budget=1, when_spent="wait"))


def test_what_waits_for_a_budget_says_the_largest_estimate_and_the_limit_that_would_do(start: Start) -> None:
    harness = start(asking(Budget("usd", "0.5"), estimate=lambda ask: ask.cost))
    tasks = harness.app.enqueue_many([Ask(1, "0.4"), Ask(2, "0.2"), Ask(3, "0.3")])
    harness.drain()
    for task in tasks[1:]:
        assert harness.task(task.id).reason == (
            "budget usd has not enough left: 0.10 USD of 0.50 USD is left, and a task may need 0.30 USD; "
            "a limit of 0.70 USD would do"
        )
    harness.app.budgets.set_limit("usd", "0.7")
    harness.drain()
    assert counts(harness)["succeeded"] == 2


def test_a_stage_sees_what_was_left_when_it_was_claimed(start: Start) -> None:
    money, other = Budget("usd", 1), Budget("other", 1)
    pipeline = Pipeline(Ask)

    @pipeline.stage(budget=money, estimate="0.4")
    def ask(ctx: Context[Ask]) -> list[str]:
        ctx.charge(money, "0.4")
        return [str(ctx.budget_left(one)) for one in (money, "lineage", other)]  # type: ignore[arg-type]

    harness = start(pipeline)
    first = harness.enqueue(Ask(1), limits=Limits(budget="0.5"))
    harness.drain()
    second = harness.enqueue(Ask(2))
    harness.drain()
    assert harness.task(first).result("ask") == ["0.6", "0.1", "None"]
    assert harness.task(second).result("ask") == ["0.2", "None", "None"]
