"""The working part of a process: claims ahead of its free slots, runs stages, hands what they say to the committer.

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

from onceward.config import Config
from onceward.context import Context, current
from onceward.errors import ConfigError, LeaseLost, PayloadError
from onceward.logs import EngineLog
from onceward.model.budget import NOT_BEGUN, Bill
from onceward.model.cache import Cached
from onceward.model.decide import after_crash, after_error, after_failure, exhausted, readable
from onceward.model.gates import BUDGET, Told
from onceward.model.lineage import Family
from onceward.model.outcome import Failed, Filtered, SchemaMismatch, Skipped, Verdict, Waiting, unwrapped
from onceward.model.pause import NO_PAUSES
from onceward.model.retry import described
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
from onceward.model.time_limits import after_last_stage, exceeded, in_time, limit_at_expiry
from onceward.model.times import spoken
from onceward.stage import NOTHING
from onceward.store.commits import Verdict as Written_
from onceward.store.reader import Line
from onceward.worker import points
from onceward.worker.attempt import Attempt, StageTimeout
from onceward.worker.committer import Wish, Written
from onceward.worker.desk import AttemptDesk
from onceward.worker.isolated import ProcessDied, RemoteError, Stored, run_isolated
from onceward.worker.presence import NO_LIMIT, Presence
from onceward.worker.registry import Registry
from onceward.worker.spawner import Spawner
from onceward.worker.telling import told_of, unused

TICK_S = 0.05
AHEAD_S = 0.05
MOST_AHEAD = 400
LOW_CLAIM_STEP = 64
UNWRITABLE = "what came of it could not be written; the log of its worker says why"

_KEEPS_EFFECTS = (Filtered, Skipped, Failed, Waiting)
_NOT_BEGUN = Effects(bill=NOT_BEGUN)
logger = EngineLog("onceward.worker")


class Runner:
    """Runs the tasks of one process. `submit` and `wish` lead to the committer, `delivered` comes back from it."""

    def __init__(
        self,
        registry: Registry,
        config: Config,
        *,
        queues: list[str],
        submit: Callable[[Commit, Callable[[Written_], None]], None],
        wish: Callable[[Wish], None],
        threads: Any,
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
    ) -> None:
        self._registry = registry
        self._config = config
        self._queues = frozenset(queues)
        self._submit = submit
        self._wish = wish
        self._threads = threads
        self._now = now
        self._monotonic = monotonic
        self._presence = presence
        self._app_path = app_path
        self._suspects_only = suspects_only
        self._claims_left = most_claims
        self._ends_at = ends_at
        """When this worker ends by itself, on the clock that nobody sets; a stage begins only if it fits before."""
        self.is_out_of_time = False
        """Whether it has met a stage that does not fit into what is left of its time."""
        self.outcomes: Counter[str] = Counter()
        """How many attempts have ended, and how."""
        self._isolates = isolates
        self._dice = dice or random.Random()
        self._loop = asyncio.get_running_loop()
        self._attempts: dict[int, Attempt] = {}
        self._desk = AttemptDesk(
            self._attempts, submit, read, look_up, setting, monotonic, presence, spawner, now, pass_time
        )
        self._buffer: deque[Attempt] = deque()
        self._reserved = 0
        """Slots that are kept for governed work: it is there, but is only claimed for a free slot."""
        self._pauses = NO_PAUSES
        self._closing = 0
        self._asked = False
        self._more = True
        self._look_after_answer = False
        self._news: Line | None = None
        self._rate = 0.0
        self._finished = 0
        self._measured_at = monotonic()
        self._open_claims: dict[bytes, list[int]] = {}
        self._no_new_claims = False
        self.look_for_suspects = not suspects_only
        self.has_zombie_thread = False
        self.next_due_at: int | None = None
        self.low_claim = self._low_claim_told = 0
        self.changed = asyncio.Event()
        """Set when something has ended or nothing was found: whoever waits for idleness looks again."""

    def adopt(self, config: Config) -> None:
        """Go on under other numbers. What runs goes on, even if fewer may run at once now."""
        self._config = config
        self.pump()

    # Claiming

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs, waits for its commit, or could be claimed as far as is known."""
        return not (self._attempts or self._buffer or self._closing or self._asked or self._more)

    @property
    def is_drained(self) -> bool:
        """Whether nothing runs or waits for its commit."""
        return not (self._attempts or self._closing or self._asked)

    @property
    def has_had_enough(self) -> bool:
        """Whether it has claimed as much as it may."""
        return self._claims_left == 0

    @property
    def wants_more(self) -> bool:
        """Whether there is room, and the lines seemed empty when last looked at."""
        return not (self._more or self._asked or self._no_new_claims)

    @property
    def running(self) -> list[int]:
        """The tasks being worked on."""
        return list(self._attempts)

    def runs_under(self, task: int, token: bytes) -> bool:
        """Whether a stage of a task still runs here under a token."""
        attempt = self._attempts.get(task)
        return attempt is not None and attempt.lease.token == token and not attempt.ended

    def look_again(self, line: Line | None = None) -> None:
        """There may be new work, in a line that is perhaps known."""
        self._more = True
        self._look_after_answer = self._asked
        self._news = line
        self.pump()

    def pump(self) -> None:
        """Start what can start, and ask for more where there is room."""
        while self._buffer and len(self._attempts) < self._slots_for(self._buffer[0]):
            self._begin(self._buffer.popleft())
        if self._asked or self._no_new_claims or not self._more or self.has_had_enough:
            return
        if self._suspects_only or self.look_for_suspects:
            # Suspects have the process to themselves.
            if not (self._attempts or self._buffer or self._closing):
                self._asked = True
                self._wish(Wish(0, suspects=True))
            return
        ahead = min(MOST_AHEAD, int(self._rate * AHEAD_S))
        room = self._config.concurrency + ahead - len(self._attempts) - len(self._buffer)
        slots = max(0, self._config.concurrency - len(self._attempts))
        if self._claims_left is not None:
            room, slots = min(room, self._claims_left), min(slots, self._claims_left)
        if room > 0 and (not self._buffer or room * 2 >= ahead or (self._reserved and slots)):
            self._asked = True
            self._wish(Wish(room, slots, line=self._news))
            self._news = None

    def _slots_for(self, attempt: Attempt) -> int:
        """How many may run if the next is this one."""
        concurrency = self._config.concurrency
        return concurrency if attempt.lease.gates is not None else max(1, concurrency - self._reserved)

    def delivered(self, written: Written) -> None:
        """A transaction has been committed: tell the attempts, take what was claimed."""
        if written.pauses is not None:
            self._pauses = written.pauses
        if written.asked is not None:
            self._asked = False
            self._take(written)
        for item, verdict in zip(written.items, written.verdicts, strict=True):
            item.answer(verdict)
        self._measure()
        self.pump()
        if self.is_quiet or not written.claimed.leases:
            self.changed.set()

    def _take(self, written: Written) -> None:
        claimed, wish = written.claimed, written.asked
        assert wish is not None
        if claimed.leases:
            if self._claims_left is not None:
                self._claims_left = max(0, self._claims_left - len(claimed.leases))
            points.reach("after claim")
            self._open_claims[claimed.leases[0].token] = [claimed.seq, len(claimed.leases)]
            attempts = [
                Attempt(lease, claimed.parts.get(lease.task, []), claimed.signals.get(lease.task, {}))
                for lease in claimed.leases
            ]
            self._buffer.extend(one for one in attempts if one.lease.gates is None)
            self._buffer.extendleft(one for one in reversed(attempts) if one.lease.gates is not None)
        elif wish.suspects:
            self.look_for_suspects = False
            self._more = not self._suspects_only
        if not wish.suspects and wish.line is None and len(claimed.leases) < wish.count:
            self._more = False
            self.next_due_at = written.next_due_at
        self._reserved = min(claimed.held_back, max(1, self._config.concurrency // 4))
        if self._reserved:
            self._more = True
        if self._look_after_answer:  # whoever claimed may have looked before the new work was there
            self._look_after_answer = False
            self._more = True
        if self._no_new_claims:
            self._give_back_buffer()

    def _measure(self) -> None:
        now = self._monotonic()
        elapsed = now - self._measured_at
        if elapsed >= 20:
            self._rate = 0.5 * self._rate + 0.5 * (self._finished * 1_000 / elapsed)
            self._finished = 0
            self._measured_at = now

    def _close_claim(self, lease: Lease) -> None:
        """One more task of a claim is over. When all are, a dead worker's heirs need not look at that claim."""
        claim = self._open_claims.get(lease.token)
        if claim is None:
            return
        claim[1] -= 1
        if claim[1] == 0:
            del self._open_claims[lease.token]
            oldest = min((seq for seq, _ in self._open_claims.values()), default=claim[0] + 1)
            if oldest >= self._low_claim_told + LOW_CLAIM_STEP:
                self.low_claim = self._low_claim_told = oldest

    # One attempt

    def _begin(self, attempt: Attempt) -> None:
        lease = attempt.lease
        self._attempts[lease.task] = attempt
        pipeline = attempt.pipeline = self._registry[lease.kind]
        if lease.expiry is not None:
            self._begin_last_stage(attempt)
            return
        try:
            payload = pipeline.read(lease.payload, lease.version)
            attempt.stage = stage = pipeline.stage_named(lease.stage)
            if attempt.parts or stage is not pipeline.stages[0]:
                pipeline.check_stored(attempt.parts, stage)
            gates = pipeline.gates_of(stage, payload)
            belongs_elsewhere = stage.queue not in self._queues or gates != lease.gates
            estimate = stage.costs.estimate(payload) if belongs_elsewhere else None
        except (SchemaMismatch, Exception) as error:  # the application's own types may raise anything when read
            self._conclude(attempt, self._judged(attempt, error, lease.stage or pipeline.stages[0].name), _NOT_BEGUN)
            return
        if belongs_elsewhere:
            # It stood in a line of ours by an old place, or the code has another place for its stage now.
            self._conclude(attempt, Release(stage.queue, gates, estimate), _NOT_BEGUN)
            return
        if lease.fence > 1 and self._now() >= lease.clock_at + (limit_ms := self._limit_ms(attempt)):
            told = () if lease.gates is None else unused(lease, self._registry.limits_of)
            self._conclude(attempt, Expire(stage.name, exceeded(limit_ms)), _NOT_BEGUN._replace(told=told))
            return
        retries = pipeline.retry.retries
        if retries is not None and lease.failures > retries:
            reason = exhausted(retries, "it ignored its time limit and its worker had to be killed")
            self._conclude(attempt, Finish(stage.name, None, Status.FAILED, reason), _NOT_BEGUN)
            return
        attempt.context = Context(payload, lease, stage, attempt.parts, attempt.signals, self._desk)
        self._run(attempt)

    def _begin_last_stage(self, attempt: Attempt) -> None:
        """The time of a task was over: what its pipeline does then, if this code still has such a thing."""
        lease, pipeline, stage = attempt.lease, attempt.pipeline, attempt.pipeline.last_stage
        if stage is None:
            self._conclude(attempt, after_last_stage(None, lease, attempt.place), _NOT_BEGUN)
            return
        try:
            payload = pipeline.read(lease.payload, lease.version)
            gates = pipeline.gates_of(stage, payload)
            estimate = stage.costs.estimate(payload) if gates != lease.gates else None
        except (SchemaMismatch, Exception) as error:  # as above
            self._conclude(attempt, self._judged(attempt, error, stage.name), _NOT_BEGUN)
            return
        if gates != lease.gates:
            self._conclude(attempt, Release(lease.queue, gates, estimate), _NOT_BEGUN)
            return
        attempt.stage = stage
        attempt.context = Context(payload, lease, stage, attempt.parts, attempt.signals, self._desk)
        self._run(attempt)

    def _limit_ms(self, attempt: Attempt) -> int:
        limit_ms = attempt.pipeline.limit_ms(self._config.task_limit_ms)
        return limit_ms if attempt.lease.expiry is None else limit_at_expiry(limit_ms)

    def _run(self, attempt: Attempt) -> None:
        stage = attempt.stage
        if self._ends_at < NEVER and not self._fits(stage):
            # Whoever is taken next would be given back as well: the rest is for the next worker.
            self._claims_left = 0
            self.is_out_of_time = True
            self._conclude(attempt, Release(), NO_EFFECTS)
            return
        attempt.ended = attempt.timed_out = False
        if stage.isolation is not None and self._isolates:
            self._start_clock(attempt)
            attempt.task = self._loop.create_task(self._run_isolated(attempt))
        elif stage.is_async:
            self._start_clock(attempt)
            attempt.task = self._loop.create_task(self._run_async(attempt))
        else:
            attempt.task = attempt.limit_at = None
            attempt.ticket = [None]
            self._threads.submit(
                lambda: self._run_in_thread(attempt),
                lambda value, error: self._ended(attempt, stage, value, error),
            )

    def _fits(self, stage: Any) -> bool:
        """Whether a stage would end before this worker does. One that declares no timeout takes what is left."""
        return stage.timeout_ms is None or self._monotonic() + stage.timeout_ms <= self._ends_at

    def _start_clock(self, attempt: Attempt) -> None:
        """From here on the stage is running: its time limit counts, and it is a suspect if the process dies."""
        stage = attempt.stage
        attempt.started_at = self._monotonic()
        attempt.timeout_ms = stage.limit_ms(self._config.stage_timeout_ms)
        attempt.over_at = attempt.started_at + attempt.lease.clock_at + self._limit_ms(attempt) - self._now()
        attempt.limit_at = attempt.limit_from(attempt.started_at)
        if self._presence is not None:
            attempt.slot = self._presence.enter(attempt.lease.task, attempt.limit_at or NO_LIMIT)
        if points.hook is not None:
            points.reach(f"before {stage.name}")

    def _run_in_thread(self, attempt: Attempt) -> Any:
        if not attempt.take_ticket():
            raise LeaseLost(f"task {attempt.lease.task} was given back before its stage began")
        self._start_clock(attempt)
        current.set(attempt.context)
        return attempt.stage.function(attempt.context)

    async def _run_async(self, attempt: Attempt) -> None:
        stage = attempt.stage
        current.set(attempt.context)
        try:
            value = await stage.function(attempt.context)
        except BaseException as error:  # a verdict, an error, a cancellation: all belong to the stage
            self._ended(attempt, stage, None, error)
        else:
            self._ended(attempt, stage, value, None)

    async def _run_isolated(self, attempt: Attempt) -> None:
        stage = attempt.stage
        try:
            value = await run_isolated(attempt, self._app_path, self._desk)
        except BaseException as error:  # as above; a death of its process is an error too, of a kind of its own
            self._ended(attempt, stage, None, error)
        else:
            self._ended(attempt, stage, value, None)

    def _ended(self, attempt: Attempt, stage: Any, value: Any, error: BaseException | None) -> None:
        """A stage has returned or raised. What a stage says after its time, or without its lease, is not heard."""
        if attempt.ended or attempt.stage is not stage:
            return
        attempt.ended = True
        self._leave_slot(attempt)
        if points.hook is not None:
            points.reach(f"after {stage.name}")
        effects = attempt.context.end()
        attempt.bill = effects.bill
        if attempt.lost:
            self._forget(attempt)
            return
        if attempt.timed_out:
            late = f"took longer than {spoken(attempt.timeout_ms or 0)}"
            if self._monotonic() >= attempt.over_at:
                late = "was running when the time of its task was over"
            error = StageTimeout(f"stage {stage.name!r} {late}")
        error = None if error is None else unwrapped(error)
        told = () if attempt.lease.gates is None and not effects.told else self._told(attempt, error, effects.told)
        if error is None:
            self._conclude(attempt, self._advanced(attempt, value), self._to_commit(attempt, effects, told, True))
            return
        move = self._judged(attempt, error, stage.name)
        keeps = isinstance(error, _KEEPS_EFFECTS)
        self._conclude(attempt, move, self._to_commit(attempt, effects if keeps else NO_EFFECTS, told, keeps))

    def _to_commit(self, attempt: Attempt, effects: Effects, told: tuple[Told, ...], frees: bool) -> Effects:
        """What is committed with the end of a stage. What it has charged is, also where everything else is dropped."""
        if not told and not (attempt.lease.gates and BUDGET in attempt.lease.gates):
            return effects
        return effects._replace(told=told, bill=Bill(attempt.charges, frees))

    def _told(self, attempt: Attempt, error: BaseException | None, noted: tuple[Told, ...]) -> tuple[Told, ...]:
        """What the sources hear of a stage: of each call that was noted, or of the stage as a whole."""
        as_a_whole = told_of(attempt.lease, attempt.stage, attempt.pipeline.retry, error, self._now())
        if as_a_whole is None or any(one.gate == as_a_whole.gate for one in noted):
            return noted
        return (*noted, as_a_whole)

    def _advanced(self, attempt: Attempt, value: Any) -> Move:
        stage = attempt.stage
        if attempt.lease.expiry is not None:
            return after_last_stage(None, attempt.lease, attempt.place)
        try:
            data = value.data if isinstance(value, Stored) else stage.stored(value)
        except (PayloadError, ConfigError) as error:
            return Finish(stage.name, None, Status.FAILED, readable(str(error)))
        except Exception as error:  # the application's own types may raise anything when read back
            return self._judged(attempt, error, stage.name)
        following = attempt.pipeline.stage_after(stage)
        if following is None:
            return Finish(stage.name, None if data == NOTHING else data, Status.SUCCEEDED, None)
        try:
            gates = attempt.pipeline.gates_of(following, attempt.context.payload)
            estimate = following.costs.estimate(attempt.context.payload)
        except Exception as error:  # the application's own functions say which instance of a source it is, and its cost
            return self._judged(attempt, error, stage.name)
        passes_anew = following.source is not None or following.costs.is_governed
        stays = gates is None or (gates == attempt.lease.gates and not passes_anew)
        if following.queue in self._queues and stays and not following.joins:
            queue = None if following.queue == attempt.lease.queue else following.queue
            return Advance(stage.name, data, following.name, queue, gates)
        place = (following.queue, following.joins, gates, estimate)
        return HandOver(stage.name, data, following.name, *place)

    def _judged(self, attempt: Attempt, error: BaseException, stage: str) -> Move:
        """What becomes of a task whose stage has raised; its time is looked at wherever it would be tried again."""
        lease = attempt.lease
        move = in_time(self._after(attempt, error, stage), lease, self._limit_ms(attempt), self._now())
        return move if lease.expiry is None else after_last_stage(move, lease, attempt.place)

    def _after(self, attempt: Attempt, error: BaseException, stage: str) -> Move:
        pipeline = attempt.pipeline
        if isinstance(error, ProcessDied):
            return after_crash(attempt.lease, stage, self._config.max_lost_workers, str(error))
        if isinstance(error, RemoteError):
            logger.info("stage failed", task=attempt.lease.task, kind=attempt.lease.kind, stage=stage, error=str(error))
            if error.is_permanent:
                return Finish(stage, None, Status.FAILED, readable(str(error)))
            after_ms = None if error.retry_after is None else round(error.retry_after * 1_000)
            return after_failure(str(error), attempt.lease, stage, pipeline.retry, after_ms, self._now(), self._dice)
        if not isinstance(error, Verdict):
            logger.info(
                "stage failed", task=attempt.lease.task, kind=attempt.lease.kind, stage=stage, error=described(error)
            )
        fingerprint = pipeline.fingerprint if isinstance(error, SchemaMismatch) else ""
        return after_error(error, attempt.lease, stage, pipeline.retry, fingerprint, self._now(), self._dice)

    def _conclude(self, attempt: Attempt, move: Move, effects: Effects) -> None:
        """Have a move written. Unless the task goes on here, its slot is free at once."""
        goes_on = type(move) is Advance
        if type(move) is Release and attempt.lease.gates is not None and not effects.told:
            effects = effects._replace(told=unused(attempt.lease, self._registry.limits_of))
        if not goes_on and self._attempts.pop(attempt.lease.task, None) is not None:
            self._closing += 1
            self._finished += 1
        self._submit(
            Commit(attempt.lease, move, *effects),
            lambda verdict: self._after_commit(attempt, move, verdict, effects.spawns is not None),
        )
        if not goes_on and self._buffer:
            self.pump()

    def _after_commit(self, attempt: Attempt, move: Move, verdict: Written_, has_children: bool) -> None:
        if isinstance(verdict, Exception):
            self._after_refusal(attempt, move, verdict)
            return
        if verdict and not self._more and (has_children or self._may_have_woken(attempt, move)):
            self._more = True  # also a gate may have room again, or its next stage stand in a line behind one
        if type(move) is Advance and verdict:
            if isinstance(verdict, Family):
                attempt.lease = msgspec.structs.replace(attempt.lease, family=verdict)
            if attempt.lost or self._no_new_claims or self._is_paused(attempt, move, verdict):
                self._advance(attempt, move)
                self._conclude(attempt, Release(), NO_EFFECTS)
                return
            self._advance(attempt, move)
            self._run(attempt)
            return
        if type(move) is Advance:
            self._attempts.pop(attempt.lease.task, None)
        else:
            self._closing -= 1
        self._close_claim(attempt.lease)
        if self._ends_at < NEVER:
            self.outcomes[_outcome(move) if verdict else "lost"] += 1
        if not verdict:
            logger.warning("lease lost, nothing was written", task=attempt.lease.task, kind=attempt.lease.kind)
        elif type(move) is not Finish:
            self._look_again_for(move)

    def _is_paused(self, attempt: Attempt, move: Advance, verdict: Written_) -> bool:
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
        return attempt.lease.parent is not None or attempt.pipeline.unique == "everywhere"

    def _after_refusal(self, attempt: Attempt, move: Move, error: Exception) -> None:
        """The database refuses a move, most often for its domain rows: an error of the stage, and nothing was kept.

        If that cannot be written either, the task fails in words that can: as it is, nobody would look after it.
        """
        if type(move) is not Advance:
            self._closing -= 1
            self._attempts[attempt.lease.task] = attempt
        attempt.refusals += 1
        stage: str | None = getattr(move, "stage", None)
        if stage is not None and attempt.refusals == 1:
            self._conclude(attempt, self._judged(attempt, error, stage), Effects(bill=Bill(attempt.charges)))
            return
        logger.error("a move could not be written", task=attempt.lease.task, error=described(error))
        if stage is not None and attempt.refusals == 2:
            unwritable = Finish(stage, None, Status.FAILED, UNWRITABLE)
            self._conclude(attempt, unwritable, Effects(bill=Bill(attempt.charges)))
        else:
            self._forget(attempt)

    def _look_again_for(self, move: Move) -> None:
        """A task will be back in line by a commit of our own, of which nobody else tells us."""
        if isinstance(move, TryAgain | Defer):
            at = move.due_at
        elif isinstance(move, Park | Crash | Expire):  # what it waits for may have come already
            at = self._now()
        else:
            return
        self.next_due_at = at if self.next_due_at is None else min(self.next_due_at, at)

    def _advance(self, attempt: Attempt, move: Advance) -> None:
        attempt.finished_stage(move.stage, move.value)
        attempt.lease = lease = msgspec.structs.replace(
            attempt.lease,
            stage=move.next_stage,
            queue=move.queue or attempt.lease.queue,
            gates=move.gates,
            failures=0,
            crashes=0,
            company=0,
            touched=1,
            clock_at=self._now(),
        )
        attempt.stage = stage = attempt.pipeline.stage_named(move.next_stage)
        payload = attempt.context.payload
        attempt.context = Context(payload, lease, stage, attempt.parts, attempt.signals, self._desk)

    def _leave_slot(self, attempt: Attempt) -> None:
        if attempt.slot is not None and self._presence is not None:
            self._presence.leave(attempt.slot)
            attempt.slot = None

    def _forget(self, attempt: Attempt) -> None:
        """An attempt is over without a word: its lease is somebody else's."""
        self._leave_slot(attempt)
        if self._attempts.pop(attempt.lease.task, None) is not None:
            self._close_claim(attempt.lease)
        self.changed.set()

    # Time limits and lost leases

    def held_for(self, at_least_ms: int) -> list[Lease]:
        """The leases whose stages have been running for a while: those worth asking the database about."""
        before = self._monotonic() - at_least_ms
        return [attempt.lease for attempt in list(self._attempts.values()) if attempt.started_at <= before]

    def tick(self) -> None:
        """Cancel the stages whose time is up."""
        now = self._monotonic()
        for attempt in list(self._attempts.values()):
            if attempt.limit_at is not None and now >= attempt.limit_at and not (attempt.ended or attempt.timed_out):
                attempt.timed_out = True
                if attempt.task is not None:
                    attempt.task.cancel()
                else:
                    # A thread cannot be stopped. Its stage has failed all the same, and what it says is not heard.
                    self.has_zombie_thread = True
                    self._threads.abandon_one()
                    self._ended(attempt, attempt.stage, None, None)

    def lost(self, tasks: set[int]) -> None:
        """Leases are gone (cancelled, or reclaimed by somebody): stop working on them."""
        for task in tasks:
            attempt = self._attempts.get(task)
            if attempt is None or attempt.lost:
                continue
            attempt.take_ticket()
            attempt.lost = True
            logger.warning(
                "lease lost, stopping the stage", task=task, kind=attempt.lease.kind, stage=attempt.stage.name
            )
            if attempt.task is not None:
                attempt.task.cancel()
            elif not attempt.ended:
                attempt.context.end()
                self._forget(attempt)

    # Ending

    def stop_claiming(self) -> None:
        """Take nothing more, and give back what has not begun."""
        self._no_new_claims = True
        self._give_back_buffer()
        for attempt in list(self._attempts.values()):
            if attempt.take_ticket():
                attempt.ended = True
                attempt.context.end()
                self._conclude(attempt, Release(), _NOT_BEGUN)

    def release_all(self) -> None:
        """Give back everything at once; no attempt is burned."""
        self._no_new_claims = True
        points.reach("before release")
        self._give_back_buffer()
        for attempt in list(self._attempts.values()):
            if attempt.ended:
                continue  # its commit is under way
            attempt.ended = True
            attempt.bill = attempt.context.end().bill
            if attempt.task is not None:
                attempt.task.cancel()
            self._leave_slot(attempt)
            self._conclude(attempt, Release(), Effects(bill=Bill(attempt.charges, frees=attempt.take_ticket())))

    def _give_back_buffer(self) -> None:
        while self._buffer:
            attempt = self._buffer.popleft()
            self._attempts[attempt.lease.task] = attempt
            self._conclude(attempt, Release(), _NOT_BEGUN)


_OUTCOMES: dict[type[Move], str] = {
    Release: "released",
    TryAgain: "retryable",
    Defer: "deferred",
    HandOver: "handed over",
    Park: "waiting",
    Crash: "crashed",
    Expire: "expired",
}


def _outcome(move: Move) -> str:
    """What has come of an attempt, in a word."""
    return move.status.word if isinstance(move, Finish) else _OUTCOMES.get(type(move), "lost")
