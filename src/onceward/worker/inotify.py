"""Hearing that a file is written to, where the system tells: inotify, on Linux."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

IN_MODIFY = 0x2
IN_ONESHOT = 0x80000000
LARGEST_EVENT = 4_096


class FileWrites:
    """Tells once, each time it is armed, that a process has written to a file. The word comes with the first byte: the
    caller must find out how far the write has come."""

    def __init__(self, path: str) -> None:
        """Raises `OSError` where the system tells nothing."""
        import ctypes  # only who looks at a file needs it

        library = ctypes.CDLL(None, use_errno=True)
        try:
            self._add_watch = library.inotify_add_watch
            self._add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
            descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            raise OSError("this system has no inotify") from None
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot be used")
        self._descriptor: int = descriptor
        self._path = os.fsencode(path)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_armed = False

    def tell(self, loop: asyncio.AbstractEventLoop, heard: Callable[[], None]) -> None:
        """From now on call back on an event loop, which calls this itself."""

        def read() -> None:
            self.is_armed = False
            with suppress(BlockingIOError):
                os.read(self._descriptor, LARGEST_EVENT)
            heard()

        self._loop = loop
        loop.add_reader(self._descriptor, read)

    def arm(self) -> bool:
        """Ask to be told once more; false if there is no such file. Safe from any thread."""
        self.is_armed = True  # before it is: the word may come at once
        if self._add_watch(self._descriptor, self._path, IN_MODIFY | IN_ONESHOT) < 0:
            self.is_armed = False
        return self.is_armed

    def close(self) -> None:
        """Tell no more; called on the event loop."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
