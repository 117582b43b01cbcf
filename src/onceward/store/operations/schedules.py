"""Schedules: their rows, and firing each of their times exactly once (decision 22).

The row of a schedule holds its next time, `next_at`, which only moves on. A worker advances it by compare-and-set and
enqueues the task in the same transaction; a second worker finds it changed and does nothing. So no time fires twice: by
two workers, after a restart, or because a clock was set back; and a worker that dies before its commit has fired none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from onceward.model.schedule import Cron, Firing
from onceward.store.op import Many, Op, Query


class ScheduleRow(NamedTuple):
    """A schedule as it stands."""

    name: str
    kind: str
    expression: str
    tz: str
    missed: str
    next_at: int
    last_at: int | None
    last_task: int | None
    fired: int
    paused: int

    def has_times_of(self, cron: Cron) -> bool:
        """Whether the code means the same times."""
        return (self.expression, self.tz) == (cron.expression, cron.tz)

    def is_declared_as(self, cron: Cron) -> bool:
        """Whether nothing in the code has changed."""
        return self.has_times_of(cron) and (self.kind, self.missed) == (cron.payload.__kind__, cron.missed)


class FiredTask(NamedTuple):
    """The task that a schedule has enqueued, or why there is none."""

    task: int | None
    is_new: bool
    reason: str | None = None


EnqueueFired = Callable[[Cron, int, int], Op[Sequence[FiredTask]]]
"""Enqueues the work of a schedule, so many times, now."""


def read_schedules() -> Op[dict[str, ScheduleRow]]:
    """All schedules that were ever declared, by name."""
    return {row[0]: ScheduleRow(*row) for row in (yield Query("read_schedules"))}


def declare(crons: Iterable[Cron], now: int) -> Op[None]:
    """Store the schedules of the code; changed times count from now on."""
    for cron in sorted(crons, key=lambda one: one.name):
        yield Query(
            "declare_schedule",
            {
                "name": cron.name,
                "kind": cron.payload.__kind__,
                "expression": cron.expression,
                "tz": cron.tz,
                "missed": cron.missed,
                "next_at": cron.next_after(now),
                "now": now,
            },
        )


def fire(cron: Cron, seen_at: int, firing: Firing, begin: EnqueueFired, now: int) -> Op[list[FiredTask] | None]:
    """Fire a due schedule; None if another worker was faster, or it was paused or changed."""
    moved = yield Query(
        "advance_schedule",
        {
            "name": cron.name,
            "expression": cron.expression,
            "tz": cron.tz,
            "seen": seen_at,
            "next_at": firing.next_at,
            "last_at": firing.times[-1] if firing.times else None,
            "fired": len(firing.times),
        },
    )
    if not moved:
        return None
    if not firing.times:
        return []
    begun = yield from enqueue_fired(cron, firing.times, begin, now)
    yield Query("note_last_task", {"name": cron.name, "task": begun[-1].task})
    return begun


def enqueue_fired(cron: Cron, times: Sequence[int], begin: EnqueueFired, now: int) -> Op[list[FiredTask]]:
    """Enqueue the work of a schedule for some of its times; each new task knows which one is its own."""
    begun = list((yield from begin(cron, len(times), now)))
    new = [(one.task, at) for one, at in zip(begun, times, strict=True) if one.is_new]
    if new:
        yield Many("set_scheduled", new)
    return begun


def set_paused(name: str, paused: bool, now: int) -> Op[bool]:
    """Pause a schedule, or let it go on; whether there is one of that name."""
    rows = yield Query("pause_schedule", {"name": name, "paused": int(paused), "now": now})
    return bool(rows)
