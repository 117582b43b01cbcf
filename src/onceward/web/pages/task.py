"""One task: why it is not running, its stages over all attempts, what it keeps, and what can be done with it."""

from __future__ import annotations

import asyncio
import shlex
from decimal import Decimal
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse

from onceward.errors import TaskNotFound
from onceward.model.decide import signal_of
from onceward.model.error_shapes import shape_of
from onceward.model.status import Event, Status
from onceward.views.details import TaskDetails
from onceward.views.task import Happening, Task
from onceward.views.why import Cause, Why, note_text
from onceward.web.answers import Done, Page, Refused
from onceward.web.frames import Trace, read_trace
from onceward.web.roles import Role
from onceward.web.route import Answer, action, page
from onceward.web.shown import shown_details
from onceward.web.stored_values import pretty, shown_value
from onceward.web.view import View
from onceward.web.waterfall import waterfall

OPEN_S, ENDED_S = 8, 20
"""How often the page of a task is drawn anew at most."""
CAN_UNBLOCK = (Cause.PAUSED, Cause.SOURCE)
"""What an operator ends by one button; a budget is raised by another role, a signal has a value."""
GATE_COMMAND = "onceward source "


async def show(view: View) -> Answer:
    """Show a task."""
    details, why = await asyncio.gather(view.app.tasks.adetails(view.task_id), view.app.awhy(view.task_id))
    details = shown_details(details, view.caller, await view.app.tasks.asecret_fields())
    task = details.task
    return Page(
        "task.html",
        {
            "details": details,
            "task": task,
            "why": why,
            "sentence": _sentence(why),
            "tone": _tone(task.status, why),
            "seen": seen_of(task),
            "fall": waterfall(details, view.now),
            "failure": _last_failure(details),
            "alike": _alike(details),
            "history": _history(details),
            "payload": shown_value(details.payload),
            "stored": [(one, shown_value(one.value)) for one in details.stored],
            "waits_for_signal": None if task.waiting_for is None else signal_of(task.waiting_for),
            "kept": [one.stage for one in details.results],
            "limit_asked": _limit_asked(why),
            "can_unblock": why.cause in CAN_UNBLOCK and why.command is not None,
        },
        f"{task.id} {task.kind}",
        "tasks",
        refresh_s=OPEN_S if not task.status.is_terminal else ENDED_S,
    )


async def payload(view: View) -> Answer:
    """Show the whole payload of a task as text."""
    found = await view.app.tasks.adetails(view.task_id)
    details = shown_details(found, view.caller, await view.app.tasks.asecret_fields())
    return PlainTextResponse(await asyncio.to_thread(pretty, details.payload), headers={"Cache-Control": "no-store"})


async def stored(view: View) -> Answer:
    """Show the whole of a stored value as text."""
    details = await view.app.tasks.adetails(view.task_id)
    wanted = (view.query.get("stage", ""), view.query.get("part", ""))
    for one in details.stored:
        if (one.stage, one.part) == wanted:
            return PlainTextResponse(await asyncio.to_thread(pretty, one.value), headers={"Cache-Control": "no-store"})
    raise TaskNotFound(view.task_id)


def seen_of(task: Task) -> str:
    """Return how a task stood when a page showed it: an action on it names that again."""
    return f"{task.run}:{task.status.word}"


async def _as_seen(view: View, form: dict[str, str]) -> Task | Refused:
    """Return the task, if it stands as the page had shown it that the action comes from."""
    task = await view.app.tasks.aget(view.task_id)
    seen = form.get("seen", "")
    if seen == seen_of(task):
        return task
    _, _, was = seen.partition(":")
    told = f"It was {was} when the page was shown. " if was else ""
    run = f", in run {task.run}" if was == task.status.word else ""
    return Refused(
        f"Task {task.id} has changed since: it is {task.status.word}{run} now. {told}Nothing was done.", _path(task.id)
    )


def _path(number: int) -> str:
    return f"/tasks/{number}"


async def retry(view: View) -> Answer:
    """Open an ended task again: with its finished stages, from a stage on, or from the beginning."""
    form = await view.form()
    task = await _as_seen(view, form)
    if isinstance(task, Refused):
        return task
    how, command = form.get("how", "kept"), f"onceward retry {task.id}"
    if how == "fresh":
        await view.app.tasks.aretry(task.id, fresh=True)
        return Done(f"Task {task.id} begins again from its first stage.", _path(task.id), command=f"{command} --fresh")
    if how == "stage":
        stage = form.get("stage", "")
        await view.app.tasks.aretry(task.id, stage=stage)
        said = f"Task {task.id} goes on from stage {stage}."
        return Done(said, _path(task.id), command=f"{command} --from-stage {stage}")
    await view.app.tasks.aretry(task.id)
    return Done(f"Task {task.id} is tried again; finished stages are kept.", _path(task.id), command=command)


async def cancel(view: View) -> Answer:
    """Cancel a task that has not ended."""
    form = await view.form()
    task = await _as_seen(view, form)
    if isinstance(task, Refused):
        return task
    reason = form.get("reason", "").strip() or f"cancelled by {view.caller.name}"
    await view.app.tasks.acancel(task.id, reason)
    return Done(f"Task {task.id} is cancelled.", _path(task.id), command=f"onceward cancel {task.id}")


async def approve(view: View) -> Answer:
    """Let a task go on that waits for approval."""
    form = await view.form()
    task = await _as_seen(view, form)
    if isinstance(task, Refused):
        return task
    await view.app.tasks.aapprove(task.id)
    back = form.get("back", "") if form.get("back", "").startswith("/tasks") else _path(task.id)
    return Done(f"Task {task.id} is approved and goes on.", back, command=f"onceward approve {task.id}")


async def signal(view: View) -> Answer:
    """Send a signal to a task."""
    form = await view.form()
    task = await _as_seen(view, form)
    if isinstance(task, Refused):
        return task
    name, text = form.get("name", ""), form.get("value", "").strip() or "true"
    await view.app.tasks.asignal(task.id, name, _value_of(text))
    return Done(f"Task {task.id} has the signal {name}.", _path(task.id), command=f"onceward signal {task.id} {name}")


def _value_of(text: str) -> Any:
    """Return a value in JSON; what is no JSON is a text, as on the command line."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def unblock(view: View) -> Answer:
    """End a pause, or open a source, that holds a task back."""
    form = await view.form()
    why = await view.app.awhy(view.task_id)
    if why.cause.value != form.get("cause") or why.command is None:
        return Refused(
            f"Something else holds task {view.task_id} now: {why.sentence}. Nothing was done.", _path(why.task)
        )
    if why.cause is Cause.SOURCE and why.gate is not None and why.command.startswith(GATE_COMMAND):
        await view.app.sources.aenable(why.gate)
        said = f"Source {why.gate} is open."
    elif why.paused_by is not None:
        await view.app.lineages.aresume(why.paused_by)
        said = f"Task {why.paused_by} and all below it go on."
    elif why.paused_scope is not None:
        what, _, name = why.paused_scope.partition(":")
        await view.app.workers.aresume(**({} if what == "everything" else {what: name}))
        said = "Work goes on." if what == "everything" else f"{what.capitalize()} {name} goes on."
    else:
        return Refused(f"Nothing here can be opened by a button: {why.sentence}.", _path(why.task))
    return Done(said, _path(why.task), command=why.command)


async def raise_limit(view: View) -> Answer:
    """Give the budget that a task waits for another limit."""
    form = await view.form()
    why = await view.app.awhy(view.task_id)
    asked = _limit_asked(why)
    if asked is None:
        return Refused(
            f"Task {why.task} no longer waits for a budget: {why.sentence}. Nothing was done.", _path(why.task)
        )
    name, scope, _ = asked
    limit = form.get("limit", "").strip()
    await view.app.budgets.aset_limit(name, limit, scope=scope, author=view.caller.name)
    of = f" --scope {scope}" if scope else ""
    said = f"The limit of budget {name} is {limit} now; tasks that fit are woken."
    return Done(said, _path(why.task), command=f"onceward budgets {name} --limit {limit}{of}")


def _limit_asked(why: Why) -> tuple[str, str | None, Decimal] | None:
    """Return the budget that a task waits for, for whom it is, and the smallest limit under which the task runs."""
    if why.cause is not Cause.BUDGET or why.command is None or why.waiting_for is None:
        return None
    words = shlex.split(why.command)
    scope = words[words.index("--scope") + 1] if "--scope" in words else None
    return words[2], scope, Decimal(words[words.index("--limit") + 1])


def _sentence(why: Why) -> tuple[str, str]:
    """Return what is told of a task in two parts: the first clause, which is set in bold, and the rest."""
    text = why.sentence[:1].upper() + why.sentence[1:]
    for mark in (", ", ": ", "; "):
        head, found, rest = text.partition(mark)
        if found and 8 < len(head) < 70:
            return head, found + rest
    return text, ""


def _tone(status: Status, why: Why) -> str:
    if status is Status.FAILED:
        return "failed"
    if why.cause in (Cause.ENDED, Cause.RUNNING, Cause.CLAIMED, Cause.IN_LINE):
        return "quiet"
    return "waiting"


def _last_failure(details: TaskDetails) -> tuple[Happening, Trace | None] | None:
    """Return the newest error in the history of a task: before a lost worker, one of its own code with a traceback."""
    failures = [one for one in reversed(details.task.history) if _is_error(one)]
    traced = next((one for one in failures if one.trace is not None), None)
    if not failures:
        return None
    one = failures[0] if traced is None or failures[0].event is not Event.CRASHED else traced
    return one, None if one.trace is None else read_trace(one.trace)


def _is_error(one: Happening) -> bool:
    if one.event in (Event.FINISHED, Event.EXPIRED):
        return one.status is Status.FAILED
    return one.event in (Event.RETRY_SCHEDULED, Event.TIMED_OUT, Event.CRASHED)


def _alike(details: TaskDetails) -> str | None:
    """Return the filter of the tasks of which the last error is like that of this one, if it has failed."""
    task = details.task
    if task.reason is None or task.status not in (Status.FAILED, Status.RETRYABLE):
        return None
    return f"error:#{shape_of(task.reason).fingerprint}"


def _history(details: TaskDetails) -> list[tuple[Happening, str]]:
    """Return what happened to a task, newest first, each with what is to be said of it."""
    return [(one, _said(one)) for one in reversed(details.task.history)]


def _said(one: Happening) -> str:
    note = one.note or ""
    match one.event:
        case Event.STAGE_COMMITTED:
            return one.stage or ""
        case Event.HANDED_OVER:
            return f"{one.stage}; the next stage stands in line in queue {note}" if note else one.stage or ""
        case Event.FINISHED:
            return f"{one.status.word}: {note}" if note else one.status.word
        case Event.SIGNALLED:
            return note
        case _:
            return note_text(one.event, note) if note else ""


AT = "/tasks/{id:int}"
ROUTES = [
    page(AT, show),
    page(f"{AT}/payload", payload),
    page(f"{AT}/stored", stored),
    action(f"{AT}/retry", retry, "Opens an ended task again."),
    action(f"{AT}/cancel", cancel, "Cancels a task that has not ended."),
    action(f"{AT}/approve", approve, "Lets a task go on that waits for approval."),
    action(f"{AT}/signal", signal, "Sends a signal to a task."),
    action(f"{AT}/unblock", unblock, "Ends the pause, or opens the source, that holds a task back."),
    action(f"{AT}/limit", raise_limit, "Gives the budget that a task waits for another limit.", role=Role.ADMIN),
]
