"""The stage that this code runs in, whose children are enqueued here. A worker makes no roots by accident."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from onceward.authoring.context import Context
from onceward.errors import ConfigError, NoLineage, StartedByImport
from onceward.support.logs import stages_in_records

current: ContextVar[Context[Any] | None] = ContextVar("onceward_context", default=None)
"""The context of the stage that this code runs in."""

_workers_here = 0
_importing: list[tuple[str, str]] = []
"""The module that is being imported for its app, and what needs it: a worker, a command."""


@contextmanager
def is_worker() -> Iterator[None]:
    """While this lasts, a worker runs in this process."""
    global _workers_here
    _workers_here += 1
    try:
        with stages_in_records(fields_of_stage):
            yield
    finally:
        _workers_here -= 1


@contextmanager
def importing(module: str, needed_by: str) -> Iterator[None]:
    """While this lasts, the module of an app is imported to be known, not to begin anything."""
    _importing.append((module, needed_by))
    try:
        yield
    finally:
        _importing.pop()


def refuse_while_importing(call: str) -> None:
    """Refuse to begin work while the module of an app is imported: each import would begin it once more."""
    if _importing:
        module, needed_by = _importing[-1]
        raise StartedByImport(
            f'{module} calls {call} while {needed_by} imports it; put that below `if __name__ == "__main__":`'
        )


def fields_of_stage() -> dict[str, Any] | None:
    """What a line of the log says of the task whose stage this code runs in."""
    context = current.get()
    if context is None:
        return None
    lease = context._lease
    return {"task": lease.task, "kind": lease.kind, "lineage": str(lease.lineage)}


def spawning_stage(root: bool, conn: Any) -> Context[Any] | None:
    """The stage whose child is enqueued here; None if it is a root. A worker makes no roots by accident."""
    refuse_while_importing("app.enqueue()")
    context = current.get()
    if root:
        return None
    if context is not None:
        if conn is not None:
            raise ConfigError("inside a stage enqueue is a spawn, committed with the stage; it takes no connection")
        return context
    if _workers_here:
        raise NoLineage(
            "enqueue was called in a worker process outside of a stage, so the work it asks for has no lineage: carry "
            "the context into threads with ctx.wrap, or say enqueue(…, root=True) if it is meant to begin a new one"
        )
    return None
