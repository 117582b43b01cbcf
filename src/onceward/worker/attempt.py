"""One lease being worked on: the stage that runs, what is stored of the earlier ones, and its time limit."""

from __future__ import annotations

import asyncio
from typing import Any

from onceward.context import Context
from onceward.model.task import CURSOR_PART, RESULT_PART, Lease, Part
from onceward.pipeline import Pipeline
from onceward.stage import Stage


class StageTimeout(TimeoutError):
    """A stage took longer than its time limit."""


class Attempt:
    """One lease being worked on."""

    __slots__ = (
        "context", "ended", "lease", "limit_at", "lost", "parts", "pipeline", "refusals", "reported_at", "signals",
        "slot", "stage", "started_at", "task", "ticket", "timed_out",
    )  # fmt: skip

    def __init__(self, lease: Lease, parts: list[Part], signals: dict[str, bytes]) -> None:
        self.lease = lease
        self.parts = {(part.stage, part.part): part.value for part in parts} if parts else {}
        self.signals = signals
        self.pipeline: Pipeline[Any]
        self.stage: Stage[Any, Any]
        self.context: Context[Any]
        self.task: asyncio.Task[None] | None = None
        self.ticket: list[None] = []
        """While a stage waits for a thread, one thing to take: by that thread, or by whoever gives the task back."""
        self.slot: int | None = None
        self.limit_at: int | None = None
        self.started_at = 0
        self.reported_at = 0
        self.refusals = 0
        self.ended = False
        self.lost = False
        self.timed_out = False

    def take_ticket(self) -> bool:
        """Whether the stage had not begun, and now never will, or will be begun by the caller alone."""
        try:
            self.ticket.pop()
        except IndexError:
            return False
        return True

    def finished_stage(self, stage: str, value: bytes) -> None:
        """A stage is durable; its cursor is of no more use."""
        self.parts[stage, RESULT_PART] = value
        self.parts.pop((stage, CURSOR_PART), None)
