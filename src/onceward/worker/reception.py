"""What comes into the event loop of a worker: transactions that were written, and news of new work."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from onceward.store.lines.lines import notified_line
from onceward.store.lines.memory import Line
from onceward.store.operations.intake import NOTIFICATION
from onceward.worker.committer import Committer
from onceward.worker.runner import Runner
from onceward.worker.writer import Writer, Written

if TYPE_CHECKING:
    from onceward.worker.process import WorkerProcess


class Reception:
    """Passes on to a runner what its committer and its listener bring."""

    def __init__(self, process: WorkerProcess, runner: Runner, writer: Writer, committer: Committer) -> None:
        self._process = process
        self._runner = runner
        self._writer = writer
        self._committer = committer
        self._loop = asyncio.get_running_loop()
        self._lines = frozenset(writer.memory.lines())
        self.is_open = False
        """Whether the worker has begun; a notification may come while the wake-up is still being tried out."""
        self.asked_by_sql = threading.Event()
        """Whether another program has asked for work by SQL, since the intake was last looked at."""

    def delivered(self, written: Written) -> None:
        """Give the runner what a transaction has done."""
        claims = self._runner.claims
        self._runner.delivered(written)
        # Not once this worker is declared dead: that was read beside its own transactions, and the database may go
        # back to before it. Then the worker that buries it has to find all that it holds there.
        if claims.low_claim and not self._process.has_lost_everything:
            self._writer.low_claim, claims.low_claim = claims.low_claim, 0
        self._committer.watch(not self._process.is_stopping and claims.wants_more)

    def may_stand_still(self) -> bool:
        """Whether no stage runs on the event loop."""
        return not self._runner.leases.runs_anything

    def notified(self, notification: str) -> None:
        """Look again, in the line that a notification names, or at what was asked for by SQL."""
        if notification == NOTIFICATION:
            self.asked_by_sql.set()
        else:
            self.heard(notified_line(notification))

    def heard(self, line: Line | None = None) -> None:
        """Have the runner look again; safe from any thread."""
        with suppress(RuntimeError):  # the loop may have closed this very moment
            self._loop.call_soon_threadsafe(self._look_again, line if line in self._lines else None)

    def _look_again(self, line: Line | None) -> None:
        if self.is_open:
            self._runner.look_again(line)

    def went_back(self) -> None:
        """Begin again from what is there: the database has lost what it had confirmed."""
        self._process.went_back()
