"""Lists of tasks: one filter line, errors that are alike, and actions on some or on all that match."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from onceward.errors import ConfigError, FilterError
from onceward.model.task_filter import TaskFilter, parse_filter
from onceward.store.operations.bulk import Action
from onceward.web.answers import Done, Page, Refused
from onceward.web.carrying import carry
from onceward.web.filters import allowed_filter
from onceward.web.rendering import path
from onceward.web.roles import Role
from onceward.web.route import Answer, Route, action, page
from onceward.web.shown import shown_task
from onceward.web.view import View

ON_A_PAGE = 50
REFRESH_S = 6
TYPE_ABOVE = 1_000
"""Above so many tasks an action asks for their number to be typed."""
SAVED = (
    ("Failed today", "status:failed ended<1d"),
    ("Waiting for approval", "waiting:signal:approved"),
    ("Held by a budget", "status:waiting waiting~budget"),
    ("Cost above 0.10", "cost>0.1"),
    ("Begun three times or more", "attempts>2"),
)
"""Filters that are there before anything was saved."""


class Act(NamedTuple):
    """What can be done with many tasks."""

    name: Action
    verb: str
    past: str
    about: str
    style: str = ""


ACTS: dict[str, Act] = {
    one.name: one
    for one in (
        Act("retry", "Retry", "retried", "Finished stages are kept and not run again. What has not ended is left out."),
        Act("approve", "Approve", "approved", "Tasks that do not wait for approval are left out."),
        Act(
            "cancel",
            "Cancel",
            "cancelled",
            "Nothing more of them is written. What has ended is left out.",
            "btn--danger",
        ),
    )
}


async def show(view: View) -> Answer:
    """Show the tasks that match a filter, newest first."""
    text = view.query.get("filter", "").strip()
    cursor = view.query.get("cursor") or None
    values: dict[str, Any] = {
        "text": text,
        "wanted": "",
        "words": (),
        "wrong": None,
        "found": None,
        "cursor": cursor,
        "saved": SAVED,
        "acts": ACTS,
        "bulks": await _running(view),
        "with_all": view.query.get("with") == "all",
        "count": None,
        "groups": None,
    }
    try:
        wanted = parse_filter(text)
        allowed = await _allowed(view, text)
    except FilterError as error:
        values |= {"wrong": error, "wrong_parts": _parts(error)}
        return Page("tasks.html", values, "Tasks", "tasks", 400, None)
    found = await view.app.tasks.asearch(allowed, cursor, ON_A_PAGE)
    found = replace(found, tasks=tuple(shown_task(one, view.caller) for one in found.tasks))
    values |= {"wanted": str(wanted), "words": _words(wanted), "found": found}
    if values["with_all"]:
        values |= {"count": await view.app.tasks.acount(allowed), "groups": await view.app.tasks.agroups(allowed)}
    return Page("tasks.html", values, "Tasks", "tasks", refresh_s=REFRESH_S if cursor is None else None)


async def _allowed(view: View, text: str) -> TaskFilter:
    """Return a filter as the caller may use it: a viewer finds no secret field by it."""
    return allowed_filter(text, view.caller, await view.app.tasks.asecret_fields() if text else {})


def _parts(error: FilterError) -> tuple[str, str, str]:
    """Return a filter in three parts, the second of which is wrong."""
    begin, end = error.position, error.position + error.length
    return error.text[:begin], error.text[begin:end] or " ", error.text[end:]


def _words(wanted: TaskFilter) -> list[tuple[str, str, str]]:
    """Return each term of a filter: its field with the operator, its values, and the filter without it."""
    told = []
    for place, term in enumerate(wanted.terms):
        rest = TaskFilter((*wanted.terms[:place], *wanted.terms[place + 1 :]))
        head = f"{'-' if term.negated else ''}{term.field}{term.operator}"
        told.append((head, str(term).removeprefix(head), str(rest)))
    return told


async def _running(view: View) -> list[Any]:
    """Return the bulk actions that have not ended."""
    return [one for one in await view.app.bulk.alist() if one.is_open]


async def counted(view: View) -> Answer:
    """Return how many tasks match a filter, as a piece of the page."""
    text = view.query.get("filter", "")
    allowed = await _allowed(view, text)
    return Page("tasks_count.html", {"count": await view.app.tasks.acount(allowed), "wanted": text}, refresh_s=None)


async def groups(view: View) -> Answer:
    """Return the errors of the tasks that match a filter, as a piece of the page."""
    text = view.query.get("filter", "")
    found = await view.app.tasks.agroups(await _allowed(view, text))
    return Page("tasks_groups.html", {"groups": found, "wanted": text}, refresh_s=None)


async def complete(view: View) -> Answer:
    """Return what may stand at a position of the filter."""
    text = view.query.get("text", "")[:4_000]
    try:
        position = int(view.query.get("position", len(text)))
    except ValueError:
        raise ConfigError("position is the number of a character of the text") from None
    found = await view.app.tasks.acomplete(text, position)
    body = [{"text": one.text, "start": one.start, "end": one.end, "about": one.about} for one in found]
    return Response(msgspec.json.encode(body), media_type="application/json", headers={"Cache-Control": "no-store"})


async def ask(view: View) -> Answer:
    """Ask before an action on many: how many, with which errors, and what it may cost."""
    act = _act(view.query.get("action", ""))
    text = _filter_of(view.query)
    back = view.query.get("back", view.query.get("filter", ""))
    preview = await view.app.bulk.apreview(act.name, text)
    text, count = preview.filter, preview.count
    found = await view.app.tasks.agroups(text) if act.name == "retry" else []
    return Page(
        "act.html",
        {
            "act": act,
            "wanted": text,
            "count": count,
            "groups": found,
            "typed": count.n if count.n > TYPE_ABOVE or not count.is_exact else None,
            "command": command_of(act.name, text),
            "back": path(view.base, "/tasks", filter=back),
            "back_to": back,
            "spent": sum(one.cost for one in found),
        },
        f"{act.verb} {count} tasks",
        "tasks",
        refresh_s=None,
    )


def _act(name: str) -> Act:
    if name not in ACTS:
        raise ConfigError(f"{name!r} is nothing that can be done with many tasks; there are: {', '.join(ACTS)}")
    return ACTS[name]


def _filter_of(query: dict[str, str]) -> str:
    """Return the filter that is meant: of the tasks that were chosen one by one, their numbers."""
    chosen = query.get("ids", "").strip()
    text = f"id:{chosen}" if chosen else query.get("filter", "")
    return str(parse_filter(text))


def command_of(name: str, text: str) -> str:
    """Return the command that does the same."""
    return f"onceward {name} --filter {quote(text)}"


async def begin(view: View) -> Answer:
    """Begin an action on all tasks that match a filter."""
    form = await view.form()
    act, text = _act(form.get("action", "")), str(parse_filter(form.get("filter", "")))
    back = f"/tasks?{urlencode({'filter': form.get('back', text)})}"
    count = (await view.app.bulk.apreview(act.name, text)).count
    if (count.n > TYPE_ABOVE or not count.is_exact) and form.get("typed", "").replace(",", "") != str(count.n):
        return Refused(f"It would concern {count} tasks now. Their number was not typed, so nothing was done.", back)
    if count.n == 0:
        return Refused("No task matches any more. Nothing was done.", back)
    started = await view.app.bulk.astart(act.name, text, author=view.caller.name)
    carry(view.app)
    said = f"{act.verb} {count} tasks: begun. It goes on by itself, and can be stopped."
    return Done(said, f"/bulk/{started.id}", count.n, command_of(act.name, text))


async def bulk(view: View) -> Answer:
    """Show how far an action on many has come."""
    status = await view.app.bulk.aget(int(view.path["id"]))
    if status.is_open:
        carry(view.app)
    values = {"status": status, "act": ACTS.get(status.action), "command": command_of(status.action, status.filter)}
    return Page("bulk.html", values, f"{status.action} in bulk", "tasks", refresh_s=1 if status.is_open else None)


async def stop(view: View) -> Answer:
    """Stop an action on many: what is done stays done."""
    number = int(view.path["id"])
    status = await view.app.bulk.astop(number)
    return Done(f"Stopped. {status.done:,} tasks were done, and stay so.", f"/bulk/{number}", status.done)


ROUTES = [
    page("/tasks", show),
    page("/tasks/count", counted),
    page("/tasks/groups", groups),
    Route("GET", "/tasks/complete", complete, Role.VIEWER, "file"),
    page("/tasks/act", ask),
    action("/tasks/act", begin, "Begins an action on all tasks that match a filter."),
    page("/bulk/{id:int}", bulk),
    action("/bulk/{id:int}/stop", stop, "Stops an action on many tasks."),
]
