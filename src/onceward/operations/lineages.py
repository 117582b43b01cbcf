"""What operators do to lineages. Where one is asked for, the number of a task means that task and all that descend
from it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.budget import read_amount
from onceward.model.lineage import Limits, checked_limits
from onceward.store.op import Op
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.lineage import branches, trees
    from onceward.store.lineage import pause_lineage as pausing
    from onceward.store.lineage import raise_limits as bounds
    from onceward.store.lineage.trees import Head
    from onceward.store.operations import task_actions
    from onceward.views import branches as branch_view
    from onceward.views import lineage as lineage_view
    from onceward.views.branches import Drawn, LineageTree, ListedLineage
    from onceward.views.lineage import Lineage, LineageId, LineageSummary
else:
    lineage_view, branch_view = modules("onceward.views.lineage", "onceward.views.branches")
    (branches,) = modules("onceward.store.lineage.branches")
    bounds, trees, task_actions, pausing = modules(
        "onceward.store.lineage.raise_limits",
        "onceward.store.lineage.trees",
        "onceward.store.operations.task_actions",
        "onceward.store.lineage.pause_lineage",
    )

T = TypeVar("T")
RETRIED_AT_ONCE = 200


class Lineages(Namespace):
    """`app.lineages`: tasks and all that descends from them."""

    def get(self, id: LineageId, *, subtree: bool = False, limit: int = 10_000) -> Lineage:
        """The lineage of a task, or the one with this id, as a tree; with `subtree` from that task down.

        It holds at most `limit` tasks, the oldest, and says how many there are besides.
        """
        wanted, most = lineage_view.as_id(id), arguments.most_of(limit)
        tree = self._client._ask(lambda: trees.read_tree(wanted, subtree=subtree, limit=most))
        return lineage_view.as_lineage(tree, self._client.config.bounds)

    aget = awaited(get)

    def list(self, limit: int = 20, *, largest: bool = False) -> builtins.list[LineageSummary]:
        """The newest lineages, or the largest: those whose root has spawned or was given limits of its own."""
        most = arguments.most_of(limit)
        return [
            lineage_view.as_summary(row)
            for row in self._client._ask(lambda: trees.read_lineages(limit=most, largest=largest))
        ]

    alist = awaited(list)

    def tree(self, id: LineageId) -> LineageTree:
        """The lineage with this id, or a task and all below it, with the figures of every branch: for drawing.

        It reads few columns of at most 20,000 tasks, the oldest; `drawn` reads the rest of those that are shown.
        """
        wanted, now = lineage_view.as_id(id), self._client._store.clock.now()
        found = self._client._ask(lambda: branches.read_branches(wanted, now=now))
        return branch_view.as_tree(found, self._client.config.bounds, now)

    atree = awaited(tree)

    def drawn(self, tasks: Collection[int], *, refused_each: int = 3) -> Drawn:
        """The keys and reasons of some tasks, their first refusals, and the tasks that were linked to them."""
        ids = sorted(arguments.task_number(task) for task in tasks)
        most = arguments.most_of(refused_each)
        return branch_view.as_drawn(self._client._ask(lambda: branches.read_drawn(ids, ids, each=most)))

    adrawn = awaited(drawn)

    def page(
        self, *, limit: int = 25, largest: bool = False, before: datetime | None = None
    ) -> builtins.list[ListedLineage]:
        """The newest lineages, those made before a time, or the largest of the newest; reads little of large ones."""
        most = arguments.most_of(limit)
        before_ms = None if before is None else int(before.timestamp() * 1_000)
        found = self._client._ask(lambda: branches.read_page(limit=most, largest=largest, before=before_ms))
        return [branch_view.as_listed(one) for one in found]

    apage = awaited(page)

    def cancel(self, id: LineageId, reason: str = "cancelled by an operator") -> builtins.list[int]:
        """Cancel whatever is open in a lineage or a part of it; returns the tasks that were cancelled."""
        why = arguments.reason_of(reason)
        return self._on_lineage(id, lambda head, now: task_actions.cancel_all(head, why, now))

    acancel = awaited(cancel)

    def retry(self, id: LineageId) -> task_actions.RetryResults:
        """Open all failed tasks of a lineage or a part of it again, as `retry` does: some hundred in a transaction, so
        that no other call waits for long. Returns them, and those that could not be opened."""
        wanted = lineage_view.as_id(id)

        def look() -> Op[builtins.list[int]]:
            return (yield from task_actions.failed_tasks((yield from trees.head_of(wanted))))

        failed = self._client._ask(look)
        found = task_actions.RetryResults([], {})
        for start in range(0, len(failed), RETRIED_AT_ONCE):
            some = failed[start : start + RETRIED_AT_ONCE]
            opened = self._client._transact(partial(task_actions.reopen_failed, some, self._client._store.clock.now()))
            found.tasks.extend(opened.tasks)
            found.refused.update(opened.refused)
        return found

    aretry = awaited(retry)

    def pause(self, id: LineageId) -> int:
        """Let nothing of a lineage or a part of it begin before it is resumed; returns how many tasks are open.

        A stage that is running ends in good order, and so does one that a worker has already taken. What is spawned
        or retried meanwhile is paused too.
        """
        return self._on_lineage(id, pausing.pause)

    apause = awaited(pause)

    def resume(self, id: LineageId) -> int:
        """Let a lineage or a part of it go on; returns how many open tasks do."""
        return self._on_lineage(id, pausing.resume)

    aresume = awaited(resume)

    def raise_limits(self, id: LineageId, limits: Limits) -> Limits:
        """Give a lineage or a part of it wider limits; returns those that it has now.

        Limits that were narrowed below stay narrow. A stage that is running knows the new limits when it is next
        begun; its commit knows them at once.
        """
        checked_limits(limits)
        if limits.when_spent is not None:
            raise ConfigError("when_spent is decided when a lineage begins; raise its budget alone")
        given = self._client.config.bounds
        now_has = self._on_lineage(id, lambda head, now: bounds.raise_limits(head, limits, given, now))
        budget = None if now_has.budget is None else read_amount(now_has.budget)
        return Limits(now_has.max_depth, now_has.max_tasks, now_has.max_children, now_has.deadline_ms / 1_000, budget)

    araise_limits = awaited(raise_limits)

    def _on_lineage(self, id: LineageId, act: Callable[[Head, int], Op[T]]) -> T:
        wanted = lineage_view.as_id(id)

        def acting() -> Op[T]:
            head = yield from trees.head_of(wanted)
            return (yield from act(head, self._client._store.clock.now()))

        return self._client._transact(acting)
