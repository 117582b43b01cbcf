"""The working part of a process: has stages run, one after the other of each task, and what they say committed.

Everything here happens on one event loop. The next stage of a task starts only after its predecessor is durable; that
wait is hidden by the other tasks. Stages that only wait cost nothing but memory.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

from onceward.authoring.child_builder import Spawner
from onceward.authoring.lost_context import lose
from onceward.authoring.registry import Registry
from onceward.authoring.stage import Stage
from onceward.model.budget import Bill
from onceward.model.cache import Cached
from onceward.model.lineage import Family
from onceward.model.outcome import unwrapped
from onceward.model.pause import NO_PAUSES
from onceward.model.retry import error_text
from onceward.model.status import Status
from onceward.model.task import (
    NEVER,
    NO_EFFECTS,
    Advance,
    Commit,
    Crash,
    Defer,
    Effects,
    Expire,
    Finish,
    HandOver,
    Lease,
    Move,
    Park,
    Release,
    TryAgain,
    lane_of,
)
from onceward.model.times import duration_text
from onceward.settings.config import Config
from onceward.store.attempts.commits import CommitResult, GivenUp
from onceward.store.lines.memory import Line
from onceward.support.logs import EngineLog
from onceward.worker import crash_points
from onceward.worker.attempt import Attempt, StageTimeout
from onceward.worker.claim_ahead import LATE_MS, ClaimAhead
from onceward.worker.decide_move import MoveDecider
from onceward.worker.desk import AttemptDesk
from onceward.worker.failures import LOGGED_MOVES, Failures, OnFailure
from onceward.worker.outcomes import outcome
from onceward.worker.prepare_attempt import NOTHING_DONE, AttemptPreparer
from onceward.worker.presence import Presence
from onceward.worker.source_reports import token_refunds
from onceward.worker.stage_runs import StageRuns
from onceward.worker.threads import StageThreads
from onceward.worker.writer import Wish, Written

TICK_S = 0.05
LONGEST_PAUSE_S = 60.0  # between two tries to write the end of a task that the database refuses
MOST_DROPPED = 1_000
"""How many lost leases are remembered, in case the database goes back to when they were not."""
MOST_CLOSING = 1_000
"""How many ended attempts may wait for their commit before no more work is claimed."""
UNWRITABLE = "what came of it could not be written; the log of its worker says why"

logger = EngineLog("onceward.worker")


class Runner:
    """Runs the tasks of one process. `submit` and `wish` lead to the committer, `delivered` comes back from it."""

    def __init__(
        self,
        registry: Registry,
        config: Config,
        *,
        queues: list[str],
        submit: Callable[[Commit, Callable[[CommitResult], None]], None],
        wish: Callable[[Callable[[], Wish]], None],
        threads: StageThreads,
        read: Callable[..., Any],
        look_up: Callable[[str, bytes], Cached | None],
        setting: Callable[[str], Any],
        now: Callable[[], int],
        monotonic: Callable[[], int],
        presence: Presence | None,
        app_path: str | None,
        spawner: Spawner,
        suspects_only: bool = False,
        most_claims: int | None = None,
        ends_at: int = NEVER,
        isolates: bool = True,
        dice: random.Random | None = None,
        pass_time: Callable[[int], None] | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        self._failures = Failures(on_failure)
        self._registry = registry
        self._submit = submit
        self._wish = wish
        self._now = now
        self._monotonic = monotonic
        self._ends_at = ends_at
        """When this worker ends by itself, on the clock that nobody sets; a stage begins only if it fits before."""
        self.is_out_of_time = False
        """Whether it has met a stage that does not fit into what is left of its time."""
        self._dropped: deque[tuple[int, Lease]] = deque(maxlen=MOST_DROPPED)
        self.outcomes: Counter[str] = Counter()
        """How many attempts have ended, and how."""
        self._attempts: dict[int, Attempt] = {}
        self._closing = 0
        """How many others have ended, and wait for their last commit."""
        self._committing = 0
        """How many of the attempts wait for the commit of a stage, to go on with the next. They need no slot."""
        self._pauses = NO_PAUSES
        self.claims = ClaimAhead(config, monotonic=monotonic, suspects_only=suspects_only, most_claims=most_claims)
        served = frozenset(queues)
        self._desk = AttemptDesk(
            self._attempts, submit, read, look_up, setting, monotonic, presence, spawner, now, pass_time
        )
        self._decider = MoveDecider(config, served, now, dice)
        self._preparer = AttemptPreparer(registry, served, self._decider, self._desk, now)
        self._runs = StageRuns(
            config,
            ended=self._ended,
            begin_next=self._begin_next,
            threads=threads,
            presence=presence,
            desk=self._desk,
            app_path=app_path,
            isolates=isolates,
            limit_ms=self._decider.limit_ms,
            monotonic=monotonic,
        )
        self.changed = asyncio.Event()
        """Set when something has ended or nothing was found: whoever waits for idleness looks again."""

    def adopt(self, config: Config) -> None:
        """Go on under other numbers. What runs goes on, even if fewer may run at once now."""
        self.claims.config = self._decider.config = self._runs.config = config
        self.pump()

    # Claiming

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs, waits for its commit, or could be claimed as far as is known."""
        return self.claims.is_quiet and not (self._attempts or self._closing)

    @property
    def is_drained(self) -> bool:
        """Whether nothing runs or waits for its commit."""
        return not (self._attempts or self._closing or self.claims.has_asked)

    @property
    def has_zombie_thread(self) -> bool:
        """Whether a thread is lost to a stage that does not end."""
        return self._runs.has_zombie_thread

    @property
    def running(self) -> list[int]:
        """The tasks being worked on."""
        return list(self._attempts)

    @property
    def runs_anything(self) -> bool:
        """Whether a stage is running at this moment, not only claimed, waiting for its turn or for its commit."""
        return any(attempt.limit_at is not None and not attempt.ended for attempt in self._attempts.values())

    def runs_under(self, task: int, token: bytes) -> bool:
        """Whether a stage of a task still runs here under a token."""
        attempt = self._attempts.get(task)
        return attempt is not None and attempt.lease.token == token and not attempt.ended

    def look_again(self, line: Line | None = None) -> None:
        """There may be new work, in a line that is perhaps known."""
        self.claims.look_again(line)
        self.pump()

    def pump(self) -> None:
        """Start what can start, and ask for more where there is room."""
        while (attempt := self.claims.next_beside(self._slots_taken)) is not None:
            self._begin(attempt)
        self._ask_if_room()

    def _begin_next(self) -> bool:
        """Begin attempts until one is to be carried on the event loop; whether there is one."""
        while (attempt := self.claims.next_beside(self._slots_taken)) is not None:
            if self._begin(attempt):
                if self.claims.is_low:
                    self._ask_if_room()
                return True
        self._ask_if_room()
        return False

    def _ask_if_room(self) -> None:
        closing = self._closing
        if closing < MOST_CLOSING and self.claims.asks(self._held, self._slots_taken, closing + self._committing):
            self._wish(self._wish_now)

    def _wish_now(self) -> Wish:
        return self.claims.wish(self._held, self._slots_taken)

    @property
    def _held(self) -> int:
        """How many attempts stand in the way of claiming more. While stages are written others can run; but as many as
        end in so short a time, or somebody would wait here who could run elsewhere."""
        return len(self._attempts) - min(self._committing, self.claims.ahead)

    @property
    def _slots_taken(self) -> int:
        return len(self._attempts) - self._committing - len(self.claims.going_on)

    def delivered(self, written: Written) -> None:
        """A transaction has been committed: tell the attempts, take what was claimed."""
        self.claims.measure()
        if written.pauses is not None:
            self._pauses = written.pauses
        if written.asked is not None:
            self.claims.take(written, written.asked)
            for lease, reason in written.claimed.failed:
                self._failures.tell_unclaimed(lease, reason)
            if self.claims.is_closed:
                self._give_back_unbegun()
        for item, verdict in zip(written.items, written.verdicts, strict=True):
            try:
                item.answer(verdict)
            except Exception as error:  # the others have to be told all the same
                self._tripped_after(item.commit, error)
        self._runs.ahead_ms = self._now() - self._monotonic()
        self.pump()
        if self.is_quiet or not written.claimed.leases:
            self.changed.set()

    def _tripped_after(self, commit: Commit, error: Exception) -> None:
        """Something has failed after a commit; the task stands where that has left it."""
        attempt = self._attempts.get(commit.lease.task)
        if attempt is not None and attempt.lease.token == commit.lease.token:
            self._tripped(attempt, error, getattr(commit.move, "next_stage", None))
        else:
            logger.error("something failed after a commit", task=commit.lease.task, exc_info=error)
            self.claims.close_claim(commit.lease)

    # One attempt

    def _begin(self, attempt: Attempt) -> bool:
        """Begin an attempt or go on with it, if that is to be; whether it waits to be carried now."""
        if attempt.ended:
            if not attempt.lost:
                return self._run(attempt)
            self._forget(attempt)
            return False
        self._attempts[attempt.lease.task] = attempt
        try:
            instead = self._preparer.prepare(attempt)
            if instead is None:
                return self._run(attempt)
        except Exception as error:
            self._tripped(attempt, error)
            return False
        self._conclude(attempt, *instead)
        return False

    def _run(self, attempt: Attempt) -> bool:
        if self._ends_at < NEVER and not self._fits(attempt.stage):
            # Whoever is taken next would be given back as well: the rest is for the next worker.
            self.claims.have_enough()
            self.is_out_of_time = True
            self._conclude(attempt, Release(), NO_EFFECTS)
            return False
        return self._runs.start(attempt)

    def _fits(self, stage: Stage[Any, Any]) -> bool:
        """Whether a stage would end before this worker does. One that declares no timeout takes what is left."""
        return stage.timeout_ms is None or self._monotonic() + stage.timeout_ms <= self._ends_at

    def _ended(self, attempt: Attempt, stage: Stage[Any, Any], value: Any, error: BaseException | None) -> None:
        """A stage has returned or raised. What a stage says after its time, or without its lease, is not heard."""
        if attempt.ended or attempt.stage is not stage:
            return
        attempt.ended = True
        self._runs.leave(attempt)
        if crash_points.hook is not None:
            crash_points.reach(f"after {stage.name}")
        effects = attempt.context.end()
        attempt.bill = effects.bill
        if attempt.lost:
            self._forget(attempt)
            return
        if attempt.timed_out:
            late = f"took longer than {duration_text(attempt.timeout_ms or 0)}"
            if self._monotonic() >= attempt.over_at:
                late = "was running when the time of its task was over"
            error = StageTimeout(f"stage {stage.name!r} {late}")
        error = None if error is None else unwrapped(error)
        try:
            judged = self._decider.after_stage(attempt, value, error, effects)
        except Exception as odd:  # what it has raised is of the application's own making, and cannot be asked
            try:
                judged = self._decider.after_stage(attempt, None, odd, effects)
            except Exception as worse:
                self._tripped(attempt, worse)
                return
        self._conclude(attempt, *judged)

    def _tripped(self, attempt: Attempt, error: Exception, stage: str | None = None) -> None:
        """The engine itself, or what it asks of the application, has failed with a task: its attempt ends by that."""
        logger.error("a task could not be gone on with", task=attempt.lease.task, exc_info=error)
        attempt.ended = True
        try:
            move = self._decider.after_error(attempt, error, stage or attempt.place)
        except Exception:  # not even that can be judged
            move = Finish(stage or attempt.lease.stage or "", None, Status.FAILED, UNWRITABLE)
        self._conclude(attempt, move, Effects(bill=Bill(attempt.charges)))

    def _conclude(self, attempt: Attempt, move: Move, effects: Effects) -> None:
        """Have a move written. Unless the task goes on here, its slot is free at once."""
        if type(move) is Advance:
            self._committing += 1
        else:
            if type(move) is Release and attempt.lease.gates is not None and not effects.reports:
                effects = effects._replace(reports=token_refunds(attempt.lease, self._registry.limits_of))
            if self._attempts.pop(attempt.lease.task, None) is not None:
                self._closing += 1
                self.claims.ended += 1
                if attempt.started_at and (took_ms := self.claims.clock - attempt.started_at) > 0:
                    self.claims.took_ms += took_ms
        self._submit(
            Commit(attempt.lease, move, *effects),
            lambda verdict: self._after_commit(attempt, move, verdict, effects.spawns is not None),
        )

    def _after_commit(self, attempt: Attempt, move: Move, verdict: CommitResult, has_children: bool) -> None:
        if type(move) is Advance:
            self._committing -= 1
        else:
            self._closing -= 1
        if verdict is not True and isinstance(verdict, Exception):
            self._after_refusal(attempt, move, verdict)
            return
        if not self.claims.expects_more and verdict and (has_children or self._may_have_woken(attempt, move)):
            # Also a gate may have room again, or its next stage stand in a line behind one.
            self.claims.expects_more = True
        if type(move) is Advance and verdict:
            if isinstance(verdict, Family):
                attempt.lease = msgspec.structs.replace(attempt.lease, family=verdict)
            stays = not (attempt.lost or self.claims.is_closed or self._is_paused(attempt, move, verdict))
            attempt.go_on(move, self._desk, self._now())
            if stays:
                self.claims.go_on(attempt)
            else:
                self._conclude(attempt, Release(), NO_EFFECTS)
            return
        if type(move) is Advance:
            self._attempts.pop(attempt.lease.task, None)
        self.claims.close_claim(attempt.lease)
        if self._ends_at < NEVER:
            self.outcomes[outcome(move) if verdict else "lost"] += 1
        if not verdict:
            self._dropped.append((self._monotonic(), attempt.lease))
            logger.warning("lease lost, nothing was written", task=attempt.lease.task, kind=attempt.lease.kind)
        elif type(move) is not Finish:
            self._look_again_for(move)
            if type(move) in LOGGED_MOVES:
                given_up = verdict.reason if isinstance(verdict, GivenUp) else None
                self._failures.tell(attempt, move, given_up, self._now())
        elif move.status is not Status.SUCCEEDED:
            self._failures.tell(attempt, move, None, self._now())

    def _is_paused(self, attempt: Attempt, move: Advance, verdict: CommitResult) -> bool:
        """Whether a task, its queue, its pipeline or everything is paused, so that its next stage does not begin."""
        if isinstance(verdict, Family) and verdict.is_paused:
            return True
        lease = attempt.lease
        return bool(self._pauses) and self._pauses.of_line(lane_of(move.queue or lease.queue, lease.kind)) is not None

    def _may_have_woken(self, attempt: Attempt, move: Move) -> bool:
        """Whether somebody may stand in line by this commit of our own, of which nobody else tells us: a task that did
        not have to wait for children, or one that waited for this task."""
        if attempt.lease.gates is not None:
            return True
        if type(move) is HandOver:
            return move.joins or move.gates is not None
        if type(move) is Release:  # nothing has ended; and of what was given back unread nobody knows the pipeline
            return False
        return attempt.lease.parent is not None or attempt.pipeline.unique == "everywhere"

    def _after_refusal(self, attempt: Attempt, move: Move, error: Exception) -> None:
        """The database refuses a move, most often for its domain rows: an error of the stage, and nothing was kept.

        If that cannot be written either, the task fails in words that can, however often that takes.
        """
        self._attempts[attempt.lease.task] = attempt
        attempt.refusals += 1
        stage: str | None = getattr(move, "stage", None)
        if stage is not None and attempt.refusals == 1:
            self._conclude(
                attempt, self._decider.after_error(attempt, error, stage), Effects(bill=Bill(attempt.charges))
            )
            return
        logger.error("a move could not be written", task=attempt.lease.task, error=error_text(error))
        unwritable = Finish(stage or attempt.lease.stage or "", None, Status.FAILED, UNWRITABLE)
        if attempt.refusals <= 2:
            self._conclude(attempt, unwritable, Effects(bill=Bill(attempt.charges)))
            return
        # Without what it owes: those who look after the dead settle that. And it is tried until it can be written.
        attempt.lease = msgspec.structs.replace(attempt.lease, gates=None)
        pause_s = 0.0 if attempt.refusals == 3 else min(0.05 * 2**attempt.refusals, LONGEST_PAUSE_S)
        asyncio.get_running_loop().call_later(pause_s, self._conclude, attempt, unwritable, NO_EFFECTS)

    def _look_again_for(self, move: Move) -> None:
        """A task will be back in line by a commit of our own, of which nobody else tells us."""
        if isinstance(move, TryAgain | Defer):
            self.claims.look_again_at(move.due_at)
        elif isinstance(move, Park | Crash | Expire):  # what it waits for may have come already
            self.claims.look_again_at(self._now())

    def _forget(self, attempt: Attempt) -> None:
        """An attempt is over without a word: its lease is somebody else's."""
        self._runs.leave(attempt)
        if self._attempts.pop(attempt.lease.task, None) is not None:
            self.claims.close_claim(attempt.lease)
        self.changed.set()

    # Time limits and lost leases

    def held_for(self, at_least_ms: int) -> list[Lease]:
        """The leases whose stages have been running for a while: those worth asking the database about."""
        before = self._monotonic() - at_least_ms
        return [attempt.lease for attempt in list(self._attempts.values()) if attempt.started_at <= before]

    def dropped(self, within_ms: int) -> list[Lease]:
        """The leases that were found to be lost of late, and whose tasks nothing here works on any more."""
        after = self._monotonic() - within_ms
        return [lease for at, lease in list(self._dropped) if at > after]

    def tick(self) -> None:
        """Cancel the stages whose time is up, and give back what has waited too long for a slot or a thread."""
        now = self._monotonic()
        self._runs.ahead_ms = self._now() - now
        for attempt in list(self._attempts.values()):
            self._runs.stop_if_late(attempt, now)
            if attempt.ticket and now - attempt.waits_since > LATE_MS and self._needs_thread_first(attempt):
                self.claims.slow_down()
                self._give_back_ticket(attempt)
        self._runs.look_behind(now)
        while (late := self.claims.give_up_late(now)) is not None:
            self._give_back(late)

    def lost(self, tasks: set[int]) -> None:
        """Leases are gone (cancelled, or reclaimed by somebody): stop working on them."""
        for task in tasks:
            attempt = self._attempts.get(task)
            if attempt is None or attempt.lost:
                continue
            never_begins = attempt.take_ticket()
            if not attempt.ended:
                lose(attempt.context)
            attempt.lost = True
            self._dropped.append((self._monotonic(), attempt.lease))
            logger.warning(
                "lease lost, stopping the stage", task=task, kind=attempt.lease.kind, stage=attempt.stage.name
            )
            if attempt.task is not None:
                attempt.task.cancel()
            elif not attempt.ended:
                if not never_begins:
                    self._runs.leave_behind(attempt)
                self._forget(attempt)

    def lose_everything(self) -> None:
        """Stop all work: every lease is gone, also those of tasks that have not begun."""
        self.claims.is_closed = True
        while self.claims.give_up() is not None:
            pass
        self.lost(set(self._attempts))

    # Ending

    async def close(self) -> None:
        """End the processes that are kept for isolated stages."""
        await self._runs.close()

    def stop_claiming(self) -> None:
        """Take nothing more, and give back what has not begun."""
        self.claims.is_closed = True
        self._give_back_unbegun()
        for attempt in list(self._attempts.values()):
            self._give_back_ticket(attempt)

    def release_all(self) -> None:
        """Give back everything at once; no attempt is burned."""
        self.claims.is_closed = True
        crash_points.reach("before release")
        self._give_back_unbegun()
        for attempt in list(self._attempts.values()):
            if attempt.ended:
                continue  # its commit is under way
            attempt.ended = True
            attempt.bill = attempt.context.end().bill
            if attempt.task is not None:
                attempt.task.cancel()
            self._runs.leave(attempt)
            self._conclude(attempt, Release(), Effects(bill=Bill(attempt.charges, frees=attempt.take_ticket())))

    def _needs_thread_first(self, attempt: Attempt) -> bool:
        """Whether a task is of those that are claimed for a free thread. Others would be claimed again at once."""
        return self.claims.free_threads is not None and not attempt.stage.is_async and attempt.lease.stage is None

    def _give_back_ticket(self, attempt: Attempt) -> None:
        """Give back one whose stage waits for a thread, if it does."""
        if attempt.take_ticket():
            attempt.ended = True
            attempt.context.end()
            self._conclude(attempt, Release(), NOTHING_DONE)

    def _give_back_unbegun(self) -> None:
        while (attempt := self.claims.give_up()) is not None:
            self._give_back(attempt)

    def _give_back(self, attempt: Attempt) -> None:
        """Give back one that has not begun, or waits to go on."""
        self._attempts[attempt.lease.task] = attempt
        self._conclude(attempt, Release(), NO_EFFECTS if attempt.ended else NOTHING_DONE)
