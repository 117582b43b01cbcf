"""The workers of an app's database: which are alive, what each holds, and what runs in those of this machine."""

from __future__ import annotations

import builtins
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.gates import source_of
from onceward.model.pause import scope_of
from onceward.model.times import moment
from onceward.operations.settings import checked_author
from onceward.store.drivers.open import Store
from onceward.store.governance import sources as source_rows
from onceward.store.lines import pause_scopes
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.reports import tasks as reports
    from onceward.worker import presence
else:
    (reports,) = modules("onceward.store.reports.tasks")
    (presence,) = modules("onceward.worker.presence")


@dataclass(frozen=True, slots=True)
class Pause:
    """Something that an operator has paused."""

    scope: str
    """`everything`, `queue:slow`, `pipeline:listing`, `source:web` or `source:web/example.com`."""
    at: datetime
    author: str


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task that a living worker holds."""

    worker: int
    task: int
    kind: str
    key: str
    stage: str | None
    since: datetime
    """When it was claimed."""
    is_running: bool | None
    """Whether its stage runs, or waits in the worker for a slot; None if that cannot be seen from this machine."""
    in_thread: bool


class Workers(Namespace):
    """`app.workers`: the processes that work on the tasks of this database, and what they must not begin."""

    def list(self) -> builtins.list[reports.WorkerRow]:
        """The living workers, how many tasks each holds, and what those on this machine are running."""
        store = self._client._store
        threads = self._client.config.threads
        return [_with_stages(worker, store, threads) for worker in self._client._ask(reports.workers)]

    alist = awaited(list)

    def held(self, *, limit: int = 200) -> builtins.list[HeldTask]:
        """What the living workers hold, by worker, the oldest claims first; and what of it runs on this machine."""
        most, store = arguments.most_of(limit), self._client._store
        running: dict[int, dict[int, presence.RunningStage] | None] = {}
        for worker in self._client._ask(reports.workers):
            stages = stages_of(worker.host, worker.presence, store)
            running[worker.id] = None if stages is None else {stage.task: stage for stage in stages}
        found = []
        for row in self._client._ask(lambda: reports.held(most)):
            here = running.get(row.worker)
            stage = None if here is None else here.get(row.task)
            runs = None if here is None else stage is not None
            in_thread = stage is not None and stage.thread != 0
            found.append(
                HeldTask(row.worker, row.task, row.kind, row.key, row.stage, moment(row.since), runs, in_thread)
            )
        return found

    aheld = awaited(held)

    def pause(
        self,
        *,
        pipeline: str | None = None,
        source: str | None = None,
        queue: str | None = None,
        author: str | None = None,
    ) -> str:
        """Let nothing of a pipeline, a source or a queue begin before it is resumed; of nothing said, nothing at all.

        Workers heed it within about a second. Stages that run end in good order; what stands in line keeps its place.
        `source="web"` means all instances of it, `source="web/example.com"` one. Returns what is paused, as a scope.
        """
        scope = scope_of(pipeline=pipeline, source=source, queue=queue)
        self._check_names(pipeline, source, queue)
        by, now = checked_author(author), self._client._store.clock.now()
        self._client._transact(lambda: pause_scopes.pause(scope, by, now))
        return scope

    apause = awaited(pause)

    def resume(self, *, pipeline: str | None = None, source: str | None = None, queue: str | None = None) -> str:
        """Let what was paused under the same name go on. Another pause may still hold some of it."""
        scope = scope_of(pipeline=pipeline, source=source, queue=queue)
        now = self._client._store.clock.now()
        self._client._transact(lambda: pause_scopes.resume(scope, now))
        return scope

    aresume = awaited(resume)

    def pauses(self) -> builtins.list[Pause]:
        """What is paused, since when and by whom. Lineages are paused one by one, and say so themselves."""
        return [Pause(row.scope, moment(row.at), row.author) for row in self._client._ask(pause_scopes.list_pauses)]

    apauses = awaited(pauses)

    def _check_names(self, pipeline: str | None, source: str | None, queue: str | None) -> None:
        """A name that the code of this app does not have is a typing error; without code there is nothing to ask. A
        source that is only used by `ctx.call` is known from its first use on."""
        if not self._client._registry.kinds:
            return
        named = None if source is None else source_of(source)
        for what, name, known in (
            ("pipeline", pipeline, self._client._registry.kinds),
            ("source", named, sorted(self._client._registry.sources)),
            ("queue", queue, self._client._registry.queues),
        ):
            if name is not None and name not in known:
                if name == named and self._client._ask(lambda: source_rows.read_sources(named, [])):
                    continue
                raise ConfigError(f"there is no {what} {name!r}; this app has: {', '.join(known) or 'none'}")


def _with_stages(worker: reports.WorkerRow, store: Store, threads: int) -> reports.WorkerRow:
    if worker.pid and has_died(worker.host, worker.presence, store):
        return msgspec.structs.replace(worker, is_dead=True)
    stages = stages_of(worker.host, worker.presence, store)
    if stages is None:
        return worker
    in_threads = sum(stage.thread != 0 for stage in stages)
    known = _presence(worker.host, worker.presence, store)
    places = None if known is None else presence.slots_of(known)
    slots = None if places is None or places - threads < len(stages) else places - threads
    return msgspec.structs.replace(worker, running=len(stages), threads=in_threads, slots=slots)


def has_died(host: str | None, path: str | None, store: Store) -> bool:
    """Whether the process of a worker of this machine, which had said that it works, has ended."""
    known = _presence(host, path, store)
    return known is not None and presence.is_dead(known)


def stages_of(host: str | None, path: str | None, store: Store) -> list[presence.RunningStage] | None:
    """The stages that run in a worker process of this machine; None if that cannot be seen from here."""
    known = _presence(host, path, store)
    return None if known is None else presence.running(known)


def _presence(host: str | None, path: str | None, store: Store) -> Path | None:
    return presence.recorded(path, store.presence_folder) if host == socket.gethostname() else None
