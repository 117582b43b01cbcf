"""What a runner is given: ways to the rest of its process, a place for stages, and its share of the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onceward.authoring.child_builder import Spawner
from onceward.model.cache import Cached
from onceward.model.task import NEVER, Commit
from onceward.store.attempts.commit_results import CommitResult
from onceward.worker.presence import Presence
from onceward.worker.threads import StageThreads

if TYPE_CHECKING:
    from onceward.worker.writer import Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ways from a runner to the committer, the database and the clocks of its process."""

    submit: Callable[[Commit, Callable[[CommitResult], None]], None]
    """Hands a commit to the committer, which calls back with its result."""
    wish: Callable[[Callable[[], Wish]], None]
    """Asks the committer to claim, with a function that says how much."""
    read: Callable[..., Any]
    """Calls a function with a snapshot of the database."""
    look_up: Callable[[str, bytes], Cached | None]
    """Reads a cached answer, by source and hash."""
    setting: Callable[[str], Any]
    """Reads a live setting."""
    spawner: Spawner
    now: Callable[[], int]
    """The time of the database."""
    monotonic: Callable[[], int]
    """The time of a clock that is never set."""
    pass_time: Callable[[int], None] | None = None
    """Lets time pass in place of a sleep; None sleeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where stages run that do not run on the event loop."""

    threads: StageThreads
    presence: Presence | None = None
    """The file that shows other processes which stages run here."""
    app_path: str | None = None
    """Where disposable processes find the app."""
    isolates: bool = True
    """Whether isolated stages get processes of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Which tasks a runner takes, how many, and until when."""

    queues: frozenset[str]
    suspects_only: bool = False
    most_claims: int | None = None
    ends_at: int = NEVER
    """When the worker ends by itself, on the monotonic clock; a stage begins only if it fits before."""
