"""Work at set times: how schedules stand, and what operators do with them."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from onceward.authoring.current_stage import spawning_stage
from onceward.client.awaited import awaited
from onceward.client.client import Client
from onceward.client.enqueueing import Enqueued, Enqueueing
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError, ScheduleNotFound
from onceward.model import arguments
from onceward.model.enqueue_options import NO_OPTIONS
from onceward.model.schedule import Cron
from onceward.model.times import moment
from onceward.store.op import Op
from onceward.store.operations.schedules import (
    FiredTask,
    ScheduleRow,
    declare,
    enqueue_fired,
    read_schedules,
    set_paused,
)
from onceward.worker.scheduler import KnownSchedules


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule at one moment."""

    name: str
    kind: str
    expression: str
    tz: str
    missed: str
    next_at: datetime
    """When it fires next. In the past: it is paused, or no worker that knows it is at work."""
    last_at: datetime | None
    """The last of its times that was fired."""
    last_task: int | None
    fired: int
    """How many of its times were fired."""
    paused: bool
    is_known: bool
    """Whether it is in the code of this app; what is in no code any more is not fired."""


class Schedules(Namespace):
    """`app.schedules`: work that is enqueued at set times."""

    def __init__(self, client: Client, known: KnownSchedules) -> None:
        super().__init__(client)
        self._known = known

    def list(self) -> builtins.list[ScheduleStatus]:
        """How all schedules stand, by name: those in the code of this app, and those that were declared before."""
        now = self._client._store.clock.now()
        rows = self._client._ask(read_schedules)
        for cron in self._known:
            if cron.name not in rows:  # no worker has been here yet
                rows[cron.name] = _undeclared(cron, now)
        return [self._status(rows[name]) for name in sorted(rows)]

    alist = awaited(list)

    def _next_runs(self, name: str, count: int = 3) -> builtins.list[datetime]:
        """The next times of a schedule in the code of this app, from now on; none for one that it does not know."""
        if name not in self._known:
            return []
        cron, at, found = self._known[name], self._client._store.clock.now(), []
        for _ in range(min(count, 100)):
            at = cron.next_after(at)
            found.append(moment(at))
        return found

    def pause(self, name: str) -> None:
        """Let a schedule fire no more before it is resumed."""
        self._set_paused(name, True)

    apause = awaited(pause)

    def resume(self, name: str) -> None:
        """Let a paused schedule go on. The times in between were missed, and it is as with any others."""
        self._set_paused(name, False)

    aresume = awaited(resume)

    def run_now(self, name: str) -> Enqueued:
        """Enqueue the work of a schedule now, besides its times, which stay as they are; also if it is paused."""
        if spawning_stage(root=False, conn=None) is not None:
            raise ConfigError("run_now begins a lineage of its own; it is nothing for a stage, which spawns its work")
        arguments.text_of(name, "name of a schedule")
        if name not in self._known:
            known = ", ".join(cron.name for cron in self._known) or "none"
            raise ConfigError(
                f"the code of this app has no schedule {name!r} whose work it could enqueue; it has: {known}"
            )
        now = self._client._store.clock.now()
        [begun] = self._client._transact(lambda: enqueue_fired(self._known[name], [now], self._known.begin, now))
        return Enqueued(begun.task, begun.is_new, None if begun.is_new else begun.task, begun.reason)

    arun_now = awaited(run_now)

    def _set_paused(self, name: str, paused: bool) -> None:
        arguments.text_of(name, "name of a schedule")
        now = self._client._store.clock.now()

        def change() -> Op[bool]:
            rows = yield from read_schedules()
            if name not in rows and name in self._known:
                yield from declare([self._known[name]], now)
            return (yield from set_paused(name, paused, now))

        if not self._client._transact(change):
            raise ScheduleNotFound(name)

    def _status(self, row: ScheduleRow) -> ScheduleStatus:
        return ScheduleStatus(
            row.name,
            row.kind,
            row.expression,
            row.tz,
            row.missed,
            moment(row.next_at),
            None if row.last_at is None else moment(row.last_at),
            row.last_task,
            row.fired,
            bool(row.paused),
            row.name in self._known,
        )


def known_schedules(client: Enqueueing, crons: Iterable[Cron]) -> KnownSchedules:
    """Return the schedules of an app, each for a kind that the app knows."""

    def begin(cron: Cron, count: int, now: int) -> Op[Sequence[FiredTask]]:
        begun = yield from client._enqueue(client._rooting.roots([cron.payload] * count, now, NO_OPTIONS))
        return [FiredTask(one.task, one.created, one.reason) for one in begun]

    known = KnownSchedules(crons, begin)
    for cron in known:
        client._registry[cron.payload.__kind__]
    return known


def _undeclared(cron: Cron, now: int) -> ScheduleRow:
    next_at = cron.next_after(now)
    return ScheduleRow(
        cron.name, cron.payload.__kind__, cron.expression, cron.tz, cron.missed, next_at, None, None, 0, 0
    )
