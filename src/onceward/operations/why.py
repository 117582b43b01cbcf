"""Why a task is not running: the question of `App.why`, asked with what this machine knows of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.client.client import Client
from onceward.errors import TaskNotFound
from onceward.operations.task_ref import TaskRef, task_number
from onceward.operations.workers import has_died, stages_of
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.reports.waits import WaitFacts
    from onceward.views import why as reasons
    from onceward.views.why import Why
else:
    (reasons,) = modules("onceward.views.why")


def explain(client: Client, task: TaskRef) -> Why:
    """Return why a task is not running, and why those are not that it waits for."""
    number, store = task_number(task), client._store
    now = store.clock.now()

    def has_started(one: WaitFacts) -> bool | None:
        stages = stages_of(one.host, one.presence, store)
        return None if stages is None else any(stage.task == one.id for stage in stages)

    found = client._ask(
        lambda: reasons.explain(
            number, now, client._registry.limits_of, has_started, lambda host, path: has_died(host, path, store)
        )
    )
    if found is None:
        raise TaskNotFound(number)
    return found
