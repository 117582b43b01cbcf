"""The API of lineages and batches."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onceward.web.api import documents, schemas
from onceward.web.api.operation import Call, NoBody, NoQuery, Operation
from onceward.web.roles import Role


class LineagesAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which lineages."""

    limit: schemas.Limit = 50
    largest: bool = False
    """The largest instead of the newest."""


class TreeAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of a lineage."""

    subtree: bool = False
    """From the task of that number down."""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


class BatchesAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which batches."""

    status: str | None = None
    limit: schemas.Limit = 50


async def show_list(call: Call[LineagesAsked, None]) -> list[schemas.LineageShown]:
    """Answer with lineages."""
    secret = await call.app.tasks.asecret_fields()
    found = await call.app.lineages.alist(call.query.limit, largest=call.query.largest)
    return [documents.lineage_summary(one, call.caller, secret) for one in found]


async def get(call: Call[TreeAsked, None]) -> schemas.LineageTree:
    """Answer with a lineage, or a part of it."""
    secret = await call.app.tasks.asecret_fields()
    tree = await call.app.lineages.aget(call.view.path["id"], subtree=call.query.subtree, limit=call.query.limit)
    return documents.lineage_tree(tree, call.caller, secret)


async def cancel(call: Call[NoQuery, schemas.ReasonAsked]) -> schemas.TasksChanged:
    """Cancel whatever is open in a lineage or a part of it."""
    tasks = await call.app.lineages.acancel(call.view.path["id"], call.body.reason)
    call.note(f"cancelled: {call.body.reason}", len(tasks))
    return schemas.TasksChanged([str(one) for one in tasks])


async def retry(call: Call[NoQuery, NoBody]) -> schemas.TasksChanged:
    """Open all failed tasks of a lineage or a part of it again."""
    found = await call.app.lineages.aretry(call.view.path["id"])
    call.note("opened again", len(found.tasks))
    return schemas.TasksChanged(
        [str(one) for one in found.tasks], {str(one): why for one, why in found.refused.items()}
    )


async def pause(call: Call[NoQuery, NoBody]) -> schemas.CountChanged:
    """Let nothing of a lineage or a part of it begin."""
    count = await call.app.lineages.apause(call.view.path["id"])
    call.note("paused", count)
    return schemas.CountChanged(count)


async def resume(call: Call[NoQuery, NoBody]) -> schemas.CountChanged:
    """Let a lineage or a part of it go on."""
    count = await call.app.lineages.aresume(call.view.path["id"])
    call.note("resumed", count)
    return schemas.CountChanged(count)


async def raise_limits(call: Call[NoQuery, schemas.LimitsGiven]) -> schemas.LimitsGiven:
    """Give a lineage or a part of it wider limits."""
    now_has = await call.app.lineages.araise_limits(call.view.path["id"], documents.limits_of(call.body))
    call.note(f"limits: {now_has}")
    budget = now_has.budget_amount
    return schemas.LimitsGiven(
        now_has.max_depth,
        now_has.max_tasks,
        now_has.max_children,
        None if now_has.deadline_ms is None else f"{now_has.deadline_ms // 1_000}s",
        None if budget is None else schemas.amount_of_nanos(budget),
    )


async def list_batches(call: Call[BatchesAsked, None]) -> list[schemas.BatchShown]:
    """Answer with batches."""
    found = await call.app.batches.alist(status=call.query.status, limit=call.query.limit)
    return [schemas.of(schemas.BatchShown, one) for one in found]


async def get_batch(call: Call[NoQuery, None]) -> schemas.BatchShown:
    """Answer with a batch."""
    return schemas.of(schemas.BatchShown, await call.app.batches.aget(call.name))


THERE = "/lineages/{id}"
ACTS: dict[str, Any] = {"role": Role.OPERATOR, "errors": (404, 409)}
OPERATIONS: list[Operation] = [
    Operation("GET", "/lineages", show_list, "List lineages, newest first.", list[schemas.LineageShown],
              LineagesAsked),
    Operation("GET", THERE, get, "Look at a lineage as a tree. Its id may be the number of any task in it.",
              schemas.LineageTree, TreeAsked, errors=(404,)),
    Operation("POST", f"{THERE}/cancel", cancel, "Cancel whatever is open in a lineage or a part of it.",
              schemas.TasksChanged, body=schemas.ReasonAsked, **ACTS, example={"reason": "no longer wanted"}),
    Operation("POST", f"{THERE}/retry", retry, "Open all failed tasks of a lineage or a part of it again.",
              schemas.TasksChanged, body=NoBody, **ACTS),
    Operation("POST", f"{THERE}/pause", pause, "Let nothing of a lineage or a part of it begin.",
              schemas.CountChanged, body=NoBody, **ACTS),
    Operation("POST", f"{THERE}/resume", resume, "Let a lineage or a part of it go on.",
              schemas.CountChanged, body=NoBody, **ACTS),
    Operation("PATCH", f"{THERE}/limits", raise_limits, "Give a lineage or a part of it wider limits.",
              schemas.LimitsGiven, body=schemas.LimitsGiven, role=Role.ADMIN, errors=(404, 409),
              example={"max_tasks": 5000, "budget": "2.50"}),
    Operation("GET", "/batches", list_batches, "List batches, newest first.", list[schemas.BatchShown], BatchesAsked),
    Operation("GET", "/batches/{name:path}", get_batch, "Look at a batch.", schemas.BatchShown, errors=(404,)),
]  # fmt: skip
