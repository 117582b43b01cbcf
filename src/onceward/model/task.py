"""The values that travel between the store and the worker: what a claim hands out, and what an attempt wants written.

They are msgspec structs because thousands are made every second; none of them decodes a payload.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from onceward.model.budget import Bill, BudgetRule, Counted
from onceward.model.gates import SourceReport
from onceward.model.lineage import NO_DESCENT, Bounds, Descent, Family, Spawns
from onceward.model.source import GateLimits
from onceward.model.status import Status
from onceward.model.times import NEVER as NEVER

Write = tuple[Callable[..., None], tuple[Any, ...]]
"""A function given to `ctx.write`, with its arguments."""

RESULT_PART = ""
CURSOR_PART = "cursor"
ONCE_PREFIX = "once/"
WAIT_PREFIX = "wait/"
"""Parts that note a wait with a time limit, by the name of the signal: `wait/approved`."""
SIZE_PART = "size"
"""The part that holds the sizes which a stage has measured: `{"words": 1322}`."""

LARGEST_INLINE = 4_096
"""Longer values go to a blob row: the task row is rewritten by every claim and every finish."""

LOWEST_PRIORITY, HIGHEST_PRIORITY = -2, 2
BAND_BONUS_MS = 300_000
"""How much older the head of a line counts for each level of priority: high goes first, low is never starved."""


def band_of(priority: int) -> int:
    """The band of a priority: 0 is served first."""
    return HIGHEST_PRIORITY - priority


def lane_of(queue: str, kind: str, gates: str | None = None, *, suspect: bool = False) -> str:
    """The line in which ready work of a kind stands: one for each set of gates. A worker only looks at the lines of the
    kinds it knows. Suspects stand in one line, whatever their gates."""
    if suspect:
        return f"!{queue}:{kind.partition('@')[0]}"
    return f"{queue}:{kind}" if gates is None else f"{queue}:{kind}@{gates}"


def gates_in(lane: str) -> str | None:
    """The gates of a line, if it is governed."""
    return lane.partition("@")[2] or None


class NewTask(msgspec.Struct, frozen=True, gc=False):
    """A task that is to be enqueued."""

    kind: str
    version: int
    queue: str
    band: int
    key: str | None
    identity: bytes
    payload: bytes
    lineage: uuid.UUID
    due_at: int
    created_at: int
    unique: str = "lineage"
    fresh_for_ms: int | None = None
    bounds: Bounds | None = None
    """The limits of its lineage, where they are its own."""
    gates: str | None = None
    """What its first stage has to pass."""
    estimate: int | None = None
    """What its first stage may cost at most."""
    counted: tuple[Counted, ...] = ()
    """The budgets that count it."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be asked before it is enqueued, and nothing kept beside it."""
        return self.unique != "everywhere" and self.bounds is None


class Alike(NamedTuple):
    """Tasks that are to be enqueued together and differ in what they are about alone: plain ones, without gates."""

    kind: str
    version: int
    queue: str
    band: int
    due_at: int
    created_at: int
    keys: list[str] | None
    """None if the fields of their payloads are what they are about."""
    identities: list[bytes]
    payloads: list[bytes]
    lineages: list[bytes]


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The right of one worker to one attempt of one task, with all that the attempt needs to know."""

    task: int
    fence: int
    token: bytes
    worker: int
    run: int
    kind: str
    version: int
    queue: str
    band: int
    rank: int
    stage: str | None
    payload: bytes
    failures: int
    crashes: int
    company: int
    deferrals: int
    signals: int
    touched: int
    lineage_bytes: bytes
    parent: int | None
    depth: int
    created_at: int
    started_at: int
    gates: str | None = None
    """What the stage that it is for had to pass, if it is governed."""
    scheduled_at: int | None = None
    """The time of its schedule for which the task was enqueued, if one has."""
    clock_at: int = NEVER
    """Since when its time counts."""
    expiry: str | None = None
    """Why it fails, if its time was over and only what its pipeline does at expiry is left."""
    descent: Descent = NO_DESCENT
    family: Family = Family()
    left: tuple[tuple[str, int], ...] = ()
    """What was left of its budgets when it was claimed, besides what was set aside for it."""
    is_inside: bool = False
    """Whether it may have places in gates that count who is inside."""
    claimed_at: int = 0
    """When its gates let it pass, by the clock of its worker."""

    @property
    def lineage(self) -> uuid.UUID:
        """The lineage of the task. Made when asked for: most attempts never do."""
        return uuid.UUID(bytes=self.lineage_bytes)


class Part(msgspec.Struct, frozen=True, gc=False):
    """A stored value of a task: the result of a stage, its cursor, or something it did once."""

    stage: str
    part: str
    value: bytes


class Move(msgspec.Struct, frozen=True, gc=False):
    """What should become of a task, decided before anything is written."""


class Advance(Move, frozen=True, gc=False):
    """The stage is done; this worker goes on with the next one, which may belong to another of its queues."""

    stage: str
    value: bytes
    next_stage: str
    queue: str | None = None
    gates: str | None = None
    """What it stays in: the places that the whole task has."""


class HandOver(Move, frozen=True, gc=False):
    """The stage is done; the next one belongs to another queue, is governed, or waits until all children have ended."""

    stage: str
    value: bytes
    next_stage: str
    queue: str
    joins: bool = False
    gates: str | None = None
    estimate: int | None = None


class Finish(Move, frozen=True, gc=False):
    """The task has ended. A value of None is no result, not the result null."""

    stage: str
    value: bytes | None
    status: Status
    reason: str | None
    fingerprint: bytes = b""
    """Of the error that has ended it, if one has."""
    trace: str | None = None
    """Where that error was raised."""


class TryAgain(Move, frozen=True, gc=False):
    """The stage has failed and is tried again at a due time."""

    stage: str
    due_at: int
    reason: str
    fingerprint: bytes = b""
    same_errors: int | None = None
    """After how many errors with this fingerprint in a row it has failed for good."""
    storm_brake: int | None = None
    """After how many tasks of its pipeline and lineage that failed for good with this fingerprint it has, too."""
    over_at: int = NEVER
    """When its time is over."""
    is_transient: bool = False
    """Whether the error is known to pass: then it does not count as one more of its kind in a row."""
    trace: str | None = None
    """Where the error was raised."""


class Defer(Move, frozen=True, gc=False):
    """Nothing has failed; the stage runs again at a due time."""

    stage: str
    due_at: int
    reason: str
    over_at: int = NEVER


class Park(Move, frozen=True, gc=False):
    """The task waits for something other than time; `due_at` ends the wait if it comes first."""

    stage: str
    waiting_for: str
    due_at: int
    reason: str


class Release(Move, frozen=True, gc=False):
    """The lease is given back; nothing has happened. With a place, because its stage belongs there."""

    queue: str | None = None
    gates: str | None = None
    estimate: int | None = None


class Crash(Move, frozen=True, gc=False):
    """A disposable process died under the stage, which ran in it alone."""

    stage: str
    reason: str
    status: Status
    over_at: int = NEVER


class Expire(Move, frozen=True, gc=False):
    """The stage would run again, but the time of its task is over."""

    stage: str
    reason: str


class Keep(Move, frozen=True, gc=False):
    """Store parts of a stage that goes on: its cursor, or something done once."""

    stage: str
    parts: tuple[Part, ...]


class Take(Move, frozen=True, gc=False):
    """Pass a gate once more while the stage goes on: for one outside call."""

    gate: str
    limits: GateLimits
    tokens: int = 1
    """With none it is only asked whether the gate is closed: the stage holds its token already."""
    budgets: tuple[str, ...] = ()
    """Those of which one more call is to be set aside."""
    pause_ms: int | None = None
    """How long the source has just asked to be left alone: the gate closes, and nothing is taken."""


class Hold(Move, frozen=True, gc=False):
    """Set aside an amount of a budget under a name, beyond the stage, while the stage goes on."""

    stage: str
    rule: BudgetRule
    name: str
    amount: int
    source: str | None = None
    """The instance of the source that the stage uses."""


class Fill(Move, frozen=True, gc=False):
    """Be the one who asks for an answer that the cache does not have, while the stage goes on."""

    source: str
    hash: bytes
    limit_ms: int
    """How long others wait for it at most."""
    unfit: int | None = None
    """When the answer was stored that is there, if it is one that the code cannot read."""


class Filled(Move, frozen=True, gc=False):
    """No task needs to wait for an answer any more: here it is, or nothing has come of it."""

    source: str
    hash: bytes
    value: bytes | None = None
    keep_ms: int = 0


class Report(Move, frozen=True, gc=False):
    """Show how far a stage has come."""

    stage: str
    done: int
    total: int | None
    note: str | None


class Effects(NamedTuple):
    """What a stage wants committed with it: rows of the application's own, and children."""

    writes: tuple[Write, ...] = ()
    spawns: Spawns | None = None
    reports: tuple[SourceReport, ...] = ()
    """What it says of the sources it has called."""
    bill: Bill | None = None
    """What it has spent."""
    sizes: bytes | None = None
    """What it has measured, as JSON."""


NO_EFFECTS = Effects()


class Commit(msgspec.Struct, frozen=True, gc=False):
    """One thing that an attempt wants written: under its fence, with the domain rows that belong to it, or not."""

    lease: Lease
    move: Move
    writes: tuple[Write, ...] = ()
    spawns: Spawns | None = None
    reports: tuple[SourceReport, ...] = ()
    """What it says of the sources it has used."""
    bill: Bill | None = None
    """What it has spent. Where nothing is said, all that was set aside is spent."""
    sizes: bytes | None = None
    """The sizes that its stage has measured, as JSON."""
