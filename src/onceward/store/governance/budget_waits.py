"""Tasks that wait for a budget wake after a raised limit, a new window or freed money.

The oldest tasks wake, as many as may fit. A task whose share other tasks have taken by then waits again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onceward.model.budget import (
    CALLS,
    EVERY_SCOPE,
    LINEAGE,
    USD,
    WHOLE,
    Account,
    BudgetRule,
    account_waited_for,
    may_fit,
)
from onceward.model.gates import BUDGET, read_gates
from onceward.model.status import Event, Status
from onceward.model.task import lane_of
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import TryAgainLater
from onceward.store.governance.budgets import open_lineage_budgets, settle_orphans
from onceward.store.governance.holds import lose_holds
from onceward.store.history import Entry, log
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.lines.memory import BudgetsOf
from onceward.store.op import Many, Op, Query, Rows
from onceward.support.logs import EngineLog

WOKEN_AT_ONCE = 500

logger = EngineLog("onceward.budgets")


class _Locked(Exception):
    """A budget, or a task that waits for one, is locked: it can wait until the next look."""


def sweep_budgets(session: Session, now: int) -> int:
    """Settle reservations of lost attempts and holds of ended tasks, then wake tasks; returns how many woke."""
    try:
        if orphans := session.read(Query("orphaned_reservations")):
            if any(not hold for *_, hold in orphans):
                session.transact(lambda: _briefly(settle_orphans()))
            if any(hold for *_, hold in orphans):
                session.transact(lambda: _briefly(lose_holds()))
        waits = [row[0] for row in session.read(Query("budget_waits"))]
        has_room = bool(session.ask(lambda: _with_room(waits, now))) if waits else False
        if has_room:
            return session.transact(lambda: _briefly(wake_for_budgets(now)))
    except _Locked as error:
        logger.warning("budgets cannot be looked after now", error=str(error))
    return 0


def _briefly(operation: Op[int]) -> Op[int]:
    """Run an operation with a short lock timeout, for a thread that also renews leases."""
    yield Query("wait_briefly")
    try:
        return (yield from operation)
    except TryAgainLater as error:
        raise _Locked("another transaction has locked them") from error


def _with_room(waits: Iterable[str], now: int) -> Op[dict[str, Account | None]]:
    """The budgets that tasks wait for and that have something left; None where none was drawn from yet."""
    wanted = {account_waited_for(wait): wait for wait in waits}
    rows = yield Many("newest_accounts", [(*account, now) for account in sorted(wanted)])
    accounts: dict[str, Account | None] = dict.fromkeys(wanted.values())
    for row in rows:
        account = Account(*row)
        waiting_for = wanted[account.name, account.scope]
        if account.left_at(now) > 0:
            accounts[waiting_for] = account
        else:
            del accounts[waiting_for]
    return accounts


def wake_for_budgets(now: int) -> Op[int]:
    """Wake the oldest tasks that wait for each budget, as many as may fit; returns how many."""
    waits = [row[0] for row in (yield Query("budget_waits"))]
    woken = 0
    for waiting_for, account in sorted((yield from _with_room(waits, now)).items()) if waits else ():
        fitting = yield from _oldest_that_fit(waiting_for, account, now)
        if fitting:
            woken += yield from _wake(fitting, waiting_for, "has something left", now)
    return woken


def _oldest_that_fit(waiting_for: str, account: Account | None, now: int) -> Op[list[int]]:
    """The oldest waiting tasks that together fit into a budget, past any that are too large for it."""
    name, scope = account_waited_for(waiting_for)
    most = None if account is None or account.unit == CALLS else account.left_at(now)
    wanted = {"waiting_for": waiting_for, "name": name, "scope": scope, "most": most, "count": WOKEN_AT_ONCE}
    after = 0
    while rows := (yield Query("oldest_that_may_fit", {**wanted, "after": after})):
        amounts = [_needed(name, account, *row[1:]) for row in rows]
        fitting = may_fit(amounts, sum(amounts) if account is None else account.left_at(now))
        if fitting:
            return [rows[place][0] for place in fitting]
        after = rows[-1][0]
    return []


def _needed(name: str, account: Account | None, estimate: int | None, gates: str | None, to_hold: int) -> int:
    """What a task needs of the budget that it waits for: its stage's estimate, or a hold."""
    if account is not None and account.unit == CALLS:
        return WHOLE * next((gate.tokens for gate in read_gates(gates or "") if gate.name == BUDGET + name), 1)
    draws = name == LINEAGE or any(gate.name == BUDGET + name for gate in read_gates(gates or ""))
    return max(to_hold, (estimate or 0) if draws or not to_hold else 0)


def _wake(tasks: list[int], waiting_for: str, why: str, now: int) -> Op[int]:
    rows = yield Query("wake_for_budget", {"ids": tasks, "waiting_for": waiting_for, "now": now})
    name, scope = account_waited_for(waiting_for)
    note = f"budget {name}{f' of {scope}' if scope else ''} {why}"
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, note)
        for task, run, fence, _, _, _, _, stage, _ in rows
    )
    yield from put_in_line(
        (
            Placement(task, lane_of(queue, kind, suspect=company > 0), band, company or rank, now)
            for task, _, _, kind, queue, band, rank, _, company in rows
        ),
        now,
    )
    return len(rows)


def wake_for_code(kinds: Sequence[str], rules_of: BudgetsOf, now: int) -> Op[None]:
    """Wake tasks that wait for a budget which the code of their stage no longer draws from."""
    for kind, stage, waiting_for in (yield Query("budget_waits_of_kinds", {"kinds": list(kinds)})):
        name, _ = account_waited_for(waiting_for)
        if name == LINEAGE or name in {rule.name for rule in rules_of(kind, stage)}:
            continue
        waiting = {"kind": kind, "stage": stage, "waiting_for": waiting_for, "count": WOKEN_AT_ONCE}
        while rows := (yield Query("waiting_at_stage", waiting)):
            yield from _wake(sorted(row[0] for row in rows), waiting_for, "is no longer asked", now)


def budget_waited_for(waiting_for: str | None, now: int) -> Op[Account | None]:
    """Read the budget that a task waits for."""
    rows = yield Many("newest_accounts", [(*account_waited_for(waiting_for or ""), now)])
    return Account(*rows[0]) if rows else None


def declare(rules: Iterable[BudgetRule], now: int) -> Op[None]:
    """Give budgets the windows of the code, and its limits where no operator has set one."""
    for rule in sorted(rules, key=lambda rule: rule.name):
        yield from _declare_windows(rule, now)
        declared = {"name": rule.name, "ceiling": rule.ceiling, "now": now}
        if others := (yield Query("other_ceilings", declared)):
            yield Many("hold_budgets", [tuple(row) for row in others])
            yield Query("declare_ceiling", declared)


def _declare_windows(rule: BudgetRule, now: int) -> Op[None]:
    """End windows that do not fit a budget's declared period; one begun with the present one goes on."""
    window_at, ends_at = rule.window(now)
    length_ms = 0 if ends_at is None else ends_at - window_at
    declared = {"name": rule.name, "window_at": window_at, "until": ends_at or 0, "length_ms": length_ms, "now": now}
    if others := (yield Query("other_windows", declared)):
        yield Many("hold_budgets", [tuple(row) for row in others])
        yield Query("declare_windows", declared)


def set_limit(name: str, scope: str, ceiling: int, author: str, now: int) -> Op[int]:
    """Set a budget's limit for its present window and later ones; returns how many tasks woke."""
    said = {"name": name, "scope": scope, "ceiling": ceiling, "now": now}
    yield Query("lock_budget_limits")
    if scope == EVERY_SCOPE:  # without the code, an operator says that also of an app's budget, whose scope is ''
        yield Query("drop_budget_limits_of_app", {"name": name})
    yield Query("set_budget_limit", {**said, "author": author})
    if name == LINEAGE and scope != EVERY_SCOPE:
        yield from open_lineage_budgets([(scope, ceiling, False)])
    yield Query("change_ceilings", said)
    return (yield from wake_for_budgets(now))


def limits_of(name: str) -> Op[dict[str, int]]:
    """The limits that operators have set for a budget, by scope."""
    rows = yield Query("budget_limits", {"names": [name]})
    return {scope: ceiling for _, scope, ceiling in rows}


def unit_of(name: str) -> Op[str | None]:
    """The unit of a budget; None if nothing was ever drawn from it."""
    rows = yield Query("units_of_budget", {"name": name})
    return rows[0][0] if rows else USD if name == LINEAGE else None


def read_budgets(name: str | None, now: int, limit: int) -> Op[list[tuple[Account, int, int]]]:
    """Read budgets in their present windows, each with the amount held by tasks and how many tasks wait."""
    rows = yield Query("read_budgets", {"name": name, "now": now, "limit": limit})
    return [(Account(*row[:-2]), row[-2], row[-1]) for row in rows]


def read_limit_changes(name: str) -> Op[Rows]:
    """Read the limits that operators have given a budget, newest first: scope, ceiling, time, author."""
    return (yield Query("budget_limit_changes", {"name": name, "limit": 100}))


def read_reservations(name: str, scope: str, limit: int) -> Op[Rows]:
    """Read what is set aside of a budget for attempts: task, kind, key, stage, amount, start."""
    return (yield Query("reservations_of_budget", {"name": name, "scope": scope, "limit": limit}))


def read_holds(name: str | None, limit: int) -> Op[Rows]:
    """Read the holds of budgets, or of one, the oldest first."""
    return (yield Query("read_holds", {"name": name, "limit": limit}))
