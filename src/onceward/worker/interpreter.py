"""The interpreter of a worker process: how it takes turns and collects garbage, and which signals it hears."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SWITCH_EVERY_S = 0.0002
"""How soon a thread may be asked to let another one run. The committer takes a short turn after every statement; with
Python's five milliseconds it would wait longer for its turn than for the database."""
GARBAGE_THRESHOLDS = (20_000, 20, 20)


@contextmanager
def tuned_interpreter() -> Iterator[None]:
    """Threads hand over sooner, and the garbage collector looks less often: at its usual pace it takes a sixth of the
    time of a busy worker, whose tasks leave next to nothing for it."""
    usual_s, usual_thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_EVERY_S)
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)
        gc.unfreeze()
        gc.set_threshold(*usual_thresholds)


def handle_signals(loop: asyncio.AbstractEventLoop, request_stop: Callable[[], None]) -> list[int]:
    """SIGTERM and SIGINT stop in good order, where this process may say so."""
    if threading.current_thread() is not threading.main_thread():
        return []
    handled: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, request_stop)
            handled.append(number)
    return handled
