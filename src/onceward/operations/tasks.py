"""What operators do and ask: how tasks, batches and workers stand, and what is to become of them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from onceward.client.batch import BatchStatus, as_batch_status
from onceward.client.client import Client
from onceward.errors import BatchNotFound, ConfigError, PayloadError, TaskNotFound
from onceward.model import arguments, codec
from onceward.model.batch import BatchOutcome
from onceward.model.payload import Payload, has_own_key, identity, payload_key
from onceward.model.status import Status, status_named
from onceward.model.times import Duration, milliseconds
from onceward.operations.workers import has_died, stages_of
from onceward.store.lineage import batches
from onceward.store.op import Op
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.lineage import trees
    from onceward.store.operations import pruning, task_actions
    from onceward.store.reports import tasks as reports
    from onceward.store.reports.waits import WaitFacts
    from onceward.store.verify import verify
    from onceward.views import lineage as lineage_view
    from onceward.views import task as view
    from onceward.views import why as reasons
    from onceward.views.lineage import Found
    from onceward.views.task import Task
    from onceward.views.why import Why
else:
    lineage_view, view, reasons = modules("onceward.views.lineage", "onceward.views.task", "onceward.views.why")
    trees, task_actions, pruning = modules(
        "onceward.store.lineage.trees", "onceward.store.operations.task_actions", "onceward.store.operations.pruning"
    )
    reports, verify = modules("onceward.store.reports.tasks", "onceward.store.verify.verify")

MOST_FOUND = 1_000
"""How many tasks and refusals `find` looks at."""


class Operating(Client):
    """An app, for those who look after its work."""

    def task(self, task_id: int) -> Task:
        """A task as it stands now, with its results and its history."""
        number = arguments.task_number(task_id)

        def look() -> Op[Task]:
            row = yield from reports.task(number)
            if row is None:
                raise TaskNotFound(number)
            results = yield from reports.results(number)
            events = yield from reports.events(number)
            progress = yield from reports.progress(number)
            return view.as_task(row, self.registry, results, events, progress)

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
        wanted = None if status is None else status_named(status)
        of_kind, of_key = arguments.some_text_of(kind, "kind"), arguments.some_text_of(key, "key")
        depth, most = arguments.depth_of(min_depth), arguments.most_of(limit)
        before = self._store.clock.now() if stuck else None
        within = None if lineage is None else lineage_view.as_lineage_id(lineage)
        rows = self._ask(
            lambda: reports.tasks(
                status=wanted, kind=of_kind, key=of_key, lineage=within, min_depth=depth, stuck_at=before, limit=most
            )
        )
        return [view.as_task(row, self.registry) for row in rows]

    def find(self, payload: Payload, lineage: str | uuid.UUID | None = None) -> Found:
        """Whether this work is active, done or refused, in a lineage or anywhere: its tasks and refusals."""
        within = None if lineage is None else lineage_view.as_lineage_id(lineage)
        if not isinstance(payload, Payload):
            raise PayloadError(f"{arguments.shown(payload)} is no payload")
        sought = identity(payload.__kind__, payload_key(payload))

        def look() -> Op[Found]:
            ids, refusals = yield from trees.find_work(sought, within, MOST_FOUND, own_key=has_own_key(type(payload)))
            found = yield from reports.read_tasks(ids)
            return lineage_view.Found(
                tuple(view.as_task(row, self.registry) for row in found), tuple(map(lineage_view.as_refusal, refusals))
            )

        return self._ask(look)

    def why(self, task_id: int) -> Why:
        """Why a task is not running, until when, and which command unblocks it; `.below` says why its children wait."""
        number, now = arguments.task_number(task_id), self._store.clock.now()

        def has_started(one: WaitFacts) -> bool | None:
            stages = stages_of(one.host, one.presence, self._store)
            return None if stages is None else any(stage.task == one.id for stage in stages)

        found = self._ask(
            lambda: reasons.explain(
                number, now, self.registry.limits_of, has_started, lambda host, path: has_died(host, path, self._store)
            )
        )
        if found is None:
            raise TaskNotFound(number)
        return found

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""
        return self._ask(reports.counts)

    def batches(self, *, status: str | None = None, limit: int = 20) -> list[BatchStatus]:
        """The newest batches; `status` is open, succeeded, partial or failed."""
        if status is not None and (not isinstance(status, str) or status.upper() not in BatchOutcome.__members__):
            words = ", ".join(one.word for one in BatchOutcome)
            raise ConfigError(f"{arguments.shown(status)} is no status of a batch; there are: {words}")
        wanted = None if status is None else int(BatchOutcome[status.upper()])
        most = arguments.most_of(limit)
        return [as_batch_status(row) for row in self._ask(lambda: batches.read_batches(status=wanted, limit=most))]

    def batch_status(self, name: str) -> BatchStatus:
        """A batch as it stands now."""
        sought = arguments.text_of(name, "name of a batch")
        rows = self._ask(lambda: batches.read_batches(name=sought))
        if not rows:
            raise BatchNotFound(name)
        return as_batch_status(rows[0])

    def backlog(self) -> reports.Backlog:
        """What could run now, line by line, and what may run later."""
        return self._ask(reports.backlog)

    def cancel(self, task_id: int, reason: str = "cancelled by an operator") -> None:
        """Cancel a task that has not ended. After this returns nothing of it is written any more."""
        number, why = arguments.task_number(task_id), arguments.reason_of(reason)
        self._transact(lambda: task_actions.cancel(number, why, self._store.clock.now()))

    def retry(self, task_id: int, *, fresh: bool = False, stage: str | Any = None) -> None:
        """Open an ended task again. Finished stages are kept, unless `fresh`; from `stage` on they are forgotten."""
        if fresh and stage is not None:
            raise ConfigError("give fresh=True or stage=, not both")
        number = arguments.task_number(task_id)
        name = stage if stage is None or isinstance(stage, str) else getattr(stage, "name", stage)
        forget: list[str] = []
        queue, joins = None, False
        if name is not None:
            task = self.task(number)
            stages = {one.name: one for one in self.registry[task.kind].stages}
            names = list(stages)
            if name not in names:
                raise ConfigError(f"there is no stage {arguments.shown(name)}; the stages are {', '.join(names)}")
            before, after = names[: names.index(name)], names[names.index(name) :]
            if missing := [one for one in before if one not in task.results]:
                raise ConfigError(f"task {number} cannot start at {name!r}: {missing[0]!r} has no stored result")
            forget = after + [one for one in task.results if one not in names]
            queue, joins = stages[name].queue, stages[name].joins
        elif fresh and (found := self.task(number)).kind in self.registry.kinds:
            if found.payload is None:
                raise ConfigError(
                    f"task {number} cannot begin again: this code does not read its payload"
                    + (f"; {found.reason}" if found.status is Status.WAITING else "")
                )
            queue = self.registry[found.kind].stages[0].queue
        self._transact(
            lambda: task_actions.reopen(
                number,
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
        number = arguments.task_number(task_id)
        codec.checked_name(name, "a signal")
        if value is None:
            raise ConfigError(f"None is what a stage reads as long as {name!r} has not come; send another value")
        data = codec.encoded(value, f"the value of signal {name!r}")
        self._transact(lambda: task_actions.signal(number, name, data, self._store.clock.now()))

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
