"""Filtered lists as files: CSV for spreadsheets, JSON lines for programs, written while they are read.

A page of tasks is read when the reader has taken the one before: a slow one holds no transaction and little memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec
from starlette.responses import StreamingResponse

from onceward.app import App
from onceward.harmless import harmless_cell
from onceward.model.task_filter import TaskFilter
from onceward.views.task import Task
from onceward.web.roles import Caller
from onceward.web.shown import shown_key, shown_payload

AT_ONCE = 200
COLUMNS = (
    "id", "kind", "key", "status", "stage", "reason", "run", "queue", "priority", "failures", "crashes", "deferrals",
    "lineage", "parent", "depth", "cost", "created_at", "started_at", "ended_at",
)  # fmt: skip
MEDIA = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


def response(app: App, wanted: TaskFilter, caller: Caller, form: Literal["csv", "jsonl"]) -> StreamingResponse:
    """Return the tasks that match, as a file to keep."""
    headers = {"Content-Disposition": f'attachment; filename="tasks.{form}"', "Cache-Control": "no-store"}
    lines = _as_csv(app, wanted, caller) if form == "csv" else _as_json(app, wanted, caller)
    return StreamingResponse(lines, media_type=MEDIA[form], headers=headers)


async def _as_csv(app: App, wanted: TaskFilter, caller: Caller) -> AsyncIterator[str]:
    yield _row([*COLUMNS, "payload"])
    async for task in _tasks(app, wanted):
        line = _line(task, caller)
        payload = msgspec.json.encode(line.pop("payload")).decode()
        yield _row([*(_cell(value) for value in line.values()), harmless_cell(payload)])


async def _as_json(app: App, wanted: TaskFilter, caller: Caller) -> AsyncIterator[str]:
    async for task in _tasks(app, wanted):
        yield msgspec.json.encode(_line(task, caller)).decode() + "\n"


async def _tasks(app: App, wanted: TaskFilter) -> AsyncIterator[Task]:
    """Yield the tasks that match, newest first; each page of them is one short read."""
    cursor: str | None = None
    while True:
        page = await app.tasks.asearch(wanted, cursor, AT_ONCE)
        for task in page.tasks:
            yield task
        cursor = page.next
        if cursor is None:
            return


def _line(task: Task, caller: Caller) -> dict[str, Any]:
    line: dict[str, Any] = {name: getattr(task, name) for name in COLUMNS}
    changed = {
        "id": str(task.id),
        "key": shown_key(task, caller),
        "status": task.status.word,
        "lineage": str(task.lineage),
        "parent": None if task.parent is None else str(task.parent),
        "cost": f"{task.cost:f}",
        "payload": shown_payload(task, caller),
    }
    return line | changed


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return harmless_cell(value) if isinstance(value, str) else str(value)


def _row(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()
