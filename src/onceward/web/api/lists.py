"""The API of lists of tasks: filtered, counted, grouped by error, exported."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import StreamingResponse

from onceward.model.task_filter import LONGEST_FILTER, TaskFilter
from onceward.web import exports
from onceward.web.api import documents, schemas
from onceward.web.api.operation import Call, Operation
from onceward.web.filters import allowed_filter

Filter = Annotated[
    str, Meta(max_length=LONGEST_FILTER, description="As on the page of tasks.", examples=["status:failed kind:page"])
]


class Filtered(msgspec.Struct, forbid_unknown_fields=True):
    """Which tasks."""

    filter: Filter = ""


class ListAsked(Filtered):
    """Which tasks, and from where on."""

    cursor: Annotated[str, Meta(max_length=100, description="The `next` of the page before.")] | None = None
    limit: schemas.Limit = 50


class CompletionAsked(Filtered):
    """A filter that is being written."""

    position: Annotated[int, Meta(ge=0, le=LONGEST_FILTER)] | None = None
    """At which character; without it at the end."""


class ExportAsked(Filtered):
    """Which tasks, and as what."""

    format: Literal["csv", "jsonl"] = "csv"


class CountShown(msgspec.Struct):
    """How many tasks match."""

    n: int
    is_exact: bool
    """Whether all tasks were looked at; otherwise there are at least so many."""


class GroupShown(msgspec.Struct):
    """Tasks whose last error says the same."""

    fingerprint: str
    message: str
    filter: str
    tasks: int
    first_seen: datetime
    last_seen: datetime
    cost: schemas.Amount
    kinds: list[str]
    stages: list[str]
    example: schemas.Id
    example_reason: str
    hourly: list[int]
    is_whole: bool


class CompletionShown(msgspec.Struct):
    """What may stand at a place of a filter."""

    text: str
    start: int
    end: int
    about: str


async def filter_of(call: Call[Filtered, None]) -> TaskFilter:
    """Return the filter of a request, as its caller may use it."""
    text = call.query.filter
    return allowed_filter(text, call.caller, await call.app.tasks.asecret_fields() if text else {})


async def search(call: Call[ListAsked, None]) -> schemas.TaskPage:
    """Answer with a page of tasks."""
    wanted = await filter_of(call)
    page = await call.app.tasks.asearch(wanted, call.query.cursor, call.query.limit)
    return schemas.of(schemas.TaskPage, page, tasks=[documents.summary(one, call.caller) for one in page.tasks])


async def count(call: Call[Filtered, None]) -> CountShown:
    """Answer how many tasks match."""
    return schemas.of(CountShown, await call.app.tasks.acount(await filter_of(call)))


async def groups(call: Call[Filtered, None]) -> list[GroupShown]:
    """Answer with errors that are alike."""
    found = await call.app.tasks.agroups(await filter_of(call))
    return [schemas.of(GroupShown, one, kinds=list(one.kinds), stages=list(one.stages)) for one in found]


async def complete(call: Call[CompletionAsked, None]) -> list[CompletionShown]:
    """Answer what may be written at a place of a filter."""
    text, position = call.query.filter, call.query.position
    found = await call.app.tasks.acomplete(text, len(text) if position is None else min(position, len(text)))
    return [schemas.of(CompletionShown, one) for one in found]


async def export(call: Call[ExportAsked, None]) -> StreamingResponse:
    """Answer with all tasks that match, as a file that is written while it is read."""
    wanted = await filter_of(call)
    return exports.response(call.app, wanted, call.caller, call.query.format)


OPERATIONS: list[Operation] = [
    Operation("GET", "/tasks", search, "List tasks that match a filter, newest first.", schemas.TaskPage, ListAsked),
    Operation("GET", "/tasks/count", count, "Count the tasks that match a filter.", CountShown, Filtered),
    Operation("GET", "/tasks/errors", groups, "Group errors that are alike.", list[GroupShown], Filtered),
    Operation("GET", "/tasks/completions", complete, "Complete a filter that is being written.",
              list[CompletionShown], CompletionAsked),
    Operation("GET", "/tasks/export", export, "Export the tasks that match a filter, as CSV or as JSON lines.",
              query=ExportAsked, media="text/csv, application/x-ndjson"),
]  # fmt: skip
