"""Checks every promise of Onceward about its tasks on a database in use.

It reads one consistent snapshot once, in the order of task ids: tasks, claims, log, checkpoints, places in line. For
each task that makes a `History`, which every rule of `task_rules` checks. It writes nothing, and keeps no more than a
few tasks in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from onceward.model.lineage import EVERYWHERE
from onceward.model.status import Event
from onceward.store import queries
from onceward.store.drivers.session import Session
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.op import Query, Row, drive
from onceward.store.verify.counting_rules import BatchFacts, BudgetFacts, batch_breaches, overspent
from onceward.store.verify.gate_rules import impossible_counters, lines_without_turn, places_without_task
from onceward.store.verify.lineage_rules import (
    Members,
    endless_joins,
    lost_identities,
    pauses,
    work_open_twice,
    wrong_counts,
)
from onceward.store.verify.task_rules import RULES, Claim, FamilyFacts, History, Logged, Stored, TaskFacts

MOST_KEPT = 100
"""How many breaches of one rule are kept word for word; the others are counted."""
ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that does not hold, and for which tasks."""

    tasks: tuple[int, ...]
    sentence: str


@dataclass(slots=True)
class Check:
    """One rule and the result of its check."""

    name: str
    meaning: str
    checked: int = 0
    broken: int = 0
    """How many breaches there are; `breaches` keeps the first of them."""
    breaches: list[Breach] = field(default_factory=list)

    def found(self, sentence: str, *tasks: int) -> None:
        """Add a breach."""
        self.broken += 1
        if len(self.breaches) < MOST_KEPT:
            self.breaches.append(Breach(tasks, sentence))


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found."""

    at: int
    checks: list[Check]
    tasks: int
    claims: int
    events: int
    checkpoints: int

    @property
    def ok(self) -> bool:
        """Whether every promise holds."""
        return not any(check.broken for check in self.checks)

    def check(self, name: str) -> Check:
        """The rule of that name."""
        return next(check for check in self.checks if check.name == name)


def verify(session: Session, now: int) -> Report:
    """Check everything on one snapshot, while workers go on."""

    def look() -> Report:
        with session.reading():
            return _verified(session, now)

    return session.patiently(look)


def _verified(session: Session, now: int) -> Report:
    checks = {rule: Check(rule.__name__, rule.__doc__ or "") for rule in RULES}
    leftovers = Check("leftovers", "Nothing is left of a task that is gone.")
    held = Check(pauses.__name__, pauses.__doc__ or "")
    totals = Counter[str]()
    claimed, log, stored, standing = (
        _ByTask(_stream(session, name), leftovers if what else None, what)
        for name, what in (
            ("verify_claims", ""),  # kept until all tasks of the claim are gone
            ("verify_log", "a log"),
            ("verify_checkpoints", "a checkpoint"),
            ("verify_places", ""),  # a cancelled task may leave one; the claim that pops it drops it
        )
    )
    families = _ByTask(_stream(session, "verify_families"), None, "")
    members = Members(session.run(Query("open_twice")))
    for row in _stream(session, "verify_tasks"):
        task = TaskFacts(*row)
        history = History(
            task,
            [Claim(fence, bytes(token), worker) for _, fence, token, worker in claimed.of(task.id)],
            [Logged(*entry[1:]) for entry in log.of(task.id)],
            [Stored(*part[1:]) for part in stored.of(task.id)],
            [place[1] for place in standing.of(task.id)],
            next((FamilyFacts(*found[1:]) for found in families.of(task.id)), None),
        )
        totals["tasks"] += 1
        totals["families"] += history.family is not None
        totals["claims"] += len(history.claims)
        totals["events"] += len(history.log)
        totals["checkpoints"] += len(history.parts)
        for rule, check in checks.items():
            for sentence in rule(history):
                check.found(sentence, task.id)
        for sentence in members.add(history):
            held.found(sentence, task.id)
    for stream in (claimed, log, stored, standing):
        stream.finish()
    for rule, check in checks.items():
        check.checked = totals[RULES[rule]]
    held.checked = totals["tasks"]
    leftovers.checked = totals["events"] + totals["checkpoints"]
    return Report(
        now,
        [
            *checks.values(),
            leftovers,
            held,
            *_lineages(session, members),
            _batches(session),
            _budgets(session),
            _gates(session),
            _integrity(session, totals["tasks"]),
        ],
        tasks=totals["tasks"],
        claims=totals["claims"],
        events=totals["events"],
        checkpoints=totals["checkpoints"],
    )


def _lineages(session: Session, members: Members) -> list[Check]:
    lineages = Check(
        "lineages",
        "A lineage counts its tasks, and unless an operator was asked has no more than it may and no work open twice.",
    )
    joins = Check("joins", "A task that waits for children has an open one, whose end will wake it.")
    for found in wrong_counts(_counted(session, "verify_lineages", lineages), members):
        lineages.found(*found)
    for found in work_open_twice(members):
        lineages.found(*found)
    for found in lost_identities(session.run(Query("misheld_aliases", {"everywhere": EVERYWHERE}))):
        lineages.found(*found)
    for found in endless_joins(_counted(session, "verify_joins", joins), session.run(Query("waiting_without_join"))):
        joins.found(*found)
    return [lineages, joins]


def _counted(session: Session, name: str, check: Check) -> Iterator[Row]:
    for row in _stream(session, name):
        check.checked += 1
        yield row


def _batches(session: Session) -> Check:
    check = Check("batches", batch_breaches.__doc__ or "")
    for row in _stream(session, "verify_batches"):
        batch = BatchFacts(*row)
        check.checked += 1
        for sentence in batch_breaches(batch):
            check.found(sentence, *(() if batch.first_task is None else (batch.first_task,)))
    return check


def _gates(session: Session) -> Check:
    check = Check("gates", "Lines before gates have turns, places inside belong to tasks, and the counters make sense.")
    gates = list(_counted(session, "verify_gates", check))
    disabled = {name for name, enabled, *_ in gates if not enabled}
    for found in lines_without_turn(_counted(session, "verify_lines", check), disabled, drive(read_pauses(), session)):
        check.found(*found)
    for found in places_without_task(_counted(session, "verify_slots", check)):
        check.found(*found)
    for sentence in impossible_counters(gates):
        check.found(sentence)
    return check


def _budgets(session: Session) -> Check:
    check = Check("budgets", overspent.__doc__ or "")
    for row in _counted(session, "verify_budgets", check):
        for sentence in overspent(BudgetFacts(*row)):
            check.found(sentence)
    for task, name in session.run(Query("stray_reservations")):
        check.found(f"something is set aside for task {task} of budget {name}, which is not there", task)
    return check


def _integrity(session: Session, tasks: int) -> Check:
    check = Check("integrity", "Everything that a row points at is there, and the database file is sound.", tasks)
    for (task,) in session.run(Query("dangling_payloads")):
        check.found(f"the payload of task {task} is gone", task)
    for (task,) in session.run(Query("dangling_values")):
        check.found(f"a stored value of task {task} is gone", task)
    for (claim,) in session.run(Query("unreadable_claims")):
        check.found(f"the tasks of claim {claim} cannot be read: they are no JSON")
    for (answer,) in session.run(Query("check_pages")):
        if answer != "ok":
            check.found(f"SQLite says: {answer}")
    for table, row, parent, _ in session.run(Query("check_foreign_keys")):
        if table not in ("onceward_task", "onceward_checkpoint"):
            check.found(f"row {row} of {table} points at a row of {parent} that is not there")
    return check


def _stream(session: Session, name: str) -> Iterator[Row]:
    """The rows of a query, read bit by bit."""
    text = queries.spell_out(queries.queries(session.dialect)[name], session.dialect)
    connection = session.opened()
    try:
        if session.dialect == "sqlite":
            yield from connection.execute(text)
        else:
            with connection.cursor(name=f"onceward_{name}", binary=True) as cursor:
                cursor.itersize = ROWS_AT_ONCE
                yield from cursor.execute(text)
    except Exception as error:
        if (meaning := session.engine_error(error)) is error:
            raise
        raise meaning from error


class _ByTask:
    """Rows in the order of task ids, handed out task by task."""

    def __init__(self, rows: Iterator[Row], leftovers: Check | None, what: str) -> None:
        self._rows = rows
        self._next = next(rows, None)
        self._leftovers = leftovers
        self._what = what

    def of(self, task: int) -> list[Row]:
        """The rows of a task. Ids must be asked for in ascending order; rows in between belong to no task."""
        self._skip(task)
        row = self._next
        if row is None or row[0] != task:
            return []
        found: list[Row] = []
        while row is not None and row[0] == task:
            found.append(row)
            row = next(self._rows, None)
        self._next = row
        return found

    def finish(self) -> None:
        """Report the rows after the last task, which belong to none."""
        self._skip(None)

    def _skip(self, task: int | None) -> None:
        last = None
        while self._next is not None and (task is None or self._next[0] < task):
            # A commit refused long after its task was pruned may still have left its row.
            refused = self._what == "a log" and self._next[3] == Event.LOST
            if self._leftovers is not None and self._next[0] != last and not refused:
                last = self._next[0]
                self._leftovers.found(f"there is {self._what} of task {last}, but no such task", last)
            self._next = next(self._rows, None)
