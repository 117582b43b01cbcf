"""Where a task stands, and the one table that says what may follow what.

    pending ─claim→ running ─→ succeeded | filtered | skipped | failed | cancelled
       ↑              ├─fail→ retryable ─claim→ running
       ├──release─────┤
       └──wake── waiting ←park┘

A finished stage is a checkpoint, not a status: "succeeded" always means the whole pipeline.
"""

from __future__ import annotations

from enum import IntEnum

from onceward.errors import ConfigError, IllegalTransition
from onceward.model.arguments import shown


class Status(IntEnum):
    """Where a task stands. The numbers are stored; they never change their meaning."""

    PENDING = 0
    RUNNING = 1
    RETRYABLE = 2
    WAITING = 3
    SUCCEEDED = 4
    FILTERED = 5
    SKIPPED = 6
    FAILED = 7
    CANCELLED = 8

    @property
    def is_terminal(self) -> bool:
        """Whether only an operator's retry leads out of it."""
        return self >= Status.SUCCEEDED

    @property
    def word(self) -> str:
        """The status as people read and write it."""
        return self.name.lower()


class Event(IntEnum):
    """What happened to a task: the rows of the append-only attempt log. The numbers are stored."""

    STAGE_COMMITTED = 1
    PROGRESSED = 2
    FINISHED = 3
    RETRY_SCHEDULED = 4
    DEFERRED = 5
    PARKED = 6
    RELEASED = 7
    HANDED_OVER = 8
    RECLAIMED = 9
    CRASHED = 10
    TIMED_OUT = 11
    WOKEN = 12
    SIGNALLED = 13
    CANCELLED = 14
    REOPENED = 15
    LOST = 16
    SPAWNED = 17
    REFUSED = 18
    EXPIRED = 19
    PAUSED = 20
    RESUMED = 21
    LIMITS_RAISED = 22
    IMPORTED = 23

    @property
    def word(self) -> str:
        """The event as people read it."""
        return self.name.lower().replace("_", " ")


PENDING, RUNNING, RETRYABLE, WAITING = Status.PENDING, Status.RUNNING, Status.RETRYABLE, Status.WAITING
ACTIVE = frozenset({PENDING, RUNNING, RETRYABLE, WAITING})
TERMINAL = frozenset(status for status in Status if status.is_terminal)
CLAIMABLE = frozenset({PENDING, RETRYABLE})

TRANSITIONS: dict[Event, tuple[frozenset[Status], frozenset[Status]]] = {
    Event.STAGE_COMMITTED: (frozenset({RUNNING}), frozenset({RUNNING})),
    Event.PROGRESSED: (frozenset({RUNNING}), frozenset({RUNNING})),
    Event.FINISHED: (frozenset({RUNNING}), TERMINAL - {Status.CANCELLED}),
    Event.RETRY_SCHEDULED: (frozenset({RUNNING}), frozenset({RETRYABLE})),
    Event.DEFERRED: (frozenset({RUNNING}), frozenset({PENDING})),
    Event.PARKED: (frozenset({RUNNING, PENDING, RETRYABLE}), frozenset({WAITING})),
    Event.RELEASED: (frozenset({RUNNING}), frozenset({PENDING})),
    Event.HANDED_OVER: (frozenset({RUNNING}), frozenset({PENDING})),
    Event.RECLAIMED: (frozenset({RUNNING}), frozenset({PENDING})),
    Event.CRASHED: (frozenset({RUNNING}), frozenset({PENDING, Status.FAILED})),
    Event.TIMED_OUT: (frozenset({RUNNING}), frozenset({RETRYABLE})),
    Event.WOKEN: (frozenset({WAITING}), frozenset({PENDING})),
    Event.CANCELLED: (ACTIVE, frozenset({Status.CANCELLED})),
    Event.EXPIRED: (ACTIVE, frozenset({Status.FAILED, PENDING})),
    Event.REOPENED: (TERMINAL | {WAITING}, frozenset({PENDING})),
    Event.IMPORTED: (frozenset({PENDING}), TERMINAL | {PENDING}),
}
"""For each event the statuses it may leave and those it may reach. A claim leaves `CLAIMABLE` for running; its
record is the claim row. Events that are not here (signalled, lost, spawned, refused, paused, …) move nothing."""


def status_named(word: Status | str) -> Status:
    """The status that a person means by a word; one that is given as such is meant."""
    if isinstance(word, Status):
        return word
    try:
        return Status[word.upper()]
    except (KeyError, AttributeError, TypeError):
        raise ConfigError(f"{shown(word)} is no status; there are: {', '.join(one.word for one in Status)}") from None


def check_transition(event: Event, before: Status, after: Status) -> None:
    """Pass if the table allows the move; otherwise raise an error that names both statuses."""
    leaves, reaches = TRANSITIONS.get(event, (frozenset(), frozenset()))
    if before not in leaves or after not in reaches:
        raise IllegalTransition(f"a task that is {before.word} cannot become {after.word} by being {event.word}")
