"""How a document stands, in words that `status` and `ingest` share."""

from __future__ import annotations

from onceward import App, Status, Task
from onceward_apps.documents.reads import Entry

READY, CONNECTING, UNCONNECTED, READING, STOPPED, UNREADABLE = (
    "ready",
    "ready, finding connections",
    "ready, connections stopped",
    "being read",
    "stopped",
    "unreadable",
)
GIVEN_UP = (Status.FAILED, Status.CANCELLED)


def task_of(app: App, entry: Entry) -> Task | None:
    """The task that works on a document, or has stopped to; None if nothing is to be done."""
    if "reading" in (entry.state, entry.newer_state):
        generation, kinds = entry.newer or entry.shown, ["document", "paid_document"]
    elif entry.generation and entry.connected_at is None:
        generation, kinds = entry.generation, ["detect_connections"]
    else:
        return None
    found = [
        task for kind in kinds for task in app.tasks.list(kind=kind, key=f"{entry.document}/{generation}", limit=1)
    ]
    return max(found, key=lambda task: task.id, default=None)


def standing(entry: Entry, task: Task | None) -> tuple[str, str]:
    """How a document stands, and what is to be said of it."""
    if entry.same_as is not None:
        return "same", f"same as {entry.same_as}"
    if entry.shown is None:
        return STOPPED, "the document that it was the same as has changed or is gone; ingest it again"
    if entry.generation == 0:
        return _of_newest(entry.state, entry.reason, entry.detail, task)
    word = READY if entry.connected_at is not None else CONNECTING
    if entry.newer is None:
        if word is CONNECTING and task is not None and task.status in GIVEN_UP:
            return UNCONNECTED, f"{task.reason or task.status.word}; ingest it again"
        return word, ""
    newer, why = _of_newest(entry.newer_state, entry.newer_reason, entry.newer_detail, task)
    return word, f"the newer file: {newer}{', ' if why else ''}{why}"


def _of_newest(state: str | None, reason: str | None, detail: str | None, task: Task | None) -> tuple[str, str]:
    if state == "failed":
        return UNREADABLE, f"{reason}: {detail}"
    if task is not None and task.status in GIVEN_UP:
        return STOPPED, task.reason or task.status.word
    if task is None or task.status is not Status.RUNNING:
        return READING, "" if task is None else (task.reason or "in line")
    return READING, task.stage or ""


def is_trouble(entry: Entry, task: Task | None) -> bool:
    """Whether a person should look at this document."""
    word, why = standing(entry, task)
    of_newer = (f"newer file: {trouble}" in why for trouble in (STOPPED, UNREADABLE))
    return word in (STOPPED, UNREADABLE, UNCONNECTED) or any(of_newer)
