"""Workers: registers them, renews their leases, and takes back what stopped and dead workers held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.model.decide import lost_workers
from onceward.model.status import Event, Status
from onceward.model.task import Lease, lane_of
from onceward.store.attempts.engine_failures import EngineFailure
from onceward.store.attempts.expiry import schedule_time_checks
from onceward.store.drivers.session_errors import TryAgainLater
from onceward.store.history import Entry, log
from onceward.store.lineage.joins import EndedTask, propagate_ends
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Op, Query, Row
from onceward.store.rows import as_ids

OUTSIDE_KILLS_ALLOWED = 10
"""Most kills in a row, from outside, of a stage that runs alone; the kernel kills what takes too much memory."""

RETURN_MS = 60_000
"""For how long a server is up before the lock of a worker from before its restart is missed. A worker needs less to
notice that its connections are gone and to open others."""
LOCK_KEYS = 1 << 31


class StillBusy(Exception):
    """A worker that seems dead holds locks in the database; it cannot be buried now."""


@dataclass(frozen=True, slots=True)
class NewWorker:
    """A worker process that is about to begin."""

    name: str
    host: str
    pid: int
    presence: str | None
    kinds: str
    queues: str
    lease_ms: int


def register(worker: NewWorker, now: int) -> Op[int]:
    """Enter a worker; its id is new for every process that ever worked."""
    [(worker_id,)] = yield Query(
        "register_worker",
        {
            "name": worker.name,
            "host": worker.host,
            "pid": worker.pid,
            "presence": worker.presence,
            "kinds": worker.kinds,
            "queues": worker.queues,
            "lease_ms": worker.lease_ms,
            "now": now,
        },
    )
    return int(worker_id)


def renew(workers: Sequence[int], now: int) -> Op[set[int]]:
    """Renew all leases of some workers; returns the workers that are still registered as living.

    Raises `StillBusy` where one of them is stuck inside a transaction: the others must not wait for it.
    """
    yield Query("wait_briefly")
    try:
        rows = yield Query("renew", {"ids": list(workers), "now": now})
    except TryAgainLater as error:
        raise StillBusy("a worker is stuck inside a transaction") from error
    return {row[0] for row in rows}


def show_lock(worker: int, server_run: str | None, now: int) -> Op[None]:
    """Say on which run of the server a worker holds its lock, or that it holds none, and renew its leases.

    Raises `StillBusy` where it is stuck inside a transaction.
    """
    yield Query("wait_briefly")
    try:
        yield Query("show_lock", {"worker": worker, "run": server_run, "now": now})
    except TryAgainLater as error:
        raise StillBusy("a worker is stuck inside a transaction") from error


@dataclass(frozen=True, slots=True)
class HeldLocks:
    """The locks that workers hold at one moment, on one run of the server."""

    server_run: str
    up_ms: int
    workers: frozenset[int]

    def is_missing(self, worker: int, server_run: str) -> bool:
        """Whether a worker that has held its lock on that run of the server holds it no more.

        A lock is gone with its server, and a standby has never had it: then nothing is known, until the worker has had
        the time to return.
        """
        is_same = server_run == self.server_run
        has_restarted = server_run.split()[0] == self.server_run.split()[0] and self.up_ms >= RETURN_MS
        return (is_same or has_restarted) and worker % LOCK_KEYS not in self.workers


def held_locks() -> Op[HeldLocks | None]:
    """Which locks are held now; None on SQLite, where there are none."""
    rows = yield Query("held_locks")
    if not rows:
        return None
    return HeldLocks(rows[0][0], rows[0][1], frozenset(row[2] for row in rows if row[2] is not None))


def still_held(leases: Sequence[Lease]) -> Op[set[int]]:
    """The tasks of those leases that still stand."""
    rows = yield Query("still_held", {"ids": [lease.task for lease in leases]})
    tokens = {task: bytes(token) for task, token in rows}
    return {lease.task for lease in leases if tokens.get(lease.task) == lease.token}


def mark_low_claim(worker: int, seq: int) -> Op[None]:
    """Note that claims before this one hold nothing any more."""
    yield Query("mark_low_claim", {"worker": worker, "low_claim": seq})


def stop(worker: int, how: str, now: int) -> Op[None]:
    """Stop a worker, and put back in line what it still holds.

    No sweep looks at a stopped worker, so no lease of it may be left.
    """
    rows = yield Query("stop_worker", {"worker": worker, "how": how, "now": now})
    if rows:
        yield from _release(worker, (yield from _held(worker, rows[0][1])), now)


def give_back(leases: Sequence[Lease], now: int) -> Op[int]:
    """Put tasks that are still under these leases back in line; returns their number."""
    held: list[tuple[bytes, Row]] = []
    for lease in leases:
        found = yield Query("held_by_claim", {"ids": [lease.task], "token": lease.token})
        held += [(lease.token, row) for row in found]
    if held:
        yield from _release(leases[0].worker, held, now)
    return len(held)


def _release(worker: int, held: Sequence[tuple[bytes, Row]], now: int) -> Op[None]:
    """Put tasks of a living worker back in line."""
    entries: list[Entry] = []
    placements: list[Placement] = []
    for token, row in held:
        task, run, fence, kind, queue, band, rank, stage, _crashes, company = row
        yield Query("take_back", {"ids": [task], "token": token, "now": now})
        entries.append(Entry(task, run, fence, Event.RELEASED, Status.PENDING, stage, worker, now, None))
        lane = lane_of(queue, kind, suspect=company > 0)
        placements.append(Placement(task, lane, band, company or rank, now))
    yield from log(entries)
    yield from put_in_line(placements, now)
    yield from schedule_time_checks([one.task for one in placements], now)


def _held(worker: int, low_claim: int) -> Op[list[tuple[bytes, Row]]]:
    """Read the tasks that a worker holds, each with the token of its lease."""
    held: list[tuple[bytes, Row]] = []
    for token, tasks in (yield Query("claims_of_worker", {"worker": worker, "low_claim": low_claim})):
        found = yield Query("held_by_claim", {"ids": as_ids(tasks), "token": bytes(token)})
        held += [(bytes(token), row) for row in found]
    return held


@dataclass(frozen=True, slots=True)
class LivingWorker:
    """A living worker as the sweeper reads it."""

    id: int
    name: str
    host: str
    pid: int
    presence: str | None
    server_run: str | None
    """The run of the PostgreSQL server on which it holds its lock, if it does."""
    beat: int
    beat_at: int
    lease_ms: int


def living_workers() -> Op[list[LivingWorker]]:
    """All workers that have neither stopped nor been declared dead."""
    rows = yield Query("living_workers")
    return [LivingWorker(*fields) for *fields, _low_claim in rows]


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of how a worker died."""

    how: str
    started: frozenset[int] | None
    """The tasks whose stages were running; None if that is unknown, and then all that it held are suspects."""
    overdue: frozenset[int] = frozenset()
    """Tasks that had ignored their time limit, if the worker was killed for that."""
    by_outsider: bool = False
    """Whether a process outside has killed it, so that no stage is likely to be the cause."""


@dataclass(frozen=True, slots=True)
class BuriedWorker:
    """What was taken back from a dead worker."""

    worker: str
    released: int = 0
    suspects: int = 0
    timed_out: int = 0
    quarantined: tuple[int, ...] = ()
    failures: tuple[EngineFailure, ...] = ()
    """Tasks whose attempt has failed by that, with the quarantined ones."""


def bury(
    worker: LivingWorker, death: Death, deaths_allowed: int, retry_delay_ms: Callable[[int], int], now: int
) -> Op[BuriedWorker | None]:
    """Declare a worker dead and put what it held back in line; None if it turns out to be alive or buried already.

    Raises `StillBusy` where a transaction of it is still open: a worker that was frozen inside a commit keeps its
    locks, and a sweeper that waited for them could not renew its own leases.
    """
    yield Query("wait_briefly")
    try:
        return (yield from _bury(worker, death, deaths_allowed, retry_delay_ms, now))
    except TryAgainLater as error:
        raise StillBusy(f"{worker.name} {death.how}, but a transaction of it is still open") from error


def _bury(
    worker: LivingWorker, death: Death, deaths_allowed: int, retry_delay_ms: Callable[[int], int], now: int
) -> Op[BuriedWorker | None]:
    """Take all tasks back from a dead worker (decision 7).

    A task that had not started goes back as if nothing had happened. A task that ran gets a crash mark and runs with
    half as many neighbours next time, in the end alone; only a death while alone counts, and a kill from outside does
    not, up to a limit. After a kill for an ignored time limit that task has one failure, and its neighbours none.
    """
    rows = yield Query("bury_worker", {"worker": worker.id, "beat": worker.beat, "how": death.how, "now": now})
    if not rows:
        return None
    held = yield from _held(worker.id, rows[0][2])
    suspects = _suspects(held, death)
    kills = 0
    if len(suspects) == 1 and death.by_outsider:
        [(marks,)] = yield Query("crash_marks", {"task": min(suspects)})
        kills = marks + 1
    counts = len(suspects) == 1 and (not death.by_outsider or kills >= OUTSIDE_KILLS_ALLOWED)
    burial = _Burial(worker, death, suspects, now)
    for token, row in held:
        task = HeldTask(*row)
        if task.id in death.overdue:
            yield from burial.time_out(token, task, now + retry_delay_ms(1))
        elif task.id in suspects and counts:
            yield from burial.count_crash(token, task, kills or task.crashes + 1, deaths_allowed, is_last=kills > 0)
        else:
            burial.take_back(token, task)
    for token, tasks in burial.plain.items():
        yield Query("take_back", {"ids": tasks, "token": token, "now": now})
    if suspects and not counts:
        yield Query("suspect", {"ids": sorted(suspects), "company": _company_of(len(suspects))})
    yield from log(burial.entries)
    yield from propagate_ends(burial.ended, now)
    yield from put_in_line(burial.placements, now)
    yield from schedule_time_checks([one.task for one in burial.placements], now)
    quarantined = tuple(one.task for one in burial.failures if one.status is Status.FAILED)
    return BuriedWorker(
        worker.name, burial.released, len(suspects), burial.timed_out, quarantined, tuple(burial.failures)
    )


class HeldTask(NamedTuple):
    """A task that a dead worker still holds."""

    id: int
    run: int
    fence: int
    kind: str
    queue: str
    band: int
    rank: int
    stage: str | None
    crashes: int
    company: int


@dataclass(slots=True)
class _Burial:
    """The tasks of a dead worker on their way back: their log rows, their places in line, their ends."""

    worker: LivingWorker
    death: Death
    suspects: Collection[int]
    now: int
    failures: list[EngineFailure] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    ended: list[EndedTask] = field(default_factory=list)
    plain: dict[bytes, list[int]] = field(default_factory=dict)
    """Tasks that go back as they are, by their tokens."""
    timed_out: int = 0
    released: int = 0

    def time_out(self, token: bytes, task: HeldTask, due_at: int) -> Op[None]:
        """Give a task one failure: its worker was killed because it ignored its time limit."""
        self.timed_out += 1
        change = {"task": task.id, "token": token, "due_at": due_at, "reason": self.death.how}
        yield Query("record_timeout", change)
        self.failures.append(EngineFailure(task.id, Status.RETRYABLE, self.death.how))
        self._note(task, Event.TIMED_OUT, Status.RETRYABLE)
        self._place(task, due_at=due_at)

    def count_crash(self, token: bytes, task: HeldTask, lost: int, deaths_allowed: int, *, is_last: bool) -> Op[None]:
        """Count a death of its worker against a task that ran alone; too many of them fail it."""
        reason = lost_workers(lost)
        status = Status.FAILED if is_last or lost >= deaths_allowed else Status.PENDING
        ended_at = self.now if status is Status.FAILED else None
        change = {"status": int(status), "company": 1, "reason": reason, "ended_at": ended_at}
        rows = yield Query("record_crash", {"task": task.id, "token": token, **change})
        self.failures.append(EngineFailure(task.id, status, reason))
        self._note(task, Event.CRASHED, status)
        if status is Status.FAILED:
            self.ended += [EndedTask(ended, status, awaited, batch) for ended, awaited, batch in rows]
        else:
            self._place(task, suspect_rank=1)

    def take_back(self, token: bytes, task: HeldTask) -> None:
        """Put a task back in line: as a suspect with half the company if it ran, else as it was."""
        self.plain.setdefault(token, []).append(task.id)
        is_suspect = task.id in self.suspects
        self.released += not is_suspect
        self._note(task, Event.CRASHED if is_suspect else Event.RECLAIMED, Status.PENDING)
        self._place(task, suspect_rank=_company_of(len(self.suspects)) if is_suspect else None)

    def _note(self, task: HeldTask, event: Event, status: Status) -> None:
        note = f"{self.worker.name} {self.death.how}"
        self.entries.append(
            Entry(task.id, task.run, task.fence, event, status, task.stage, self.worker.id, self.now, note)
        )

    def _place(self, task: HeldTask, *, suspect_rank: int | None = None, due_at: int | None = None) -> None:
        """Give a task a place in line; a suspect from before stays one until it commits."""
        rank = suspect_rank or task.company
        lane = lane_of(task.queue, task.kind, suspect=rank > 0)
        at = self.now if due_at is None else due_at
        self.placements.append(Placement(task.id, lane, task.band, rank or task.rank, at))


def _suspects(held: Sequence[tuple[bytes, Row]], death: Death) -> Collection[int]:
    if death.overdue:
        return frozenset()
    tasks = {row[0] for _, row in held}
    return tasks if death.started is None else tasks & death.started


def _company_of(together: int) -> int:
    """The number of suspects that may run together next time: half of the group."""
    return max(1, together // 2)
