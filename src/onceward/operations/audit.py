"""The audit log: what callers of the dashboard and of the HTTP API have changed, or were not allowed to."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.model import arguments
from onceward.model.times import moment
from onceward.store.operations import access
from onceward.store.operations.access import AuditRow

LONGEST_NOTE = 1_000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that a caller has changed, or was not allowed to."""

    id: int
    at: datetime
    author: str
    """The name of the token, or `local` on a machine that asks for none."""
    role: str
    action: str
    target: str
    """What it was about, as the path and the query of the request say it."""
    count: int
    """How many tasks, sources, … it concerned."""
    outcome: str
    """`done`, or `refused`."""
    note: str


class Audit(Namespace):
    """`app.audit`: the log of actions, kept as long as ended tasks are."""

    def list(self, *, before: int | None = None, limit: int = 100) -> builtins.list[AuditEntry]:
        """The newest entries; `before` is the id of the oldest one that was seen, for those that came earlier."""
        most = arguments.most_of(limit)
        start = arguments.LARGEST_ID if before is None else arguments.count_of(before, "before")
        rows = self._client._ask(lambda: access.list_audit(start, most))
        return [AuditEntry(row.id, moment(row.at), *row[2:]) for row in rows]

    alist = awaited(list)

    def record(
        self,
        *,
        author: str,
        role: str,
        action: str,
        target: Mapping[str, Any],
        count: int = 1,
        outcome: str = "done",
        note: str = "",
    ) -> None:
        """Append an entry: who did what, to what, to how many."""
        what = " ".join(f"{name}={value}" for name, value in target.items())
        row = AuditRow(
            0, self._client._store.clock.now(), _held(author), role, action, _held(what), count, outcome, _held(note)
        )
        self._client._transact(lambda: access.record(row))

    arecord = awaited(record)


def _held(text: str) -> str:
    """Return a text that both databases hold, cut to the room that an entry has."""
    clean = text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= LONGEST_NOTE else f"{clean[: LONGEST_NOTE - 1]}…"
