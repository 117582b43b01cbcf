"""The API of actions on all tasks that match a filter: count first, begin, follow, stop."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from onceward.errors import BulkNotFound
from onceward.operations.bulk import BulkStatus
from onceward.web.api import schemas
from onceward.web.api.lists import CountShown, Filter
from onceward.web.api.operation import Call, NoBody, NoQuery, Operation
from onceward.web.roles import Role

Act = Literal["retry", "cancel", "approve"]


class BulkAsked(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be done, to which tasks."""

    action: Act
    filter: Annotated[Filter, Meta(min_length=1)]
    reason: schemas.Reason = "cancelled by an operator"
    """What a cancellation leaves with its tasks."""


class PreviewAsked(msgspec.Struct, forbid_unknown_fields=True):
    """What would be done."""

    action: Act
    filter: Filter


class BulksAsked(msgspec.Struct, forbid_unknown_fields=True):
    """How many of the newest actions."""

    limit: schemas.Limit = 20


class BulkShown(msgspec.Struct):
    """An action on all tasks that match a filter, and how far it has come."""

    id: schemas.Id
    action: str
    filter: str
    reason: str
    author: str
    state: str
    done: int
    left_alone: int
    expected: CountShown
    progress: float
    note: str
    created_at: datetime
    ended_at: datetime | None


class PreviewShown(msgspec.Struct):
    """How many tasks an action would be about now, and by which filter."""

    action: str
    filter: str
    count: CountShown


async def preview(call: Call[PreviewAsked, None]) -> PreviewShown:
    """Answer how many tasks an action would be about; nothing is changed."""
    found = await call.app.bulk.apreview(call.query.action, call.query.filter)
    return PreviewShown(found.action, found.filter, schemas.of(CountShown, found.count))


async def start(call: Call[NoQuery, BulkAsked]) -> BulkShown:
    """Begin an action on all tasks that match."""
    asked = call.body
    begun = await call.app.bulk.astart(asked.action, asked.filter, author=call.caller.name, reason=asked.reason)
    call.note(f"{begun.action} {begun.filter}", begun.expected.n)
    return _shown(begun)


async def show_list(call: Call[BulksAsked, None]) -> list[BulkShown]:
    """Answer with the newest actions."""
    return [_shown(one) for one in await call.app.bulk.alist(call.query.limit)]


async def get(call: Call[NoQuery, None]) -> BulkShown:
    """Answer with an action as it stands."""
    return _shown(await call.app.bulk.aget(_number(call.view.path["number"])))


async def stop(call: Call[NoQuery, NoBody]) -> BulkShown:
    """Stop an action; what it has done stays done."""
    stopped = await call.app.bulk.astop(_number(call.view.path["number"]))
    call.note("stopped", stopped.done)
    return _shown(stopped)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise BulkNotFound(0)
    return int(text)


def _shown(one: BulkStatus) -> BulkShown:
    return schemas.of(BulkShown, one, expected=schemas.of(CountShown, one.expected))


OPERATIONS: list[Operation] = [
    Operation("GET", "/bulk", show_list, "List actions on many tasks, newest first.", list[BulkShown], BulksAsked),
    Operation("POST", "/bulk", start, "Begin an action on all tasks that match a filter.", BulkShown,
              body=BulkAsked, role=Role.OPERATOR, status=202,
              example={"action": "retry", "filter": "status:failed kind:page error:timeout"}),
    Operation("GET", "/bulk/preview", preview, "Count the tasks that an action would be about.", PreviewShown,
              PreviewAsked, role=Role.OPERATOR),
    Operation("GET", "/bulk/{number}", get, "Look at an action on many tasks.", BulkShown, errors=(404,)),
    Operation("POST", "/bulk/{number}/stop", stop, "Stop an action on many tasks.", BulkShown, body=NoBody,
              role=Role.OPERATOR, errors=(404,)),
]  # fmt: skip
