"""What may name a task in a call: its id, the task itself, or what `enqueue` has returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.client.enqueueing import Enqueued
from onceward.model import arguments
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.views import task as view
    from onceward.views.task import Task

    TaskRef = int | Task | Enqueued
    """The id of a task, a `Task`, or the `Enqueued` that `enqueue` has returned."""
else:
    (view,) = modules("onceward.views.task")
    TaskRef = "int | Task | Enqueued"  # as a text: few programs that enqueue look at a task


def task_number(task: TaskRef | object) -> int:
    """Return the number of a task, however it is named; refuse what names none."""
    if isinstance(task, int):
        return arguments.task_number(task)
    if isinstance(task, Enqueued | view.Task):
        return task.id
    return arguments.task_number(task)
