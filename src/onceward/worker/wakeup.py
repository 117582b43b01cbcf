"""How an idle worker hears of new work: by a NOTIFY, by watching the file, or only by looking now and then.

Looking now and then (`poll`) is always on and always enough; the rest makes it prompt. Whether notifications arrive is
tried at the start, because a pooler in transaction mode swallows them without an error.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from onceward.store.drivers.availability import database
from onceward.store.drivers.session import FIRST_PAUSE_S, LONGEST_PAUSE_S, quietly
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.op import Op, Query
from onceward.support.logs import EngineLog
from onceward.worker.inotify import FileWrites

WATCH_EVERY_S = 0.002
WATCH_SELDOM_S = 0.02
TOLD_SOON_S = 0.0001
TOLD_SELDOM_S = 0.1
EACH_LONGER = 1.25
"""After a write to the log of a SQLite database each pause is longer than the one before, by this factor: however long
the disk takes for a commit, it is seen a fraction of that later."""
PROMPT_FOR_S = 60.0
PROBE_LIMIT_S = 1.0
ASK_WHEN_SILENT_S = 10.0
"""After so long a listener makes sure that its server is still there."""
POLL_ONLY_MS = 100
TELL_DEAF_AFTER_S = 5.0
"""How long a listener cannot listen before the log says so, unless the whole database is away: that is said already."""

logger = EngineLog("onceward.wakeup")


class Wakeup(Protocol):
    """What the committer does while there is nothing to write."""

    def start(self, loop: asyncio.AbstractEventLoop, wake: threading.Event) -> None:
        """`wake` ends every wait from now on; called on the event loop."""

    def before_looking(self) -> None:
        """A look at the lines is about to be taken: whatever is committed after this must be noticed."""

    def wait(self) -> bool:
        """Wait a little, or until woken; true if others have committed since the last look."""

    def close(self) -> None:
        """Close what was opened; called on the event loop."""


class PollOnly:
    """Looks at the lines by a timer, without notifications."""

    def start(self, loop: asyncio.AbstractEventLoop, wake: threading.Event) -> None:
        self._wake = wake

    def before_looking(self) -> None:
        pass

    def wait(self) -> bool:
        self._wake.wait()
        return False

    def close(self) -> None:
        pass


class WatchFile:
    """SQLite: `data_version` moves with every commit of another connection; asking costs a few microseconds.

    Where the system tells of writes to the log of the database it is asked often only after one, and seldom else. A
    commit is there when the disk has it, some time after the first write.
    """

    def __init__(self, session: SqliteSession, path: str) -> None:
        self._session = session
        self._version = -1
        self._looked_at = time.monotonic()
        self._pause_s = TOLD_SOON_S
        self._writes: FileWrites | None = None
        with suppress(OSError):
            self._writes = FileWrites(f"{path}-wal")

    def start(self, loop: asyncio.AbstractEventLoop, wake: threading.Event) -> None:
        self._wake = wake
        if self._writes is not None:
            self._writes.tell(loop, wake.set)

    def before_looking(self) -> None:
        self._version = self._session.data_version()

    def wait(self) -> bool:
        if self._writes is not None and not self._writes.is_armed and self._writes.arm():
            self._pause_s = TOLD_SOON_S  # and without a pause now: it may have been written to before
        else:
            self._wake.wait(self._next_pause_s())
        if self._session.data_version() == self._version:
            return False
        self._looked_at = time.monotonic()
        return True

    def _next_pause_s(self) -> float:
        if self._writes is not None and self._writes.is_armed:
            pause_s, self._pause_s = self._pause_s, min(self._pause_s * EACH_LONGER, TOLD_SELDOM_S)
            return pause_s
        return WATCH_EVERY_S if time.monotonic() - self._looked_at < PROMPT_FOR_S else WATCH_SELDOM_S

    def close(self) -> None:
        if self._writes is not None:
            self._writes.close()


class HeldLock(NamedTuple):
    """The lock of a worker, held on one connection."""

    connection: int
    """The number of the connection."""
    server_run: str


class Listener:
    """PostgreSQL: a connection of its own that listens, in a thread that calls back."""

    def __init__(
        self, url: str, heard: Callable[[str], None], hold: Callable[[Any], str | None] = lambda _: None
    ) -> None:
        """`hold` takes the lock of the worker on the connection, and returns the run of the server where it counts."""
        self._url = url
        self._heard = heard
        self._hold = hold
        self.held: HeldLock | None = None
        """What the connection holds now."""
        self._must_ask = False
        self._deaf_since: float | None = None
        self._has_told = False
        self._probed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="onceward listener", daemon=True)

    def start(self, notify: Callable[[], None]) -> bool:
        """Begin to listen; true if a notification sent by another connection arrives."""
        self._thread.start()
        deadline = time.monotonic() + PROBE_LIMIT_S
        while time.monotonic() < deadline and not self._probed.is_set():
            notify()
            self._probed.wait(0.05)
        return self._probed.is_set()

    def ask_soon(self) -> None:
        """Make sure within a second that the server is still there: another connection to it was lost."""
        self._must_ask = True

    def stop(self) -> None:
        """Stop listening; the thread ends within a second, and calls back no more."""
        self._stopping.set()

    def _tell(self, notification: str = "") -> None:
        if not self._stopping.is_set():
            self._heard(notification)

    def _listen(self) -> None:
        from onceward.store.drivers.postgres import connect

        pause_s = 0.0
        connections = 0
        while not self._stopping.wait(pause_s):
            pause_s = min(max(FIRST_PAUSE_S, 2 * pause_s), LONGEST_PAUSE_S)
            try:
                connection = connect(self._url, "onceward listener")
            except Exception as error:  # also of the system: the thread must live
                self._is_deaf(error)
                continue
            try:
                connections += 1
                held = self._try_to_hold(connection, connections)
                connection.execute("LISTEN onceward")
                self.held = held
                pause_s = 0.0  # a connection that is lost later is most often lost alone
                self._hears_again()
                self._tell()
                heard_at = time.monotonic()
                while not self._stopping.is_set():
                    for notification in connection.notifies(timeout=1.0, stop_after=1):
                        heard_at = time.monotonic()
                        self._probed.set()
                        self._tell(notification.payload)
                    if self._must_ask or time.monotonic() - heard_at > ASK_WHEN_SILENT_S:
                        self._must_ask = False
                        connection.execute("SELECT 1")  # without an answer there is another server to listen to
                        heard_at = time.monotonic()
            except Exception as error:  # as above
                logger.debug("the listening connection was lost", error=str(error).strip())
            finally:
                self.held = None
                quietly(connection.close)

    def _is_deaf(self, error: Exception) -> None:
        now = time.monotonic()
        self._deaf_since = now if self._deaf_since is None else self._deaf_since
        if not self._has_told and now - self._deaf_since >= TELL_DEAF_AFTER_S and not database.is_away:
            self._has_told = True
            logger.warning("cannot listen, looking now and then instead", error=str(error).strip())

    def _hears_again(self) -> None:
        if self._has_told:
            logger.info("listening again", after_s=round(time.monotonic() - (self._deaf_since or 0.0), 1))
        self._deaf_since, self._has_told = None, False

    def _try_to_hold(self, connection: Any, number: int) -> HeldLock | None:
        try:
            server_run = self._hold(connection)
        except Exception as error:  # without it the lease decides
            logger.info("the lock that shows that this worker lives cannot be held", error=str(error).strip())
            return None
        return None if server_run is None else HeldLock(number, server_run)


def notify() -> Op[None]:
    """Notify all workers that there may be work in any line."""
    yield Query("notify")
