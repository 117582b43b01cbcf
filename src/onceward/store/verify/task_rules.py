"""Rules that hold for every task at every moment, each a function from the history of a task to its breaches.

Pure: a `History` is everything that is stored of one task, and `verify` reads them. A rule's docstring is the promise.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from onceward.model.decide import signal_of
from onceward.model.lineage import NOT_UNIQUE, REPEATS, Rule, read_ancestry, rules_in
from onceward.model.status import CLAIMABLE, TRANSITIONS, Event, Status
from onceward.model.task import CURSOR_PART, NEVER, ONCE_PREFIX, RESULT_PART, SIZE_PART, WAIT_PREFIX, lane_of

CLOCK_SLACK_MS = 3_600_000
"""Largest difference between the clocks of two machines before a time counts as impossible."""

_COMMITS = frozenset({Event.STAGE_COMMITTED, Event.HANDED_OVER})
_FAILURES = frozenset({Event.RETRY_SCHEDULED, Event.TIMED_OUT})
_INTO_LAST_STAGE = (Event.EXPIRED, Status.PENDING)
"""The log row of a task that goes into its expiry stage."""
_STILL = frozenset({Event.SIGNALLED, Event.PAUSED, Event.RESUMED, Event.LIMITS_RAISED})
"""Events that do not change the status of a task."""
_ALLOWED: dict[int, tuple[frozenset[Status], frozenset[Status]]] = {
    int(event): move for event, move in TRANSITIONS.items()
}
_FROM_STAGE = re.compile(r"from stage (?P<first>.+?)(?:, forgetting (?P<all>.+))?")


class TaskFacts(NamedTuple):
    """The row of a task, as far as rules speak of it; and what its worker's row says."""

    id: int
    kind: str
    queue: str
    status: int
    run: int
    fence: int
    token: bytes | None
    worker: int | None
    worker_row: int | None
    worker_stopped_at: int | None
    failures: int
    deferrals: int
    signals: int
    touched: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    waiting_for: str | None
    due_at: int
    reason_length: int
    paused: int = 0


class Claim(NamedTuple):
    """One claim of a task."""

    fence: int
    token: bytes
    worker: int


class Logged(NamedTuple):
    """One row of the log."""

    run: int
    fence: int
    event: int
    status: int
    stage: str | None
    note: str | None


class Stored(NamedTuple):
    """One checkpoint, without its value."""

    run: int
    stage: str
    part: str


class FamilyFacts(NamedTuple):
    """The descent and the count of children in the row of a task, beside what the row of its parent says."""

    lineage: uuid.UUID | bytes
    parent: int | None
    depth: int
    identity: bytes
    ancestry: bytes | None
    children: int
    scopes: bytes | None
    parent_row: int | None
    parent_depth: int | None
    parent_identity: bytes | None
    parent_ancestry: bytes | None
    same_lineage: bool | None
    pruned: int | None
    """How many tasks of its lineage are gone; None if the lineage has no row."""
    children_there: int


class History(NamedTuple):
    """All that is stored of one task. The log is in the order in which it was written."""

    task: TaskFacts
    claims: list[Claim]
    log: list[Logged]
    parts: list[Stored]
    lanes: list[str]
    family: FamilyFacts | None = None
    """None for a task that has no parent and never had a child."""


def claims(history: History) -> Iterator[str]:
    """Every claim got a fence of its own, from 1 on without a gap, and the task carries the last."""
    task = history.task
    times = Counter(claim.fence for claim in history.claims)
    for fence, count in times.items():
        if count > 1:
            yield f"task {task.id}: fence {fence} was given out {count} times"
    if set(times) != set(range(1, task.fence + 1)):
        given = ", ".join(map(str, sorted(times))) or "none"
        yield f"task {task.id} carries fence {task.fence}, but its claims were given: {given}"


def fences(history: History) -> Iterator[str]:
    """Once a newer claim has written, nothing of an older one is accepted."""
    newest = 0
    for row in history.log:
        if row.event == Event.LOST:
            continue
        if row.fence < newest:
            yield (
                f"task {history.task.id}: {_event(row.event)} was accepted from claim {row.fence} "
                f"after claim {newest} had written"
            )
        newest = max(newest, row.fence)


def stages(history: History) -> Iterator[str]:
    """A stage commits at most once in a run, unless an operator had it forgotten."""
    run, done, ended_in = 0, dict[str | None, None](), None
    for row in history.log:
        if row.run != run:
            run, done, ended_in = row.run, {}, None
        if row.event == Event.REOPENED:
            ended_in = None
            for stage in forgotten(done, row.note):
                del done[stage]
        elif row.event in _COMMITS or row.event == Event.FINISHED:
            if row.stage in done or (ended_in is not None and row.stage == ended_in):
                yield f"task {history.task.id}: stage {row.stage} committed twice in run {run}"
            if row.event == Event.FINISHED:
                ended_in = row.stage
            else:
                done[row.stage] = None


def forgotten(done: Iterable[str | None], note: str | None) -> list[str | None]:
    """Which of these stages, in the order in which they were finished, a reopening with this note has forgotten."""
    match = _FROM_STAGE.fullmatch(note or "")
    if match is None:
        return []
    in_order = list(done)
    if match["all"] is not None:
        named = set(match["all"].split(", "))
        return [stage for stage in in_order if stage in named]
    return in_order[in_order.index(match["first"]) :] if match["first"] in in_order else []


def moves(history: History) -> Iterator[str]:
    """The log, replayed by the transition table, makes legal moves only, and ends where the task stands."""
    task = history.task
    status, fence, run = int(Status.PENDING), 0, 1
    for row in history.log:
        if row.event in (Event.LOST, Event.REFUSED, Event.SPAWNED):
            continue
        if row.fence != fence:
            # A claim is not in the log; its first event tells of it.
            if row.fence != fence + 1:
                yield f"task {task.id}: its log goes from claim {fence} to claim {row.fence}"
            elif status not in CLAIMABLE:
                yield f"task {task.id}: claim {row.fence} took it while it was {_status(status)}"
            status, fence = int(Status.RUNNING), row.fence
        if row.run != run and not (row.event == Event.REOPENED and row.run == run + 1):
            yield f"task {task.id}: its log goes from run {run} to run {row.run} without being reopened"
        run = row.run
        allowed = _ALLOWED.get(row.event)
        if allowed is None:
            if row.event not in _STILL or row.status != status:
                yield (
                    f"task {task.id}: {_event(row.event)} says that it was {_status(row.status)}, "
                    f"but it was {_status(status)}"
                )
        elif status not in allowed[0] or row.status not in allowed[1]:
            yield f"task {task.id}: {_event(row.event)} made it {_status(row.status)} while it was {_status(status)}"
        status = row.status
    if task.fence == fence + 1:
        if status not in CLAIMABLE:
            yield f"task {task.id}: claim {task.fence} took it while it was {_status(status)}"
        status = int(Status.RUNNING)
    if status != task.status:
        yield f"task {task.id} is {_status(task.status)}, but its log leaves it {_status(status)}"
    if run != task.run:
        yield f"task {task.id} is in run {task.run}, but its log leaves it in run {run}"


def leases(history: History) -> Iterator[str]:
    """A running task is leased by the last of its claims, under the token of that claim; any other is not leased."""
    task = history.task
    if task.status != Status.RUNNING:
        if task.token is not None:
            yield f"task {task.id} is {_status(task.status)} and still carries a lease"
    elif task.token is None or task.worker is None:
        yield f"task {task.id} is running without a lease"
    elif (task.fence, task.token, task.worker) not in history.claims:
        yield f"task {task.id} is running under a lease (fence {task.fence}) that no claim gave out"


def times(history: History) -> Iterator[str]:
    """What has ended has a time of its end and, unless it succeeded, a reason; what was claimed has a start."""
    task = history.task
    if task.status >= Status.SUCCEEDED:
        if task.ended_at is None:
            yield f"task {task.id} is {_status(task.status)} without a time of its end"
        elif task.ended_at < task.created_at - CLOCK_SLACK_MS:
            yield f"task {task.id} ended {task.created_at - task.ended_at} ms before it was created"
        if task.status != Status.SUCCEEDED and not task.reason_length:
            yield f"task {task.id} is {_status(task.status)} without a reason"
    elif task.ended_at is not None:
        yield f"task {task.id} is {_status(task.status)} and has a time of its end"
    if (task.started_at is None) != (task.fence == 0):
        yield f"task {task.id} was claimed {task.fence} times and {'never started' if task.fence else 'has started'}"


def places(history: History) -> Iterator[str]:
    """Whatever may run stands in its line, now or for later: no work is lost. What is paused is put there again."""
    task = history.task
    if task.paused:
        return
    if task.status in CLAIMABLE:
        own = {lane_of(task.queue, task.kind), lane_of(task.queue, task.kind, suspect=True)}
        if own.isdisjoint(history.lanes):
            where = f"only in {', '.join(history.lanes)}" if history.lanes else "in no line"
            yield f"task {task.id} is {_status(task.status)} and stands {where}: it would never run"
    elif task.status == Status.WAITING and task.due_at < NEVER and not history.lanes:
        yield f"task {task.id} waits until a time, but stands in no line: it would never be woken"


def waits(history: History) -> Iterator[str]:
    """A waiting task says what it waits for; no other does."""
    task = history.task
    if (task.status == Status.WAITING) != (task.waiting_for is not None):
        what = f"for {task.waiting_for}" if task.waiting_for is not None else "for nothing"
        yield f"task {task.id} is {_status(task.status)} and waits {what}"


def checkpoints(history: History) -> Iterator[str]:
    """Every finished stage of the present run has its result, and nothing is stored that the log does not know."""
    task = history.task
    run = 0
    done: dict[str | None, bool] = {}  # True where a result must be stored, False where one may be
    written: set[tuple[int, str, str | None]] = set()
    for row in history.log:
        if row.run != run:
            run, done = row.run, {}
        if row.event in _COMMITS:
            done[row.stage] = True
            written.add((run, RESULT_PART, row.stage))
        elif row.event == Event.FINISHED:
            done.setdefault(row.stage, False)
            written.add((run, RESULT_PART, row.stage))
        elif row.event == Event.PROGRESSED:
            written.add((run, CURSOR_PART, row.stage))
        elif row.event == Event.PARKED and (signal := signal_of(row.note or "")) is not None:
            written.add((run, WAIT_PREFIX + signal, row.stage))
        elif row.event == Event.REOPENED:
            for stage in forgotten(done, row.note):
                del done[stage]
                written -= {(run, RESULT_PART, stage), (run, CURSOR_PART, stage)}
    if run != task.run:
        done = {}
    results = {part.stage for part in history.parts if part.run == task.run and part.part == RESULT_PART}
    for stage, needed in done.items():
        if needed and stage not in results:
            yield f"task {task.id}: stage {stage} has committed, but its result is not stored"
    for part in history.parts:
        if not part.part.startswith((ONCE_PREFIX, SIZE_PART)) and (part.run, part.part, part.stage) not in written:
            what = {RESULT_PART: "a result", CURSOR_PART: "a cursor"}.get(part.part, repr(part.part))
            yield f"task {task.id}: {what} of stage {part.stage} is stored that no commit wrote"
    if not task.touched and any(
        part.run == task.run and (part.part != RESULT_PART or done.get(part.stage)) for part in history.parts
    ):
        yield f"task {task.id} has stored parts, but is not marked so: a claim would not hand them out"


def counters(history: History) -> Iterator[str]:
    """The counters of a task are what its log adds up to."""
    task = history.task
    failures = deferrals = signals = 0
    for row in history.log:
        if row.event in _FAILURES:
            failures += 1
        elif row.event in (*_COMMITS, Event.REOPENED) or (row.event, row.status) == _INTO_LAST_STAGE:
            failures = 0
        elif row.event == Event.DEFERRED:
            deferrals += 1
        elif row.event == Event.SIGNALLED:
            signals += 1
    for name, said, counted in (
        ("failures", task.failures, failures),
        ("deferrals", task.deferrals, deferrals),
        ("signals", task.signals, signals),
    ):
        if said != counted:
            yield f"task {task.id} says {said} {name}, its log has {counted}"


def workers(history: History) -> Iterator[str]:
    """Nothing is held by a worker that has stopped or was declared dead."""
    task = history.task
    if task.status == Status.RUNNING and task.worker is not None:
        if task.worker_row is None:
            yield f"task {task.id} is running on worker {task.worker}, which has no row"
        elif task.worker_stopped_at is not None:
            yield f"task {task.id} is running on worker {task.worker}, which has stopped"


def descent(history: History) -> Iterator[str]:
    """Depth and ancestors follow from the parent's, and none of them is the same work, unless an operator was asked."""
    task, family = history.task, history.family
    if family is None or family.parent is None:
        return
    above = read_ancestry(family.ancestry)
    if family.depth != len(above):
        yield f"task {task.id} has depth {family.depth} and {len(above)} ancestors"
    same = any(ancestor.identity == family.identity for ancestor in above)
    if same and Rule.CYCLE not in asked_about(history):
        yield f"task {task.id} has an ancestor that is the same work"
    if family.pruned is None:
        yield f"task {task.id} has a parent, but its lineage has no row: it could not spawn"
    if family.parent_row is None:
        if not family.pruned:
            yield f"task {task.id} has a parent, task {family.parent}, that is not there"
        return
    if family.parent_depth != family.depth - 1:
        yield f"task {task.id} has depth {family.depth}, and its parent depth {family.parent_depth}"
    if not family.same_lineage:
        yield f"task {task.id} is of another lineage than its parent, task {family.parent}"
    grandparents = read_ancestry(family.parent_ancestry)
    if above[:-1] != grandparents or [(one.task, one.identity) for one in above[-1:]] != [
        (family.parent, family.parent_identity)
    ]:
        yield f"task {task.id} has other ancestors than its parent, task {family.parent}, and those above it"


def children(history: History) -> Iterator[str]:
    """A task says how many children it has had."""
    task, family = history.task, history.family
    if family is None:
        return
    said, there = family.children, family.children_there
    if there > said or (there < said and not family.pruned):
        yield f"task {task.id} says {said} children, there are {there}"


def asked_about(history: History) -> frozenset[Rule]:
    """The rules of spawning about which an operator was asked, because they would have refused this task."""
    parked = (row.note for row in history.log if row.event == Event.PARKED and not row.fence)
    return frozenset[Rule]().union(*(rules_in(note or "") for note in parked))


def may_be_twice(history: History) -> bool:
    """Whether a task took no identity when it was made: its work may be there twice, or an operator was asked."""
    spawned = (row.note for row in history.log if row.event == Event.SPAWNED)
    return NOT_UNIQUE in spawned or not asked_about(history).isdisjoint(REPEATS)


Invariant = Callable[[History], Iterator[str]]

RULES: dict[Invariant, str] = {
    claims: "claims",
    fences: "events",
    stages: "events",
    moves: "events",
    leases: "tasks",
    times: "tasks",
    places: "tasks",
    waits: "tasks",
    checkpoints: "checkpoints",
    counters: "tasks",
    workers: "tasks",
    descent: "families",
    children: "families",
}
"""Every rule, and what it looks at."""


def _status(number: int) -> str:
    return Status(number).word if number in Status._value2member_map_ else f"in status {number}"


def _event(number: int) -> str:
    return f"“{Event(number).word}”" if number in Event._value2member_map_ else f"event {number}"
