"""Batches as people open them and look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Self

from onceward.errors import ConfigError
from onceward.model.batch import BatchOutcome
from onceward.model.payload import Payload
from onceward.model.task import NewTask
from onceward.model.times import Duration, moment
from onceward.store.batches import Opened
from onceward.store.op import Row


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch at one moment: how many tasks it has, with all that they have spawned, and what has become of them."""

    id: int
    name: str
    status: str
    """`"open"`, or how it has ended: `"succeeded"`, `"partial"` or `"failed"`."""
    total: int
    open: int
    succeeded: int
    filtered: int
    skipped: int
    failed: int
    cancelled: int
    reason: str | None
    """Why it has failed, if that was not because of its tasks: its deadline was over."""
    deadline: datetime | None
    created_at: datetime
    ended_at: datetime | None
    then: int | None
    """The task that follows it, once it has ended."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is open any more."""
        return self.status != BatchOutcome.OPEN.word

    @property
    def done(self) -> int:
        """How many of its tasks have ended."""
        return self.total - self.open

    @property
    def progress(self) -> float:
        """The share of its tasks that have ended, from 0 to 1. It may fall while they still spawn others."""
        return self.done / self.total if self.total else 1.0


def as_batch_status(row: Row) -> BatchStatus:
    """A batch as it stands, from its row."""
    (number, name, status, total, still_open, succeeded, filtered, skipped, failed, cancelled, reason, deadline_at,
     created_at, ended_at, then) = row  # fmt: skip
    return BatchStatus(
        number, name, BatchOutcome(status).word, total, still_open, succeeded, filtered, skipped, failed, cancelled,
        reason, None if deadline_at is None else moment(deadline_at), moment(created_at),
        None if ended_at is None else moment(ended_at), then,
    )  # fmt: skip


class MakeTask(Protocol):
    """Makes the task of a payload; None if the stop list says no."""

    def __call__(
        self, payload: Payload, after: Duration | None, at: datetime | None, priority: int | None
    ) -> NewTask | None: ...


class Batch:
    """A batch while it is filled, in a `with` block. At its end everything that was added is committed at once; an
    error in the block adds nothing."""

    def __init__(self, name: str, make: MakeTask, commit: Callable[[Sequence[NewTask]], Opened]) -> None:
        self.name = name
        self._make = make
        self._commit = commit
        self._added: list[NewTask] = []
        self._is_open = False
        self._was_used = False
        self._opened: Opened | None = None

    def __repr__(self) -> str:
        return f"<batch {self.name!r}, {len(self._added)} added>"

    def add(
        self,
        payload: Payload,
        *,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
    ) -> bool:
        """Add a piece of work, which begins a lineage of its own. False if the stop list keeps it out."""
        if not self._is_open:
            when = "has closed" if self._was_used else "is not open yet"
            raise ConfigError(f"batch {self.name!r} {when}; add to it inside its with block")
        task = self._make(payload, after, at, priority)
        if task is not None:
            self._added.append(task)
        return task is not None

    @property
    def id(self) -> int:
        """The id of the batch, once it is committed."""
        return self._committed().id

    @property
    def tasks(self) -> list[int]:
        """The ids of the tasks that were made for it, in the order in which they were added. Work that is unique
        everywhere and was under way already is not among them: it belongs to somebody else, and is not waited for."""
        return list(self._committed().tasks)

    def __enter__(self) -> Self:
        if self._was_used:
            raise ConfigError(f"batch {self.name!r} has closed; a batch is filled once")
        self._is_open = self._was_used = True
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._is_open = False
        if error is None:
            self._opened = self._commit(self._added)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, error: object, *_: object) -> None:
        self._is_open = False
        if error is None:
            self._opened = await asyncio.to_thread(self._commit, self._added)

    def _committed(self) -> Opened:
        if self._opened is None:
            raise ConfigError(f"batch {self.name!r} is not committed; that happens at the end of its with block")
        return self._opened
