"""What a disposable process may take, set by itself before its stage begins: the system enforces it, on any code."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Any

from onceward.worker.isolated import ProcessLimits

_PR_SET_PDEATHSIG = 1
_MEGABYTE = 2**20
_FOR_ASYNCIO = 8
"""What an event loop opens for itself."""


class CpuLimit(Exception):
    """A stage has computed for longer than it may."""


def set_limits(limits: ProcessLimits) -> None:
    """Hold this process to its limits from now on. What it took to get here is not counted."""
    _limit(resource.RLIMIT_CORE, 0)  # what a stage has in memory stays there
    if limits.memory_mb is not None:
        _limit(resource.RLIMIT_DATA, limits.memory_mb * _MEGABYTE)
    if limits.file_mb is not None:
        _limit(resource.RLIMIT_FSIZE, limits.file_mb * _MEGABYTE)
    if limits.open_files is not None:
        _limit(resource.RLIMIT_NOFILE, limits.open_files + _already_open() + _FOR_ASYNCIO)
    if limits.cpu_s is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = int(used.ru_utime + used.ru_stime) + limits.cpu_s + 1
        signal.signal(signal.SIGXCPU, lambda *_: _out_of_cpu(limits.cpu_s))
        # Code that does not come back to the interpreter hears no signal: it is killed two seconds later.
        resource.setrlimit(resource.RLIMIT_CPU, (until, until + 2))


def end_with_parent() -> None:
    """Die with the worker: no other process would see to the time limit. Where the system cannot do that, a process
    whose worker is gone ends when it next has something to say."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _already_open() -> int:
    """Below which number files are open: those of the interpreter, and the way to the worker."""
    return 1 + max(int(name) for name in os.listdir("/dev/fd"))


def _out_of_cpu(cpu_s: int | None) -> Any:
    raise CpuLimit(f"it has computed for more than {cpu_s}s")
