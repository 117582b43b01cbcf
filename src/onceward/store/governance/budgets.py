"""Budgets: a claim sets aside what a stage may cost, and the commit of the stage settles it (decision 25).

A claim sets aside the full estimate of a task or nothing, in reservations that belong to the task and the token of the
claim; so no task spends what another still needs, and no ceiling is passed. The commit that ends an attempt deletes its
reservations and adds what was spent. Reservations whose task no longer carries their token are of lost attempts: they
count as spent, because the true cost is unknown.

Budget rows are locked after all others, gates included, and in order (decision 46). A claim in a transaction that has
settled bills holds some of these locks already: it waits for no other, and leaves tasks that need one in line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.model.budget import (
    CALLS,
    LINEAGE,
    MOST_AT_ONCE,
    USD,
    WHOLE,
    Account,
    AccountKey,
    Bill,
    BudgetRule,
    Counted,
    above_limit,
    settled,
    too_little,
    wait_of,
)
from onceward.model.gates import BUDGET, read_gates
from onceward.model.source import NotYet
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, Lease, NewTask, lane_of
from onceward.store.drivers.session_errors import TryAgainLater
from onceward.store.history import Entry, log
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.lines.memory import BudgetsOf
from onceward.store.op import Many, Op, Query, Row
from onceward.store.rows import as_uuid
from onceward.support.logs import EngineLog

logger = EngineLog("onceward.budgets")


class _Draw(NamedTuple):
    """An amount that a task needs of one budget."""

    key: AccountKey
    amount: int
    rule: BudgetRule | None = None
    """None for the budget of a lineage, which is not in the code."""


@dataclass(slots=True)
class SetAside:
    """The decisions of budgets about the tasks of one claim."""

    held: dict[int, list[_Draw]] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    failing: dict[int, str] = field(default_factory=dict)
    left: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """By task, what is left of its budgets after its reservation."""
    largest: dict[str, tuple[Account, int]] = field(default_factory=dict)
    """By `waiting_for` text: the budget, and the largest amount that one of its tasks needs."""
    put_back: list[Placement] = field(default_factory=list)
    """Tasks whose budget another transaction has locked: they go back in line at once."""

    @property
    def turned_away(self) -> set[int]:
        """The tasks that do not run."""
        return {*self.waiting, *self.failing, *(placement.task for placement in self.put_back)}


def set_aside(tasks: Sequence[int], rules_of: BudgetsOf, due_by: int, now: int, *, waits: bool) -> Op[SetAside]:
    """Set aside the estimates of tasks that are about to be claimed, in their order.

    These are the same tasks that the claim takes, due by `due_by`. Where not enough is left a task waits from here on,
    or is named to fail. `waits` says whether this transaction may wait for the locks of others.
    """
    decided = SetAside()
    rows = (yield Query("budget_needs", {"ids": sorted(tasks), "due_by": due_by})) if tasks else ()
    draws = {row[0]: _draws(row, rules_of, now) for row in rows if BUDGET in row[3]}
    if not draws:
        return decided
    by_task = {row[0]: row for row in rows}
    wanted = {draw.key: draw.rule for some in draws.values() for draw in some}
    accounts = yield from lock_accounts(wanted, now, waits=waits)
    locked = set() if waits else (yield from locked_by_others(wanted, accounts))
    left = {key: account.left for key, account in accounts.items()}
    for task in dict.fromkeys(tasks):
        mine = draws.get(task, ())
        if any(draw.key in locked for draw in mine):
            decided.put_back.append(_where_it_stood(by_task[task], now))
        else:
            _decide(task, by_task[task][2] if mine else None, mine, accounts, left, decided)
    yield from change_accounts(
        (draw.key, (draw.amount, 0, 0)) for some in decided.held.values() for draw in some if draw.amount
    )
    yield from _park(decided, left, now)
    yield from put_in_line(decided.put_back, now)
    return decided


def locked_by_others(
    wanted: Mapping[AccountKey, BudgetRule | None], accounts: Mapping[AccountKey, Account]
) -> Op[set[AccountKey]]:
    """The wanted budgets that exist and could not be locked at once."""
    missing = {key: rule for key, rule in wanted.items() if key not in accounts}
    doubtful = sorted(key for key, rule in missing.items() if rule is None)  # a lineage need not have one
    rows = (yield Many("known_budgets", doubtful)) if doubtful else ()
    return {key for key, rule in missing.items() if rule is not None} | {(row[0], row[1], row[2]) for row in rows}


def _where_it_stood(row: Row, now: int) -> Placement:
    task, kind, _, gates, *_, queue, band, rank, company = row
    return Placement(task, lane_of(queue, kind, gates, suspect=company > 0), band, company or rank, now)


def _draws(row: Row, rules_of: BudgetsOf, now: int) -> list[_Draw]:
    _, kind, stage, gates, estimate, lineage, batch, scopes, *_ = row
    passing = read_gates(gates)
    named = {gate.name[1:]: gate.tokens for gate in passing if gate.name[0] == BUDGET}
    source = next((gate.name for gate in passing if gate.is_source), None)
    draws = []
    for rule in rules_of(kind, stage):
        whose = rule.whose(kind, source, str(as_uuid(lineage)), batch)
        if rule.name in named and whose is not None:
            # Without an estimate a stage may cost all of the budget.
            amount = named[rule.name] * WHOLE if rule.unit == CALLS else rule.ceiling if estimate is None else estimate
            draws.append(_Draw((rule.name, whose, rule.window(now)[0]), amount, rule))
    if LINEAGE in named or any(rule.unit == USD for rule in rules_of(kind, stage)):
        draws += [_Draw((LINEAGE, scope, 0), estimate or 0) for scope in scopes_of(lineage, scopes)]
    return draws


def scopes_of(lineage: object, scopes: bytes | None) -> list[str]:
    """The scopes of a task's lineage and of the branches it is in; each may have a budget."""
    below = bytes(scopes or b"")
    inner = [str(as_uuid(below[start : start + 16])) for start in range(0, len(below), 16)]
    return [str(as_uuid(lineage)), *inner]


def _decide(
    task: int,
    stage: str | None,
    draws: Sequence[_Draw],
    accounts: Mapping[AccountKey, Account],
    left: dict[AccountKey, int],
    decided: SetAside,
) -> None:
    mine = [draw for draw in draws if draw.key in accounts]
    for draw in mine:
        account, rule = accounts[draw.key], draw.rule
        if rule is not None and draw.amount > (most := max(rule.ceiling, account.ceiling)):
            decided.failing[task] = above_limit(stage, draw.amount, rule.name, most, rule.unit)
            return
        if (
            account.is_closed or draw.amount > left[draw.key]
        ):  # also a task that needs nothing: it may charge all the same
            if account.fails if rule is None else rule.fails:
                short = too_little(account, left[draw.key], draw.amount)
                decided.failing[task] = f"budget {account.name} is spent: {short}"
            else:
                waiting_for = wait_of(account.name, account.scope)
                decided.waiting[task] = waiting_for
                before = decided.largest.get(waiting_for)
                decided.largest[waiting_for] = (account, max(draw.amount, before[1] if before else 0))
            return
    decided.held[task] = mine
    remaining = []
    for draw in mine:
        left[draw.key] -= draw.amount
        remaining.append((draw.key[0], left[draw.key]))
    decided.left[task] = tuple(remaining)


def _park(decided: SetAside, left: Mapping[AccountKey, int], now: int) -> Op[None]:
    by_wait: dict[str, list[int]] = {}
    for task, waiting_for in decided.waiting.items():
        by_wait.setdefault(waiting_for, []).append(task)
    entries: list[Entry] = []
    for waiting_for, tasks in sorted(by_wait.items()):
        account, most = decided.largest[waiting_for]
        whose = f" of {account.scope}" if account.scope else ""
        note = f"budget {account.name}{whose} has not enough left: {too_little(account, left[account.key], most)}"
        parked = {"ids": sorted(tasks), "waiting_for": waiting_for, "never": NEVER, "reason": note, "now": now}
        for task, run, fence, stage in (yield Query("park_for_budget", parked)):
            entries.append(Entry(task, run, fence, Event.PARKED, Status.WAITING, stage, None, now, note))
    if entries:
        yield from log(entries)


def reserve(paid: SetAside, leases: Sequence[Lease]) -> Op[None]:
    """Write the reservations of leased tasks; free the amounts of tasks that could not be leased."""
    held, leased = paid.held, {lease.task for lease in leases}
    yield from change_accounts(
        (draw.key, (-draw.amount, 0, 0)) for task, some in held.items() if task not in leased for draw in some
    )
    rows = [(lease.task, lease.token, *draw.key, draw.amount) for lease in leases for draw in held.get(lease.task, ())]
    if rows:
        yield Many("insert_reservations", sorted(rows))


def reserve_more(lease: Lease, budgets: Sequence[str], now: int) -> Op[NotYet | None]:
    """Set aside one more call for a running attempt; else return when its budgets allow one.

    If the window that the attempt draws from is over, that is never: the next attempt draws from a new window.
    """
    mine = [
        (name, scope, window_at)
        for name, scope, window_at, _ in (yield Query("reservations_of", {"task": lease.task, "token": lease.token}))
        if name in budgets
    ]
    accounts = yield from lock_accounts(dict.fromkeys(mine), now)
    for account in accounts.values():
        if account.left < WHOLE:
            ends_at = account.ends_at
            return NotYet(BUDGET + account.name, NEVER if ends_at is None or ends_at <= now else ends_at)
    if not accounts:
        return None
    yield from change_accounts((key, (WHOLE, 0, 0)) for key in accounts)
    yield Many("change_reservations", [(lease.task, lease.token, name, scope, WHOLE) for name, scope, _ in accounts])
    return None


def lock_accounts(
    wanted: Mapping[AccountKey, BudgetRule | None], now: int, *, waits: bool = True
) -> Op[dict[AccountKey, Account]]:
    """Lock budgets; missing ones that the code declares are opened first.

    They come first because the limits of operators are locked before budgets. With `waits=False` budgets that another
    transaction has locked are left out.
    """
    if not wanted:
        return {}
    if waits:
        rows = yield Many("hold_all_budgets", [(*key, int(wanted[key] is not None)) for key in sorted(wanted)])
    else:
        rows = yield Many("hold_free_budgets", sorted(wanted))
    accounts = [Account(*row) for row in rows]
    known = {account.key for account in accounts}
    missing = {key: rule for key, rule in wanted.items() if key not in known and rule is not None}
    if missing and waits:
        yield from _open(missing, now)
        accounts = [Account(*row) for row in (yield Many("hold_budgets", sorted(wanted)))]
    elif missing and (yield from _open_briefly(missing, now)):
        accounts = [Account(*row) for row in (yield Many("hold_free_budgets", sorted(wanted)))]
    return {account.key: account for account in accounts}


def _open_briefly(missing: Mapping[AccountKey, BudgetRule], now: int) -> Op[bool]:
    """Open budgets without waiting for locks: the other transaction may be waiting for this one."""
    yield Query("savepoint")
    yield Query("wait_briefly")
    try:
        yield Query("try_budget_limits")
        yield from _open(missing, now)
    except TryAgainLater:
        yield Query("rollback_to_savepoint")
        yield Query("release_savepoint")
        return False
    yield Query("wait_normally")
    yield Query("release_savepoint")
    return True


def _open(missing: Mapping[AccountKey, BudgetRule], now: int) -> Op[None]:
    said = yield Query("hold_budget_limits", {"names": sorted({name for name, _, _ in missing})})
    limits = {(name, scope): ceiling for name, scope, ceiling in said}
    new = []
    for (name, scope, window_at), rule in sorted(missing.items()):
        ceiling = limits.get((name, scope), limits.get((name, "*"), rule.ceiling))
        new.append((name, scope, window_at, rule.unit, ceiling, ceiling, rule.window(now)[1], 0))
    yield Many("open_budgets", new)


def open_lineage_budgets(budgets: Iterable[tuple[str, int, bool]]) -> Op[None]:
    """Open budgets of lineages, branches or batches: id, limit in 10^-9 USD, whether tasks fail when spent."""
    rows = [(LINEAGE, scope, 0, USD, ceiling, ceiling, None, int(fails)) for scope, ceiling, fails in sorted(budgets)]
    if rows:
        yield Many("open_budgets", rows)


def change_accounts(changes: Iterable[tuple[AccountKey, tuple[int, int, int]]]) -> Op[None]:
    """Add to the reserved, spent and overcharged amounts of budgets."""
    sums: dict[AccountKey, list[int]] = {}
    for key, (reserved, spent, above) in changes:
        mine = sums.setdefault(key, [0, 0, 0])
        mine[0] += reserved
        mine[1] += spent
        mine[2] += above
    if sums:
        rows = [(*key, reserved, min(spent, MOST_AT_ONCE), min(above, MOST_AT_ONCE))
                for key, (reserved, spent, above) in sorted(sums.items())]  # fmt: skip
        yield Many("change_budgets", rows)


# When a stage has ended


def settle_bills(billed: Sequence[tuple[Lease, Bill | None]]) -> Op[None]:
    """Settle ended attempts: what they charged is spent, and the rest is free or spent too, as the bill says."""
    bills = {lease.task: (lease.token, bill) for lease, bill in billed}
    rows = yield Query("end_reservations", {"ids": sorted(bills)})
    yield from change_accounts(_settling(rows, bills))
    yield from _add_costs(billed)


def settle_orphans() -> Op[int]:
    """Count the reservations of lost attempts as spent; returns how many rows."""
    orphans = [
        (task, bytes(token)) for task, token, hold_name in (yield Query("orphaned_reservations")) if not hold_name
    ]
    if not orphans:
        return 0
    rows = yield Many("drop_reservations", sorted(set(orphans)))
    yield from change_accounts(_settling(rows, {}))
    return len(rows)


def _settling(
    rows: Iterable[Row], bills: Mapping[int, tuple[bytes, Bill | None]]
) -> Iterable[tuple[AccountKey, tuple[int, int, int]]]:
    for task, token, name, scope, window_at, amount in rows:
        mine, bill = bills.get(task, (b"", None))
        bill = bill if bill is not None and bytes(token) == mine else Bill()
        outcome = settled(amount, bill.charged(name), frees=bill.frees)
        if outcome.above:
            warn_of_overcharge(task, name, scope, outcome.above)
        yield (name, scope, window_at), (-amount, outcome.spent, outcome.above)


def settle_so_far(billed: Sequence[tuple[Lease, Bill]]) -> Op[None]:
    """Settle charges of attempts that go on: they are spent and no longer set aside."""
    changes = []
    shrunk = []
    for lease, bill in billed:
        for name, scope, window_at, amount in (
            yield Query("reservations_of", {"task": lease.task, "token": lease.token})
        ):
            charged = bill.charged(name) or 0
            taken = min(charged, amount)
            if charged > amount:
                warn_of_overcharge(lease.task, name, scope, charged - amount)
            if charged:
                changes.append(((name, scope, window_at), (-taken, charged, charged - taken)))
                shrunk.append((lease.task, lease.token, name, scope, -taken))
    yield from change_accounts(changes)
    if shrunk:
        yield Many("change_reservations", shrunk)
    yield from _add_costs(billed)


def _add_costs(billed: Iterable[tuple[Lease, Bill | None]]) -> Op[None]:
    billed_usd = ((lease.task, bill.usd) for lease, bill in billed if bill is not None and bill.usd)
    costs = sorted((task, min(usd, MOST_AT_ONCE)) for task, usd in billed_usd)
    if costs:
        yield Many("add_costs", costs)


def warn_of_overcharge(task: int, name: str, scope: str, above: int) -> None:
    """Log that an attempt charged more than was set aside for it."""
    logger.warning(
        "charged more than the estimate: the budget is closed until it is raised or its window is over",
        task=task,
        budget=name,
        scope=scope,
        above=above / WHOLE,
    )


# Budgets that count tasks


def task_budgets(
    counted: Iterable[Counted], kind: str, lineage: str, batch: int | None, now: int
) -> dict[AccountKey, BudgetRule]:
    """The budgets that count a new task."""
    rules = {}
    for rule, source in ((count.rule, count.source) for count in counted):
        whose = rule.whose(kind, source, lineage, batch)
        if whose is not None:
            rules[rule.name, whose, rule.window(now)[0]] = rule
    return rules


def count_tasks(counts: Mapping[AccountKey, int]) -> Op[None]:
    """Count new tasks as spent in their budgets."""
    yield from change_accounts((key, (0, count * WHOLE, 0)) for key, count in counts.items() if count)


def spent_on_tasks(account: Account) -> str:
    """Why a budget refuses one more task."""
    whose = f" of {account.scope}" if account.scope else ""
    return f"budget {account.name}{whose} is spent: {account.ceiling // WHOLE:,} tasks"


def count_roots(tasks: Mapping[int, NewTask], batch: int | None, now: int) -> Op[dict[int, str]]:
    """Count new roots in their budgets; returns, by place, why some are refused."""
    wanted = {
        place: task_budgets(task.counted, task.kind, str(task.lineage), batch, now)
        for place, task in tasks.items()
        if task.counted
    }
    if not wanted:
        return {}
    accounts = yield from lock_accounts({key: rule for mine in wanted.values() for key, rule in mine.items()}, now)
    left = {key: account.left for key, account in accounts.items()}
    refused: dict[int, str] = {}
    counts: dict[AccountKey, int] = {}
    for place, mine in wanted.items():
        full = next((key for key in mine if left[key] < WHOLE), None)
        if full is not None:
            refused[place] = spent_on_tasks(accounts[full])
            continue
        for key in mine:
            left[key] -= WHOLE
            counts[key] = counts.get(key, 0) + 1
    yield from count_tasks(counts)
    return refused


def uncount_root(task: NewTask, counted_at: int) -> Op[None]:
    """Take back the count of a root that existed already."""
    if task.counted:
        keys = task_budgets(task.counted, task.kind, str(task.lineage), None, counted_at)
        yield from count_tasks(dict.fromkeys(keys, -1))
