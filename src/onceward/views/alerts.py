"""Watches of the application, and alerts as people and programs see them."""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.connection import Connection
from onceward.model.times import moment
from onceward.model.watch import ADVICE, LONGEST_SUBJECT, MOST_TASKS, PRUNING, Finding, of_watch
from onceward.model.watch_thresholds import MOST
from onceward.store.drivers.lent_connection import GuardedConnection
from onceward.store.operations.alerts import AlertRow

MOST_ROWS = 1_000
"""How many rows of a watch are read."""
LONGEST_QUERY_S = 30.0
"""How long the statements of a watch may take."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A rule of the application's own: `Watch("orphans", "SELECT count(*) FROM chunk WHERE …", above=0, advice="…")`.

    `query` is SQL, or a function that is given a connection to a read-only snapshot. It answers with a number, or with
    rows of one to three columns: a number, a subject, and the ids of tasks (a list, or a JSON text of one). For every
    row whose number is above `above` there is an alert, as long as that lasts.
    """

    name: str
    query: str | Callable[[Connection], Any]
    above: float
    advice: str

    def __post_init__(self) -> None:
        if not _is_text(self.name) or len(self.name) > LONGEST_SUBJECT:
            raise ConfigError(f"{shown(self.name)} is no name of a watch; take a short text")
        if self.name in ADVICE or self.name == PRUNING:
            raise ConfigError(f"a watch cannot be called {self.name!r}: that is a rule of the engine")
        if not callable(self.query) and not (isinstance(self.query, str) and self.query.strip()):
            raise ConfigError(f"watch {self.name!r}: its query is SQL, or a function that is given a connection")
        is_number = isinstance(self.above, int | float) and not isinstance(self.above, bool)
        if not is_number or not -MOST <= self.above <= MOST:
            raise ConfigError(f"watch {self.name!r}: above={shown(self.above)} is not a number that one can count to")
        if not _is_text(self.advice):
            raise ConfigError(f"watch {self.name!r}: say in a sentence what to do when it finds something")

    def look(self, connection: GuardedConnection) -> list[Finding]:
        """What it finds on a snapshot. A statement of it that takes too long is stopped."""
        limit = threading.Timer(LONGEST_QUERY_S, connection.interrupt)
        limit.daemon = True
        limit.start()
        try:
            return self.findings(self._answer(connection))
        finally:
            limit.cancel()

    def _answer(self, connection: GuardedConnection) -> Any:
        if not isinstance(self.query, str):
            return self.query(connection)
        # There are no parameters, but a driver that looks for them would take a plain % for one.
        text = self.query.replace("%", "%%") if connection.dialect == "postgres" else self.query
        return connection.execute(text).fetchall()

    def findings(self, answer: Any) -> list[Finding]:
        """What follows from an answer; one that cannot be read is an error."""
        if answer is None:
            return []
        rows = [(answer,)] if isinstance(answer, int | float | Decimal) else _first_rows(answer)
        found: dict[str, Finding] = {}
        for row in rows:
            count, subject, tasks = _read(row)
            if count > self.above and (subject not in found or found[subject].count < count):
                found[subject] = of_watch(self.name, self.advice, self.above, count, subject, tasks)
        return list(found.values())


def _is_text(given: Any) -> bool:
    """Whether any database can keep it, and there is something to read."""
    if not isinstance(given, str) or not given.strip() or "\x00" in given:
        return False
    return given == given.encode(errors="replace").decode()


def _first_rows(answer: Iterable[Any]) -> list[Any]:
    rows: list[Any] = []
    for row in answer:
        rows.append(row if isinstance(row, tuple | list) else (row,))
        if len(rows) == MOST_ROWS:
            break
    return rows


def _read(row: Any) -> tuple[float, str, list[int]]:
    if not 1 <= len(row) <= 3:
        raise ValueError(f"a row of a watch has a number, a subject and tasks; this one is {row!r}")
    count = 0.0 if row[0] is None else float(row[0])  # the sum of nothing is NULL
    if not math.isfinite(count):
        raise ValueError(f"a watch has answered with {count}, which is no number to compare")
    subject = "all" if len(row) < 2 or row[1] is None else str(row[1])
    given = row[2] if len(row) == 3 else ()
    tasks = [int(task) for task in (json.loads(given) if isinstance(given, str) else given) or () if task is not None]
    if any(not 0 < task < 2**63 for task in tasks):
        raise ValueError("a watch has named tasks by what can be no id")
    return count, subject, tasks[:MOST_TASKS]


@dataclass(frozen=True, slots=True)
class Alert:
    """Trouble that a rule has found: since when, with whom, how much, and what to do."""

    id: int
    rule: str
    subject: str
    """What it is about: a lineage, a worker, a source, a line, …"""
    lineage: uuid.UUID | None
    key: str | None
    count: float
    threshold: float
    tasks: tuple[int, ...]
    """Up to 20 of the tasks it is about."""
    sentence: str
    advice: str
    raised_at: datetime
    seen_at: datetime
    """When it was last found."""
    resolved_at: datetime | None
    """When a look no longer found it; None as long as it lasts."""
    told_at: datetime | None
    """When the webhook last heard of it."""

    @property
    def is_open(self) -> bool:
        """Whether it lasts."""
        return self.resolved_at is None


def as_alert(row: AlertRow) -> Alert:
    """An alert from its row."""
    return Alert(
        row.id, row.rule, row.subject, row.lineage, row.key, row.count, row.threshold, row.tasks, row.sentence,
        row.advice, moment(row.raised_at), moment(row.seen_at),
        None if row.resolved_at is None else moment(row.resolved_at),
        None if row.told_at is None else moment(row.told_at),
    )  # fmt: skip


def json_body(alert: Alert) -> dict[str, Any]:
    """An alert as a webhook gets it, and as `--json` prints it."""
    return {
        "id": alert.id,
        "status": "open" if alert.is_open else "resolved",
        "rule": alert.rule,
        "subject": alert.subject,
        "lineage": None if alert.lineage is None else str(alert.lineage),
        "key": alert.key,
        "count": alert.count,
        "threshold": alert.threshold,
        "tasks": list(alert.tasks),
        "sentence": alert.sentence,
        "advice": alert.advice,
        "raised_at": _iso(alert.raised_at),
        "seen_at": _iso(alert.seen_at),
        "resolved_at": _iso(alert.resolved_at),
    }


def slack_body(alert: Alert) -> dict[str, Any]:
    """An alert as Slack, and those who copy it, take it. What stands in keys and names mentions no user."""
    lines = [f"*{'Alert' if alert.is_open else 'Resolved'}: {alert.rule}* {alert.sentence}"]
    if alert.is_open:
        lines.append(alert.advice)
    if alert.tasks:
        lines.append(f"Tasks {', '.join(map(str, alert.tasks))}")
    if alert.lineage is not None:
        lines.append(f"Lineage {alert.lineage}")
    text = "\n".join(lines)
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")
