"""Holds against a small model: whatever is held, settled, lost and opened again, the ceiling is never passed."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from onceward import App, Budget, Context, Payload, Pipeline, Retry, Retryable, Status, Waiting
from onceward.model.holds import HELD, LOST, HeldRow, settle_rows
from onceward.testing import Harness

LIMIT = 10
usd = Budget("usd", LIMIT)


class Batch(Payload, kind="batch"):
    number: int
    steps: list[tuple[str, int]]


batch = Pipeline(Batch, retry=Retry(retries=1, base="1s"))


@batch.stage(budget=usd, estimate=1, holds=usd)
def work(ctx: Context[Batch]) -> None:
    """Do what the payload says, one step a run, each kept before the next."""
    done = ctx.cursor or 0
    for place, (step, amount) in enumerate(ctx.payload.steps[done:], start=done + 1):
        name = f"batch-{amount % 2}"
        if step == "hold":
            ctx.hold(usd, amount, name=name)
        elif step == "settle" and (most := ctx.held(usd, name=name)) is not None:
            ctx.settle(usd, min(most, amount), name=name, keep_rest=amount > 3)
        elif step == "release":
            ctx.release(name)
        elif step == "fail":
            raise Retryable("as it was told")
        ctx.checkpoint(place)
        if step == "wait":
            raise Waiting(after="1m")


STEPS = st.tuples(st.sampled_from(["hold", "hold", "settle", "release", "wait", "fail"]), st.integers(1, 6))
ACTIONS = st.one_of(
    st.tuples(st.just("enqueue"), st.lists(STEPS, min_size=1, max_size=5)),
    st.tuples(st.sampled_from(["drain", "crash", "cancel", "retry", "fresh", "lower"]), st.integers(0, 5)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, min_size=3, max_size=15))
def test_no_history_of_holds_passes_the_ceiling(actions: list[tuple[str, Any]]) -> None:
    harness = Harness(App("sqlite:///:memory:", [batch]))
    ids: list[int] = []
    for action, value in actions:
        chosen = ids[value % len(ids)] if ids and isinstance(value, int) else None
        if action == "enqueue":
            ids.append(harness.enqueue(Batch(len(ids), value)).id)
        elif action == "crash":
            harness.crash(("after claim", "before work", "inside commit", "after work")[value % 4])
        elif action == "lower":
            harness.app.budgets.set_limit("usd", max(1, LIMIT - value))
        elif chosen is not None and action != "drain":
            act(harness, action, chosen)
        harness.drain(wait_for_due=action == "drain")
        check(harness)
    for task in ids:
        act(harness, "cancel", task)
    harness.drain()
    check(harness)
    for status in harness.app.budgets.list("usd"):
        assert (status.reserved, status.held) == (0, 0)
    harness.app.close()


def act(harness: Harness, action: str, task: int) -> None:
    """Cancel an open task, or open an ended one again."""
    is_over = harness.task(task).status.is_terminal
    if action == "cancel" and not is_over:
        harness.app.tasks.cancel(task)
    elif action in ("retry", "fresh") and is_over:
        harness.app.tasks.retry(task, fresh=action == "fresh")


def check(harness: Harness) -> None:
    """The ceiling holds, and what is held is held by open tasks."""
    assert [breach.sentence for check in harness.app.verify().checks for breach in check.breaches] == []
    for status in harness.app.budgets.list("usd"):
        assert 0 <= status.held <= status.reserved
        assert status.spent + status.reserved <= LIMIT
    for one in harness.app.budgets.holds():
        assert one.state == "lost" or harness.task(one.task).status not in TERMINAL


TERMINAL = {status for status in Status if status.is_terminal}

ROWS = st.lists(
    st.builds(HeldRow, st.just("usd"), st.sampled_from(["", "a"]), st.integers(0, 3), st.integers(1, 9),
              st.sampled_from([HELD, LOST])),
    max_size=5,
)  # fmt: skip


@given(ROWS, st.integers(0, 30), st.booleans())
def test_settling_loses_no_amount_and_makes_none(rows: list[HeldRow], amount: int, keeps_rest: bool) -> None:
    rests = settle_rows(rows, amount, keeps_rest=keeps_rest)
    assert sorted(rest.row for rest in rests) == sorted(rows)
    for scope in {row.scope for row in rows}:
        mine = [rest for rest in rests if rest.row.scope == scope]
        before = sum(rest.row.amount for rest in mine if rest.row.state == LOST)
        stays_spent = sum(rest.stays for rest in mine if rest.row.state == LOST)
        assert before + sum(rest.spent for rest in mine) == amount + stays_spent
        assert sum(rest.above for rest in mine) == max(0, amount - sum(rest.row.amount for rest in mine))
        for rest in mine:
            was, stays = (rest.row.amount, rest.stays) if rest.row.state == HELD else (0, 0)
            assert was + rest.reserved == stays
            assert rest.stays == 0 or keeps_rest
