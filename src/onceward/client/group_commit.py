"""Group commit: callers that ask while a transaction is under way share the next one.

One caller at a time leads: it takes all who wait, writes what they ask for in one transaction, tells each its own
outcome, and hands over to the first who has come in the meantime. No caller waits for a timer, so a caller who is alone
pays nothing. See docs/decisions/0032.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from onceward.errors import OutcomeUnknown, StoreFull, StoreUnavailable

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST_TOGETHER = 1_000
"""How many tasks share a transaction at most, if one caller alone does not ask for more."""
_MEANT_FOR_ALL = (StoreUnavailable, StoreFull, OutcomeUnknown)
"""Errors that say nothing of what was asked for: trying each caller alone would meet them again."""


class Turn:
    """A lock that one thread has at a time, as often as it likes. A process that was forked has one of its own."""

    def __init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._depth = 0
        self._owner = 0

    def __enter__(self) -> None:
        if self._pid != os.getpid():  # the thread that had it has stayed behind
            self._begin_anew()
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
        self._lock.release()

    @property
    def is_mine(self) -> bool:
        """Whether the thread that asks has it."""
        return self._owner == threading.get_ident() and self._pid == os.getpid()


class _Caller(Generic[Asked, Answer]):
    """A caller that has asked for something and waits."""

    def __init__(self, asked: Asked, size: int) -> None:
        self.asked = asked
        self.size = size
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.is_done = False

    @property
    def has_left(self) -> bool:
        """Whether no caller waits for the answer any more, before anything was done for it."""
        return False

    def is_answered(self, answer: Answer) -> None:
        """What was asked for is durable."""
        self.answer, self.is_done = answer, True

    def has_failed(self, error: BaseException) -> None:
        """Nothing was written for it, or that is not known."""
        self.error, self.is_done = error, True


class _Blocking(_Caller[Asked, Answer]):
    """A thread that waits."""

    def __init__(self, asked: Asked, size: int) -> None:
        super().__init__(asked, size)
        self._call = threading.Lock()
        self._call.acquire()
        self.leads = False

    def wait(self) -> None:
        """Until it is done, or is to lead."""
        self._call.acquire()

    def wake(self) -> None:
        """Let the thread go on."""
        self._call.release()

    def outcome(self) -> Answer:
        """What came of it."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # a cycle through the traceback would keep everything alive
        return self.answer  # type: ignore[return-value]


class _Awaited(_Caller[Asked, Answer]):
    """A coroutine that waits."""

    def __init__(self, asked: Asked, size: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(asked, size)
        self.loop = loop
        self.future: asyncio.Future[Answer] = loop.create_future()

    @property
    def has_left(self) -> bool:
        return self.future.cancelled()

    def tell(self) -> None:
        """Hand the outcome over, on the loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)  # type: ignore[arg-type]


_Waiting = _Blocking[Asked, Answer] | _Awaited[Asked, Answer]


class Sharing(Generic[Asked, Answer]):
    """Lets callers of all threads and event loops of a process share transactions."""

    def __init__(self, turn: Turn, write: Callable[[Sequence[Asked], Callable[[], None]], Sequence[Answer]]) -> None:
        """`write(asked, is_whole)` does all of it in one transaction, or nothing; before it commits it says so."""
        self._turn = turn
        self._write = write
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._waiting: deque[_Waiting[Asked, Answer]] = deque()
        self._is_led = False

    def ask(self, asked: Asked, size: int) -> Answer:
        """Have it written, alone or with others. When this returns it is durable."""
        if self._turn.is_mine:  # from inside a transaction of this thread: the store says what it thinks of that
            return self._write([asked], _nothing)[0]
        caller: _Blocking[Asked, Answer] = _Blocking(asked, size)
        if self._may_lead(caller):
            self._lead(caller)
        else:
            self._wait(caller)
            if caller.leads:
                self._lead(caller)
        return caller.outcome()

    async def aask(self, asked: Asked, size: int) -> Answer:
        """`ask`, awaited."""
        caller: _Awaited[Asked, Answer] = _Awaited(asked, size, asyncio.get_running_loop())
        if self._may_lead(caller):
            self._start(caller)
        return await caller.future

    def _may_lead(self, caller: _Waiting[Asked, Answer]) -> bool:
        if self._pid != os.getpid():  # the thread that led has stayed behind
            self._begin_anew()
        with self._mutex:
            if self._is_led:
                self._waiting.append(caller)
                return False
            self._is_led = True
            return True

    def _wait(self, caller: _Blocking[Asked, Answer]) -> None:
        try:
            caller.wait()
        except BaseException:  # interrupted: no caller may wait for this thread
            with self._mutex:
                if caller in self._waiting:
                    self._waiting.remove(caller)
                leads = caller.leads
            if leads:
                self._hand_over(None)
            raise

    def _start(self, caller: _Awaited[Asked, Answer]) -> None:
        """Lead for a coroutine, in a thread."""
        try:
            caller.loop.run_in_executor(None, self._lead_on, caller)
        except BaseException:
            self._hand_over(None)
            raise

    def _lead_on(self, caller: _Awaited[Asked, Answer]) -> None:
        """Lead for one coroutine after the other of a loop."""
        following: _Awaited[Asked, Answer] | None = caller
        while following is not None:
            following = self._lead(following)

    def _lead(self, leader: _Waiting[Asked, Answer]) -> _Awaited[Asked, Answer] | None:
        """Do what the leader and all who wait have asked for; then the next one leads. It comes back if this thread is
        to go on for it."""
        group = [leader]
        may_be_committed = threading.Event()
        try:
            with self._turn:
                group += self._joining(leader)
                self._write_for(group, may_be_committed.set)
        except BaseException as error:  # this thread was interrupted
            leader.has_failed(error)
            self._leave(group[1:], may_be_committed.is_set())
        following = self._hand_over(leader.loop if isinstance(leader, _Awaited) else None)
        _tell([one for one in group if one.is_done and (one is not leader or isinstance(one, _Awaited))])
        return following

    def _joining(self, leader: _Waiting[Asked, Answer]) -> list[_Waiting[Asked, Answer]]:
        group = []
        room = MOST_TOGETHER - leader.size
        with self._mutex:
            while self._waiting and self._waiting[0].size <= room:
                caller = self._waiting.popleft()
                if not caller.has_left:
                    room -= caller.size
                    group.append(caller)
        return group

    def _write_for(self, group: Sequence[_Waiting[Asked, Answer]], is_whole: Callable[[], None]) -> None:
        try:
            answers = self._write([one.asked for one in group], is_whole)
        except _MEANT_FOR_ALL as error:
            for place, caller in enumerate(group):
                caller.has_failed(_for_one(error, place))
        except Exception as error:
            if len(group) == 1:
                group[0].has_failed(error)
                return
            # Nothing was written. One of them is at fault, and that is nothing to the others.
            for place, caller in enumerate(group):
                self._write_for([caller], is_whole)
                if isinstance(caller.error, _MEANT_FOR_ALL):
                    for other in group[place + 1 :]:
                        other.has_failed(StoreUnavailable(str(caller.error)))
                    return
        else:
            for caller, answer in zip(group, answers, strict=True):
                caller.is_answered(answer)

    def _leave(self, group: Sequence[_Waiting[Asked, Answer]], may_be_committed: bool) -> None:
        """The leader was interrupted: those who were with it wait again, unless it may have committed."""
        left = [one for one in group if not one.is_done]
        if may_be_committed:
            for one in left:
                one.has_failed(OutcomeUnknown("the thread that committed for several callers was interrupted"))
            return
        with self._mutex:
            self._waiting.extendleft(reversed(left))

    def _hand_over(self, here: asyncio.AbstractEventLoop | None) -> _Awaited[Asked, Answer] | None:
        """Let the first who waits lead; this thread is to go on if that is a coroutine of the loop it leads for."""
        while True:
            with self._mutex:
                while self._waiting and self._waiting[0].has_left:
                    self._waiting.popleft()
                if not self._waiting:
                    self._is_led = False
                    return None
                following = self._waiting.popleft()
                if isinstance(following, _Blocking):
                    following.leads = True
            if isinstance(following, _Blocking):
                following.wake()
                return None
            if following.loop is here:
                return following
            try:
                following.loop.call_soon_threadsafe(self._start, following)
            except RuntimeError:  # its loop is closed, and no caller waits there any more
                continue
            return None


def _tell(callers: Sequence[_Waiting[Any, Any]]) -> None:
    """Wake those who are done: threads one by one, the coroutines of a loop all at once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Awaited[Any, Any]]] = {}
    for one in callers:
        if isinstance(one, _Blocking):
            one.wake()
        else:
            loops.setdefault(one.loop, []).append(one)
    for loop, awaited in loops.items():
        try:
            loop.call_soon_threadsafe(_tell_here, awaited)
        except RuntimeError:  # its loop is closed, and no caller waits there any more
            continue


def _tell_here(awaited: Sequence[_Awaited[Any, Any]]) -> None:
    for one in awaited:
        one.tell()


def _for_one(error: StoreUnavailable | StoreFull | OutcomeUnknown, place: int) -> BaseException:
    """The error of a transaction for one of those who shared it: each has a traceback, and a result, of its own."""
    own = type(error)(*error.args)
    own.__cause__ = error.__cause__
    if isinstance(error, OutcomeUnknown) and isinstance(own, OutcomeUnknown):
        own.token = error.token
        own.result = error.result[place] if isinstance(error.result, list) else error.result
    return own


def _nothing() -> None:
    """Does nothing: no caller needs to know."""
