"""What operators ask about tasks, and what is to become of one of them."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from onceward.authoring.current_stage import spawning_stage
from onceward.client.awaited import awaited
from onceward.client.enqueueing import Enqueueing
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError, PayloadError, TaskNotFound
from onceward.model import arguments, codec
from onceward.model.enqueue_options import NO_OPTIONS
from onceward.model.payload import Payload, has_own_key, identity, payload_key
from onceward.model.status import Status, status_named
from onceward.model.times import Duration, milliseconds
from onceward.operations.task_ref import TaskRef, task_number
from onceward.store.op import Op
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.client import importing
    from onceward.client.importing import Imported, Line, Problem
    from onceward.store.lineage import trees
    from onceward.store.operations import importing as old_tasks
    from onceward.store.operations import pruning, task_actions
    from onceward.store.reports import tasks as reports
    from onceward.views import lineage as lineage_view
    from onceward.views import task as view
    from onceward.views.lineage import Found
    from onceward.views.task import Task
else:
    lineage_view, view = modules("onceward.views.lineage", "onceward.views.task")
    trees, task_actions, pruning = modules(
        "onceward.store.lineage.trees", "onceward.store.operations.task_actions", "onceward.store.operations.pruning"
    )
    (reports,) = modules("onceward.store.reports.tasks")
    importing, old_tasks = modules("onceward.client.importing", "onceward.store.operations.importing")

MOST_FOUND = 1_000
"""How many tasks and refusals `find` looks at."""


class Tasks(Namespace):
    """`app.tasks`: what became of tasks, and what an operator does with one."""

    _client: Enqueueing

    def get(self, task: TaskRef) -> Task:
        """A task as it stands now, with its results and its history."""
        number = task_number(task)

        def look() -> Op[Task]:
            row = yield from reports.task(number)
            if row is None:
                raise TaskNotFound(number)
            results = yield from reports.results(number)
            events = yield from reports.events(number)
            progress = yield from reports.progress(number)
            return view.as_task(row, self._client._registry, results, events, progress)

        return self._client._ask(look)

    aget = awaited(get)

    def list(
        self,
        *,
        status: Status | str | None = None,
        kind: str | None = None,
        key: str | None = None,
        lineage: str | uuid.UUID | None = None,
        min_depth: int | None = None,
        stuck: bool = False,
        limit: int = 20,
    ) -> builtins.list[Task]:
        """The newest tasks, filtered. `stuck`: running, but their worker has been silent for longer than its lease."""
        wanted = None if status is None else status_named(status)
        of_kind, of_key = arguments.some_text_of(kind, "kind"), arguments.some_text_of(key, "key")
        depth, most = arguments.depth_of(min_depth), arguments.most_of(limit)
        before = self._client._store.clock.now() if stuck else None
        within = None if lineage is None else lineage_view.as_lineage_id(lineage)
        rows = self._client._ask(
            lambda: reports.tasks(
                status=wanted, kind=of_kind, key=of_key, lineage=within, min_depth=depth, stuck_at=before, limit=most
            )
        )
        return [view.as_task(row, self._client._registry) for row in rows]

    alist = awaited(list)

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
                tuple(view.as_task(row, self._client._registry) for row in found),
                tuple(map(lineage_view.as_refusal, refusals)),
            )

        return self._client._ask(look)

    afind = awaited(find)

    def cancel(self, task: TaskRef, reason: str = "cancelled by an operator") -> None:
        """Cancel a task that has not ended. After this returns nothing of it is written any more."""
        number, why = task_number(task), arguments.reason_of(reason)
        self._client._transact(lambda: task_actions.cancel(number, why, self._client._store.clock.now()))

    acancel = awaited(cancel)

    def retry(self, task: TaskRef, *, fresh: bool = False, stage: str | Any = None) -> None:
        """Open an ended task again. Finished stages are kept, unless `fresh`; from `stage` on they are forgotten."""
        if fresh and stage is not None:
            raise ConfigError("give fresh=True or stage=, not both")
        number = task_number(task)
        name = stage if stage is None or isinstance(stage, str) else getattr(stage, "name", stage)
        forget: list[str] = []
        queue, joins = None, False
        if name is not None:
            ended = self.get(number)
            stages = {one.name: one for one in self._client._registry[ended.kind].stages}
            names = [*stages]
            if name not in names:
                raise ConfigError(f"there is no stage {arguments.shown(name)}; the stages are {', '.join(names)}")
            before, after = names[: names.index(name)], names[names.index(name) :]
            if missing := [one for one in before if one not in ended.results]:
                raise ConfigError(f"task {number} cannot start at {name!r}: {missing[0]!r} has no stored result")
            forget = after + [one for one in ended.results if one not in names]
            queue, joins = stages[name].queue, stages[name].joins
        elif fresh and (found := self.get(number)).kind in self._client._registry.kinds:
            if found.payload is None:
                raise ConfigError(
                    f"task {number} cannot begin again: this code does not read its payload"
                    + (f"; {found.reason}" if found.status is Status.WAITING else "")
                )
            queue = self._client._registry[found.kind].stages[0].queue
        self._client._transact(
            lambda: task_actions.reopen(
                number,
                fresh=fresh,
                stage=name,
                forget=forget,
                now=self._client._store.clock.now(),
                queue=queue,
                joins=joins,
            )
        )

    aretry = awaited(retry)

    def signal(self, task: TaskRef, name: str, value: Any = True) -> None:
        """Send a signal to a task, before or while it waits for it. Its stage reads the value with `ctx.signal`."""
        number = task_number(task)
        codec.checked_name(name, "a signal")
        if value is None:
            raise ConfigError(f"None is what a stage reads as long as {name!r} has not come; send another value")
        data = codec.encoded(value, f"the value of signal {name!r}")
        self._client._transact(lambda: task_actions.signal(number, name, data, self._client._store.clock.now()))

    asignal = awaited(signal)

    def prune(self, older_than: Duration | None = None) -> pruning.Pruned:
        """Delete ended tasks that are older than that (30 days by default), with all that belongs to them."""
        now = self._client._store.clock.now()
        age_ms = self._client.config.keep_ms if older_than is None else milliseconds(older_than)
        with self._client._lock:
            return pruning.prune(self._client._session(), now - age_ms, now)

    aprune = awaited(prune)

    def approve(self, task: TaskRef) -> None:
        """Let a task go on that waits for an operator's approval: the signal "approved"."""
        self.signal(task, "approved")

    aapprove = awaited(approve)

    def import_items(
        self,
        lines: Iterable[Line],
        *,
        kind: str | None = None,
        name: str = "import",
        fields: Mapping[str, str] | None = None,
        statuses: Mapping[str, Status | str] | None = None,
        on_problem: Callable[[Problem], None] | None = None,
    ) -> Imported:
        """Import items of an older system: JSON lines or mappings, each with a lineage of its own, assigned once.

        An item is known by its `id`, or else by its key, within the import of that `name`: whoever imports it again
        adds nothing. What was in work is pending here; what has ended stays ended, and can be retried. `fields` says
        where things stand in a line (`{"url": "job.link", "created_at": "createdAt"}`), `statuses` what words mean
        (`{"parked": "cancelled"}`). Without `kind` every line names its own. A line that cannot be read is in the
        report, with its number, and keeps no other from being imported.
        """
        if spawning_stage(root=False, conn=None) is not None:
            raise ConfigError("an import begins lineages of its own; it is nothing for a stage, which spawns its work")
        importer = importing.Importer(
            name=name,
            reader=importing.ItemReader(self._client._registry, kind, fields, statuses),
            make=lambda payload, now: self._client._rooting.task(payload, now, NO_OPTIONS),
            stopped=self._client._rooting.stopped,
            write=lambda scope, old, now: self._client._transact(lambda: old_tasks.import_tasks(scope, old, now)),
            now=self._client._store.clock.now,
            on_problem=on_problem,
        )
        return importer.run(lines)

    aimport_items = awaited(import_items)
