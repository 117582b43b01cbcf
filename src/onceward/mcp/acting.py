"""The tools that change something. The server has them only with `--allow-actions`; each needs two calls, and is
recorded in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from onceward.errors import ConfigError, IllegalTransition, TaskNotFound
from onceward.mcp.confirming import Confirmations, NotConfirmed
from onceward.mcp.payloads import key_text
from onceward.mcp.texts import MOST_LISTED, counted, stored
from onceward.model.pause import scope_of, scope_text
from onceward.operations.settings import checked_author

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.views.task import Task

MOST_TASKS = 50
"""On how many tasks one call acts."""
ROLE = "operator"

TaskNumbers = Annotated[
    list[Annotated[int, Field(ge=1)]],
    Field(description="The numbers of the tasks.", min_length=1, max_length=MOST_TASKS),
]
Token = Annotated[str, Field(description="Empty for a preview; then the token that the preview has returned.")]
Lineage = Annotated[str | None, Field(description="A lineage's id, or a task's number: it and all below it.")]
Name = Annotated[str | None, Field(description="Its name.")]
Everything = Annotated[bool, Field(description="All work of this database.")]


class Acting:
    """The tools that change something."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._confirmations = Confirmations(app._store.clock.now)

    def retry(
        self,
        tasks: TaskNumbers,
        fresh: Annotated[bool, Field(description="Also forget the results of finished stages.")] = False,
        confirm: Token = "",
    ) -> str:
        """Open ended tasks again. Finished stages keep their results, unless `fresh`. The first call is a preview."""
        found = self._tasks(tasks)
        cost = sum(one.cost for one in found)
        warning = [f"They have cost {cost:f} USD so far, and may cost as much again."] if cost else []
        return self._on_tasks("retry", found, {"fresh": fresh}, confirm, warning, lambda task: self._retry(task, fresh))

    def _retry(self, task: int, fresh: bool) -> None:
        self._app.tasks.retry(task, fresh=fresh)

    def cancel(
        self,
        tasks: TaskNumbers,
        reason: Annotated[str, Field(description="Why; it is stored.", max_length=300)] = "cancelled by an assistant",
        confirm: Token = "",
    ) -> str:
        """Cancel tasks that have not ended. The first call is a preview."""
        found = self._tasks(tasks)
        return self._on_tasks(
            "cancel", found, {"reason": reason}, confirm, [], lambda task: self._app.tasks.cancel(task, reason)
        )

    def approve(self, tasks: TaskNumbers, confirm: Token = "") -> str:
        """Let tasks go on that wait for an operator's approval. The first call is a preview."""
        return self._on_tasks("approve", self._tasks(tasks), {}, confirm, [], self._app.tasks.approve)

    def signal(
        self,
        task: Annotated[int, Field(description="The number of the task.", ge=1)],
        name: Annotated[str, Field(description="The name of the signal.")],
        value: Annotated[Any, Field(description="The value that its stage reads; any JSON but null.")] = True,
        confirm: Token = "",
    ) -> str:
        """Send a signal to a task, before or while it waits for it. The first call is a preview."""
        return self._on_tasks(
            "signal",
            self._tasks([task]),
            {"name": name, "value": value},
            confirm,
            [f"Signal {stored(name, 100)} with the value {stored(value)}."],
            lambda one: self._app.tasks.signal(one, name, value),
        )

    def pause(
        self,
        lineage: Lineage = None,
        pipeline: Name = None,
        source: Name = None,
        queue: Name = None,
        everything: Everything = False,
        confirm: Token = "",
    ) -> str:
        """Let nothing of a lineage, a pipeline, a source, a queue, or of everything begin. The first call is a
        preview."""
        return self._on_scope("pause", lineage, pipeline, source, queue, everything, confirm)

    def resume(
        self,
        lineage: Lineage = None,
        pipeline: Name = None,
        source: Name = None,
        queue: Name = None,
        everything: Everything = False,
        confirm: Token = "",
    ) -> str:
        """Let what was paused under the same name go on. The first call is a preview."""
        return self._on_scope("resume", lineage, pipeline, source, queue, everything, confirm)

    def _tasks(self, tasks: Sequence[int]) -> list[Task]:
        return [self._app.tasks.get(one) for one in dict.fromkeys(tasks)]

    def _on_tasks(
        self,
        action: str,
        found: list[Task],
        options: dict[str, Any],
        confirm: str,
        warnings: list[str],
        act: Callable[[int], object],
    ) -> str:
        """Preview an action on tasks or, confirmed, carry it out on each; one that refuses keeps no other from it."""
        arguments = {"tasks": [one.id for one in found], **options}
        facts = [(one.id, one.status, one.run, one.failures, one.waiting_for) for one in found]
        if not confirm:
            rows = [f"  {one.id} {one.status.word} {stored(one.kind, 60)} {key_text(one)}" for one in found]
            return self._preview(
                action, arguments, facts, [f"{action} {counted(len(found), 'task')}:", *rows, *warnings]
            )
        self._confirmed(confirm, action, arguments, facts)
        done, refused = [], []
        for one in found:
            try:
                act(one.id)
            except (TaskNotFound, IllegalTransition, ConfigError) as error:
                refused.append(f"  task {one.id} was left as it is: {stored(error)}")
            else:
                done.append(one.id)
        self._record(action, arguments, len(done), "done" if done else "refused", f"{len(refused)} refused")
        return "\n".join([f"Done: {action} {counted(len(done), 'task')}.", *refused])

    def _on_scope(
        self,
        action: str,
        lineage: str | None,
        pipeline: str | None,
        source: str | None,
        queue: str | None,
        everything: bool,
        confirm: str,
    ) -> str:
        named = {"lineage": lineage, "pipeline": pipeline, "source": source, "queue": queue}
        given = {name: value for name, value in named.items() if value is not None}
        if len(given) + everything != 1:
            raise ConfigError("give one of: lineage, pipeline, source, queue, everything=true")
        arguments: dict[str, Any] = given or {"everything": True}
        app = self._app
        if lineage is not None:
            tree = app.lineages.get(lineage, subtree=True, limit=1)
            open_tasks = sum(count for status, count in tree.counts.items() if not status.is_terminal)
            what = f"{stored(lineage, 60)}: {counted(open_tasks, 'open task')}, {tree.paused:,} of all are paused now"
            facts: object = (open_tasks, tree.paused)
        else:
            scope = scope_of(pipeline=pipeline, source=source, queue=queue)
            paused = any(one.scope == scope for one in app.workers.pauses())
            what = f"{stored(scope_text(scope), 120)}, which is {'paused' if paused else 'not paused'} now"
            facts = (scope, paused)
        if not confirm:
            return self._preview(action, arguments, facts, [f"{action} {what}."])
        self._confirmed(confirm, action, arguments, facts)
        try:
            if lineage is not None:
                count = app.lineages.pause(lineage) if action == "pause" else app.lineages.resume(lineage)
                said = counted(count, "open task")
            else:
                do = app.workers.pause if action == "pause" else app.workers.resume
                count, said = 1, stored(scope_text(do(pipeline=pipeline, source=source, queue=queue)), 120)
        except (ConfigError, IllegalTransition) as error:
            self._record(action, arguments, 0, "refused", str(error))
            raise
        self._record(action, arguments, count, "done", "")
        return f"Done: {action} {said}."

    def _preview(self, action: str, arguments: dict[str, Any], facts: object, lines: list[str]) -> str:
        token = self._confirmations.offer(action, arguments, facts)
        return "\n".join(
            [
                "Preview. Nothing has changed yet.",
                *lines[: MOST_LISTED + 5],
                f'If a person wants this, call {action} again with the same arguments and confirm="{token}", within '
                "five minutes.",
            ]
        )

    def _confirmed(self, token: str, action: str, arguments: dict[str, Any], facts: object) -> None:
        try:
            self._confirmations.take(token, action, arguments, facts)
        except NotConfirmed as error:
            self._record(action, arguments, 0, "refused", str(error))
            raise

    def _record(self, action: str, arguments: dict[str, Any], count: int, outcome: str, note: str) -> None:
        self._app.audit.record(
            author=checked_author(None),
            role=ROLE,
            action=f"mcp {action}",
            target=arguments,
            count=count,
            outcome=outcome,
            note=note,
        )
