"""Claims: take ready tasks out of their lines and lease them to a worker.

One claim makes one random token, and appends one row for each statement that leases. The tasks carry token, fence and
worker in columns without an index; every write of an attempt names the token, and a row that does not match was lost
(R1, decision 2).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from onceward.model.decide import safe_text
from onceward.model.lineage import NO_DESCENT, Descent
from onceward.model.status import Event, Status
from onceward.model.task import Lease, Part, lane_of
from onceward.store.governance import gate_claim
from onceward.store.governance.budgets import SetAside, reserve, set_aside
from onceward.store.governance.gate_plan import GatePlan, Leasing, Passage, has_budget
from onceward.store.history import Entry, log
from onceward.store.lineage.joins import EndedTask, propagate_ends, read_families
from onceward.store.lines.lines import (
    LineView,
    drop_dead,
    look_for_turns,
    look_with_due,
    pop,
    pop_from,
    pop_suspects,
)
from onceward.store.lines.memory import ANY_NUMBER, Line, LineMemory, follow_clock, sweep_if_time
from onceward.store.op import Many, Op, Query, Row
from onceward.store.queries import LEASE_COLUMNS

_TASK, _BLOB = 1 + LEASE_COLUMNS.index("id"), 1 + LEASE_COLUMNS.index("payload_blob")
"""Places in the row of a lease, which begins with the number of its claim."""


class WorkerBuried(Exception):
    """This worker was declared dead; it must not claim."""


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of one claim: leases in the order of their lines, and stored parts of resumed tasks."""

    seq: int
    leases: list[Lease]
    parts: dict[int, list[Part]]
    signals: dict[int, dict[str, bytes]]
    held_back: int = 0
    """How many governed tasks could have been taken if the worker had had free slots for them."""
    wants_thread: bool = False
    """Whether tasks were left in line that need a thread as soon as they begin."""
    failed: tuple[tuple[Lease, str], ...] = ()
    """Leases of tasks that the claim has failed, and why: a budget is spent, and they shall not wait."""
    met_dead: bool = False
    """Whether it has popped dead places; tasks that can run may stand behind them."""


NOTHING = ClaimResult(0, [], {}, {})


def claim(
    memory: LineMemory,
    worker: int,
    count: int,
    now: int,
    view: LineView | None = None,
    *,
    slots: int = 0,
    threads: int = ANY_NUMBER,
    has_settled: bool = False,
) -> Op[ClaimResult]:
    """Lease up to `count` ready tasks to a worker, of those in sight if it has looked at the lines just now.

    Of governed ones no more than `slots`: what has passed a gate runs at once, or in a moment. Of those that need a
    thread as soon as they begin no more than `threads`. `has_settled` is whether this transaction has locked budgets
    already.
    """
    memory.claim.threads, memory.claim.wants_thread = threads, False
    yield from follow_clock(memory, now)
    yield from sweep_if_time(memory, now)
    leasing = Leasing(worker, secrets.token_bytes(16))
    if memory.limits_of is None:
        plain = yield from pop(memory, count, now, view)
        claimed = yield from _lease(memory, plain, leasing, now)
        return claimed if len(claimed.leases) == len(plain) else (yield from _step_over(memory, claimed))
    sight = yield from _look(memory, slots, now, view)
    taken = yield from _take(memory, sight, leasing, count, slots, now)
    paid = yield from set_aside(taken.costly, memory.budgets_of, memory.due_by(now), now, waits=not has_settled)
    claimed = yield from _lease_paid(memory, taken, paid, leasing, now)
    if taken.plan.turn_stays:
        memory.next_due_at = now
    elif len(claimed.leases) < count:
        yield from look_for_turns(memory)
    return replace(claimed, held_back=taken.plan.held_back) if taken.plan.held_back else claimed


class _Sight(NamedTuple):
    """What a claim has seen: the heads of plain lines, and a plan for the governed ones."""

    view: LineView
    plan: GatePlan


class _Taken(NamedTuple):
    """What a claim has taken out of lines: tasks that pass gates by a plan, and tasks that pass none."""

    plan: GatePlan
    passages: Sequence[Passage]
    plain: Sequence[int]

    @property
    def costly(self) -> list[int]:
        """The tasks that draw from budgets."""
        return [task for passage in self.passages if has_budget(passage.gates) for task in passage.tasks]


def _look(memory: LineMemory, slots: int, now: int, view: LineView | None) -> Op[_Sight]:
    """Look at the heads of plain lines and at governed lines with due turns, and lock the gates of those."""
    memory.places.gives_way = not memory.places.gives_way
    if view is None or view.is_due(now):
        view = yield from look_with_due(memory, now, turns=False)
    return _Sight(view, (yield from gate_claim.look(memory, slots, now)))


def _take(memory: LineMemory, sight: _Sight, leasing: Leasing, count: int, slots: int, now: int) -> Op[_Taken]:
    """Pop the oldest tasks: governed ones before the oldest plain head, then plain ones, then other governed ones."""
    view, plan = sight
    passages = yield from gate_claim.pop(plan, leasing, min(slots, count), before=view.oldest(memory))
    taken = sum(len(passage.tasks) for passage in passages)
    plain: list[int] = []
    if taken < count:
        memory.next_due_at = view.next_due_at
        plain = yield from pop(memory, count - taken, now, view)
        passages += yield from gate_claim.pop(plan, leasing, min(slots - taken, count - taken - len(plain)))
    return _Taken(plan, passages, plain)


def _lease_paid(memory: LineMemory, taken: _Taken, paid: SetAside, leasing: Leasing, now: int) -> Op[ClaimResult]:
    """Lease the tasks whose budgets allow it, and write what becomes of gates and budgets.

    Tasks that find a budget spent and shall not wait are leased too, to fail by that.
    """
    plan, passages = taken.plan, taken.passages
    if paid.turned_away:
        passages = plan.put_back(passages, paid.turned_away)
    wanted = [*[task for passage in passages for task in passage.tasks], *paid.failing, *taken.plain]
    claimed = yield from _lease(memory, wanted, leasing, now)
    if len(claimed.leases) < len(wanted):
        passages = plan.put_back(passages, set(wanted).difference(lease.task for lease in claimed.leases))
        claimed = yield from _step_over(memory, claimed)
    claimed = yield from _reserve_budgets(claimed, paid, now)
    return _mark_inside(claimed, (yield from gate_claim.settle(plan, passages, claimed.leases)))


def claim_from(
    memory: LineMemory, line: Line, worker: int, count: int, now: int, *, threads: int = ANY_NUMBER
) -> Op[ClaimResult]:
    """Lease up to `count` tasks of one line, unless a pause holds it."""
    memory.claim.threads = threads
    if memory.pauses.of_line(line[0]) is not None:
        return NOTHING
    yield from follow_clock(memory, now)
    ids = yield from pop_from(memory, line, count, now)
    return (yield from _lease(memory, ids, Leasing(worker, secrets.token_bytes(16)), now))


def claim_suspects(memory: LineMemory, worker: int, now: int, *, has_settled: bool = False) -> Op[ClaimResult]:
    """Lease suspects that may run together, and no other tasks (decision 7)."""
    # From the start each time: suspects with smaller company stand first, and may be newer. They are few.
    memory.places.seen.clear()
    memory.places.highest.clear()
    yield from follow_clock(memory, now)
    ids = yield from pop_suspects(memory)
    leasing = Leasing(worker, secrets.token_bytes(16))
    if memory.limits_of is None or not ids:
        claimed = yield from _lease(memory, ids, leasing, now)
        return claimed if len(claimed.leases) == len(ids) else (yield from _step_over(memory, claimed))
    admitted = yield from gate_claim.admit_suspects(memory, ids, now)
    paid = yield from set_aside(admitted.tasks, memory.budgets_of, memory.due_by(now), now, waits=not has_settled)
    passing = {task for passage in admitted.passages for task in passage.tasks}
    plain = [task for task in admitted.tasks if task not in passing and task not in paid.turned_away]
    return (yield from _lease_paid(memory, _Taken(admitted.plan, admitted.passages, plain), paid, leasing, now))


def _step_over(memory: LineMemory, claimed: ClaimResult) -> Op[ClaimResult]:
    """Drop the dead places at the front of the lines after a claim has met one; another claim has to follow."""
    yield from drop_dead(memory)
    return replace(claimed, met_dead=True)


def _reserve_budgets(claimed: ClaimResult, paid: SetAside, now: int) -> Op[ClaimResult]:
    """Enter what was set aside in the names of the leased tasks; fail those that find a budget spent and shall not
    wait."""
    if not paid.held and not paid.failing:
        return claimed
    failing = [lease for lease in claimed.leases if lease.task in paid.failing]
    running = [lease for lease in claimed.leases if lease.task not in paid.failing]
    yield from reserve(paid, running)
    ended: list[EndedTask] = []
    for lease in failing:
        reason = safe_text(paid.failing[lease.task])
        change = {"ids": [lease.task], "token": lease.token, "stage": lease.stage, "status": int(Status.FAILED)}
        rows = yield Query("finish", {**change, "reason": reason, "now": now})
        ended += [EndedTask(task, Status.FAILED, awaited, batch) for task, awaited, batch in rows]
        entry = Entry(
            lease.task, lease.run, lease.fence, Event.FINISHED, Status.FAILED, lease.stage, lease.worker, now, reason
        )
        yield from log([entry])
    if ended:
        yield from propagate_ends(ended, now)
    left = paid.left
    running = [msgspec.structs.replace(one, left=left[one.task]) if one.task in left else one for one in running]
    failed = tuple((lease, safe_text(paid.failing[lease.task])) for lease in failing)
    return replace(claimed, leases=running, failed=failed)


def _mark_inside(claimed: ClaimResult, placed: Collection[int]) -> ClaimResult:
    """Mark the leases whose tasks have places inside gates."""
    if not placed:
        return claimed
    leases = [
        msgspec.structs.replace(lease, is_inside=True) if lease.task in placed else lease for lease in claimed.leases
    ]
    return replace(claimed, leases=leases)


def _lease(memory: LineMemory, popped: Sequence[int], leasing: Leasing, now: int) -> Op[ClaimResult]:
    """Lease popped tasks. They were due when they stood in line; a clock that was set back does not undo that."""
    if not popped:
        return NOTHING
    token, worker, rows = leasing.token, leasing.worker, leasing.rows
    ids = sorted(set(popped))
    if rest := sorted(set(ids).difference(leasing.tried)) if leasing.tried else ids:
        lease = {"token": token, "worker": worker, "now": now}
        passed = [f"{task}@{leasing.passed[task]}" for task in rest if task in leasing.passed] if leasing.passed else []
        place = {"passed": passed, "suspects": memory.takes_suspects}
        more = yield Query("lease_tasks", {**lease, **place, "ids": rest, "due_by": memory.due_by(now)})
        if more:
            yield Query("write_leases", {**lease, "ids": [row[_TASK] for row in more]})
        rows = [*rows, *more]
    if not rows and not (yield Query("is_living", {"worker": worker})):
        raise WorkerBuried(f"worker {worker} was declared dead and may not claim any more")
    if len(rows) < len(ids):
        yield from _put_back(sorted(set(ids) - {row[_TASK] for row in rows}))
    if not rows:
        return NOTHING
    large: dict[bytes, bytes] = {}
    if elsewhere := [row[_TASK] for row in rows if row[_BLOB] is not None]:
        blobs = yield Query("read_blobs", {"ids": elsewhere})
        large = {bytes(hashed): bytes(data) for hashed, data in blobs}
    by_id = {row[_TASK]: as_lease(row, token, worker, large, now) for row in rows}
    leases = [by_id[task] for task in dict.fromkeys(popped) if task in by_id]
    [seq, *_] = rows[0]
    if seq is None:
        held = {"tasks": [lease.task for lease in leases], "fences": [lease.fence for lease in leases]}
        [(seq,)] = yield Query("insert_claim", {"token": token, "worker": worker, "now": now, **held})
    parts: dict[int, list[Part]] = {}
    signals: dict[int, dict[str, bytes]] = {}
    touched = [lease.task for lease in leases if lease.touched]
    if touched:
        leases = yield from _with_families(leases, touched)
        for task, stage, part, value, _ in (yield Query("read_checkpoints", {"ids": touched})):
            parts.setdefault(task, []).append(Part(stage, part, bytes(value)))
    signalled = [lease.task for lease in leases if lease.signals]
    if signalled:
        for task, name, value in (yield Query("read_signals", {"ids": signalled})):
            signals.setdefault(task, {})[name] = bytes(value)
    return ClaimResult(seq, leases, parts, signals)


def _with_families(leases: list[Lease], touched: list[int]) -> Op[list[Lease]]:
    """Add to leases of resumed tasks what they may know of their children."""
    families = yield from read_families(touched)
    return [
        msgspec.structs.replace(lease, family=families[lease.task]) if lease.task in families else lease
        for lease in leases
    ]


def _put_back(popped: Sequence[int]) -> Op[None]:
    """Put popped tasks that are not due yet back: our clock is ahead of the one that made them due. The others have
    ended or moved on."""
    early = yield Query("not_due", {"ids": list(popped)})
    if early:
        yield Many(
            "wait_until_due",
            [
                (due_at, task, lane_of(queue, kind, suspect=company > 0), band, company or rank)
                for task, queue, kind, band, rank, company, due_at in early
            ],
        )


def as_lease(row: Row, token: bytes, worker: int, large: dict[bytes, bytes], now: int) -> Lease:
    """Build a lease from the row of its task, with a large payload from `large`."""
    (
        _, task, fence, run, kind, version, queue, band, rank, stage, payload, payload_blob, failures,
        crashes, company, deferrals, signals, touched, lineage, parent, depth, created_at, started_at,
        gates, scheduled_at, clock_at, expiry, ancestry, limits, children, *_,
    ) = row  # fmt: skip
    data = payload if payload_blob is None else large[bytes(payload_blob)]
    descent = NO_DESCENT if parent is None and not touched else Descent(ancestry, limits, children)
    return Lease(
        task, fence, token, worker, run, kind, version, queue, band, rank, stage, data, failures,
        crashes, company, deferrals, signals, touched, lineage, parent, depth, created_at, started_at,
        gates, scheduled_at, clock_at, expiry, descent, claimed_at=now,
    )  # fmt: skip
