"""Why a task is not running: a pure function from how it stands to one cause, a sentence, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from onceward.model.status import Status
from onceward.model.task import NEVER
from onceward.model.times import moment, spoken
from onceward.store.waits import Standing

MOST_NAMED = 5


class Cause(StrEnum):
    """What holds a task back."""

    ENDED = "ended"
    RUNNING = "running"
    """Nothing: it runs."""
    PAUSED = "paused"
    DUE = "due"
    """Its time has not come: it was asked for later, or is tried again after a while."""
    CHILDREN = "children"
    SIGNAL = "signal"
    CODE = "code"
    """Its stored data does not fit the code that was there."""
    WAITING = "waiting"
    """It waits for something else that `waiting_for` names."""
    NO_WORKER = "no worker"
    SUSPECT = "suspect"
    """It was running when its worker died, and runs apart from others."""
    IN_LINE = "in line"


@dataclass(frozen=True, slots=True)
class Why:
    """Why a task is not running, in one sentence and in values."""

    task: int
    status: Status
    cause: Cause
    sentence: str
    until: datetime | None = None
    """When it is over by itself, where that is known."""
    waiting_for: str | None = None
    paused_by: int | None = None
    """The task whose pause it is."""
    open_children: tuple[int, ...] = ()
    ahead: int | None = None
    """How many stand before it in its line."""
    workers: tuple[str, ...] = ()
    """The living workers that take such tasks."""

    def __str__(self) -> str:
        return self.sentence


def why(one: Standing, now: int) -> Why:
    """Why a task is not running. Where more than one thing holds it, the one that lasts longer is told."""
    if one.status.is_terminal:
        reason = f": {one.reason}" if one.reason else ""
        return Why(one.id, one.status, Cause.ENDED, f"it has ended: {one.status.word}{reason}")
    if one.status is Status.RUNNING:
        pause = "; it is paused, and goes no further than this stage" if one.paused_by is not None else ""
        where = f" on {one.worker}" if one.worker else ""
        stage = f"stage {one.stage}" if one.stage else "its first stage"
        return Why(one.id, one.status, Cause.RUNNING, f"it is running: {stage}{where}{pause}", paused_by=one.paused_by)
    if one.status is Status.WAITING:
        return _waiting(one, now)
    if one.paused_by is not None:
        return Why(one.id, one.status, Cause.PAUSED, f"{_paused(one)}", paused_by=one.paused_by)
    if one.due_at > now:
        return _due(one, now)
    return _ready(one, now)


def _waiting(one: Standing, now: int) -> Why:
    until = moment(one.due_at) if one.due_at < NEVER else None
    at_most = "" if until is None else f", for {spoken(max(0, one.due_at - now))} at most"
    pause = "" if one.paused_by is None else f"; besides, {_paused(one)}"
    what, _, name = (one.waiting_for or "").partition(":")
    children: tuple[int, ...] = ()
    match what:
        case "children":
            cause, children = Cause.CHILDREN, tuple(one.open_children)
            count = len(children)
            text = f"it waits for {count} {'child' if count == 1 else 'children'} to end: {_listed(children)}"
        case "signal":
            cause, text = Cause.SIGNAL, f"it waits for the signal {name!r}{at_most}"
        case "code":
            cause, text = Cause.CODE, f"it waits for other code, which fits what is stored: {one.reason}"
        case _:
            cause, text = Cause.WAITING, f"it waits for {one.waiting_for}{at_most}"
    return Why(one.id, one.status, cause, text + pause, until, one.waiting_for, one.paused_by, open_children=children)


def _due(one: Standing, now: int) -> Why:
    left = spoken(one.due_at - now)
    if one.status is Status.RETRYABLE:
        text = f"it has failed ({one.reason}) and is tried again in {left}"
    elif one.reason:
        text = f"it runs again in {left}: {one.reason}"
    else:
        text = f"it is due in {left}"
    return Why(one.id, one.status, Cause.DUE, text, moment(one.due_at))


def _ready(one: Standing, now: int) -> Why:
    serving = tuple(server.name for server in one.servers if server.serves(one.kind, one.queue, now))
    if not serving:
        if one.servers:
            alive = len(one.servers)
            text = f"no worker takes {one.kind} from the queue {one.queue}; {alive} alive, with other work or silent"
        else:
            text = "no worker is alive"
        return Why(one.id, one.status, Cause.NO_WORKER, text, ahead=one.ahead)
    if one.company:
        beside = "alone" if one.company == 1 else f"with at most {one.company - 1} others"
        text = f"it was running when a worker died, and waits to run {beside}"
        return Why(one.id, one.status, Cause.SUSPECT, text, ahead=one.ahead, workers=serving)
    before = f"behind {one.ahead} others" if one.ahead else "as the first"
    count = f"{len(serving)} worker{'' if len(serving) == 1 else 's'}"
    text = f"it is ready and stands in line {before}; {count} would take it"
    return Why(one.id, one.status, Cause.IN_LINE, text, ahead=one.ahead, workers=serving)


def _paused(one: Standing) -> str:
    return "it is paused" if one.paused_by == one.id else f"it is paused, with task {one.paused_by}"


def _listed(tasks: tuple[int, ...]) -> str:
    named = ", ".join(f"task {task}" for task in tasks[:MOST_NAMED])
    more = len(tasks) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
