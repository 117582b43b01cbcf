"""Tasks as people and programs look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar, overload

from onceward.authoring.registry import Registry
from onceward.authoring.stage import Stage
from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.budget import read_amount
from onceward.model.payload import Payload, read_payload, secret_fields
from onceward.model.status import Event, Status
from onceward.model.task import RESULT_PART
from onceward.model.times import moment
from onceward.store.reports import tasks

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a task's history."""

    at: datetime
    event: Event
    status: Status
    stage: str | None
    run: int
    fence: int
    worker: str | None
    note: str | None
    trace: str | None = None
    """The traceback of the error that it tells of: bounded, without secrets and the engine's own frames."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running stage says it has come."""

    stage: str
    done: int
    total: int | None
    note: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Task:
    """A task at one moment."""

    id: int
    kind: str
    key: str
    status: Status
    stage: str | None
    reason: str | None
    run: int
    queue: str
    priority: int
    failures: int
    crashes: int
    deferrals: int
    lineage: Any
    parent: int | None
    depth: int
    waiting_for: str | None
    is_paused: bool
    """Whether it may not begin before its lineage, or a part of it, is resumed."""
    worker: str | None
    heartbeat_at: datetime | None
    due_at: datetime | None
    scheduled_at: datetime | None
    """The time of its schedule for which it was enqueued, if one has."""
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    payload: Payload | None
    """None where this app does not know the kind, or its payload no longer fits."""
    results: dict[str, Any]
    """What the finished stages returned, by name, as plain values."""
    history: tuple[Happening, ...]
    progress: Progress | None
    cost: Decimal
    """What its stages have charged so far, in USD."""
    _raw_results: dict[str, bytes]
    _raw_payload: bytes = b"null"
    _has_own_key: bool = True
    _fence: int = 0
    _secret: frozenset[str] | None = None
    """The fields of its payload that viewers do not see; None where nothing is known of its kind."""

    @property
    def version(self) -> str:
        """A word that changes whenever the task moves: what was read under another one is out of date."""
        seen = (
            self.run, self._fence, self.status.word, self.stage, self.failures, self.crashes, self.deferrals,
            self.waiting_for, self.is_paused, self.worker,
        )  # fmt: skip
        return codec.digest128(*(str(one).encode() for one in seen)).hex()[:16]

    @overload
    def result(self, stage: str) -> Any: ...
    @overload
    def result(self, stage: Stage[Any, R]) -> R: ...
    @overload
    def result(self, stage: str | Stage[Any, Any], type: type[T]) -> T: ...
    def result(self, stage: str | Stage[Any, Any], type: type[T] | None = None) -> Any:
        """What a stage returned, as the type it is annotated with, or as a given one."""
        name = stage if isinstance(stage, str) else stage.name
        data = self._raw_results.get(name)
        if data is None:
            if self.status is Status.SUCCEEDED and name == self.stage:
                return None  # the last stage, which returned nothing
            finished = ", ".join(self._raw_results) or "none"
            raise ConfigError(f"task {self.id} has no result of a stage {name!r}; finished are: {finished}")
        if type is not None:
            return codec.decoder(type)(data)
        return codec.decoder(Any)(data) if isinstance(stage, str) else stage._reader(data)


def as_task(
    row: tasks.TaskRow,
    registry: Registry,
    results: Sequence[tasks.StoredPart] = (),
    events: Sequence[tasks.LogRow] = (),
    progress: tasks.Progress | None = None,
) -> Task:
    """A task, from its rows."""
    raw = {one.stage: one.value for one in results if one.part == RESULT_PART}
    status = row.status
    return Task(
        id=row.id,
        kind=row.kind,
        key=row.key if row.key is not None else row.payload.decode(errors="replace"),
        status=status,
        stage=row.stage,
        reason=row.reason or ("all stages have finished" if status is Status.SUCCEEDED else None),
        run=row.run,
        queue=row.queue,
        priority=row.priority,
        failures=row.failures,
        crashes=row.crashes,
        deferrals=row.deferrals,
        lineage=row.lineage,
        parent=row.parent,
        depth=row.depth,
        waiting_for=row.waiting_for,
        is_paused=row.paused and not status.is_terminal,
        worker=row.worker_name if status is Status.RUNNING else None,
        heartbeat_at=_moment(row.beat_at) if status is Status.RUNNING else None,
        due_at=_moment(row.due_at) if status in (Status.PENDING, Status.RETRYABLE) else None,
        scheduled_at=_moment(row.scheduled_at),
        created_at=moment(row.created_at),
        started_at=_moment(row.started_at),
        ended_at=_moment(row.ended_at),
        payload=_payload(row, registry),
        results={stage: shown(data) for stage, data in raw.items()},
        history=tuple(map(_happening, events)),
        progress=_progress(progress),
        cost=read_amount(row.cost),
        _raw_results=raw,
        _raw_payload=row.payload,
        _has_own_key=row.key is not None,
        _fence=row.fence,
        _secret=_secret(row, registry),
    )


def _happening(row: tasks.LogRow) -> Happening:
    return Happening(
        moment(row.at), row.event, row.status, row.stage, row.run, row.fence, row.worker_name, row.note, row.trace
    )


def _progress(row: tasks.Progress | None) -> Progress | None:
    return None if row is None else Progress(row.stage, row.done, row.total, row.note, moment(row.at))


def shown(data: bytes) -> Any:
    """A stored value as it is looked at; one that the engine has not written, as the text that it is."""
    try:
        return codec.decoder(Any)(data)
    except codec.UNREADABLE:
        return data[:1_000].decode(errors="replace")


def _moment(at: int | None) -> datetime | None:
    return None if at is None else moment(at)


def _secret(row: tasks.TaskRow, registry: Registry) -> frozenset[str] | None:
    """What the code and the database say of a kind, together; None if neither knows it."""
    if row.kind not in registry.kinds:
        return row.secret
    return secret_fields(registry[row.kind].payload) | (row.secret or frozenset())


def _payload(row: tasks.TaskRow, registry: Registry) -> Payload | None:
    if row.kind not in registry.kinds:
        return None
    try:
        return read_payload(registry[row.kind].payload, row.payload)
    except Exception:  # it does not fit, or the class raises something of its own when it is read
        return None
