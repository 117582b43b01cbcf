"""Raises the limits of a lineage or of a part of it, at the request of an operator alone.

The row of a lineage holds its limits, and the row of a task its own, where they are narrower. Inherited limits are
raised; narrower limits that a spawn below has set stay. Children that are spawned meanwhile inherit the old limits, so
the operation looks again until no task has them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec

from onceward.errors import ConfigError
from onceward.model.budget import LINEAGE, Account, read_amount
from onceward.model.lineage import MOST_TASKS, Bounds, Limits
from onceward.model.status import Event, Status
from onceward.model.times import duration_text
from onceward.store.governance.budget_waits import wake_for_budgets
from onceward.store.history import Entry, log
from onceward.store.lineage.spawn_requests import scopes_in
from onceward.store.lineage.trees import Head, LimitsRow, head_of
from onceward.store.op import Many, Op, Query

FIELDS = ("max_depth", "max_children", "max_tasks", "deadline_ms", "budget")


def raise_limits(head: Head, limits: Limits, defaults: Bounds, now: int) -> Op[Bounds]:
    """Raise the limits of a lineage, or of a part of it; returns the limits it has now."""
    yield Query("lock_limits")
    root, lineage = yield from _lineage_row(head, defaults)
    of_lineage = Bounds(
        lineage.max_depth, lineage.max_children, lineage.deadline_at - lineage.created_at, lineage.max_tasks,
        (yield from _budget_of(head.lineage)),
    )  # fmt: skip
    [(own, scopes, _)] = yield Query("limits_of_head", {"task": head.task})
    before = of_lineage if head.whole else _effective(own, of_lineage)
    after = before.replaced(limits)
    _check(before, after, of_lineage, head)
    changed = [name for name in FIELDS if getattr(before, name) != getattr(after, name)]
    if not changed:
        return after
    made = (head.lineage, root, lineage.max_depth, lineage.max_tasks, lineage.max_children, lineage.deadline_at,
            lineage.tasks, lineage.created_at)  # fmt: skip
    yield Many("open_lineages", [made])
    yield from _change_tasks(head, before, after, changed, of_lineage)
    if head.whole:
        yield from _change_row(head.lineage, after, lineage.created_at + after.deadline_ms)
    else:
        if "deadline_ms" in changed:
            yield from _change_deadline(head, scopes_in(scopes), after, lineage.created_at)
        if "max_tasks" in changed:
            yield from _change_scope(head, bytes(scopes or b""), after)
    if "budget" in changed:
        yield from _raise_budget(head, bytes(scopes or b""), before, after, now)
    note = ", ".join(f"{_named(name)} {_said(name, before)} → {_said(name, after)}" for name in changed)
    [(run, fence, status, stage)] = yield Query("read_to_log", {"task": head.task})
    yield from log([Entry(head.task, run, fence, Event.LIMITS_RAISED, Status(status), stage, None, now, note)])
    return after


def _lineage_row(head: Head, defaults: Bounds) -> Op[tuple[int, LimitsRow]]:
    """The root of a lineage, and its row; where there is none yet, the row that the first spawn would make."""
    rows = yield Query("read_lineage", {"lineage": head.lineage})
    root = head if head.whole else (yield from head_of(head.lineage))
    if rows:
        return root.task, LimitsRow(*rows[0])
    [(own, _, created_at)] = yield Query("limits_of_head", {"task": root.task})
    bounds = _effective(own, defaults)
    deadline_at = created_at + bounds.deadline_ms
    return root.task, LimitsRow(bounds.max_depth, bounds.max_children, bounds.max_tasks, deadline_at, 1, created_at)


def _change_tasks(head: Head, before: Bounds, after: Bounds, changed: list[str], of_lineage: Bounds) -> Op[None]:
    while True:
        stale: dict[bytes | None, Bounds] = {}
        for (stored,) in (yield Query("limits_in_subtree", head.params)):
            own = None if stored is None else bytes(stored)
            bounds = _effective(own, of_lineage)
            inherited = [name for name in changed if getattr(bounds, name) == getattr(before, name)]
            if inherited:
                stale[own] = msgspec.structs.replace(bounds, **{name: getattr(after, name) for name in inherited})
        if not stale:
            return
        for own, bounds in stale.items():
            given = {"old_limits": own, "had_none": int(own is None), "new_limits": msgspec.json.encode(bounds)}
            yield Query("change_limits", {**head.params, **given})


def _change_scope(head: Head, scopes: bytes, after: Bounds) -> Op[None]:
    """Raise `max_tasks` of a part that has a counter of its own."""
    own = uuid.UUID(bytes=scopes[-16:]) if scopes else None
    rows = (yield Query("read_lineage", {"lineage": own})) if own is not None else []
    if own is None or not rows or rows[0][2] == MOST_TASKS:
        raise ConfigError(f"task {head.task} has no max_tasks of its own: raise that of lineage {head.lineage}")
    yield from _change_row(own, after, LimitsRow(*rows[0]).deadline_at)


def _change_deadline(head: Head, scopes: Sequence[uuid.UUID], after: Bounds, created_at: int) -> Op[None]:
    """Put off the deadline of a branch; it cannot exceed that of a branch around it."""
    deadline_at = created_at + after.deadline_ms
    for scope in scopes:
        row = LimitsRow(*(yield Query("read_lineage", {"lineage": scope}))[0])
        [(root,)] = yield Query("begins_with", {"lineage": scope})
        if row.deadline_at >= deadline_at:
            continue
        if root != head.task:
            has = duration_text(row.deadline_at - created_at)
            raise ConfigError(f"the branch of task {root} has deadline {has}: raise that first")
        kept = Bounds(row.max_depth, row.max_children, after.deadline_ms, row.max_tasks)
        yield from _change_row(scope, kept, deadline_at)


def _change_row(lineage: uuid.UUID, bounds: Bounds, deadline_at: int) -> Op[None]:
    yield Query(
        "change_lineage",
        {
            "lineage": lineage,
            "max_depth": bounds.max_depth,
            "max_tasks": bounds.max_tasks,
            "max_children": bounds.max_children,
            "deadline_at": deadline_at,
        },
    )


def _budget_of(scope: uuid.UUID) -> Op[int | None]:
    rows = yield Many("newest_accounts", [(LINEAGE, str(scope), 0)])
    return next((Account(*row).ceiling for row in rows), None)


def _raise_budget(head: Head, scopes: bytes, before: Bounds, after: Bounds, now: int) -> Op[None]:
    """Raise the budget of a lineage, or of a part that has a budget of its own."""
    own = head.lineage if head.whole or not scopes else uuid.UUID(bytes=scopes[-16:])
    if before.budget is None or after.budget is None or (yield from _budget_of(own)) is None:
        raise ConfigError(f"{head.name} has no budget of its own that could be raised")
    yield Query("change_ceilings", {"name": LINEAGE, "scope": str(own), "ceiling": after.budget, "now": now})
    yield from wake_for_budgets(now)


def _effective(stored: bytes | None, otherwise: Bounds) -> Bounds:
    return otherwise if stored is None else msgspec.json.decode(stored, type=Bounds)


def _check(before: Bounds, after: Bounds, of_lineage: Bounds, head: Head) -> None:
    for name in FIELDS:
        old, new, most = getattr(before, name), getattr(after, name), getattr(of_lineage, name)
        if old is None or new is None:
            continue  # without a budget; `_raise_budget` says that there is none to raise
        if new < old:
            raise ConfigError(
                f"limits are raised here, not lowered: {_named(name)} is {_said(name, before)} already, "
                f"more than {_said(name, after)}"
            )
        if not head.whole and new > old and most is not None and new > most:
            raise ConfigError(
                f"the lineage of task {head.task} has {_named(name)} {_said(name, of_lineage)}: raise that first"
            )


def _named(name: str) -> str:
    return name.removesuffix("_ms")


def _said(name: str, bounds: Bounds) -> str:
    value: int = getattr(bounds, name)
    if name == "budget":
        return f"{read_amount(value)} USD"
    return duration_text(value) if name == "deadline_ms" else str(value)
