"""The engine in a hundred lines: what becomes of a task by everything that can happen to it, with nothing stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from onceward import Status
from onceward.model.task import (
    NEVER,
    Advance,
    Crash,
    Defer,
    Finish,
    HandOver,
    Keep,
    Lease,
    Move,
    Park,
    Release,
    Report,
    TryAgain,
)  # fmt: skip

STAGES = ("first", "second", "third")
ENDED = frozenset(status for status in Status if status.is_terminal)


@dataclass
class Task:
    """A task as the model sees it."""

    due_at: int
    status: Status = Status.PENDING
    stage: int = 0
    run: int = 1
    fence: int = 0
    holder: bytes | None = None
    """The token of the lease that holds it."""
    worker: int | None = None
    failures: int = 0
    crashes: int = 0
    deferrals: int = 0
    waiting_for: str | None = None
    wakes_at: int = NEVER
    signals: dict[str, int] = field(default_factory=dict)
    heard: int = 0
    finished: set[str] = field(default_factory=set)

    @property
    def stage_name(self) -> str:
        return STAGES[self.stage]

    def is_claimable(self, now: int) -> bool:
        """Whether a claim may take it; one whose wait is ended by time is woken by the claim itself."""
        if self.status is Status.WAITING:
            return self.wakes_at <= now
        return self.status in (Status.PENDING, Status.RETRYABLE) and self.due_at <= now

    def claimed(self, lease: Lease) -> None:
        self.status, self.holder, self.worker, self.fence = Status.RUNNING, lease.token, lease.worker, self.fence + 1
        self.waiting_for = None

    def let_go(self, status: Status, due_at: int) -> None:
        self.status, self.due_at, self.holder, self.worker = status, due_at, None, None

    def committed(self, lease: Lease, move: Move, now: int) -> bool:
        """What a move does if its lease still holds; returns whether it does."""
        if self.holder != lease.token:
            return False
        match move:
            case Advance() | HandOver():
                self.finished.add(self.stage_name)
                self.stage, self.failures, self.crashes = self.stage + 1, 0, 0
                if isinstance(move, HandOver):
                    self.let_go(Status.PENDING, now)
            case Finish(_, value, status):
                if value is not None:
                    self.finished.add(self.stage_name)
                self.let_go(status, self.due_at)
            case TryAgain(_, due_at):
                self.failures += 1
                self.let_go(Status.RETRYABLE, due_at)
            case Defer(_, due_at):
                self.deferrals += 1
                self.let_go(Status.PENDING, due_at)
            case Park(_, waiting_for, due_at):
                has_come = self.signals.get(waiting_for.removeprefix("signal:"), 0) > lease.signals
                self.waiting_for = waiting_for
                self.let_go(Status.WAITING, now if has_come else due_at)
                self.wakes_at = now if has_come else max(due_at, now + 1)
            case Crash(_, _, status):
                self.crashes += 1
                self.let_go(status, self.due_at)
            case Release():
                self.let_go(Status.PENDING, self.due_at)
            case Keep() | Report():
                pass
        return True

    def buried(self, *, suspect: bool, alone: bool, overdue: bool, now: int, retry_at: int) -> None:
        """Its worker was declared dead."""
        if overdue:
            self.failures += 1
            self.let_go(Status.RETRYABLE, retry_at)
        elif suspect and alone:
            self.crashes += 1
            self.let_go(Status.FAILED if self.crashes >= 3 else Status.PENDING, self.due_at)
        else:
            self.let_go(Status.PENDING, now)

    def signalled(self, name: str, now: int) -> None:
        self.heard += 1
        self.signals[name] = self.heard
        if self.status is Status.WAITING and self.waiting_for == f"signal:{name}":
            self.woken(now)

    def woken(self, now: int) -> None:
        self.status, self.waiting_for, self.due_at = Status.PENDING, None, now

    def cancelled(self) -> None:
        self.waiting_for = None
        self.let_go(Status.CANCELLED, self.due_at)

    def reopened(self, *, fresh: bool, now: int) -> None:
        self.failures = self.crashes = 0
        self.waiting_for = None
        if fresh:
            self.run, self.stage, self.finished = self.run + 1, 0, set()
        self.let_go(Status.PENDING, now)


__all__ = ["ENDED", "NEVER", "STAGES", "Task"]
