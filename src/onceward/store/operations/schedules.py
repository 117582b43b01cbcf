"""Schedules: where each of them has come to, and how it is fired, exactly once by whoever is first.

The next time of a schedule stands in its row and only ever moves on. Who moves it from the time that it has seen to the
one after it enqueues, in the same transaction, what was asked for at that time; whoever comes second finds it moved. So
nothing is fired twice by two workers, after a restart, or because a clock was set back; and a worker that dies before
it has committed has fired nothing.
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


class Begun(NamedTuple):
    """What became of the work of a schedule: its task, or why there is none."""

    task: int | None
    is_new: bool
    reason: str | None = None


Begin = Callable[[Cron, int, int], Op[Sequence[Begun]]]
"""Enqueues the work of a schedule, so many times, now."""


def read_schedules() -> Op[dict[str, ScheduleRow]]:
    """All schedules that were ever declared, by name."""
    return {row[0]: ScheduleRow(*row) for row in (yield Query("read_schedules"))}


def declare(crons: Iterable[Cron], now: int) -> Op[None]:
    """Enter schedules, or what the code has changed of them. If their times are others now, they count from now on."""
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


def fire(cron: Cron, seen_at: int, firing: Firing, begin: Begin, now: int) -> Op[list[Begun] | None]:
    """Fire a schedule that was seen due; None if somebody else was faster, or it was paused or changed meanwhile."""
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
    begun = yield from begin_at(cron, firing.times, begin, now)
    yield Query("note_last_task", {"name": cron.name, "task": begun[-1].task})
    return begun


def begin_at(cron: Cron, times: Sequence[int], begin: Begin, now: int) -> Op[list[Begun]]:
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
