"""What a context asks of the worker that runs it: to keep something, to know something, to make a child.

A worker has one desk for all its stages, the process of an isolated stage one that leads to its worker, and a test one
that takes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from onceward.authoring.calls import Closed
from onceward.model.cache import Cached
from onceward.model.enqueue_options import NO_OPTIONS, EnqueueOptions
from onceward.model.lineage import Alias, Ancestor, Refused, Spawn, Spawns, StageBatch
from onceward.model.payload import Payload
from onceward.model.task import Effects, Lease, Move, Report


class Spawner(Protocol):
    """Makes the children of stages."""

    def child(self, lease: Lease, payload: Payload, options: EnqueueOptions = NO_OPTIONS) -> Spawn:
        """The child that a task asks for, before anything is decided."""

    def refused_at_once(
        self, lease: Lease, payload: Payload, child: Spawn, asked_before: int | None, known_as: Sequence[Ancestor] = ()
    ) -> Refused | None:
        """What the lease of the spawning task already says of a child, after so many others, and what its stage has
        said of other keys of it; None if it is there."""

    def together(
        self, payload: Payload, asked: tuple[Spawn, ...], aliases: tuple[Alias, ...], batches: tuple[StageBatch, ...]
    ) -> Spawns | None:
        """What a stage asks for, in the form that is committed."""


class Desk(Protocol):
    """What a context asks of the worker that runs it."""

    closed: Closed
    """The sources that have asked this process to be left alone."""

    @property
    def spawner(self) -> Spawner:
        """Who makes its children."""

    def keep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        """Commit something while the stage goes on, and wait for it; False if the lease was lost."""

    async def akeep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        """`keep`, awaited."""

    def now(self) -> int:
        """The time."""

    def sleep(self, ms: int) -> None:
        """Let time pass."""

    async def asleep(self, ms: int) -> None:
        """`sleep`, awaited."""

    def report(self, lease: Lease, move: Report) -> None:
        """Show progress, some time soon."""

    def is_held(self, lease: Lease) -> bool:
        """Whether the lease is held, as far as is known here."""

    def setting(self, name: str) -> Any:
        """The value of a setting that is in force."""

    def read(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run a function on a read-only snapshot."""

    async def aread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """`read`, awaited."""

    def look_up(self, source: str, hashed: bytes) -> Cached | None:
        """What the cache has for a key of a source."""

    async def alook_up(self, source: str, hashed: bytes) -> Cached | None:
        """`look_up`, awaited."""
