"""The desk of the contexts: where a running stage hands in what it wants kept, and asks what it may know."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from onceward.authoring.calls import Closed
from onceward.errors import LeaseLost, WrongTwin
from onceward.model.cache import Cached
from onceward.model.task import Commit, Effects, Lease, Move, Report, Take
from onceward.store.attempts.commit_results import CommitResult
from onceward.worker.attempt import Attempt
from onceward.worker.engine_threads import off_loop
from onceward.worker.presence import Presence
from onceward.worker.runner_ports import Ports

REPORT_EVERY_MS = 1_000


class AttemptDesk:
    """Serves the stages of all attempts of one process."""

    def __init__(self, attempts: Mapping[int, Attempt], ports: Ports, presence: Presence | None) -> None:
        self._attempts = attempts
        self._submit = ports.submit
        self._read, self._look_up, self._setting = ports.read, ports.look_up, ports.setting
        self._monotonic = ports.monotonic
        self._presence = presence
        self.spawner = ports.spawner
        self.now = ports.now
        self._pass_time = ports.pass_time
        self.closed = Closed()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    def keep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        """Commit something while the stage goes on, and wait for it; False if the lease was lost."""
        if threading.get_ident() == self._loop_thread:
            raise WrongTwin("this would block the event loop; in an async stage use await ctx.acheckpoint or ctx.aonce")
        answer: concurrent.futures.Future[CommitResult] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._submit, Commit(lease, move, *effects), answer.set_result)
        return self._kept(answer.result(), lease, move)

    async def akeep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        """`keep`, awaited."""
        if type(move) is Take and move.pause_ms is not None:  # a process of its own has heard it
            self.closed.close(move.gate, move.pause_ms, self.now())
        answer: asyncio.Future[CommitResult] = self._loop.create_future()
        self._submit(
            Commit(lease, move, *effects), lambda verdict: None if answer.done() else answer.set_result(verdict)
        )
        return self._kept(await answer, lease, move)

    def _kept(self, verdict: CommitResult, lease: Lease, move: Move) -> bool:
        if isinstance(verdict, Exception):
            raise verdict
        self._extend(lease)
        attempt = self._attempts.get(lease.task)
        if attempt is not None and type(move) is Take:
            attempt.lease = msgspec.structs.replace(attempt.lease, is_inside=True)
        return bool(verdict)

    def sleep(self, ms: int) -> None:
        """Let time pass, in a thread of a stage."""
        if threading.get_ident() == self._loop_thread:
            raise WrongTwin("this would block the event loop; in an async stage use await ctx.acall")
        if self._pass_time is None:
            time.sleep(ms / 1_000)
        else:
            self._pass_time(ms)

    async def asleep(self, ms: int) -> None:
        """`sleep`, awaited."""
        if self._pass_time is None:
            await asyncio.sleep(ms / 1_000)
        else:
            self._pass_time(ms)

    def report(self, lease: Lease, move: Report) -> None:
        """Show progress, at most once a second, and at the end."""
        attempt = self._attempts.get(lease.task)
        if attempt is None:
            raise LeaseLost(f"task {lease.task} belongs to another attempt now")
        self._extend(lease)
        now = self._monotonic()
        if now - attempt.reported_at >= REPORT_EVERY_MS or move.done == move.total:
            attempt.reported_at = now
            self._loop.call_soon_threadsafe(self._submit, Commit(lease, move), _ignore)

    def _extend(self, lease: Lease) -> None:
        """The time limit of the stage begins anew."""
        attempt = self._attempts.get(lease.task)
        if attempt is not None and attempt.lease.token == lease.token and attempt.limit_at is not None:
            attempt.limit_at = attempt.limit_from(self._monotonic())
            if attempt.slot is not None and self._presence is not None:
                self._presence.extend(attempt.slot, attempt.limit_at)

    def is_held(self, lease: Lease) -> bool:
        """Whether the lease is held, as far as is known here."""
        attempt = self._attempts.get(lease.task)
        return attempt is not None and attempt.lease.token == lease.token and not (attempt.lost or attempt.timed_out)

    def setting(self, name: str) -> Any:
        """The value of a setting that is in force."""
        return self._setting(name)

    def read(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run a function on a read-only snapshot."""
        if threading.get_ident() == self._loop_thread:
            raise WrongTwin("this would block the event loop; in an async stage use await ctx.aread")
        return self._read(function, arguments)

    async def aread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """`read`, awaited."""
        return await off_loop(self._read, function, arguments)

    def look_up(self, source: str, hashed: bytes) -> Cached | None:
        """What the cache has for a key of a source."""
        if threading.get_ident() == self._loop_thread:
            raise WrongTwin("this would block the event loop; in an async stage use await ctx.acached")
        return self._look_up(source, hashed)

    async def alook_up(self, source: str, hashed: bytes) -> Cached | None:
        """`look_up`, awaited."""
        return await off_loop(self._look_up, source, hashed)


def _ignore(_verdict: CommitResult) -> None:
    """Progress that could not be shown is no trouble."""
