"""What all pipelines share: when a task began, and where the rows that it asks for come from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from onceward import ConfigError, Context, Payload, Waiting
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.jobfinder.settings import Numbers, numbers

P = TypeVar("P", bound=Payload)


def now_of(ctx: Context[P]) -> int:
    """The time of a task, in milliseconds: when it was first started, so that a retry writes the same."""
    return round(ctx.task.started_at.timestamp() * 1_000)


def moment(ms: int) -> datetime:
    """A time in milliseconds as a moment."""
    return datetime.fromtimestamp(ms / 1_000, UTC)


def own_origin(ctx: Context[P]) -> Origin:
    """Where the row that a task is about comes from."""
    task = ctx.task
    return Origin(task.parent, str(task.lineage), task.depth, now_of(ctx))


def child_origin(ctx: Context[P]) -> Origin:
    """Where the row of a child comes from."""
    task = ctx.task
    return Origin(task.id, str(task.lineage), task.depth + 1, now_of(ctx))


def numbers_of(ctx: Context[P]) -> Numbers:
    """The settings in force. While one of them is invalid, the task waits until it is corrected."""
    try:
        return numbers(ctx.setting)
    except ConfigError as error:
        ctx.log.warning("settings are invalid", why=str(error))
        raise Waiting(after="1m", reason=f"settings are invalid: {error}") from error
