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
from onceward.errors import ConfigError, PayloadError, TaskChanged, TaskNotFound
from onceward.model import arguments, codec
from onceward.model.enqueue_options import NO_OPTIONS
from onceward.model.payload import Payload, has_own_key, identity, payload_key
from onceward.model.retry import retry_in_force
from onceward.model.status import Status, status_named
from onceward.model.times import Duration, milliseconds
from onceward.operations.task_ref import TaskRef, task_number
from onceward.store.lineage.pause_lineage import paused_above
from onceward.store.op import Op, Query
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.client import importing
    from onceward.client.importing import Imported, Line, Problem
    from onceward.model.error_groups import ErrorGroup
    from onceward.model.filter_completion import Completion
    from onceward.model.task_filter import TaskFilter
    from onceward.operations import searching
    from onceward.operations.searching import Counted, TaskPage
    from onceward.store.lineage import trees
    from onceward.store.operations import importing as old_tasks
    from onceward.store.operations import pruning, task_actions
    from onceward.store.reports import details as detail_rows
    from onceward.store.reports import tasks as reports
    from onceward.views import details
    from onceward.views import lineage as lineage_view
    from onceward.views import task as view
    from onceward.views.details import TaskDetails
    from onceward.views.lineage import Found
    from onceward.views.task import Task
else:
    lineage_view, view, details = modules("onceward.views.lineage", "onceward.views.task", "onceward.views.details")
    trees, task_actions, pruning = modules(
        "onceward.store.lineage.trees", "onceward.store.operations.task_actions", "onceward.store.operations.pruning"
    )
    reports, detail_rows = modules("onceward.store.reports.tasks", "onceward.store.reports.details")
    (searching,) = modules("onceward.operations.searching")
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

    def details(self, task: TaskRef) -> TaskDetails:
        """A task with all that its page shows: attempts stage by stage, stored values, ancestors, children, refusals.

        Lists are bounded: the newest 500 events, the first 20 children and refusals.
        """
        number, registry = task_number(task), self._client._registry
        found = self._client._ask(lambda: detail_rows.details(number))
        if found is None:
            raise TaskNotFound(number)
        retries = None
        if found.task.kind in registry.kinds:
            retries = retry_in_force(registry[found.task.kind].retry, self._client.config.usual_retries).retries
        return details.as_details(found, registry, retries)

    adetails = awaited(details)

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

    def secret_fields(self) -> dict[str, frozenset[str]]:
        """The fields of payloads that viewers do not see, by kind: of those in the code and those that workers had."""
        stored = self._client._ask(reports.all_secret_fields)
        known = self._client._registry.secret_fields
        return {kind: stored.get(kind, frozenset()) | known.get(kind, frozenset()) for kind in {*stored, *known}}

    asecret_fields = awaited(secret_fields)

    def search(self, filter: str | TaskFilter = "", cursor: str | None = None, limit: int = 50) -> TaskPage:
        """The newest tasks that match a filter (`status:failed kind:page error:"timeout"`); `cursor` goes on.

        A filter that no index answers looks back a bounded way: then the page says how far, and its cursor goes on.
        """
        wanted, most = searching.parsed(filter), arguments.most_of(limit)
        return searching.Searching(self._client).page(wanted, cursor, most)

    asearch = awaited(search)

    def count(self, filter: str | TaskFilter = "") -> Counted:
        """How many tasks match a filter: exactly, or at least so many where that is too much to look at."""
        return searching.Searching(self._client).count(searching.parsed(filter))

    acount = awaited(count)

    def groups(self, filter: str | TaskFilter = "") -> builtins.list[ErrorGroup]:
        """Errors that are alike, of the tasks that match: of failed ones, if the filter names no status."""
        return searching.Searching(self._client).groups(searching.parsed(filter))

    agroups = awaited(groups)

    def complete(self, text: str, position: int) -> builtins.list[Completion]:
        """What may be written at a position of a filter: fields, then values."""
        return searching.completions(self._client, text, position)

    acomplete = awaited(complete)

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

    def cancel(self, task: TaskRef, reason: str = "cancelled by an operator", *, version: str | None = None) -> None:
        """Cancel a task that has not ended. After this returns nothing of it is written any more.

        With the `version` of the task that was looked at it is refused with `TaskChanged` if the task has moved since.
        """
        number, why = task_number(task), arguments.reason_of(reason)

        def act() -> Op[None]:
            yield from self._unless_changed(number, version)
            yield from task_actions.cancel(number, why, self._client._store.clock.now())

        self._client._transact(act)

    acancel = awaited(cancel)

    def retry(self, task: TaskRef, *, fresh: bool = False, stage: str | Any = None, version: str | None = None) -> None:
        """Open an ended task again. Finished stages are kept, unless `fresh`; from `stage` on they are forgotten.

        `version` is that of the task which was looked at, as for `cancel`.
        """
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

        def act() -> Op[None]:
            if version is not None:
                yield from paused_above([number])  # locks those above it first, as the reopening does
            yield from self._unless_changed(number, version)
            now = self._client._store.clock.now()
            yield from task_actions.reopen(
                number, fresh=fresh, stage=name, forget=forget, now=now, queue=queue, joins=joins
            )

        self._client._transact(act)

    aretry = awaited(retry)

    def _unless_changed(self, number: int, version: str | None) -> Op[None]:
        """Refuse to go on if a task is no longer what the caller has looked at; from here on it cannot move."""
        if version is None:
            return
        yield Query("lock_tasks", {"ids": [number]})
        row = yield from reports.task(number)
        if row is None:
            raise TaskNotFound(number)
        if view.as_task(row, self._client._registry).version != version:
            raise TaskChanged(number, f"{row.status.word} in run {row.run}")

    def signal(self, task: TaskRef, name: str, value: Any = True, *, version: str | None = None) -> None:
        """Send a signal to a task, before or while it waits for it. Its stage reads the value with `ctx.signal`.

        `version` is that of the task which was looked at, as for `cancel`.
        """
        number = task_number(task)
        codec.checked_name(name, "a signal")
        if value is None:
            raise ConfigError(f"None is what a stage reads as long as {name!r} has not come; send another value")
        data = codec.encoded(value, f"the value of signal {name!r}")

        def act() -> Op[None]:
            yield from self._unless_changed(number, version)
            yield from task_actions.signal(number, name, data, self._client._store.clock.now())

        self._client._transact(act)

    asignal = awaited(signal)

    def prune(self, older_than: Duration | None = None) -> pruning.Pruned:
        """Delete ended tasks that are older than that (30 days by default), with all that belongs to them."""
        now = self._client._store.clock.now()
        age_ms = self._client.config.keep_ms if older_than is None else milliseconds(older_than)
        with self._client._lock:
            return pruning.prune(self._client._session(), now - age_ms, now)

    aprune = awaited(prune)

    def approve(self, task: TaskRef, *, version: str | None = None) -> None:
        """Let a task go on that waits for an operator's approval: the signal "approved"."""
        self.signal(task, "approved", version=version)

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

        An item is known by its `id`, or else by its key, within the import of that `name`: importing it again
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
