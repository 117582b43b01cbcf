"""The one place where an answer to an assistant takes keys, payloads and results from a task.

An assistant sends what it reads to other machines: it sees what a viewer sees, whatever it may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onceward.mcp.texts import stored
from onceward.model import codec
from onceward.web.filters import allowed_filter
from onceward.web.roles import Caller, Role
from onceward.web.shown import shown_key, shown_key_of, shown_payload

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.model.task_filter import TaskFilter
    from onceward.views.task import Task

ASSISTANT = Caller("mcp", Role.VIEWER)
LONGEST_PAYLOAD = 1_500
LONGEST_RESULT = 500
LONGEST_KEY = 120


def key_text(task: Task, most: int = LONGEST_KEY) -> str:
    """Return the key of a task as a viewer may see it, marked as data."""
    return stored(shown_key(task, ASSISTANT), most)


def key_text_of(kind: str, key: str, secret: Mapping[str, frozenset[str]]) -> str:
    """Return a key that stands without its task, as a viewer may see it, marked as data."""
    return stored(shown_key_of(kind, key, ASSISTANT, secret), LONGEST_KEY)


def payload_text(task: Task) -> str:
    """Return the payload of a task as a viewer may see it, marked as data."""
    return stored(_text(shown_payload(task, ASSISTANT)), LONGEST_PAYLOAD)


def result_lines(task: Task) -> list[str]:
    """Return what the finished stages of a task have returned, a line for each."""
    return [f"  {stored(stage, 80)}: {stored(_text(value), LONGEST_RESULT)}" for stage, value in task.results.items()]


def filter_for(app: App, text: str) -> TaskFilter:
    """Return the filter that a text means for a viewer, who cannot ask for secret fields either."""
    return allowed_filter(text, ASSISTANT, app.tasks.secret_fields() if text else {})


def _text(value: Any) -> str:
    return codec.encoded(value, "a stored value").decode("utf-8", "replace")
