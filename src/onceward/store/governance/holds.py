"""Holds: reservations of a run of a task, which stay beyond its stages until they are settled.

A hold is set aside under the lock of its budgets, all of it or nothing, in the transaction of a commit whose fence
held; so no ceiling is passed (decision 50). A refused hold leaves a row that says how much its task waits for. The
sweep counts holds of ended tasks as spent and keeps their rows: an operator may open the task again, and its stage can
still settle them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onceward.model.budget import LINEAGE, USD, Account, AccountKey, BudgetRule, amount_text, wait_of
from onceward.model.holds import ASKED, HELD, LOST, HeldRow, NotEnough, Settlement, missing, settle_rows
from onceward.model.task import Hold, Lease
from onceward.store.governance.budgets import (
    change_accounts,
    lock_accounts,
    locked_by_others,
    scopes_of,
    warn_of_overcharge,
)
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid

NO_TOKEN = b""
"""The token of a hold, which belongs to no attempt."""


class _HoldRequest(NamedTuple):
    """A hold that a stage asks for, its task's present rows of that name, and its budgets."""

    lease: Lease
    move: Hold
    rows: list[HeldRow]
    keys: dict[AccountKey, BudgetRule | None]

    @property
    def short(self) -> int:
        """How much more is to be set aside."""
        return missing(self.rows, self.move.rule.name, self.move.amount)


class HoldLocked(Exception):
    """Another transaction has locked a budget of a hold, and this one may not wait for it."""


def set_aside_beyond(
    holds: Sequence[tuple[Lease, Hold]], now: int, *, waits: bool
) -> Op[list[bool | NotEnough | HoldLocked]]:
    """Set aside the amounts that tasks hold beyond their stages, in order; returns the outcome of each."""
    ids = sorted({lease.task for lease, _ in holds})
    requests = yield from _read(holds, ids, now)
    yield Query("drop_refused_holds", {"ids": ids})
    wanted = {key: rule for request in requests for key, rule in request.keys.items()}
    accounts = yield from lock_accounts(wanted, now, waits=waits)
    locked = set() if waits else (yield from locked_by_others(wanted, accounts))
    left = {key: account.left for key, account in accounts.items()}
    answers: list[bool | NotEnough | HoldLocked] = []
    seen: set[int] = set()
    for request in requests:
        task = request.lease.task
        if task in seen or any(key in locked for key in request.keys):
            answers.append(HoldLocked(f"a budget of task {task} is locked"))
            continue
        seen.add(task)
        refused = _refused(request, accounts, left)
        if refused is None:
            yield from _grant(request, accounts, left, now)
        elif refused.waiting_for is not None:
            yield from _note_asked(request, accounts, now)
        answers.append(True if refused is None else refused)
    return answers


def _read(holds: Sequence[tuple[Lease, Hold]], ids: Sequence[int], now: int) -> Op[list[_HoldRequest]]:
    facts = {row[0]: row[1:] for row in (yield Query("hold_needs", {"ids": list(ids)}))}
    held: dict[tuple[int, str, str], list[HeldRow]] = {}
    for task, name, held_of, *row in (yield Query("holds_of", {"ids": list(ids)})):
        held.setdefault((task, name, held_of), []).append(HeldRow(*row))
    requests = []
    for lease, move in holds:
        lineage, batch, scopes = facts[lease.task]
        rule = move.rule
        whose = rule.whose(lease.kind, move.source, str(as_uuid(lineage)), batch)
        keys: dict[AccountKey, BudgetRule | None] = {}
        if whose is not None:
            keys[rule.name, whose, rule.window(now)[0]] = rule
        if rule.unit == USD:
            keys |= dict.fromkeys((LINEAGE, scope, 0) for scope in scopes_of(lineage, scopes))
        requests.append(_HoldRequest(lease, move, held.get((lease.task, move.name, rule.name), []), keys))
    return requests


def _refused(
    request: _HoldRequest, accounts: Mapping[AccountKey, Account], left: Mapping[AccountKey, int]
) -> NotEnough | None:
    rule, name, short = request.move.rule, request.move.name, request.short
    amount = amount_text(request.move.amount, rule.unit)
    if not any(key[0] == rule.name for key in request.keys):
        return NotEnough(f"budget {rule.name} is for each {rule.scope}, and this task has none to hold {name!r} of")
    for key in request.keys if short else ():
        account = accounts.get(key)
        if account is None:
            continue
        if key[0] == rule.name and request.move.amount > (most := max(rule.ceiling, account.ceiling)):
            limit = amount_text(most, rule.unit)
            return NotEnough(f"{amount} to hold as {name!r} is above the limit of budget {rule.name!r}, {limit}")
        if account.is_closed or short > left[key]:
            whose = f" of {account.scope}" if account.scope else ""
            least = amount_text(account.spent + account.reserved + short, account.unit)
            why = f"budget {account.name}{whose} has not enough left to hold {amount} as {name!r}"
            if key[0] == rule.name and rule.fails:
                return NotEnough(f"{why}; a limit of {least} would do")
            return NotEnough(f"{why}; a limit of {least} would do", wait_of(account.name, account.scope))
    return None


def _grant(
    request: _HoldRequest, accounts: Mapping[AccountKey, Account], left: dict[AccountKey, int], now: int
) -> Op[None]:
    """Set aside the missing amount, and again what counted as spent because the task had ended."""
    lease, move, short = request.lease, request.move, request.short
    changes: list[tuple[AccountKey, tuple[int, int, int]]] = []
    rows: list[tuple[AccountKey, int]] = []
    if any(row.state == LOST for row in request.rows):
        for row in (yield from _take([(lease.task, move.name, move.rule.name, lease.run)])):
            key = (row.budget, row.scope, row.window_at)
            rows.append((key, row.amount))
            if row.state == LOST:
                changes.append((key, (row.amount, -row.amount, 0)))
    for key in request.keys if short else ():
        if key in accounts:
            rows.append((key, short))
            changes.append((key, (short, 0, 0)))
            left[key] -= short
    yield from change_accounts(changes)
    if rows:
        yield Many("insert_holds", _rows(request, _summed(rows), HELD), (NO_TOKEN, now))


def _note_asked(request: _HoldRequest, accounts: Mapping[AccountKey, Account], now: int) -> Op[None]:
    """Write how much a task waits for: the missing amount, and what its next attempt will set aside."""
    own = yield Query("reservations_of", {"task": request.lease.task, "token": request.lease.token})
    besides = {(name, scope): amount for name, scope, _, amount in own}
    wanted = {key: request.short + besides.get(key[:2], 0) for key in request.keys if key in accounts}
    yield Many("insert_holds", _rows(request, wanted, ASKED), (NO_TOKEN, now))


def _summed(rows: Iterable[tuple[AccountKey, int]]) -> dict[AccountKey, int]:
    sums: dict[AccountKey, int] = {}
    for key, amount in rows:
        sums[key] = sums.get(key, 0) + amount
    return sums


def _rows(request: _HoldRequest, amounts: Mapping[AccountKey, int], state: int) -> list[tuple[object, ...]]:
    whose = (request.lease.task, request.lease.run, request.move.name, request.move.rule.name)
    return [(*whose, *key, amount, state) for key, amount in sorted(amounts.items())]


def _take(holds: Sequence[tuple[int, str, str, int]]) -> Op[list[HeldRow]]:
    rows = yield Many("take_holds", sorted(set(holds)))
    return [HeldRow(*row[3:]) for row in rows]


def settle_holds(settling: Sequence[tuple[Lease, Settlement]], now: int) -> Op[None]:
    """Settle holds: the amount is spent, and the rest is free again or stays held."""
    changes: list[tuple[AccountKey, tuple[int, int, int]]] = []
    costs: dict[int, int] = {}
    for lease, settlement in settling:
        staying: list[tuple[object, ...]] = []
        for rest in settle_rows(
            (yield from _take([(lease.task, settlement.name, settlement.budget, lease.run)])),
            settlement.amount,
            keeps_rest=settlement.keeps_rest,
        ):
            row = rest.row
            key = (row.budget, row.scope, row.window_at)
            changes.append((key, (rest.reserved, rest.spent, rest.above)))
            if rest.above:
                warn_of_overcharge(lease.task, row.budget, row.scope, rest.above)
            if rest.stays:
                staying.append((lease.task, lease.run, settlement.name, settlement.budget, *key, rest.stays, row.state))
        if staying:
            yield Many("insert_holds", staying, (NO_TOKEN, now))
        if settlement.unit == USD:
            costs[lease.task] = costs.get(lease.task, 0) + settlement.amount
    yield from change_accounts(changes)
    if spent := sorted((task, usd) for task, usd in costs.items() if usd):
        yield Many("add_costs", spent)


def lose_holds() -> Op[int]:
    """Count holds of ended tasks as spent; returns how many rows that were."""
    ids = sorted({task for task, _, hold_name in (yield Query("orphaned_reservations")) if hold_name})
    if not ids:
        return 0
    gone = yield Query("drop_lost_holds", {"ids": ids})
    lost = yield Query("lose_holds", {"ids": ids})
    yield from change_accounts(
        ((budget, scope, window_at), (-amount, amount, 0))
        for budget, scope, window_at, amount, *state in [*gone, *lost]
        if state in ([], [HELD])
    )
    return len(gone) + len(lost)
