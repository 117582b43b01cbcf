"""Doing something to all tasks that match a filter: asking first, showing progress, stopping at Ctrl-C."""

from __future__ import annotations

import sys
import time

from rich.text import Text

from onceward import App
from onceward.cli.answers import answer
from onceward.cli.documents import Document, iso
from onceward.cli.exits import BAD_ANSWER, FINE, INTERRUPTED, complain
from onceward.cli.options import Output
from onceward.errors import ConfigError
from onceward.operations.bulk import BulkPreview, BulkStatus
from onceward.store.operations.bulk import Action
from onceward.terminal import console

ASK_AGAIN_S = 0.5
DONE_WORDS: dict[str, str] = {"retry": "retried", "cancel": "cancelled", "approve": "approved"}


def act_on_all(
    app: App, output: Output, action: Action, filter: str, *, yes: bool, reason: str = "cancelled by an operator"
) -> int:
    """Do something to all tasks that match a filter, after a look at how many they are. Ctrl-C stops it."""
    preview = app.bulk.preview(action, filter)
    if preview.count.is_exact and not preview.count.n:
        answer(output, lambda: _document(None, preview), lambda: [Text(f"no task matches {preview.filter}", "dim")])
        return FINE
    if not yes and not _agreed(preview):
        return BAD_ANSWER
    status = app.bulk.start(action, filter, reason=reason)
    shown = Progress()
    try:
        while (status := app.bulk.carry_on(status.id, shown.show)).is_open:
            time.sleep(ASK_AGAIN_S)  # another process has it: it says how far it is, and we go on if it dies
            shown.show(status)
    except KeyboardInterrupt:
        status = app.bulk.stop(status.id)
    finally:
        shown.end()
    answer(output, lambda: _document(status, preview), lambda: [sentence_of(status)])
    if status.left_alone and status.note:
        complain(f"left alone: {status.note}" + ("; and others" if status.left_alone > 1 else ""))
    return INTERRUPTED if status.state == "stopped" else FINE


def _agreed(preview: BulkPreview) -> bool:
    what = f"{preview.action} {preview.count} tasks that match: {preview.filter}"
    if not sys.stdin.isatty():
        raise ConfigError(f"this would {what}; say --yes if that is meant")
    where = console(to_stderr=True)
    where.print(Text(f"{what}\nGo on? [y/N] "), end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Progress:
    """Shows one line on a terminal that tells how far an action has come."""

    def __init__(self) -> None:
        self._where = console(to_stderr=True)
        self._is_shown = False

    def show(self, status: BulkStatus) -> None:
        """Show it as it is now."""
        if self._where.is_terminal:
            self._is_shown = True
            left = f", {status.left_alone:,} left alone" if status.left_alone else ""
            line = f"{DONE_WORDS[status.action]} {status.done:,} of {status.expected}{left}; Ctrl-C stops"
            self._where.file.write(f"\r\x1b[2K{line}")
            self._where.file.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._where.file.write("\r\x1b[2K")


def bulk_document(status: BulkStatus) -> Document:
    """An action on many tasks as it is listed."""
    return {
        "id": status.id,
        "action": status.action,
        "filter": status.filter,
        "author": status.author,
        "state": status.state,
        "done": status.done,
        "left_alone": status.left_alone,
        "expected": status.expected.n,
        "expected_is_exact": status.expected.is_exact,
        "progress": round(status.progress, 4),
        "note": status.note or None,
        "created_at": iso(status.created_at),
        "ended_at": iso(status.ended_at),
    }


def _document(status: BulkStatus | None, preview: BulkPreview) -> Document:
    if status is not None:
        return bulk_document(status)
    return {"id": None, "action": preview.action, "filter": preview.filter, "done": 0, "left_alone": 0, "expected": 0}


def sentence_of(status: BulkStatus) -> Text:
    """What has come of it, in a line."""
    left = f", {status.left_alone:,} left alone because they had changed" if status.left_alone else ""
    said = Text.assemble((f"{DONE_WORDS[status.action]} ", "green"), f"{status.done:,} tasks{left}")
    if status.state == "stopped":
        said.append(f"; stopped, of {status.expected}", "yellow")
    elif status.is_open:
        said.append(f" of {status.expected} so far", "dim")
    return said
