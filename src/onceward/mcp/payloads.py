"""The one place where an answer to an assistant takes keys, payloads and results from a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onceward.mcp.texts import stored
from onceward.model import codec

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.views.task import Task

LONGEST_PAYLOAD = 1_500
LONGEST_RESULT = 500


def key_text(app: App, task: Task, most: int = 120) -> str:
    """Return the key of a task as a viewer may see it, marked as data; without a key of its own it is the payload."""
    return stored(task.key, most)


def payload_line(app: App, task: Task) -> str:
    """Return the payload of a task as a viewer may see it, marked as data."""
    if task.payload is None:
        return "not known to the code of this server; start it with --app to see it"
    return stored(_text(task.payload), LONGEST_PAYLOAD)


def result_lines(app: App, task: Task) -> list[str]:
    """Return what the finished stages of a task have returned, a line for each."""
    return [f"  {stage}: {stored(_text(value), LONGEST_RESULT)}" for stage, value in task.results.items()]


def _text(value: Any) -> str:
    return codec.encoded(value, "a stored value").decode("utf-8", "replace")
