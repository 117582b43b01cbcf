"""What the API answers and takes, as types: the OpenAPI document is made of them.

Numbers of 64 bits are texts, for JavaScript would round them; amounts are texts, exact. Times are RFC 3339 in UTC. A
member, once here, keeps its name and its meaning; new ones may join.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from onceward.model.budget import read_amount
from onceward.model.status import Status

T = TypeVar("T")

Id = Annotated[str, Meta(pattern=r"^[0-9]{1,19}$", description="A number of up to 64 bits, as text.", examples=["17"])]
LineageId = Annotated[UUID, Meta(examples=["01980a3e-7d2a-7000-8000-000000000001"])]
Amount = Annotated[
    str, Meta(pattern=r"^-?[0-9]+(\.[0-9]+)?$", description="An exact amount, as text.", examples=["0.0125"])
]
StatusWord = Literal[
    "pending", "running", "retryable", "waiting", "succeeded", "filtered", "skipped", "failed", "cancelled"
]
Limit = Annotated[int, Meta(ge=1, le=500, description="How many at most.")]
Name = Annotated[str, Meta(min_length=1, max_length=2000)]
Reason = Annotated[str, Meta(max_length=2000)]
Span = Annotated[str, Meta(max_length=40, pattern=r"^[0-9a-z. ]+$", description="A duration.", examples=["24h", "90s"])]


class TaskSummary(Struct):
    """A task in a list."""

    id: Id
    kind: str
    key: str
    status: StatusWord
    stage: str | None
    reason: str | None
    run: int
    queue: str
    priority: int
    failures: int
    crashes: int
    deferrals: int
    lineage: LineageId
    parent: Id | None
    depth: int
    waiting_for: str | None
    is_paused: bool
    worker: str | None
    heartbeat_at: datetime | None
    due_at: datetime | None
    scheduled_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cost: Amount
    """In USD."""
    version: str
    """What `If-Match` names: it changes whenever the task moves."""


class TaskPage(Struct):
    """A page of a list of tasks, newest first."""

    tasks: list[TaskSummary]
    next: str | None
    """The cursor of the next page; null at the end."""
    searched_back_to: datetime | None = None
    """How far back the search has come, where it has not come to the end."""
    is_whole: bool = True


class Happening(Struct):
    """One line of a task's history."""

    at: datetime
    event: str
    status: StatusWord
    stage: str | None
    run: int
    fence: int
    worker: str | None
    note: str | None
    trace: str | None


class ProgressShown(Struct):
    """How far a running stage says it has come."""

    stage: str
    done: int
    total: int | None
    note: str | None
    at: datetime


class TaskDetail(TaskSummary):
    """A task with its payload, its results and its history."""

    payload: Any = None
    """Viewers see no secret field."""
    results: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the finished stages have returned, by name."""
    progress: ProgressShown | None = None
    history: list[Happening] = msgspec.field(default_factory=list)


class WhyShown(Struct):
    """Why a task is not running."""

    task: Id
    status: StatusWord
    cause: str
    sentence: str
    until: datetime | None
    waiting_for: str | None
    command: str | None
    """The command that unblocks it, where one does."""
    below: list[WhyShown]
    """Why the tasks that it waits for have not ended."""
    before: list[str]


class LimitsGiven(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of a lineage; what is left out is inherited."""

    max_depth: Annotated[int, Meta(ge=0, le=100)] | None = None
    max_tasks: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    max_children: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    deadline: Span | None = None
    budget: Amount | None = None
    when_spent: Literal["wait", "fail"] | None = None


class NewTask(Struct, forbid_unknown_fields=True):
    """A piece of work that is to be enqueued."""

    kind: Annotated[str, Meta(min_length=1, max_length=200)]
    payload: Any
    """Fits the payload class of its kind."""
    priority: Annotated[int, Meta(ge=-2, le=2)] | None = None
    after: Span | None = None
    limits: LimitsGiven | None = None


class EnqueuedShown(Struct):
    """What became of it."""

    task: Id | None
    created: bool
    existing: Id | None
    """The task that is the same work, if that is why none was created."""
    reason: str | None


class RetryAsked(Struct, forbid_unknown_fields=True):
    """How a task is opened again: finished stages are kept, unless `fresh`; from `stage` on they are forgotten."""

    fresh: bool = False
    stage: Name | None = None
    version: str | None = None
    """The version of the task that was looked at, as `If-Match` may also say."""


class CancelAsked(Struct, forbid_unknown_fields=True):
    """Why something is cancelled."""

    reason: Reason = "cancelled by an operator"
    version: str | None = None


class ReasonAsked(Struct, forbid_unknown_fields=True):
    """Why all of something is cancelled."""

    reason: Reason = "cancelled by an operator"


class SignalAsked(Struct, forbid_unknown_fields=True):
    """A signal for a task."""

    name: Name
    value: Any = True
    version: str | None = None


class ApproveAsked(Struct, forbid_unknown_fields=True):
    """An approval of a task that waits for one."""

    version: str | None = None


class TaskChange(Struct):
    """The task after the change."""

    task: TaskSummary


class LineageShown(Struct):
    """A lineage in a list."""

    id: LineageId
    root: Id
    kind: str
    key: str
    status: StatusWord
    counts: dict[str, int]
    tasks_counted: int
    max_tasks: int
    deepest: int
    refusals: int
    is_paused: bool
    deadline_at: datetime
    created_at: datetime
    cost: Amount


class RefusalShown(Struct):
    """A child that a stage asked for and did not get."""

    parent: Id
    stage: str
    kind: str
    key: str | None
    rule: str
    reason: str
    ancestor: Id | None
    existing: Id | None
    at: datetime


class LinkShown(Struct):
    """A task that was there already when a stage asked for it."""

    parent: Id
    task: Id
    stage: str
    lineage: LineageId
    kind: str
    status: StatusWord


class BranchShown(Struct):
    """A task in its lineage; `parent` makes the tree."""

    id: Id
    parent: Id | None
    depth: int
    kind: str
    key: str
    status: StatusWord
    stage: str | None
    attempts: int
    failures: int
    reason: str | None
    waiting_for: str | None
    is_paused: bool
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None
    cost: Amount


class LineageTree(Struct):
    """A lineage, or the part of it that begins with one task. Every task stands after its parent."""

    id: LineageId
    is_whole: bool
    counts: dict[str, int]
    deepest: int
    refusals: int
    paused: int
    tasks_counted: int
    max_tasks: int
    max_depth: int
    max_children: int
    deadline_at: datetime
    left_out: int
    """How many tasks are there besides those listed."""
    cost: Amount
    tasks: list[BranchShown]
    refused: list[RefusalShown]
    links: list[LinkShown]


class TasksChanged(Struct):
    """Which tasks an action has changed, and which it could not, with the reason."""

    tasks: list[Id]
    refused: dict[str, str] = msgspec.field(default_factory=dict)


class CountChanged(Struct):
    """How many tasks an action concerns."""

    tasks: int


class BatchShown(Struct):
    """A set of tasks with one progress and one end."""

    id: Id
    name: str
    status: str
    total: int
    open: int
    succeeded: int
    filtered: int
    skipped: int
    failed: int
    cancelled: int
    refused: int
    reason: str | None
    deadline: datetime | None
    created_at: datetime
    ended_at: datetime | None
    then: Id | None
    progress: float


def of(kind: type[T], value: Any, /, **more: Any) -> T:
    """Return an answer made of an object: its attributes by name, numbers and statuses as the type has them."""
    members: tuple[tuple[str, Callable[[Any], Any]], ...] = _members(kind)  # type: ignore[arg-type]
    given = {
        name: more[name] if name in more else write(getattr(value, name))
        for name, write in members
        if name in more or hasattr(value, name)
    }
    return kind(**given)


def some_id(number: int | None) -> str | None:
    """Write the number of something, if there is one."""
    return None if number is None else str(number)


def counts_shown(counts: dict[Status, int]) -> dict[str, int]:
    """Write counts by the words of their statuses."""
    return {status.word: count for status, count in counts.items()}


@cache
def _members(kind: type[Any]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The members of an answer, each with what writes it."""
    return tuple((field.name, _writer(field.type)) for field in msgspec.structs.fields(kind))


def amount_shown(amount: Decimal) -> str:
    """Write an amount exactly, without an exponent."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_of_nanos(amount: int) -> str:
    """Write an amount that is counted in 10^-9 of its unit."""
    return amount_shown(read_amount(amount))


def _writer(expected: Any) -> Callable[[Any], Any]:
    text = str(expected)
    if "list" in text and "64 bits, as text" in text:
        return lambda numbers: [str(number) for number in numbers]
    if "64 bits, as text" in text:
        return some_id
    if "An exact amount, as text" in text:
        return amount_shown
    if "'retryable'" in text:
        return lambda status: status.word
    return lambda value: value
