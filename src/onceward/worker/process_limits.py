"""What the process of an isolated stage may take, set by itself before the stage begins: the system enforces it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onceward.worker.isolated import ProcessLimits

_PR_SET_PDEATHSIG = 1
_MEGABYTE = 2**20
_FOR_ASYNCIO = 8
"""What an event loop opens for itself."""


_LIMITED = (
    resource.RLIMIT_CORE,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_CPU,
)


class CpuLimit(Exception):
    """A stage has computed for longer than it may."""


@contextmanager
def limited(limits: ProcessLimits, *, for_good: bool) -> Iterator[None]:
    """Hold this process to its limits while a stage runs. What it took to get here is not counted.

    Of a process that serves one run the limits are hard, and stay. Of one that is kept they are soft, and are lifted
    after the run: code that means to can then raise them, code that merely errs cannot pass them.
    """
    before = {what: resource.getrlimit(what) for what in _LIMITED}
    _limit(resource.RLIMIT_CORE, 0, for_good=for_good)  # what a stage has in memory stays there
    if limits.memory_mb is not None:
        _limit(resource.RLIMIT_DATA, limits.memory_mb * _MEGABYTE, for_good=for_good)
    if limits.file_mb is not None:
        _limit(resource.RLIMIT_FSIZE, limits.file_mb * _MEGABYTE, for_good=for_good)
    if limits.open_files is not None:
        _limit(resource.RLIMIT_NOFILE, limits.open_files + _already_open() + _FOR_ASYNCIO, for_good=for_good)
    if limits.cpu_s is not None:
        _limit_cpu(limits.cpu_s, for_good=for_good)
    try:
        yield
    finally:
        if not for_good:
            signal.setitimer(signal.ITIMER_PROF, 0)
            for what, (soft, hard) in before.items():
                resource.setrlimit(what, (soft, hard))


def memory_mb() -> int:
    """Return how much memory this process holds now."""
    try:
        with open("/proc/self/statm", "rb") as pages:
            return int(pages.read().split()[1]) * resource.getpagesize() // _MEGABYTE
    except OSError:  # a system without it tells the most that was ever held
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (_MEGABYTE if sys.platform == "darwin" else 1_024)


def end_with_parent() -> None:
    """Die with the worker: no other process would see to the time limit. Where the system cannot do that, a process
    whose worker is gone ends when it next has something to say."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit(what: int, most: int, *, for_good: bool) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most if for_good else hard))


def _limit_cpu(cpu_s: int, *, for_good: bool) -> None:
    """Raise an error in code that computes for too long; end a process that does not come back to the interpreter."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + cpu_s + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    signal.signal(signal.SIGXCPU, lambda *_: _out_of_cpu(cpu_s))
    if for_good:
        resource.setrlimit(resource.RLIMIT_CPU, (until, until + 2))
        return
    resource.setrlimit(resource.RLIMIT_CPU, (until, hard))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends a process, whatever its code does
    signal.setitimer(signal.ITIMER_PROF, cpu_s + 3)


def _already_open() -> int:
    """Below which number files are open: those of the interpreter, and the way to the worker."""
    return 1 + max(int(name) for name in os.listdir("/dev/fd"))


def _out_of_cpu(cpu_s: int | None) -> Any:
    raise CpuLimit(f"it has computed for more than {cpu_s}s")
