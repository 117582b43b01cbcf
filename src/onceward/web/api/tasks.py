"""The API of single tasks: look, retry, cancel, signal, approve, and enqueue."""

from __future__ import annotations

from typing import Any

import msgspec

from onceward.baggage import incoming
from onceward.model.payload import Payload
from onceward.web.api import documents, schemas
from onceward.web.api.operation import Call, NoQuery, Operation
from onceward.web.problems import BadRequest
from onceward.web.roles import Role

LONGEST_PAYLOAD = 8 << 20
"""Bytes of a request that enqueues; larger things are stored elsewhere, and the payload says where."""


async def get(call: Call[NoQuery, None]) -> schemas.TaskDetail:
    """Answer with a task."""
    return documents.detail(await call.app.tasks.aget(call.task_id), call.caller)


async def why(call: Call[NoQuery, None]) -> schemas.WhyShown:
    """Answer why a task is not running."""
    return documents.why_shown(await call.app.awhy(call.task_id))


async def retry(call: Call[NoQuery, schemas.RetryAsked]) -> schemas.TaskChange:
    """Open an ended task again."""
    asked = call.body
    version = asked.version or call.seen_version()
    await call.app.tasks.aretry(call.task_id, fresh=asked.fresh, stage=asked.stage, version=version)
    how = " from its beginning" if asked.fresh else f" from stage {asked.stage}" if asked.stage else ""
    return await _changed(call, f"opened again{how}")


async def cancel(call: Call[NoQuery, schemas.CancelAsked]) -> schemas.TaskChange:
    """Cancel a task that has not ended."""
    version = call.body.version or call.seen_version()
    await call.app.tasks.acancel(call.task_id, call.body.reason, version=version)
    return await _changed(call, f"cancelled: {call.body.reason}")


async def signal(call: Call[NoQuery, schemas.SignalAsked]) -> schemas.TaskChange:
    """Send a signal to a task."""
    asked = call.body
    version = asked.version or call.seen_version()
    await call.app.tasks.asignal(call.task_id, asked.name, asked.value, version=version)
    return await _changed(call, f"signal {asked.name}")


async def approve(call: Call[NoQuery, schemas.ApproveAsked]) -> schemas.TaskChange:
    """Let a task go on that waits for an approval."""
    await call.app.tasks.aapprove(call.task_id, version=call.body.version or call.seen_version())
    return await _changed(call, "approved")


async def enqueue(call: Call[NoQuery, schemas.NewTask]) -> schemas.EnqueuedShown:
    """Enqueue a piece of work: a child of the task that `baggage` names, or else a root."""
    asked = call.body
    payload = _payload(call, asked)
    limits = None if asked.limits is None else documents.limits_of(asked.limits)
    with incoming(call.view.request.headers):
        found = await call.app.aenqueue(payload, after=asked.after, priority=asked.priority, limits=limits)
    return schemas.of(schemas.EnqueuedShown, found)


def _payload(call: Call[NoQuery, schemas.NewTask], asked: schemas.NewTask) -> Payload:
    """Return the payload that a request holds, read as the class of its kind."""
    expected = call.app._registry[asked.kind].payload
    try:
        payload: Payload = msgspec.convert(asked.payload, expected)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the payload does not fit kind {asked.kind}: {error}", at="payload") from error
    except RecursionError as error:
        raise BadRequest("the payload is nested too deeply", at="payload") from error
    return payload


async def _changed(call: Call[NoQuery, Any], said: str) -> schemas.TaskChange:
    call.note(said)
    return schemas.TaskChange(documents.summary(await call.app.tasks.aget(call.task_id), call.caller))


ACTS: dict[str, Any] = {
    "role": Role.OPERATOR,
    "answer": schemas.TaskChange,
    "checks_version": True,
    "errors": (404, 409, 412),
}
OPERATIONS: list[Operation] = [
    Operation(
        "POST", "/tasks", enqueue, "Enqueue a task. With a `baggage` header it is a child of the task named there.",
        schemas.EnqueuedShown, body=schemas.NewTask, role=Role.OPERATOR, status=201, longest=LONGEST_PAYLOAD,
        example={"kind": "page", "payload": {"url": "https://example.com"}, "priority": 1, "after": "5m"},
    ),
    Operation("GET", "/tasks/{id}", get, "Look at a task.", schemas.TaskDetail, errors=(404,)),
    Operation("GET", "/tasks/{id}/why", why, "Ask why a task is not running.", schemas.WhyShown, errors=(404,)),
    Operation("POST", "/tasks/{id}/retry", retry, "Open an ended task again.", body=schemas.RetryAsked, **ACTS,
              example={"fresh": False}),
    Operation("POST", "/tasks/{id}/cancel", cancel, "Cancel a task that has not ended.", body=schemas.CancelAsked,
              **ACTS, example={"reason": "the shop has closed"}),
    Operation("POST", "/tasks/{id}/signal", signal, "Send a signal to a task.", body=schemas.SignalAsked, **ACTS,
              example={"name": "paid", "value": {"invoice": 17}}),
    Operation("POST", "/tasks/{id}/approve", approve, "Let a task go on that waits for an approval.",
              body=schemas.ApproveAsked, **ACTS, example={}),
]  # fmt: skip
