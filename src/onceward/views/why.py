"""Why a task is not running: one cause, a sentence, when it is over, and the command that unblocks it.

`why` is a pure function of how a task stands. `explain` reads that, and climbs: for a task that waits for its children
or for a batch it also explains what those wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from shlex import quote

import msgspec

from onceward.model.budget import amount_text, read_amount
from onceward.model.decide import wait_text
from onceward.model.gates import KEY, WEIGHT, Gate, kind_of, weighed
from onceward.model.pause import scope_text
from onceward.model.source import GateLimits, allowance
from onceward.model.status import Event, Status
from onceward.model.task import NEVER
from onceward.model.times import duration_text, moment
from onceward.store.governance.sources import GateFacts
from onceward.store.op import Op
from onceward.store.reports.waits import WaitFacts, read_wait_facts

MOST_NAMED = 5
"""How many open children of a task are named, and explained."""
MOST_EXPLAINED = 20
"""How many tasks one answer explains in all."""


class Cause(StrEnum):
    """What holds a task back."""

    ENDED = "ended"
    RUNNING = "running"
    """Nothing: it runs."""
    LOST = "lost"
    """Its worker has died or is silent, and no other has taken it over yet."""
    CLAIMED = "claimed"
    """Nothing but its worker: it is leased there, and its stage waits for a free thread or slot."""
    PAUSED = "paused"
    """By an operator: itself, what it descends from, its pipeline, its queue, or everything."""
    DUE = "due"
    """Its time has not come: it was asked for later, or is tried again after a while."""
    CHILDREN = "children"
    BATCH = "batch"
    """It follows a batch, which is open."""
    SIGNAL = "signal"
    BUDGET = "budget"
    """What it may cost is not left of a budget."""
    CODE = "code"
    """Its stored data does not fit the code that was there."""
    WAITING = "waiting"
    """It waits for something else that `waiting_for` names."""
    SOURCE = "source"
    """The outside service that its stage depends on lets no task pass now."""
    LIMIT = "limit"
    """As many of its pipeline, or with its key, as may run at once are running."""
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
    gate: str | None = None
    """The source that holds it, or `=kind` and `#kind/…` for what only so many may run of at once."""
    paused_scope: str | None = None
    """The pause of an operator that holds it, if that is not one of its lineage."""
    command: str | None = None
    """The command that unblocks it, where one does."""
    below: tuple[Why, ...] = ()
    """Why the tasks that it waits for have not ended."""
    before: tuple[str, ...] = ()
    """What held it back earlier, oldest first."""

    def __str__(self) -> str:
        return self.sentence


def explain(
    task: int,
    now: int,
    limits_of: Callable[[str], GateLimits],
    has_started: Callable[[WaitFacts], bool | None],
    has_died: Callable[[str | None, str | None], bool],
) -> Op[Why | None]:
    """Why a task is not running, and why the tasks that it waits for are not; None if there is no such task.

    `has_started` says whether the stage of a leased task has begun, as far as this machine can see its worker;
    `has_died` whether the process of a worker, by its machine and presence file, is seen to have ended.
    """
    explained: set[int] = set()

    def climb(task: int) -> Op[Why | None]:
        if task in explained or len(explained) >= MOST_EXPLAINED:
            return None
        explained.add(task)
        found = yield from read_wait_facts(task, now)
        if found is None:
            return None
        is_lost = found.status is Status.RUNNING and has_died(found.host, found.presence)
        servers = [one for one in found.servers if not (one.pid and has_died(one.host, one.presence))]
        seen = msgspec.structs.replace(found, servers=servers)
        answer = why(seen, now, limits_of, has_started(found), has_died=is_lost)
        below: list[Why] = []
        for awaited in found.open_children[:MOST_NAMED]:
            below += filter(None, [(yield from climb(awaited))])
        return replace(answer, below=tuple(below)) if below else answer

    return (yield from climb(task))


def why(
    one: WaitFacts,
    now: int,
    limits_of: Callable[[str], GateLimits] = lambda _: GateLimits(),
    has_started: bool | None = None,
    *,
    has_died: bool = False,
) -> Why:
    """Why a task is not running. Where more than one thing holds it, the one that lasts longer is told.

    `limits_of` says what a gate lets through, if there is code that knows; `has_started` whether a leased stage runs,
    `has_died` whether its worker has ended.
    """
    answer = _lost(one, now, has_died) or _cause(one, now, limits_of, has_started)
    return replace(answer, command=_command(one, answer, now), before=_before(one, now))


def _cause(one: WaitFacts, now: int, limits_of: Callable[[str], GateLimits], has_started: bool | None) -> Why:
    if one.status.is_terminal:
        reason = f": {one.reason}" if one.reason else ""
        return Why(one.id, one.status, Cause.ENDED, f"it has ended: {one.status.word}{reason}")
    if one.status is Status.RUNNING:
        return _leased(one, has_started)
    if one.status is Status.WAITING:
        return _waiting(one, now)
    if one.paused_by is not None:
        return Why(one.id, one.status, Cause.PAUSED, f"{_paused(one)}", paused_by=one.paused_by)
    if one.held_by is not None:
        return _held(one, one.held_by)
    for _, facts in one.gates:
        if facts.paused_by is not None:
            return _held(one, facts.paused_by, facts.row.name)
    if one.due_at > now:
        return _due(one, now)
    return _ready(one, now, limits_of)


def _lost(one: WaitFacts, now: int, has_died: bool) -> Why | None:
    """Say that the worker of a leased task has died, or is silent for longer than half its lease."""
    if one.status is not Status.RUNNING:
        return None
    silent_ms = 0 if one.beat_at is None else now - one.beat_at
    if has_died:
        text = f"its worker {one.worker} has died; the next worker takes it over"
    elif one.lease_ms is not None and silent_ms > one.lease_ms // 2:
        until = f"after {duration_text(one.lease_ms)} of silence another worker takes it over"
        text = f"its worker {one.worker} has been silent for {duration_text(silent_ms)}; {until}"
    else:
        return None
    pause = "; it is paused, and stays where it is then" if one.paused_by is not None else ""
    return Why(one.id, one.status, Cause.LOST, text + pause, paused_by=one.paused_by)


def _leased(one: WaitFacts, has_started: bool | None) -> Why:
    pause = "; it is paused, and goes no further than this stage" if one.paused_by is not None else ""
    where = f" on {one.worker}" if one.worker else ""
    stage = f"stage {one.stage}" if one.stage else "its first stage"
    cause, text = Cause.RUNNING, f"it is running: {stage}{where}"
    if has_started is False:
        cause, text = Cause.CLAIMED, f"it is claimed{where}, and {stage} waits there for a free thread or slot"
    return Why(one.id, one.status, cause, text + pause, paused_by=one.paused_by)


def _command(one: WaitFacts, answer: Why, now: int) -> str | None:
    """The command that unblocks a task, where one does."""
    match answer.cause:
        case Cause.ENDED if one.status is not Status.SUCCEEDED:
            return f"onceward retry {one.id}"
        case Cause.SIGNAL:
            _, _, name = (one.waiting_for or "").partition(":")
            return f"onceward approve {one.id}" if name == "approved" else f"onceward signal {one.id} {quote(name)}"
        case Cause.BUDGET if one.budget is not None:
            scope = f" --scope {quote(one.budget.scope)}" if one.budget.scope else ""
            return f"onceward budgets {quote(one.budget.name)} --limit {_smallest_limit(one)}{scope}"
        case Cause.PAUSED | Cause.RUNNING | Cause.CLAIMED if one.paused_by is not None:
            return f"onceward resume {one.paused_by}"
        case Cause.PAUSED:
            what, _, name = (answer.paused_scope or "").partition(":")
            return f"onceward resume --{what}" + (f" {quote(name)}" if name else "")
        case Cause.SOURCE if any(_is_shut(facts, now) for gate, facts in one.gates if gate.name == answer.gate):
            return f"onceward source {quote(answer.gate or '')} --enable"
        case Cause.NO_WORKER | Cause.LOST:
            return "onceward run APP" + ("" if one.queue == "default" else f" --queues {quote(one.queue)}")
        case Cause.CODE:
            return "onceward run APP"
    return None


def _smallest_limit(one: WaitFacts) -> str:
    """The smallest limit under which a task that waits for a budget runs."""
    account = one.budget
    assert account is not None
    needed = account.spent + account.reserved + (one.estimate or 1)
    return f"{read_amount(needed):f}"


def _is_shut(facts: GateFacts, now: int) -> bool:
    """Whether a source is disabled or left alone: an operator can open it."""
    return not facts.row.enabled or facts.row.paused_until > now


def _before(one: WaitFacts, now: int) -> tuple[str, ...]:
    """What held a task back earlier: by its own log, and by the last pauses of the sources it has to pass."""
    is_put_off = one.status in (Status.WAITING, Status.RETRYABLE) or (one.status is Status.PENDING and one.due_at > now)
    earlier = one.held_before[1:] if is_put_off else one.held_before  # the newest is what holds it now
    told = [(at, f"{event.word}: {note_text(event, note)}" if note else event.word) for at, event, note in earlier]
    for gate, facts in one.gates:
        row = facts.row
        if gate.is_source and one.created_at < row.paused_until <= now:
            error = f" ({row.last_error})" if row.last_error else ""
            why_paused = f"{row.why or 'it failed'}{error}"
            told.append((row.paused_until, f"source {gate.name} was left alone until then: {why_paused}"))
    return tuple(f"{moment(at):%Y-%m-%d %H:%M:%S} UTC {text}" for at, text in sorted(told))


def note_text(event: Event, note: str) -> str:
    """A note of a task's history; what a parked task waits for is said in words."""
    spoken = wait_text(note) if event is Event.PARKED else note
    return note if spoken == note else f"waits for {spoken}"


def _waiting(one: WaitFacts, now: int) -> Why:
    until = moment(one.due_at) if one.due_at < NEVER else None
    at_most = "" if until is None else f", for {duration_text(max(0, one.due_at - now))} at most"
    pause = "" if one.paused_by is None else f"; besides, {_paused(one)}"
    what, _, name = (one.waiting_for or "").partition(":")
    children: tuple[int, ...] = ()
    match what:
        case "children":
            cause, children = Cause.CHILDREN, tuple(one.open_children)
            count = len(children)
            text = f"it waits for {count} {'child' if count == 1 else 'children'} to end: {_listed(children)}"
        case "batch":
            cause, children = Cause.BATCH, tuple(one.open_children)
            text = f"it waits for batch {name!r} to end" + (f": {_listed(children)} open" if children else "")
        case "signal":
            cause, text = Cause.SIGNAL, f"it waits for the signal {name!r}{at_most}"
        case "code":
            cause, text = Cause.CODE, f"it waits for workers with other code, which reads what is stored: {one.reason}"
        case "budget":
            cause, (text, until) = Cause.BUDGET, _spent(one, name)
        case _:
            cause, text = Cause.WAITING, f"it waits for {one.waiting_for}{at_most}"
    return Why(one.id, one.status, cause, text + pause, until, one.waiting_for, one.paused_by, open_children=children)


def _spent(one: WaitFacts, name: str) -> tuple[str, datetime | None]:
    """What is left of the budget that a task waits for, what it needs, and when that is over by itself."""
    account = one.budget
    if account is None:
        return f"it waits for budget {name}", None
    whose = f" of {account.scope}" if account.scope else ""
    left = amount_text(account.left, account.unit)
    of = amount_text(account.ceiling, account.unit)
    closed = ", closed because a charge was above its estimate" if account.is_closed else ""
    needs = "" if one.estimate is None else f", and it may need {amount_text(one.estimate, account.unit)}"
    until = None if account.ends_at is None else moment(account.ends_at)
    then = "until it is raised" if until is None else f"until it is raised or begins anew at {until:%Y-%m-%d %H:%M} UTC"
    return f"it waits for budget {account.name}{whose}, of which {left} of {of} is left{closed}{needs}; {then}", until


def _due(one: WaitFacts, now: int) -> Why:
    left = duration_text(one.due_at - now)
    if one.status is Status.RETRYABLE:
        text = f"it has failed ({one.reason}) and is tried again in {left}"
    elif one.reason:
        text = f"it runs again in {left}: {one.reason}"
    else:
        text = f"it is due in {left}"
    return Why(one.id, one.status, Cause.DUE, text, moment(one.due_at))


def _held(one: WaitFacts, scope: str, gate: str | None = None) -> Why:
    what = "everything is" if scope == "everything" else f"{scope_text(scope)} is"
    text = f"{what} paused by an operator"
    return Why(one.id, one.status, Cause.PAUSED, text, ahead=one.ahead, gate=gate, paused_scope=scope)


def _ready(one: WaitFacts, now: int, limits_of: Callable[[str], GateLimits]) -> Why:
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
    closed = [
        (again_at, gate, facts)
        for gate, facts in one.gates
        if (again_at := _closed_until(gate, facts, limits_of(gate.name), now)) is not None
    ]
    if closed:
        again_at, gate, facts = max(closed, key=lambda found: found[0])
        return _behind_gate(one, gate, facts, limits_of(gate.name), again_at, serving, now)
    before = f"behind {one.ahead} others" if one.ahead else "as the first"
    count = f"{len(serving)} worker{'' if len(serving) == 1 else 's'}"
    text = f"it is ready and stands in line {before}; {count} would take it"
    return Why(one.id, one.status, Cause.IN_LINE, text, ahead=one.ahead, workers=serving)


def _closed_until(gate: Gate, facts: GateFacts, limits: GateLimits, now: int) -> int | None:
    """When a gate is worth another look, if it lets no task pass now."""
    allowed = allowance(limits, facts.row.state, facts.inside, facts.probes, gate.tokens, now)
    return None if allowed.count else allowed.again_at


def _behind_gate(
    one: WaitFacts, gate: Gate, facts: GateFacts, limits: GateLimits, again_at: int, serving: tuple[str, ...], now: int
) -> Why:
    """What a gate that lets no task pass is waiting for itself."""
    cause = Cause.SOURCE if gate.is_source or gate.name[0] == WEIGHT else Cause.LIMIT
    row, until = facts.row, None
    if not row.enabled:
        text = f"source {gate.name} is disabled until an operator enables it: {row.why or row.last_error}"
    elif row.paused_until > now:
        until = moment(row.paused_until)
        error = f" ({row.last_error})" if row.last_error else ""
        text = f"source {gate.name} is left alone for {duration_text(row.paused_until - now)}: {row.why}{error}"
    elif row.is_half_open and facts.probes:
        text = f"source {gate.name} is being tried by one task after its pause; if that succeeds, others follow"
    elif limits.concurrency is not None and facts.inside >= limits.concurrency:
        taken = "its only place is taken" if limits.concurrency == 1 else f"all {limits.concurrency} places are taken"
        text = f"{_gate_name(gate)}: {taken}"
    else:
        until = moment(again_at)
        lacks = "no token left; the next comes"
        if gate.name[0] == WEIGHT:
            lacks = f"not the {gate.tokens:,} {weighed(gate.name)[0]} left that it takes; it has"
        text = f"{_gate_name(gate)} has {lacks} in {duration_text(max(1, again_at - now))}"
    line = f"; {one.ahead} stand before it" if one.ahead else ""
    return Why(
        one.id, one.status, cause, text + line, until, ahead=one.ahead, workers=serving, gate=gate.name
    )  # fmt: skip


def _gate_name(gate: Gate) -> str:
    if gate.is_source or gate.name[0] == WEIGHT:
        return f"source {gate.name if gate.is_source else weighed(gate.name)[1]}"
    with_key = ", for one key" if gate.name.startswith(KEY) else ""
    return f"pipeline {kind_of(gate.name)} runs only so many at once{with_key}"


def _paused(one: WaitFacts) -> str:
    return "it is paused" if one.paused_by == one.id else f"it is paused, with task {one.paused_by}"


def _listed(tasks: tuple[int, ...]) -> str:
    named = ", ".join(f"task {task}" for task in tasks[:MOST_NAMED])
    more = len(tasks) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
