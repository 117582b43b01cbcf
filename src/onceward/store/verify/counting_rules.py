"""The rules of batches and budgets: what they have counted against the rows of their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onceward.model.budget import read_amount


class BatchFacts(NamedTuple):
    """The row of a batch, and what the rows of its tasks say."""

    id: int
    name: str
    status: int
    total: int
    open: int
    ended: int
    has_follower: int
    then_task: int | None
    ended_at: int | None
    open_tasks: int
    first_task: int | None
    opener: int | None
    waiting_followers: int


class BudgetFacts(NamedTuple):
    """The row of a budget, and what attempts have set aside of it."""

    name: str
    scope: str
    window_at: int
    spent: int
    reserved: int
    overcharged: int
    highest: int
    set_aside: int


def overspent(budget: BudgetFacts) -> Iterator[str]:
    """No more of a budget is spent or set aside than it ever allowed, but for charges above their estimates; and what
    it counts as set aside is what attempts have set aside."""
    name = f"budget {budget.name}{f' of {budget.scope}' if budget.scope else ''}"
    if not all(type(one) is int for one in (budget.spent, budget.reserved, budget.overcharged)):
        yield f"{name} has lost count: {budget.spent} spent, {budget.reserved} set aside, {budget.overcharged} above"
    used = budget.spent + budget.reserved - budget.overcharged
    if used > budget.highest:
        most = read_amount(budget.highest)
        yield f"{read_amount(used)} of {name} is spent or set aside, and it allowed {most} at most"
    if budget.reserved != budget.set_aside:
        counted, found = read_amount(budget.reserved), read_amount(budget.set_aside)
        yield f"{name} counts {counted} as set aside, and attempts and holds have set aside {found}"
    if budget.spent < 0 or budget.reserved < 0:
        yield f"{name} counts less than nothing"


def batch_breaches(batch: BatchFacts) -> Iterator[str]:
    """A batch counts every task of it, is open as long as one of them is, and once ended it is followed by its task."""
    name = f"batch {batch.name!r}"
    if batch.total != batch.open + batch.ended:
        yield f"{name} counts {batch.total} tasks, but {batch.open} open ones and {batch.ended} that have ended"
    if not batch.status:
        if batch.open != batch.open_tasks:
            yield f"{name} counts {batch.open} open tasks, and there are {batch.open_tasks}"
        if not batch.open:
            yield f"{name} is open, and none of its tasks is: it would never end"
    elif batch.open:
        yield f"{name} has ended, and counts {batch.open} open tasks"
    if bool(batch.status) != (batch.ended_at is not None):
        yield f"{name} {'has ended without a time of its end' if batch.status else 'is open and has a time of its end'}"
    if batch.status and batch.waiting_followers:
        yield f"{name} has ended, and task {batch.then_task} still waits for that: it would never be woken"
    if batch.opener is None and (batch.then_task is not None) != bool(batch.status and batch.has_follower):
        yield f"{name} {'is followed by a task too early' if batch.then_task else 'was not followed by its task'}"
