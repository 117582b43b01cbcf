"""What operators do and ask: how tasks, batches and workers stand, and what is to become of them."""

from __future__ import annotations

import uuid
from typing import Any

from onceward.batch import BatchStatus, as_batch_status
from onceward.client import Client
from onceward.errors import BatchNotFound, ConfigError, TaskNotFound
from onceward.lineage_view import Found, as_lineage_id, as_refusal
from onceward.model import codec
from onceward.model.batch import BatchOutcome
from onceward.model.payload import Payload, has_own_key, identity, payload_key
from onceward.model.status import Status, status_named
from onceward.model.times import Duration, milliseconds
from onceward.store import batches, lineages, operate, pruning, reports, verify, waits
from onceward.store.op import Op
from onceward.view import Task, as_task
from onceward.why import Why, why

LARGEST_ID = 2**63 - 1
MOST_FOUND = 1_000
"""How many tasks and refusals `find` looks at."""


class Operating(Client):
    """An app, for those who look after its work."""

    def task(self, task_id: int) -> Task:
        """A task as it stands now, with its results and its history."""

        def look() -> Op[Task]:
            row = yield from reports.task(_possible(task_id))
            if row is None:
                raise TaskNotFound(task_id)
            results = yield from reports.results(task_id)
            events = yield from reports.events(task_id)
            progress = yield from reports.progress(task_id)
            return as_task(row, self.registry, results, events, progress)

        return self._ask(look)

    def tasks(
        self,
        *,
        status: Status | str | None = None,
        kind: str | None = None,
        key: str | None = None,
        lineage: str | uuid.UUID | None = None,
        min_depth: int | None = None,
        stuck: bool = False,
        limit: int = 20,
    ) -> list[Task]:
        """The newest tasks, filtered. `stuck`: running, but their worker has been silent for longer than its lease."""
        wanted = status_named(status) if isinstance(status, str) else status
        before = self._store.clock.now() if stuck else None
        within = None if lineage is None else as_lineage_id(lineage)
        rows = self._ask(
            lambda: reports.tasks(
                status=wanted, kind=kind, key=key, lineage=within, min_depth=min_depth, stuck_at=before, limit=limit
            )
        )
        return [as_task(row, self.registry) for row in rows]

    def find(self, payload: Payload, lineage: str | uuid.UUID | None = None) -> Found:
        """Whether this work is active, done or refused, in a lineage or anywhere: its tasks and refusals."""
        within = None if lineage is None else as_lineage_id(lineage)
        sought = identity(payload.__kind__, payload_key(payload))

        def look() -> Op[Found]:
            ids, refusals = yield from lineages.find(sought, within, MOST_FOUND, own_key=has_own_key(type(payload)))
            found = yield from reports.described(ids)
            return Found(tuple(as_task(row, self.registry) for row in found), tuple(map(as_refusal, refusals)))

        return self._ask(look)

    def why(self, task_id: int) -> Why:
        """Why a task is not running, and until when, where that is known."""
        now = self._store.clock.now()
        found = self._ask(lambda: waits.standing(_possible(task_id), now))
        if found is None:
            raise TaskNotFound(task_id)
        return why(found, now, self.registry.limits_of)

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""
        return self._ask(reports.counts)

    def batches(self, *, status: str | None = None, limit: int = 20) -> list[BatchStatus]:
        """The newest batches; `status` is open, succeeded, partial or failed."""
        if status is not None and status.upper() not in BatchOutcome.__members__:
            words = ", ".join(one.word for one in BatchOutcome)
            raise ConfigError(f"{status!r} is no status of a batch; there are: {words}")
        wanted = None if status is None else int(BatchOutcome[status.upper()])
        return [as_batch_status(row) for row in self._ask(lambda: batches.read_batches(status=wanted, limit=limit))]

    def batch_status(self, name: str) -> BatchStatus:
        """A batch as it stands now."""
        rows = self._ask(lambda: batches.read_batches(name=name))
        if not rows:
            raise BatchNotFound(name)
        return as_batch_status(rows[0])

    def workers(self) -> list[reports.WorkerRow]:
        """The living workers, and how many tasks each holds."""
        return self._ask(reports.workers)

    def backlog(self) -> reports.Backlog:
        """What could run now, line by line, and what may run later."""
        return self._ask(reports.backlog)

    def cancel(self, task_id: int, reason: str = "cancelled by an operator") -> None:
        """Cancel a task that has not ended. After this returns nothing of it is written any more."""
        self._transact(lambda: operate.cancel(_possible(task_id), reason, self._store.clock.now()))

    def retry(self, task_id: int, *, fresh: bool = False, stage: str | Any = None) -> None:
        """Open an ended task again. Finished stages are kept, unless `fresh`; from `stage` on they are forgotten."""
        if fresh and stage is not None:
            raise ConfigError("give fresh=True or stage=, not both")
        name = stage if stage is None or isinstance(stage, str) else stage.name
        forget: list[str] = []
        queue, joins = None, False
        if name is not None:
            task = self.task(task_id)
            stages = {one.name: one for one in self.registry[task.kind].stages}
            names = list(stages)
            if name not in names:
                raise ConfigError(f"there is no stage {name!r}; the stages are {', '.join(names)}")
            before, after = names[: names.index(name)], names[names.index(name) :]
            if missing := [one for one in before if one not in task.results]:
                raise ConfigError(f"task {task_id} cannot start at {name!r}: {missing[0]!r} has no stored result")
            forget = after + [one for one in task.results if one not in names]
            queue, joins = stages[name].queue, stages[name].joins
        elif fresh and (kind := self.task(task_id).kind) in self.registry.kinds:
            queue = self.registry[kind].stages[0].queue
        self._transact(
            lambda: operate.reopen(
                _possible(task_id),
                fresh=fresh,
                stage=name,
                forget=forget,
                now=self._store.clock.now(),
                queue=queue,
                joins=joins,
            )
        )

    def signal(self, task_id: int, name: str, value: Any = True) -> None:
        """Send a signal to a task, before or while it waits for it. Its stage reads the value with `ctx.signal`."""
        codec.checked_name(name, "a signal")
        if value is None:
            raise ConfigError(f"None is what a stage reads as long as {name!r} has not come; send another value")
        data = codec.encoded(value, f"the value of signal {name!r}")
        self._transact(lambda: operate.signal(_possible(task_id), name, data, self._store.clock.now()))

    def verify(self) -> verify.Report:
        """Check every invariant of the engine on the database as it is now."""
        with self._lock:
            return verify.verify(self._session(), self._store.clock.now())

    def prune(self, older_than: Duration | None = None) -> pruning.Pruned:
        """Delete ended tasks that are older than that (30 days by default), with all that belongs to them."""
        now = self._store.clock.now()
        age_ms = self.config.keep_ms if older_than is None else milliseconds(older_than)
        with self._lock:
            return pruning.prune(self._session(), now - age_ms, now)


def _possible(task_id: int) -> int:
    """The id of a task, if there can be one: a larger number than a database holds is that of none."""
    if isinstance(task_id, int) and task_id > LARGEST_ID:
        raise TaskNotFound(task_id)
    return task_id
