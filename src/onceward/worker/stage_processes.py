"""The processes of isolated stages: started when needed, kept warm where a stage allows it, replaced after a fault.

A process serves one run at a time. It is kept for another run only if the one before has ended with a result, a verdict
or an error that it has told; whatever else happens to it, it is killed, with all that it has started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import sys
from contextlib import suppress

from onceward.authoring.stage import Isolation

LENGTH = struct.Struct("<I")
"""The length of a message, which stands before it."""
MOST_IDLE = max(2, os.cpu_count() or 2)
"""How many processes a worker keeps warm while they do nothing."""
WORN_SHARE = 0.5
"""Which part of its memory limit a process may hold after a run; above it is replaced."""
WORN_MB = 512
"""The same where there is no limit."""


class StageProcess:
    """One process and the socket to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.runs = 0
        """How many runs it has begun."""

    @classmethod
    async def start(cls) -> StageProcess:
        """Start an interpreter that waits for its first run."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "onceward.worker.disposable",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,  # ours is where a supervisor's orders come from
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # so that what it has started ends with it
            )
        return cls(process, *await asyncio.open_connection(sock=ours))

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.returncode is None and not self._reader.at_eof()

    def send(self, message: bytes) -> None:
        """Send a message, its length before it."""
        self._writer.write(message)

    async def receive(self) -> bytes | None:
        """Return its next message; None if it has ended."""
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def how_it_died(self) -> str:
        """Return what has become of a process that has ended without a word."""
        self.kill()
        code = await self._process.wait()
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with code {code}" if code else "its process ended without a word"

    def kill(self) -> None:
        """End the process and all that it has started. One that is dying already keeps its own word of how."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self._writer.close()
        if self._process.returncode is None:
            self.kill()
            await self._process.wait()


class StageProcesses:
    """The warm processes of one worker, by the limits of the stages that they serve."""

    def __init__(self) -> None:
        self._idle: dict[Isolation, list[StageProcess]] = {}

    async def take(self, isolation: Isolation) -> StageProcess:
        """Return a process for a run: a warm one, or a new one."""
        idle = self._idle.get(isolation, [])
        while idle:
            process = idle.pop()
            if process.is_alive:
                process.runs += 1
                return process
            await process.end()
        process = await StageProcess.start()
        process.runs = 1
        return process

    async def give_back(self, process: StageProcess, isolation: Isolation, memory_mb: int) -> None:
        """Keep a process for another run, unless it has served its runs or holds too much memory."""
        most_mb = WORN_MB if isolation.memory_mb is None else isolation.memory_mb * WORN_SHARE
        idle = self._idle.setdefault(isolation, [])
        if process.runs < isolation.runs and memory_mb <= most_mb and len(idle) < MOST_IDLE and process.is_alive:
            idle.append(process)
        else:
            await process.end()

    async def close(self) -> None:
        """End all processes that do nothing."""
        while self._idle:
            for process in self._idle.popitem()[1]:
                await process.end()
