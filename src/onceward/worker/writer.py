"""The transactions of one worker: what its attempts have to say, and the next claim, in one each."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec

from onceward.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from onceward.model.gates import BUDGET
from onceward.model.pause import Pauses
from onceward.model.task import Commit, Hold
from onceward.store.attempts.claims import NOTHING, ClaimResult, WorkerBuried, claim, claim_from, claim_suspects
from onceward.store.attempts.commit_results import CommitResult, SendAlone
from onceward.store.attempts.commits import commit
from onceward.store.attempts.quick_claim import QuickClaim, may_claim_quickly, quick_claim_statement, read_quick_claim
from onceward.store.attempts.workers import mark_low_claim
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater, WentBack, WriteLost
from onceward.store.lines.lines import LineView, look, refresh_pauses
from onceward.store.lines.memory import ANY_NUMBER, Line, LineMemory, is_time_to_sweep, mark_claimed, must_follow_clock
from onceward.store.op import Op, Query, Rows
from onceward.worker import crash_points
from onceward.worker.counts import WriteCounts

Answer = Callable[[CommitResult], None]
MOST_TRIES = 3
"""How often the domain rows of a commit may cost a transaction of its own; then that is an error of its stage."""
MOST_LOSSES = 2
"""How often a commit alone may lose its transaction, for as long as a session insists, while others are written."""
FULL_FOR_MS = 30_000
"""How long there may be no space for the domain rows of a commit while the database takes other writes; then that is an
error of its stage, too."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How many tasks the worker could take, and from which lines."""

    count: int
    slots: int = 0
    """How many governed ones among them: those run at once, or in a moment."""
    suspects: bool = False
    threads: int = ANY_NUMBER
    """How many that need a thread as soon as they begin."""
    line: Line | None = None
    """The line in which there is news, if that is known: then the others are not looked at."""

    @property
    def is_ordinary(self) -> bool:
        """Whether all lines are looked at, governed ones too."""
        return not self.suspects and self.line is None


class Item(msgspec.Struct, frozen=True, gc=False):
    """A commit, and who is told what became of it."""

    commit: Commit
    answer: Answer


@dataclass(slots=True)
class Written:
    """What one transaction has done."""

    items: Sequence[Item]
    verdicts: Sequence[CommitResult]
    claimed: ClaimResult = NOTHING
    asked: Wish | None = None
    next_due_at: int | None = None
    pauses: Pauses | None = None
    """What an operator has paused, if it was looked up."""

    @property
    def all_accepted(self) -> bool:
        """Whether nothing was refused, as nearly always."""
        return self.verdicts.count(True) == len(self.verdicts)


class _Enough(Exception):
    """A transaction with domain rows has come to nothing, as often as it may."""


class _NothingThere(Exception):
    """Another worker was first; there is nothing to commit."""


@dataclass(slots=True)
class Writer:
    """The transactions of one worker, on one session. It has no thread of its own."""

    session: Session
    worker: int
    memory: LineMemory
    suspects: LineMemory
    counts: WriteCounts = field(default_factory=WriteCounts)
    low_claim: int = 0
    leaves_writes: bool = False
    """Whether what has to be sent alone for its domain rows is left to the caller."""

    def write(self, items: Sequence[Item], wish: Wish | None, *, patiently: bool = True) -> Written:
        """Commit what is there and claim what is wished for. Each item is accepted or refused on its own.

        Without patience nothing is waited for: what is to be sent alone is left to the caller, and trouble is raised.
        """
        if crash_points.hook is not None:
            crash_points.reach("before commit")
        if not items and wish is not None and wish.line is not None and not self.session.is_near:
            written = self._claim_at_once(wish, wish.line)
            if written is not None:
                return written
        view = None
        if not items and wish is not None and wish.line is None:
            view = self._look(wish)
            within = view if view is None or wish.threads > 0 else view.without_threads(self.memory)
            if view is not None and within is not None and not within.has_work(self.session.clock.now()):
                nothing = replace(NOTHING, wants_thread=True) if view.heads else NOTHING
                return Written((), (), nothing, wish, view.next_at, self.memory.pauses)
        try:
            written = self._transaction(items, wish, view)
        except _NothingThere:
            return Written((), (), NOTHING, wish)
        if crash_points.hook is not None:
            crash_points.reach("after commit")
        # From here on no trouble with the database may be raised: the caller would hand everything in again, and what
        # is committed would be committed twice.
        if patiently and not written.all_accepted and any(isinstance(one, SendAlone) for one in written.verdicts):
            written.verdicts = self._one_by_one(items, written.verdicts)
        self._count(written)
        return written

    def _claim_at_once(self, wish: Wish, line: Line) -> Written | None:
        """A claim that takes no more than one statement; None if it does."""
        now = self.session.clock.now()
        most = min(wish.count, wish.threads) if line[0] in self.memory.threaded else wish.count
        if most <= 0 or self.session.must_look_beside or not may_claim_quickly(self.memory, now):
            return None
        told = QuickClaim(line, secrets.token_bytes(16), self.worker, most, now)
        try:
            rows = self.session.transact_statement(quick_claim_statement(self.memory, told))
        except OutcomeUnknown as doubt:
            doubt.result = (wish, told)
            raise
        return self._claimed_at_once(wish, told, rows)

    def _claimed_at_once(self, wish: Wish, told: QuickClaim, rows: Rows) -> Written:
        if crash_points.hook is not None:
            crash_points.reach("after commit")
        claimed = read_quick_claim(self.memory, told, rows)
        if claimed.leases:
            self._count_claim(claimed)
        return Written((), (), claimed, wish, None, self.memory.pauses)

    def settle(self, doubt: OutcomeUnknown) -> Written | None:
        """What a doubtful transaction has done; None if it has not committed. Raises if that is not known yet."""
        if not self.session.settle(doubt):
            return None
        if isinstance(doubt.result, Written):
            return doubt.result
        wish, told = cast(tuple[Wish, QuickClaim], doubt.result)
        rows = self.session.answer_to(quick_claim_statement(self.memory, told), doubt.token)
        return self._claimed_at_once(wish, told, rows)

    def _look(self, wish: Wish) -> LineView | None:
        """A look without a transaction, so that idle workers do not stand in each other's way; None if it is time for
        more than a look."""
        memory, now = self.suspects if wish.suspects else self.memory, self.session.clock.now()
        if is_time_to_sweep(memory, now) or must_follow_clock(memory, now):
            return None
        memory.latest = max(memory.latest, now)
        return self.session.ask(lambda: self._look_after_pauses(memory, now))

    def _look_after_pauses(self, memory: LineMemory, now: int) -> Op[LineView]:
        yield from self._heed(now)
        return (yield from look(memory))

    def _heed(self, now: int) -> Op[None]:
        """Learn what is paused, for all lines."""
        yield from refresh_pauses(self.memory, now)
        self.suspects.pauses = self.memory.pauses

    def _transaction(self, items: Sequence[Item], wish: Wish | None, view: LineView | None) -> Written:
        """One transaction for all; where domain rows cost it, another one without them."""
        self.session.last_trouble = None
        lent = self.session.lending.count
        try:
            return self._once(items, wish, view, without_writes=False)
        except _Enough:
            pass
        except StoreError as error:
            # What is in doubt must stay whole, and after a restore nothing is to be written.
            needs_much = isinstance(error, StoreFull) and self.session.lending.count > lent  # others may need less room
            is_lost = isinstance(self.session.last_trouble, WriteLost)
            if isinstance(error, OutcomeUnknown | WentBack) or not (is_lost or needs_much):
                raise
        return self._once(items, wish, view, without_writes=True)

    def _once(
        self, items: Sequence[Item], wish: Wish | None, view: LineView | None, *, without_writes: bool
    ) -> Written:
        memory, suspects, lent = self.memory, self.suspects, self.session.lending.count
        tries = 0

        def operation() -> Op[Written]:
            nonlocal tries
            tries += 1
            if self.session.lending.count > lent and (tries > 2 or isinstance(self.session.last_trouble, WriteLost)):
                raise _Enough
            return self._operation(items, wish, view, memory, suspects, without_writes=without_writes)

        try:
            return self.session.transact(operation)
        except (StoreError, ConnectionLost, _NothingThere, _Enough):
            self.memory, self.suspects = memory, suspects
            raise
        except Exception as error:  # one of these commits cannot be written at all, or we are thought dead: others
            self.memory, self.suspects = memory, suspects  # must not suffer, so each is tried by itself
            if not items and not isinstance(error, WorkerBuried):
                raise
            return Written(items, [SendAlone(str(error))] * len(items), NOTHING, wish)

    def _one_by_one(self, items: Sequence[Item], verdicts: Sequence[CommitResult]) -> list[CommitResult]:
        """Each of those that are to be sent alone in a transaction of its own. In trouble the rest stays as it is."""
        found = list(verdicts)
        for place, item in enumerate(items):
            if isinstance(found[place], SendAlone) and not (self.leaves_writes and item.commit.writes):
                try:
                    found[place] = commit_alone(self.session, item)
                except (StoreError, ConnectionLost, TryAgainLater):
                    break
        return found

    def _operation(
        self,
        items: Sequence[Item],
        wish: Wish | None,
        view: LineView | None,
        memory: LineMemory,
        suspects: LineMemory,
        *,
        without_writes: bool,
    ) -> Op[Written]:
        """A transaction, from the start: what was remembered of the lines by one that did not commit is forgotten."""
        self.memory, self.suspects = memory.copy(), suspects.copy()
        now = self.session.clock.now()
        yield from self._heed(now)
        yield from mark_claimed(self.memory, now)
        verdicts: list[CommitResult] = []
        if items:
            if without_writes:
                verdicts = yield from _without_writes(items, now)
            else:
                verdicts = yield from commit([item.commit for item in items], now)
        if crash_points.hook is not None:
            crash_points.reach("inside commit")
        claimed = NOTHING
        passed = {item.commit.lease.gates for item in items}
        has_settled = any(BUDGET in gates for gates in passed if gates is not None)
        for item in items:
            bill = item.commit.bill
            if type(item.commit.move) is Hold or (bill is not None and bill.settlements):
                has_settled = True
        if wish is not None:
            if wish.suspects:
                claimed = yield from claim_suspects(self.suspects, self.worker, now, has_settled=has_settled)
            elif wish.line is not None:
                claimed = yield from claim_from(
                    self.memory, wish.line, self.worker, wish.count, now, threads=wish.threads
                )
                if not items and not claimed.leases:
                    raise _NothingThere
            else:
                claimed = yield from claim(
                    self.memory,
                    self.worker,
                    wish.count,
                    now,
                    view,
                    slots=wish.slots,
                    threads=wish.threads,
                    has_settled=has_settled,
                )
                if self.memory.claim.wants_thread:
                    claimed = replace(claimed, wants_thread=True)
        if self.low_claim:
            yield from mark_low_claim(self.worker, self.low_claim)
        return Written(items, verdicts, claimed, wish, self.memory.next_due_at, self.memory.pauses)

    def _count(self, written: Written) -> None:
        self.low_claim = 0
        self.counts.commits += len(written.verdicts)
        self.counts.refused += written.verdicts.count(False)
        self._count_claim(written.claimed)

    def _count_claim(self, claimed: ClaimResult) -> None:
        self.counts.transactions += 1
        self.counts.claims += bool(claimed.leases)
        self.counts.claimed += len(claimed.leases)


def _without_writes(items: Sequence[Item], now: int) -> Op[list[CommitResult]]:
    """Commit those that have no domain rows; the others are to be sent alone."""
    found = iter((yield from commit([item.commit for item in items if not item.commit.writes], now)))
    return [SendAlone() if item.commit.writes else next(found) for item in items]


@dataclass(slots=True)
class Tries:
    """How often the domain rows of a commit have been tried in a transaction of its own."""

    count: int = 0
    losses: int = 0
    full_since: int | None = None
    """Since when there has been space for other writes, and none for these."""


def commit_briefly(session: Session, item: Item) -> CommitResult | None:
    """What becomes of a commit without domain rows in a transaction of its own, tried once; None if it met trouble."""

    def operation() -> Op[list[CommitResult]]:
        yield Query("wait_briefly")
        return (yield from commit([item.commit], session.clock.now()))

    try:
        with session.without_waiting():
            return session.transact(operation)[0]
    except OutcomeUnknown as doubt:
        return cast(list[CommitResult], doubt.result)[0] if _is_settled(session, doubt) else None
    except WentBack:
        raise
    except (StoreError, ConnectionLost, TryAgainLater):
        return None
    except Exception as error:
        return error


def commit_alone(session: Session, item: Item, tries: Tries | None = None) -> CommitResult:
    """What becomes of a commit in a transaction of its own. Raises trouble of the database that is not its own.

    Where its domain rows cost the transaction again and again, or take too long, that is an error of its stage.
    """
    tries = Tries() if tries is None else tries
    before = session.lending.count - tries.count
    session.last_trouble = None

    def operation() -> Op[list[CommitResult]]:
        nonlocal before
        if isinstance(session.last_trouble, StoreFull):  # a full disk says nothing about its rows
            before = session.lending.count - tries.count
        tries.count = session.lending.count - before
        if tries.count >= MOST_TRIES or (tries.count and isinstance(_cause(session), TimeoutError)):
            raise _Enough
        return commit([item.commit], session.clock.now())

    try:
        return session.transact(operation)[0]
    except _Enough:
        return _cause(session)
    except OutcomeUnknown as doubt:
        if _is_settled(session, doubt):
            return cast(list[CommitResult], doubt.result)[0]
        return commit_alone(session, item, tries)
    except StoreFull as full:
        if item.commit.writes and _fills_the_disk(session, tries):
            return full.__cause__ if isinstance(full.__cause__, Exception) else full
        raise
    except (StoreError, ConnectionLost, TryAgainLater) as error:
        tries.count = session.lending.count - before
        cause, is_lost = _cause(session), isinstance(session.last_trouble, ConnectionLost)
        if isinstance(error, StoreUnavailable) and is_lost and takes_a_write(session):
            tries.losses += 1
            if tries.losses >= MOST_LOSSES:
                return cause
        raise
    except Exception as error:  # its own trouble: the attempt hears of it and is judged by it
        return error


def _fills_the_disk(session: Session, tries: Tries) -> bool:
    """Whether only these domain rows have found no space for long: a statement may fill a disk that is not full."""
    if not takes_a_write(session):
        tries.full_since = None
        return False
    now = session.clock.monotonic()
    tries.full_since = now if tries.full_since is None else tries.full_since
    return now - tries.full_since >= FULL_FOR_MS


def takes_a_write(session: Session) -> bool:
    """Whether the database takes a transaction that writes nothing but its receipt."""

    def write_nothing() -> Op[None]:
        yield from ()

    try:
        with session.without_waiting():
            session.transact(write_nothing)
    except Exception:  # whatever it is, a thread that asks must live
        return False
    return True


def _cause(session: Session) -> Exception:
    """What has cost the last transaction, as the application knows it."""
    trouble = session.last_trouble
    if trouble is not None and isinstance(trouble.__cause__, Exception):
        return trouble.__cause__
    return StoreUnavailable(f"its rows could not be committed: {trouble}")


def _is_settled(session: Session, doubt: OutcomeUnknown) -> bool:
    """Whether a doubtful commit happened. The rest of its batch is written, so nothing goes on before we know."""
    while True:
        with suppress(OutcomeUnknown):
            return session.settle(doubt)
