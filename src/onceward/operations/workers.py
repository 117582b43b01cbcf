"""The workers of an app's database: which are alive, what each holds, and what runs in those of this machine."""

from __future__ import annotations

import builtins
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.store.drivers.open import Store
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.reports import tasks as reports
    from onceward.worker import presence
else:
    (reports,) = modules("onceward.store.reports.tasks")
    (presence,) = modules("onceward.worker.presence")


class Workers(Namespace):
    """`app.workers`: the processes that work on the tasks of this database."""

    def list(self) -> builtins.list[reports.WorkerRow]:
        """The living workers, how many tasks each holds, and what those on this machine are running."""
        store = self._client._store
        return [_with_stages(worker, store) for worker in self._client._ask(reports.workers)]

    alist = awaited(list)


def _with_stages(worker: reports.WorkerRow, store: Store) -> reports.WorkerRow:
    if worker.pid and has_died(worker.host, worker.presence, store):
        return msgspec.structs.replace(worker, is_dead=True)
    stages = stages_of(worker.host, worker.presence, store)
    if stages is None:
        return worker
    in_threads = sum(stage.thread != 0 for stage in stages)
    return msgspec.structs.replace(worker, running=len(stages), threads=in_threads)


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
