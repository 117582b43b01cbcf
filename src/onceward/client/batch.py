"""Batches as people open them and look at them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from onceward.client.batch_builders import Filling
from onceward.errors import ConfigError
from onceward.model.batch import BatchOutcome
from onceward.model.enqueue_options import EnqueueOptions
from onceward.model.payload import Payload
from onceward.model.times import Duration, moment
from onceward.store.lineage.batches import OpenedBatch
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
    refused: int
    """How many tasks were to be added and were not, because a limit refused them: it does not end succeeded then."""
    reason: str | None
    """Why it has failed, if that was not because of its tasks: its deadline was over."""
    deadline: datetime | None
    created_at: datetime
    ended_at: datetime | None
    then: int | None
    """The task that follows it, once it has ended; if a stage has opened it, from the start."""

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

    def time_left(self, now: datetime) -> timedelta | None:
        """How long it will take at the pace it has had so far; None if it has ended, or nothing of it has."""
        if self.has_ended or not self.done:
            return None
        return (now - self.created_at) * (self.open / self.done)


def as_batch_status(row: Row) -> BatchStatus:
    """A batch as it stands, from its row."""
    (number, name, status, total, still_open, succeeded, filtered, skipped, failed, cancelled, refused, reason,
     deadline_at, created_at, ended_at, then) = row  # fmt: skip
    return BatchStatus(
        number, name, BatchOutcome(status).word, total, still_open, succeeded, filtered, skipped, failed, cancelled,
        refused, reason, None if deadline_at is None else moment(deadline_at), moment(created_at),
        None if ended_at is None else moment(ended_at), then,
    )  # fmt: skip


class Batch:
    """A batch while it is filled, in a `with` block. At its end everything that was added is committed at once, in a
    stage with that stage; an error in the block adds nothing."""

    def __init__(self, name: str, filling: Filling) -> None:
        self.name = name
        self._filling = filling
        self._added = 0
        self._is_open = False
        self._was_used = False
        self._opened: OpenedBatch | None = None

    def __repr__(self) -> str:
        return f"<batch {self.name!r}, {self._added} added>"

    def add(
        self,
        payload: Payload,
        *,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
    ) -> bool:
        """Add a piece of work, which begins a lineage of its own; in a stage, a child of the stage's task. False if it
        is known already that it is kept out: by the stop list, in a stage also by its depth or an ancestor.

        A stage whose batch cannot take all of it fails for good, unless the pipeline of what was added says
        `refused={"limit": "refuse"}`."""
        if not self._is_open:
            when = "has closed" if self._was_used else "is not open yet"
            raise ConfigError(f"batch {self.name!r} {when}; add to it inside its with block")
        is_in = self._filling.add(payload, EnqueueOptions(after, at, priority))
        self._added += is_in
        return is_in

    @property
    def id(self) -> int:
        """The id of the batch, once it is committed."""
        return self._committed().id

    @property
    def tasks(self) -> list[int]:
        """The ids of the tasks that were made for it, in the order in which they were added. Work that is unique
        everywhere and was under way already is not among them: it belongs to another caller, and is not waited for."""
        return list(self._committed().tasks)

    def __enter__(self) -> Self:
        if self._was_used:
            raise ConfigError(f"batch {self.name!r} has closed; a batch is filled once")
        self._is_open = self._was_used = True
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._is_open = False
        if error is None:
            self._opened = self._filling.commit()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, error: object, *_: object) -> None:
        self._is_open = False
        if error is None:
            self._opened = await asyncio.to_thread(self._filling.commit)

    def _committed(self) -> OpenedBatch:
        if self._opened is None:
            raise ConfigError(
                f"batch {self.name!r} is not committed; that happens at the end of its with block, or in a stage when "
                "the stage commits"
            )
        return self._opened
