"""The working part of a process: has stages run, one after the other of each task, and what they say committed.

Everything here happens on one event loop. The next stage of a task starts only after its predecessor is durable; that
wait is hidden by the other tasks. Stages that only wait cost nothing but memory.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import msgspec

from onceward.authoring.lost_context import lose
from onceward.authoring.registry import Registry
from onceward.authoring.stage import Stage
from onceward.model.budget import Bill
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
    Move,
    Park,
    Release,
    TryAgain,
)
from onceward.model.times import duration_text
from onceward.settings.config import Config
from onceward.store.attempts.commit_results import CommitResult, GivenUp
from onceward.store.lines.memory import Line
from onceward.support.logs import EngineLog
from onceward.worker import crash_points, observing
from onceward.worker.attempt import Attempt, StageTimeout
from onceward.worker.claim_ahead import LATE_MS, ClaimAhead
from onceward.worker.decide_move import MoveDecider
from onceward.worker.desk import AttemptDesk
from onceward.worker.failures import LOGGED_MOVES, Failures, OnFailure
from onceward.worker.held_leases import HeldLeases
from onceward.worker.outcomes import outcome
from onceward.worker.prepare_attempt import NOTHING_DONE, AttemptPreparer
from onceward.worker.runner_ports import Place, Ports, Share
from onceward.worker.source_reports import token_refunds
from onceward.worker.stage_runs import StageRuns
from onceward.worker.writer import Wish, Written

TICK_S = 0.05
LONGEST_PAUSE_S = 60.0  # between two tries to write the end of a task that the database refuses
MOST_CLOSING = 1_000
"""How many ended attempts may wait for their commit before no more work is claimed."""
UNWRITABLE = "what came of it could not be written; the log of its worker says why"

logger = EngineLog("onceward.worker")


class Runner:
    """Runs the tasks of one process. Its ports lead to the committer, which comes back to `delivered`."""

    def __init__(
        self,
        registry: Registry,
        config: Config,
        ports: Ports,
        place: Place,
        share: Share,
        *,
        dice: random.Random | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        self._failures = Failures(on_failure)
        self._registry = registry
        self._submit, self._wish = ports.submit, ports.wish
        self._now, self._monotonic = ports.now, ports.monotonic
        self._ends_at = share.ends_at
        self.is_out_of_time = False
        """Whether it has met a stage that does not fit into what is left of its time."""
        self.outcomes: Counter[str] = Counter()
        """How many attempts have ended, and how."""
        self._attempts: dict[int, Attempt] = {}
        self.leases = HeldLeases(self._attempts, ports.monotonic)
        self._closing = 0
        """How many others have ended, and wait for their last commit."""
        self._committing = 0
        """How many of the attempts wait for the commit of a stage, to go on with the next. They need no slot."""
        self._pauses = NO_PAUSES
        self.claims = ClaimAhead(
            config, monotonic=ports.monotonic, suspects_only=share.suspects_only, most_claims=share.most_claims
        )
        self._desk = AttemptDesk(self._attempts, ports, place.presence)
        self._decider = MoveDecider(config, share.queues, ports.now, dice)
        self._preparer = AttemptPreparer(registry, share.queues, self._decider, self._desk, ports.now)
        self.runs = StageRuns(
            config,
            place,
            ended=self._ended,
            begin_next=self._begin_next,
            desk=self._desk,
            limit_ms=self._decider.limit_ms,
            monotonic=ports.monotonic,
        )
        self.changed = asyncio.Event()
        """Set when something has ended or nothing was found, for a loop that waits until it is idle."""

    def adopt(self, config: Config) -> None:
        """Go on under other numbers. What runs goes on, even if fewer may run at once now."""
        self.claims.config = self._decider.config = self.runs.config = config
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
        """How many attempts are in the way of claiming more; while stages are written, a few others may run."""
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
        self.runs.ahead_ms = self._now() - self._monotonic()
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
            # The next task would be given back as well: the rest is for the next worker.
            self.claims.have_enough()
            self.is_out_of_time = True
            self._conclude(attempt, Release(), NO_EFFECTS)
            return False
        return self.runs.start(attempt)

    def _fits(self, stage: Stage[Any, Any]) -> bool:
        """Whether a stage would end before this worker does. One that declares no timeout takes what is left."""
        return stage.timeout_ms is None or self._monotonic() + stage.timeout_ms <= self._ends_at

    def _ended(self, attempt: Attempt, stage: Stage[Any, Any], value: Any, error: BaseException | None) -> None:
        """A stage has returned or raised. What a stage says after its time, or without its lease, is not heard."""
        if attempt.ended or attempt.stage is not stage:
            return
        attempt.ended = True
        self.runs.leave(attempt)
        if crash_points.hook is not None:
            crash_points.reach(f"after {stage.name}")
        effects = attempt.context._end()
        attempt.bill = effects.bill
        if observing.observer is not None:
            observing.observer.ended(attempt)
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
        if observing.observer is not None:
            observing.observer.committed(attempt, move, verdict)
        if type(move) is Advance:
            self._committing -= 1
        else:
            self._closing -= 1
        if verdict is not True and isinstance(verdict, Exception):
            self._after_refusal(attempt, move, verdict)
            return
        if not self.claims.expects_more and verdict and (has_children or attempt.may_have_woken(move)):
            # Also a gate may have room again, or its next stage stand in a line behind one.
            self.claims.expects_more = True
        if type(move) is Advance and verdict:
            if isinstance(verdict, Family):
                attempt.lease = msgspec.structs.replace(attempt.lease, family=verdict)
            stays = not (attempt.lost or self.claims.is_closed or attempt.is_paused(move, verdict, self._pauses))
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
            self.leases.note_lost(attempt.lease)
            logger.warning("lease lost, nothing was written", task=attempt.lease.task, kind=attempt.lease.kind)
        elif type(move) is not Finish:
            if isinstance(move, TryAgain | Defer):  # it will be back in line, and no notification says so
                self.claims.look_again_at(move.due_at)
            elif isinstance(move, Park | Crash | Expire):  # what it waits for may have come already
                self.claims.look_again_at(self._now())
            if type(move) in LOGGED_MOVES:
                given_up = verdict.reason if isinstance(verdict, GivenUp) else None
                self._failures.tell(attempt, move, given_up, self._now())
        elif move.status is not Status.SUCCEEDED:
            self._failures.tell(attempt, move, None, self._now())

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

    def _forget(self, attempt: Attempt) -> None:
        """Forget an attempt whose lease was lost; nothing is written for it."""
        self.runs.leave(attempt)
        if self._attempts.pop(attempt.lease.task, None) is not None:
            self.claims.close_claim(attempt.lease)
        self.changed.set()

    # Time limits and lost leases

    def tick(self) -> None:
        """Cancel the stages whose time is up, and give back what has waited too long for a slot or a thread."""
        now = self._monotonic()
        self.runs.ahead_ms = self._now() - now
        for attempt in list(self._attempts.values()):
            self.runs.stop_if_late(attempt, now)
            if attempt.ticket and now - attempt.waits_since > LATE_MS and self._needs_thread_first(attempt):
                self.claims.slow_down()
                self._give_back_ticket(attempt)
        self.runs.look_behind(now)
        while (late := self.claims.give_up_late(now)) is not None:
            self._give_back(late)

    def lost(self, tasks: set[int]) -> None:
        """Stop working on tasks whose leases are gone, because they were cancelled or reclaimed."""
        for task in tasks:
            attempt = self._attempts.get(task)
            if attempt is None or attempt.lost:
                continue
            never_begins = attempt.take_ticket()
            if not attempt.ended:
                lose(attempt.context)
            attempt.lost = True
            self.leases.note_lost(attempt.lease)
            logger.warning(
                "lease lost, stopping the stage", task=task, kind=attempt.lease.kind, stage=attempt.stage.name
            )
            if attempt.task is not None:
                attempt.task.cancel()
            elif not attempt.ended:
                if not never_begins:
                    self.runs.leave_behind(attempt)
                self._forget(attempt)

    def lose_everything(self) -> None:
        """Stop all work: every lease is gone, also those of tasks that have not begun."""
        self.claims.is_closed = True
        while self.claims.give_up() is not None:
            pass
        self.lost(set(self._attempts))

    # Ending

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
            attempt.bill = attempt.context._end().bill
            if attempt.task is not None:
                attempt.task.cancel()
            self.runs.leave(attempt)
            self._conclude(attempt, Release(), Effects(bill=Bill(attempt.charges, frees=attempt.take_ticket())))

    def _needs_thread_first(self, attempt: Attempt) -> bool:
        """Whether a task is of those that are claimed for a free thread. Others would be claimed again at once."""
        return self.claims.free_threads is not None and not attempt.stage.is_async and attempt.lease.stage is None

    def _give_back_ticket(self, attempt: Attempt) -> None:
        """Give back one whose stage waits for a thread, if it does."""
        if attempt.take_ticket():
            attempt.ended = True
            attempt.context._end()
            self._conclude(attempt, Release(), NOTHING_DONE)

    def _give_back_unbegun(self) -> None:
        while (attempt := self.claims.give_up()) is not None:
            self._give_back(attempt)

    def _give_back(self, attempt: Attempt) -> None:
        """Give back one that has not begun, or waits to go on."""
        self._attempts[attempt.lease.task] = attempt
        self._conclude(attempt, Release(), NO_EFFECTS if attempt.ended else NOTHING_DONE)
