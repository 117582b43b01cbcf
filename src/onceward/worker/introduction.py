"""A worker makes itself known: its row, its presence file, and what its code declares."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

from onceward.authoring.registry import Registry
from onceward.errors import StoreFull
from onceward.settings.effective import EffectiveSettings
from onceward.store.attempts.expiry import store_kinds_at_expiry
from onceward.store.attempts.workers import NewWorker, register
from onceward.store.drivers.session import Session
from onceward.store.governance.budget_waits import declare as declare_budgets
from onceward.store.governance.budget_waits import wake_for_code as wake_for_budgets_of_code
from onceward.store.governance.sources import declare as declare_sources
from onceward.store.op import Op, Query
from onceward.store.operations.access import declare_secret_fields
from onceward.store.operations.intake import MakeTasks
from onceward.store.operations.task_actions import wake_for_code
from onceward.worker import presence
from onceward.worker.intake import take_in_some
from onceward.worker.scheduler import KnownSchedules, fire_due
from onceward.worker.worker_orders import Orders, worker_name


class Introduction:
    """Introduces one worker to the database."""

    def __init__(
        self,
        store: Any,
        registry: Registry,
        in_force: EffectiveSettings,
        orders: Orders,
        schedules: KnownSchedules,
        make_tasks: MakeTasks | None = None,
    ) -> None:
        self._store = store
        self._registry = registry
        self._in_force = in_force
        self._orders = orders
        self._schedules = schedules
        self._make_tasks = make_tasks
        self._queues = registry.queues if orders.queues is None else orders.queues

    def make_presence(self) -> presence.Presence | None:
        """Make the file that shows which stages run here; None where the database has no folder for it."""
        folder = self._store.presence_folder
        if folder is None:
            return None
        path = Path(self._orders.presence) if self._orders.presence else presence.new_path(folder)
        try:
            return presence.Presence(path, self._in_force.config.concurrency + self._in_force.config.threads)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise StoreFull(f"the disk of {folder} is full; a worker needs a little of it") from error
            raise

    def introduce(self, session: Session, here: presence.Presence | None) -> int:
        """Enter this worker and what its code declares, wake the tasks that waited for that, and fire due schedules."""
        kinds, queues = ",".join(self._registry.kinds), ",".join(self._queues)
        new = NewWorker(
            worker_name(self._orders.name),
            socket.gethostname(),
            os.getpid(),
            None if here is None else str(here.path),
            kinds,
            queues,
            self._in_force.config.lease_ms,
        )

        def enter() -> Op[int]:
            now = self._store.clock.now()
            worker = self._orders.worker
            if worker is None:
                worker = yield from register(new, now)
            else:
                yield Query("introduce_worker", {"worker": worker, "pid": new.pid, "kinds": kinds, "queues": queues})
            for pipeline in self._registry:
                yield from wake_for_code(pipeline.kind, pipeline._fingerprint, now)
            yield from store_kinds_at_expiry(*self._registry.kinds_at_expiry)
            yield from declare_secret_fields(self._registry.secret_fields)
            yield from wake_for_budgets_of_code(self._registry.kinds, self._registry.budgets_waited_for, now)
            yield from declare_sources(self._registry.longest_us, now)
            yield from declare_budgets(self._registry.budgets.values(), now)
            return worker

        session.measure_clock()
        self._in_force.look(session)
        entered = session.transact(enter)
        # Before the first look for work: who works until nothing is left would otherwise have left already.
        fire_due(session, self._schedules, self._store.clock.now())
        if self._make_tasks is not None:
            take_in_some(session, self._registry.kinds, self._make_tasks)
        return entered
