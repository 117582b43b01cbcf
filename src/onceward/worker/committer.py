"""The one writer of a process: everything that its attempts have to say, and the next claim, in one transaction.

It writes when nothing more can run without it, not by timer: an idle system answers after one fsync, and a busy one
makes large batches by itself. `submit`, `wish` and `watch` belong to the event loop; the writing to a thread, or to the
event loop as well where no stage there would have to wait for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from onceward.errors import OutcomeUnknown, StoreError
from onceward.model.task import Commit
from onceward.store.attempts.commit_results import CommitResult, SendAlone, SendApart, SendLater
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import FIRST_PAUSE_S, Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater, WentBack
from onceward.support.logs import EngineLog
from onceward.worker.separate_writer import SeparateWriter
from onceward.worker.wakeup import Wakeup
from onceward.worker.writer import Answer, Item, Wish, Writer, Written, takes_a_write

LARGEST_BATCH = 500
LONGEST_GATHERING_S = 0.01
"""How long what has ended waits for more to end, where there is no end of that."""
LONGEST_STANDSTILL_S = 0.004
"""How long the event loop may stand still for the disk; where it is slower, stages run meanwhile."""
PAUSE_AFTER_TROUBLE_S = 1.0
"""The longest pause between two tries; a write is tried again at once first, then after pauses that double."""
LAST_TRIES_S = 5.0

logger = EngineLog("onceward.committer")


@dataclass(frozen=True, slots=True)
class _Batch:
    """What goes into one transaction."""

    items: Sequence[Item]
    wish: Wish | None
    doubt: OutcomeUnknown | None = None
    """Set if it may have been written already."""


class Receiver(Protocol):
    """The other side of a committer, on the event loop."""

    def delivered(self, written: Written) -> None:
        """Learn on the event loop what a transaction has done."""

    def may_stand_still(self) -> bool:
        """Whether nothing runs on the event loop that would have to wait for the disk."""

    def heard(self) -> None:
        """Learn from any thread that there may be new work."""

    def went_back(self) -> None:
        """Learn from any thread that the database has lost what it had confirmed; from then on nothing is written."""


class Committer:
    """A thread around a `Writer`. The thread that holds the pen, this one or the event loop's, uses the session."""

    def __init__(
        self,
        writer: Writer,
        wakeup: Wakeup,
        loop: asyncio.AbstractEventLoop,
        apart: Session | None = None,
    ) -> None:
        """`apart` is the session for what has to be sent alone for its domain rows; without one that is done here."""
        self._loop = loop
        self._flush_is_coming = False
        self._flush_by = 0.0
        self._submitted_before = 0
        self._submitted = 0
        self._writer = writer
        self._wakeup = wakeup
        self._receiver: Receiver
        self._pen = threading.Lock()
        self._separate: SeparateWriter | None = None
        if apart is not None:
            self._separate = SeparateWriter(apart, writer.session, tell=self._tell, lost_everything=self._went_back)
            writer.leaves_writes = True
        self._standstill_s = 0.0
        self._delivered = self._handed_over = 0
        self._in_doubt: _Batch | None = None
        self._inbox: deque[Item] = deque()
        self._make_wish: Callable[[], Wish] | None = None
        self._wish: Wish | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._has_ended = False
        self._give_up_at: float | None = None
        self._hungry = False
        self._thread = threading.Thread(target=self._work, name="onceward committer", daemon=True)

    def start(self, receiver: Receiver) -> None:
        """Begin to write for a receiver."""
        self._receiver = receiver
        self._wakeup.start(self._loop, self._wake)
        self._thread.start()

    def _went_back(self) -> None:
        self._receiver.went_back()

    def submit(self, commit: Commit, answer: Answer) -> None:
        """Have something written; `answer` is called with the verdict on the event loop. After the end nothing is
        written, and the verdict is that of a lost lease: a stage in a thread may still wait for it."""
        if self._has_ended:
            self._loop.call_soon(answer, False)
            return
        apart = self._separate
        if apart is not None and (commit.writes or apart.tasks or apart.costly) and apart.takes(commit):
            apart.send([Item(commit, answer)])
            return
        self._inbox.append(Item(commit, answer))
        self._submitted += 1
        self._flush_soon()

    def wish(self, make: Callable[[], Wish]) -> None:
        """Have something claimed with the next transaction: what is wished for then."""
        self._make_wish = make
        self._flush_soon()

    def _flush_soon(self) -> None:
        """Write when nothing more can run without it: while stages end one after the other, their batch grows."""
        if not self._flush_is_coming:
            self._flush_is_coming = True
            self._flush_by = self._loop.time() + LONGEST_GATHERING_S
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        is_growing = self._submitted != self._submitted_before
        self._submitted_before = self._submitted
        if is_growing and len(self._inbox) < LARGEST_BATCH and self._loop.time() < self._flush_by:
            self._loop.call_soon(self._flush)
            return
        self._flush_is_coming = False
        if self._make_wish is not None:
            self._wish, self._make_wish = self._make_wish(), None
        if not self._write_here() or (self._inbox and not self._flush_is_coming):  # a batch has an end
            self._wake.set()

    def _write_here(self) -> bool:
        """Write on the event loop's own thread; false if that is to be left to the other one.

        Two threads of one interpreter that only take turns cost more than they win. But what takes long, or may take
        long, has no place here: the other machine, other writers, a slow disk, trouble, the application's own rows.
        """
        if not self._writer.session.is_near or self._standstill_s > LONGEST_STANDSTILL_S or self._stopping:
            return False
        if not self._pen.acquire(blocking=False):
            return False
        try:
            if (
                self._in_doubt is not None
                or self._delivered != self._handed_over
                or not self._receiver.may_stand_still()
            ):
                return False
            return not any(item.commit.writes for item in self._inbox) and self._try_here(self._next_batch())
        finally:
            self._pen.release()

    def _try_here(self, batch: _Batch) -> bool:
        began_s, worked_s = time.monotonic(), time.thread_time()
        try:
            with self._writer.session.without_waiting():
                written = self._write(batch, patiently=False)
        except OutcomeUnknown as doubt:
            self._in_doubt = replace(batch, doubt=doubt)
            return False
        except Exception:  # nothing was written; the other thread will meet the same trouble, and can wait
            self._inbox.extendleft(reversed(batch.items))
            self._wish = batch.wish
            return False
        waited_s = time.monotonic() - began_s - (time.thread_time() - worked_s)
        self._standstill_s += (waited_s - self._standstill_s) / 8
        self._receiver.delivered(self._without_unsent(written))
        return True

    def watch(self, hungry: bool) -> None:
        """Say whether it is worth watching for the commits of others."""
        if hungry != self._hungry:
            self._hungry = hungry
            self._wake.set()

    def stop(self) -> None:
        """Write what is there, then end; a database that is away is not waited for long."""
        self._give_up_at = time.monotonic() + LAST_TRIES_S
        self._stopping = True
        self._wake.set()
        self._thread.join()
        if self._separate is not None:
            self._separate.stop(self._give_up_at)
        with suppress(RuntimeError):  # the loop may have closed this very moment
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """Answer what was handed in after the last transaction, and what will be."""
        self._has_ended = True
        while self._inbox:
            self._inbox.popleft().answer(False)

    def _work(self) -> None:
        while True:
            self._wait()
            self._wake.clear()
            with self._pen:
                batch, self._in_doubt = self._in_doubt or self._next_batch(), None
                if batch.items or batch.wish:
                    self._hand_over(self._without_unsent(self._until_written(batch)))
                    self._standstill_s *= 0.98  # now and then it is tried whether the disk has become faster
                elif self._stopping:
                    return
            if self._inbox:
                self._wake.set()

    def _next_batch(self) -> _Batch:
        wish, self._wish = self._wish, None
        return _Batch([self._inbox.popleft() for _ in range(min(len(self._inbox), LARGEST_BATCH))], wish)

    def _hand_over(self, written: Written) -> None:
        """Have the event loop take delivery of what this thread has written."""
        self._handed_over += 1
        with suppress(RuntimeError):  # the loop may have closed this very moment
            self._loop.call_soon_threadsafe(self._take_over, written)

    def _take_over(self, written: Written) -> None:
        self._delivered += 1
        self._receiver.delivered(written)

    def _tell(self, item: Item, verdict: CommitResult) -> None:
        """Have the event loop told what has become of a commit that was sent alone."""
        with suppress(RuntimeError):  # the loop may have closed this very moment
            self._loop.call_soon_threadsafe(self._receiver.delivered, Written([item], [verdict]))

    def _without_unsent(self, written: Written) -> Written:
        """What can be told; what had to be sent alone and could not be yet goes into the next batch."""
        if written.all_accepted:
            return written
        unsent = [
            (item, verdict)
            for item, verdict in zip(written.items, written.verdicts, strict=True)
            if isinstance(verdict, SendAlone)
        ]
        if not unsent:
            return written
        apart: list[Item] = []
        again: list[Item] = []
        for item, verdict in unsent:
            is_for_others = isinstance(verdict, SendApart) or (item.commit.writes and type(verdict) is not SendLater)
            goes_apart = self._separate is not None and is_for_others
            (apart if goes_apart else again).append(item)
        if self._separate is not None and apart:
            self._separate.send(apart)
        if again:
            self._inbox.extendleft(reversed(again))
            self._wake.set()
        told = [
            (item, verdict)
            for item, verdict in zip(written.items, written.verdicts, strict=True)
            if not isinstance(verdict, SendAlone)
        ]
        return replace(written, items=[item for item, _ in told], verdicts=[verdict for _, verdict in told])

    def _wait(self) -> None:
        while not (self._wake.is_set() or self._stopping):
            if not self._hungry:
                self._wake.wait()
                return
            try:
                with self._pen:
                    has_news = self._wakeup.wait()
                if has_news:
                    self._hungry = False
                    self._receiver.heard()
            except Exception:  # the thread must live, and the next transaction will say it better
                self._wake.wait(PAUSE_AFTER_TROUBLE_S)

    def _until_settled(self, batch: _Batch, doubt: OutcomeUnknown) -> Written | None:
        """What a doubtful transaction has done; None if it has not committed, and only then may it be run again."""
        while True:
            logger.warning("the database went away during a commit, asking whether it happened")
            if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
                return _unwritten(batch)
            with suppress(OutcomeUnknown):  # each time the session has been patient already
                return self._writer.settle(doubt)

    def _write(self, batch: _Batch, *, patiently: bool = True) -> Written:
        if batch.wish is not None:
            self._wakeup.before_looking()
        return self._writer.write(batch.items, batch.wish, patiently=patiently)

    def _until_written(self, batch: _Batch) -> Written:
        """The database may be away or full for a while: nothing that was handed over is given up."""
        pause_s = 0.0
        while True:
            try:
                if batch.doubt is not None:
                    settled = self._until_settled(batch, batch.doubt)
                    if settled is not None:
                        return settled
                    batch = replace(batch, doubt=None)
                return self._write(batch)
            except OutcomeUnknown as doubt:
                batch = replace(batch, doubt=doubt)
            except WentBack:
                self._went_back()
                return _unwritten(batch)
            except (StoreError, ConnectionLost, TryAgainLater) as error:
                database.note_failure(self._writer.session, error)
                self._writer.session.discard()
                if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
                    # The leases end by themselves, and what was not written is done again: nothing is lost.
                    return _unwritten(batch)
                if batch.items and self._separate is not None and takes_a_write(self._writer.session):
                    logger.warning(
                        "a transaction comes to nothing: its commits are written one by one", error=str(error)
                    )
                    return Written(batch.items, [SendApart(str(error))] * len(batch.items), asked=batch.wish)
                time.sleep(pause_s)
                pause_s = min(max(FIRST_PAUSE_S, 2 * pause_s), PAUSE_AFTER_TROUBLE_S)
            except Exception:
                # The thread must live: the worker would wait for it for ever.
                logger.exception("a claim failed")
                self._writer.session.discard()
                time.sleep(PAUSE_AFTER_TROUBLE_S)
                if not batch.items or self._stopping:
                    return _unwritten(batch)


def _unwritten(batch: _Batch) -> Written:
    """A batch of which nothing will be written any more. It is told, because stages in threads wait for it."""
    return Written(batch.items, [False] * len(batch.items), asked=batch.wish)
