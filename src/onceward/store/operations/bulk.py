"""Actions on all tasks that match a filter: a row that any process carries on, a portion at a time.

A portion is one transaction: what is done to its tasks, how many they were, and how far the action has come. A process
carries one on under a short lease with a token; if it has lost the lease, or finds that the action was stopped, nothing
of its portion is kept. The walk goes from the newest task that was there when the action began to the oldest, so it
meets none twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Literal

import msgspec

from onceward.errors import IllegalTransition, TaskNotFound
from onceward.model.decide import safe_text, signal_wait
from onceward.model.status import ACTIVE, TERMINAL, Event, Status
from onceward.model.task_filter import TaskFilter, Term, parse_filter
from onceward.model.task_match import Matcher
from onceward.store.drivers.session import Session
from onceward.store.history import Entry, log
from onceward.store.lineage.joins import EndedTask, propagate_ends
from onceward.store.lineage.pause_lineage import paused_above
from onceward.store.op import Op, Query, Row
from onceward.store.operations import task_actions
from onceward.store.operations.search import Search, known_names

Action = Literal["retry", "cancel", "approve"]
ACTIONS: tuple[Action, ...] = ("retry", "cancel", "approve")
APPROVED = "approved"
TASKS_AT_ONCE = 200
LEASE_MS = 15_000
"""How long a process has an action after each portion; another one goes on then."""
_IF_NOT_SAID: dict[Action, Term] = {
    "retry": Term("status", ":", ("failed",)),
    "cancel": Term("status", ":", ("open",)),
    "approve": Term("waiting", ":", (signal_wait(APPROVED),)),
}
_MAY_BE: dict[Action, frozenset[Status]] = {
    "retry": TERMINAL,
    "cancel": ACTIVE,
    "approve": frozenset({Status.WAITING}),
}


class BulkState(IntEnum):
    """Where an action stands. The numbers are stored."""

    OPEN = 0
    DONE = 1
    STOPPED = 2

    @property
    def word(self) -> str:
        """The state as people read it."""
        return self.name.lower()


class BulkRow(msgspec.Struct, frozen=True):
    """An action as it is stored."""

    id: int
    action: Action
    filter: str
    reason: str
    author: str
    state: BulkState
    upto: int
    cursor: int
    expected: int
    is_exact: bool
    done: int
    left_alone: int
    note: str
    created_at: int
    ended_at: int | None
    taken_until: int


class Lost(Exception):
    """The action was stopped, or another process has taken it; the portion is rolled back."""


def meant(action: Action, wanted: TaskFilter) -> TaskFilter:
    """The filter of an action: where nothing is said of the status, only what the action is for.

    A retry is for what has failed, a cancellation for what is open, an approval for what waits for it.
    """
    usual = _IF_NOT_SAID[action]
    if any(term.field == usual.field for term in wanted.terms):
        return wanted
    return TaskFilter((*wanted.terms, usual))


def begin(
    action: Action, wanted: TaskFilter, *, reason: str, author: str, expected: int, is_exact: bool, now: int
) -> Op[int]:
    """Begin an action on what is there now; returns its number."""
    [(newest,)] = yield Query("newest_task")
    [(number,)] = yield Query(
        "begin_bulk",
        {
            "action": action,
            "filter": str(wanted),
            "reason": safe_text(reason) if reason else "",
            "author": author,
            "upto": newest + 1,
            "expected": expected,
            "is_exact": int(is_exact),
            "now": now,
        },
    )
    return int(number)


def read(number: int) -> Op[BulkRow | None]:
    """Read an action."""
    rows = yield Query("read_bulk", {"id": number})
    return _row(rows[0]) if rows else None


def newest(limit: int) -> Op[list[BulkRow]]:
    """Read the newest actions."""
    return [_row(row) for row in (yield Query("list_bulk", {"limit": limit}))]


def untaken(now: int) -> Op[list[int]]:
    """The open actions that no process carries on."""
    return [row[0] for row in (yield Query("untaken_bulk", {"now": now}))]


def stop(number: int, now: int) -> Op[bool]:
    """Stop an open action; what it has done stays done. Returns whether it was open."""
    return bool((yield Query("stop_bulk", {"id": number, "now": now})))


def prune_bulk(before: int) -> Op[None]:
    """Delete actions that ended before a time."""
    yield Query("prune_bulk", {"before": before})


class Carrying:
    """One process carries on one action."""

    def __init__(self, session: Session, number: int, kinds: Iterable[str] = ()) -> None:
        self._session = session
        self._number = number
        self._kinds = sorted(kinds)
        self._token = secrets.token_bytes(16)
        self._matcher: Matcher | None = None

    def portion(self) -> BulkRow | None:
        """Do one portion; None if the action is not ours: it has ended, or another process has it."""
        now = self._session.clock.now()
        row = self._session.transact(lambda: self._take(now))
        if row is None:
            return None
        matcher = self._matcher or self._session.ask(lambda: _matcher(row))
        self._matcher = matcher
        walk = Search(matcher, row.cursor, self._kinds)
        found = self._session.ask(lambda: walk.step(TASKS_AT_ONCE))
        try:
            return self._session.transact(lambda: self._do(row, matcher, found, walk.before))
        except Lost:
            return None

    def leave(self) -> None:
        """Give the action back, so that another process need not wait."""
        self._session.transact(self._left)

    def _left(self) -> Op[None]:
        yield Query("leave_bulk", {"id": self._number, "token": self._token})

    def _take(self, now: int) -> Op[BulkRow | None]:
        mine = {"id": self._number, "token": self._token, "now": now, "until": now + LEASE_MS}
        if not (yield Query("take_bulk", mine)):
            return None
        return (yield from read(self._number))

    def _do(self, row: BulkRow, matcher: Matcher, found: Sequence[int], floor: int) -> Op[BulkRow | None]:
        now = self._session.clock.now()
        done, is_over = 0, floor == 0
        note: str | None = None
        if found:
            done, note = yield from _act(row, matcher, sorted(found), now)
        counted = {
            "id": row.id,
            "token": self._token,
            "before": row.cursor,
            "cursor": floor,
            "done": done,
            "left_alone": len(found) - done,
            "note": note,
            "state": int(BulkState.DONE if is_over else BulkState.OPEN),
            "ended_at": now if is_over else None,
            "until": 0 if is_over else now + LEASE_MS,
        }
        if not (yield Query("advance_bulk", counted)):
            raise Lost
        return (yield from read(row.id))


def _matcher(row: BulkRow) -> Op[Matcher]:
    """The filter as it was when the action began: ages count from then."""
    wanted = parse_filter(row.filter)
    return Matcher(wanted, row.created_at, (yield from known_names(wanted)))


def _act(row: BulkRow, matcher: Matcher, found: Sequence[int], now: int) -> Op[tuple[int, str | None]]:
    """Do it to those of some tasks that still match, now that they are locked; returns to how many, and why not to
    others."""
    if row.action == "retry":
        yield from paused_above(found)  # all are locked at once, and those above them
    else:
        yield Query("lock_tasks", {"ids": list(found)})
    walk = Search(matcher)
    still = yield from walk.still_matching(found, _MAY_BE[row.action])
    if row.action == "cancel":
        return (yield from _cancel(sorted(still), row.reason, now)), None
    done: int = 0
    note: str | None = None
    for task in sorted(still):
        yield Query("savepoint")
        try:
            yield from _one(row.action, task, now)
        except (IllegalTransition, TaskNotFound) as error:
            yield Query("rollback_to_savepoint")
            note = safe_text(str(error))
        else:
            done += 1
        yield Query("release_savepoint")
    return done, note


def _one(action: Action, task: int, now: int) -> Op[None]:
    if action == "retry":
        yield from task_actions.reopen(task, fresh=False, stage=None, forget=(), now=now)
    else:
        yield from task_actions.signal(task, APPROVED, b"true", now)


def _cancel(tasks: Sequence[int], reason: str, now: int) -> Op[int]:
    if not tasks:
        return 0
    entries, ended = [], []
    for task, run, fence, stage, parent, batch in (
        yield Query("cancel_many", {"ids": list(tasks), "reason": reason, "now": now})
    ):
        entries.append(Entry(task, run, fence, Event.CANCELLED, Status.CANCELLED, stage, None, now, reason))
        ended.append(EndedTask(task, Status.CANCELLED, parent, batch))
    yield from log(entries)
    yield Query("forget_joins", {"ids": [one.task for one in ended]})
    yield from propagate_ends(ended, now)
    yield Query("notify")
    return len(ended)


def _row(row: Row) -> BulkRow:
    (number, action, wanted, reason, author, state, upto, cursor, expected, is_exact, done, left_alone, note,
     created_at, ended_at, taken_until) = row  # fmt: skip
    return BulkRow(
        number, action, wanted, reason, author, BulkState(state), upto, cursor, expected, bool(is_exact), done,
        left_alone, note, created_at, ended_at, taken_until,
    )  # fmt: skip
