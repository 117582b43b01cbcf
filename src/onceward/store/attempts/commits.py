"""The write path of attempts: many commits in one transaction, each accepted or refused on its own (decision 18).

For every commit: the fence first, then its checkpoints, its log row, its place in line, its domain rows; or nothing.
The cost of a no-op task is decided here, so commits that simply advance or finish go through in groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, cast

import msgspec

from onceward.errors import StoreError, StoreFull
from onceward.model.cache import AnswerTaken
from onceward.model.decide import safe_text, signal_of
from onceward.model.lineage import Family
from onceward.model.source import NotYet
from onceward.model.status import Event, Status
from onceward.model.task import (
    CURSOR_PART,
    NEVER,
    RESULT_PART,
    WAIT_PREFIX,
    Advance,
    Commit,
    Crash,
    Defer,
    Expire,
    Fill,
    Filled,
    Finish,
    HandOver,
    Hold,
    Keep,
    Lease,
    Move,
    Park,
    Part,
    Release,
    Report,
    Take,
    TryAgain,
    lane_of,
)
from onceward.store.attempts.commit_batch import CommitBatch, place_after_stage
from onceward.store.drivers.session import ConnectionLost, NoTimeLeft, TryAgainLater
from onceward.store.governance.budgets import reserve_more
from onceward.store.governance.cache import begin_fill, end_fill
from onceward.store.governance.gate_use import close_gate, take_tokens
from onceward.store.governance.holds import HoldLocked, set_aside_beyond
from onceward.store.lineage.identities import read_open_holders
from onceward.store.lineage.joins import EndedTask, read_families
from onceward.store.lineage.spawn_requests import Identity, SpawnRequest
from onceward.store.lines.lines import Placement
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Call, Many, Op, Query, Rows

Params = dict[str, Any]


class GivenUp(msgspec.Struct, frozen=True):
    """The accepted retry has become the end of its task, which has failed the same way before; with the reason."""

    reason: str


CommitResult = bool | Family | GivenUp | Exception
"""True: accepted; a `Family`: accepted, with what the task knows of its children now. False: refused, the lease was
lost. An error: its domain rows could not be written."""


PAUSED = Family(is_paused=True)
"""Accepted, but the task is paused: its attempt goes on no further."""


class SendAlone(Exception):
    """The domain rows of a commit met a lock or lost the transaction: it has to be sent in one of its own."""


class SendApart(SendAlone):
    """A group of commits came to nothing again and again: each has to be sent by itself, while others go on."""


class SendLater(SendAlone):
    """No time was left in this transaction for the domain rows of a commit: it has to be sent with the next."""


def commit(commits: Sequence[Commit], now: int, claimer: LineMemory | None = None) -> Op[list[CommitResult]]:
    """Write commits; returns one answer each. Where a claim follows in the same transaction, it reports to the gates it
    passes."""
    batch = CommitBatch(now)
    answers: list[CommitResult] = [True] * len(commits)
    finishes: dict[tuple[int, str, Status, str | None], list[int]] = {}
    advances: dict[tuple[int, str | None, str | None], list[int]] = {}
    releases: dict[tuple[bytes, str | None, str | None, int | None], list[int]] = {}
    reports: list[int] = []
    single: list[int] = []
    holding: list[int] = []
    for place, one in enumerate(commits):
        move = one.move
        if one.writes:
            single.append(place)
        elif type(move) is Finish and not move.fingerprint and move.trace is None:
            finishes.setdefault((one.lease.fence, move.stage, move.status, move.reason), []).append(place)
        elif type(move) is Advance:
            advances.setdefault((one.lease.fence, move.queue, move.gates), []).append(place)
        elif type(move) is Release:
            releases.setdefault((one.lease.token, move.queue, move.gates, move.estimate), []).append(place)
        elif type(move) is Report:
            reports.append(place)
        else:
            single.append(place)
            if type(move) is Hold:
                holding.append(place)

    joining = [commits[place] for place in single if _is_joining(commits[place].move)]
    statements = len(finishes) + len(advances) + len(releases) + len(reports) + len(single)
    if joining and (known := (yield from _awaited_by(joining))):
        # All locks in one order: joins lock children below, and our tasks may be children of other tasks.
        yield Query("lock_tasks", {"ids": sorted({*known, *(one.lease.task for one in commits)})})
    elif statements > 1 and (together := _of_one_lineage(commits)):
        yield Query("lock_tasks", {"ids": together})
    for place in reports:  # before what may end the same attempt
        answers[place] = yield from _write_commit(commits[place], batch)
    for (fence, stage, status, reason), places in finishes.items():
        held = _lease_params([commits[place] for place in places], fence)
        ended = {"stage": stage, "status": int(status), "reason": reason, "event": int(Event.FINISHED), "now": now}
        rows = yield Query("finish_group", {**held, **ended})
        batch.ended += [EndedTask(task, status, awaited, of) for task, awaited, of in rows if awaited or of is not None]
        accepted = {row[0] for row in rows}
        if accepted:
            told = {**ended, "ids": sorted(accepted)}
            yield Query("end_group", told)
            yield Query("log_finish_group", told)
        _collect_group(accepted, places, commits, batch, answers)
    for (fence, queue, gates), places in advances.items():
        going_on = [commits[place] for place in places]
        held = _lease_params(going_on, fence)
        steps = {"next": _by_task(going_on, "next_stage"), "queue": queue, "gates": gates}
        done = {"done": _by_task(going_on, "stage"), "event": int(Event.STAGE_COMMITTED), "now": now}
        rows = yield Query("advance_group", {**held, **steps, **done})
        accepted = {row[0] for row in rows}
        if accepted:
            if len(accepted) < len(places):
                held_still = [one for one in going_on if one.lease.task in accepted]
                steps["next"], done["done"] = _by_task(held_still, "next_stage"), _by_task(held_still, "stage")
            yield Query("go_on_group", {**steps, "now": now})
            yield Query("log_advance_group", done)
        _collect_group(accepted, places, commits, batch, answers, {task for task, is_paused in rows if is_paused})
    for (token, queue, gates, estimate), places in releases.items():
        change = {"token": token, "queue": queue, "gates": gates, "estimate": estimate, "now": now}
        rows = yield Query("release", {**change, "ids": sorted(commits[place].lease.task for place in places)})
        accepted = {row[0] for row in rows}
        if accepted:
            told = {"event": int(Event.RELEASED), "status": int(Status.PENDING), "stage": None, "note": None}
            yield Query("log_group", {**told, "ids": sorted(accepted), "now": now})
        _collect_group(accepted, places, commits, batch, answers)
    for place in sorted(single, key=lambda place: _order_in_cache(commits[place].move)):
        if not commits[place].writes:
            answers[place] = yield from _write_commit(commits[place], batch)
    yield from batch.flush()
    for place in single:
        if commits[place].writes:
            answers[place] = yield from _write_with_rows(commits[place], batch, alone=len(commits) == 1)
    yield from batch.settle_up(commits, claimer)
    if holding:
        yield from _hold([place for place in holding if answers[place]], commits, answers, batch)
    if advances or single:
        yield from _answer_with_families(commits, answers, batch)
    return answers


def _of_one_lineage(commits: Sequence[Commit]) -> list[int]:
    """The tasks that share their lineage with another commit. An operator locks a lineage in order of ids: so must a
    transaction that writes to it in several statements (decision 46)."""
    lineages = [one.lease.lineage_bytes for one in commits]
    if len(set(lineages)) == len(lineages):
        return []
    times = Counter(lineages)
    return sorted({one.lease.task for one in commits if times[one.lease.lineage_bytes] > 1})


def _hold(
    places: Sequence[int], commits: Sequence[Commit], answers: list[CommitResult], batch: CommitBatch
) -> Op[None]:
    """Set aside the amounts of holds (decision 50). A transaction that has locked budgets waits for no other: a hold
    whose budget is locked goes alone."""
    holds = [(commits[place].lease, cast(Hold, commits[place].move)) for place in places]
    has_locked = batch.has_paid or any(type(one.move) is Take and one.move.budgets for one in commits)
    results = yield from set_aside_beyond(holds, batch.now, waits=not has_locked)
    for place, result in zip(places, results, strict=True):
        answers[place] = SendAlone(str(result)) if isinstance(result, HoldLocked) else result


def _is_joining(move: Move) -> bool:
    return type(move) is HandOver and move.joins


def _awaited_by(joining: Sequence[Commit]) -> Op[set[int]]:
    """The open tasks that joining commits will wait for: earlier children, and tasks that they link to."""
    known = {child for one in joining for child in one.lease.family.open_ones}
    wanted: set[Identity] = set()
    for one in joining:
        if one.spawns is not None:
            stage, key_hash, defaults = one.move.stage, one.spawns.key_hash, one.spawns.defaults  # type: ignore[attr-defined]
            wanted.update(
                *[SpawnRequest(one.lease, stage, key_hash, defaults, spawn).identities for spawn in one.spawns.asked]
            )
    if wanted:
        known |= yield from read_open_holders(wanted)
    return known


def _lease_params(commits: Sequence[Commit], fence: int) -> Params:
    """The query parameters of a group of leases with the same fence."""
    return {
        "ids": sorted([one.lease.task for one in commits]),
        "fence": fence,
        "tokens": list({one.lease.token for one in commits}),
    }


def _by_task(commits: Sequence[Commit], name: str) -> str:
    """One attribute of the moves, by task, as JSON."""
    return msgspec.json.encode({one.lease.task: getattr(one.move, name) for one in commits}).decode()


def _collect_group(
    accepted: Collection[int],
    places: Sequence[int],
    commits: Sequence[Commit],
    batch: CommitBatch,
    answers: list[CommitResult],
    paused: Collection[int] = (),
) -> None:
    """Collect what the accepted commits of a group write besides their task rows, and note the refused ones."""
    for place in places:
        one = commits[place]
        lease, move = one.lease, one.move
        if lease.task not in accepted:
            answers[place] = False
            _log_refusal(lease, move, batch)
            continue
        if paused and lease.task in paused:
            answers[place] = PAUSED
        if type(move) is Release:
            batch.placements.append(_place_after_release(lease, move, batch.now))
        elif move.value is not None:  # type: ignore[attr-defined]
            batch.parts.append((lease, Part(move.stage, RESULT_PART, move.value)))  # type: ignore[attr-defined]
        if one.spawns is not None or one.sizes is not None:
            batch.add_effects(one)
        if lease.gates is not None or one.reports or one.bill is not None:
            batch.leave(one, move)


def _answer_with_families(commits: Sequence[Commit], answers: list[CommitResult], batch: CommitBatch) -> Op[None]:
    """Answer advancing tasks with the present state of their children."""
    going_on = {
        one.lease.task: place
        for place, one in enumerate(commits)
        if type(one.move) is Advance
        and answers[place] is True
        and (one.spawns is not None or one.lease.family.children)
    }
    if going_on:
        alone = {one.lease.task for one in commits if one.writes}  # what they ask for was decided on its own
        families = {} if batch.spawned is None else batch.spawned.first_families(going_on.keys() - alone)
        if others := sorted(going_on.keys() - families.keys()):
            families |= yield from read_families(others)
        for task, family in families.items():
            answers[going_on[task]] = family


def _order_in_cache(move: Move) -> tuple[str, bytes]:
    """The lock order of cached answers."""
    return (move.source, move.hash) if isinstance(move, Fill | Filled) else ("", b"")


def _write_commit(one: Commit, batch: CommitBatch) -> Op[bool | Family | GivenUp | NotYet | AnswerTaken]:
    """Write one commit: its fence, and what follows from it. False if the fence refused it, else its answer."""
    lease = one.lease
    move = (yield from _decide_retry(lease, one.move)) if isinstance(one.move, TryAgain) else one.move
    fence = {"task": lease.task, "token": lease.token}
    now = batch.now
    match move:
        case Finish(stage, _, status, reason):
            rows = yield Query(
                "finish",
                {"ids": [lease.task], "token": lease.token, "stage": stage, "status": int(status), "reason": reason,
                 "now": now},
            )  # fmt: skip
        case Advance(_, _, next_stage, queue, gates):
            rows = yield Query(
                "advance",
                {"ids": [lease.task], "token": lease.token, "stage": next_stage, "queue": queue, "gates": gates,
                 "now": now},
            )  # fmt: skip
        case HandOver(_, _, next_stage, queue):
            place = {"queue": queue, "gates": move.gates, "estimate": move.estimate}
            rows = yield Query("hand_over", {**fence, "stage": next_stage, **place, "now": now})
        case TryAgain(stage, due_at, reason):
            change = {"stage": stage, "due_at": due_at, "reason": reason, "error": move.fingerprint}
            rows = yield Query("try_again", {**fence, **change, "counted": int(not move.is_transient)})
        case Defer(stage, due_at, reason):
            rows = yield Query("defer", {**fence, "stage": stage, "due_at": due_at, "reason": reason})
        case Park():
            rows = yield from _park(lease, move, now)
        case Crash(_, reason, status):
            ended_at = now if status.is_terminal else None
            rows = yield Query(
                "record_crash",
                {**fence, "status": int(status), "company": 0, "reason": reason, "ended_at": ended_at},
            )
        case Keep() | Take() | Hold() | Fill() | Filled() | Expire():
            rows = yield Query("touch", fence)
        case Report(stage, done, total, note):
            rows = yield Query("touch", fence)
            if rows:
                yield Query(
                    "report_progress",
                    {"task": lease.task, "stage": stage, "done": done, "total": total, "note": note, "now": now},
                )
        case Release(queue, gates, estimate):
            change = {"queue": queue, "gates": gates, "estimate": estimate, "now": now}
            rows = yield Query("release", {"ids": [lease.task], "token": lease.token, **change})
        case _:
            raise TypeError(f"not a move: {move!r}")
    if not rows:
        _log_refusal(lease, move, batch)
        return False
    _collect(lease, move, batch)
    batch.add_effects(one)
    batch.leave(one, move)
    if isinstance(move, Take):
        return (yield from _take(lease, move, now)) or True
    if isinstance(move, Fill):
        return (yield from begin_fill(lease, move, now)) or True
    if isinstance(move, Filled):
        yield from end_fill(lease, move, now)
    if isinstance(move, Finish | Crash) and move.status.is_terminal:
        [(task, awaited, of)] = rows
        batch.ended.append(EndedTask(task, move.status, awaited, of))
        if isinstance(move, Finish) and move.fingerprint:
            yield Query("record_failure", {"task": task, "fingerprint": move.fingerprint, "now": now})
        if move is not one.move:
            return GivenUp(move.reason or "")
    return PAUSED if isinstance(move, Advance) and rows[0][1] else True


def _take(lease: Lease, move: Take, now: int) -> Op[NotYet | None]:
    if move.pause_ms is not None:
        return (yield from close_gate(move.gate, move.pause_ms, now))
    closed = yield from take_tokens(lease, move.gate, move.limits, move.tokens, now)
    if closed is None and move.budgets:
        return (yield from reserve_more(lease, move.budgets, now))
    return closed


def _decide_retry(lease: Lease, move: TryAgain) -> Op[TryAgain | Finish]:
    """Keep a retry, or end a task that has failed the same way before: another try would only cost."""
    rows = yield Query("error_history", {"task": lease.task, "fingerprint": move.fingerprint})
    for before, same, storm in rows:
        if before is not None:
            why = f"failed the same way before (task {before})"
        elif move.same_errors is not None and same + 1 >= move.same_errors:
            why = f"failed the same way {same + 1} times in a row"
        elif move.storm_brake is not None and storm >= move.storm_brake:
            why = f"{storm} {lease.kind} tasks of this lineage have failed the same way"
        else:
            continue
        reason = safe_text(f"{why}: {move.reason}")
        return Finish(move.stage, None, Status.FAILED, reason, move.fingerprint, move.trace)
    return move


def _park(lease: Lease, move: Park, now: int) -> Op[Rows]:
    """Park a task; it is due at once if its signal came after its attempt had looked."""
    rows = yield Query(
        "park",
        {
            "task": lease.task,
            "token": lease.token,
            "stage": move.stage,
            "waiting_for": move.waiting_for,
            "due_at": move.due_at,
            "reason": move.reason,
            "now": now,
        },
    )
    name = signal_of(move.waiting_for)
    if rows and name and (yield Query("newer_signal", {"task": lease.task, "name": name, "seen": lease.signals})):
        # The log shows it as parked; its due time brings it back in the same transaction.
        yield Query("end_wait", {"task": lease.task, "now": now})
        lane = lane_of(lease.queue, lease.kind, lease.gates)
        yield Many("wait_until_due", [(now, lease.task, lane, lease.band, lease.rank)])
        yield Query("notify")
    return rows


def _collect(lease: Lease, move: Move, batch: CommitBatch) -> None:
    """Collect what an accepted commit writes besides its task row."""
    match move:
        case Finish(stage, value, status, reason):
            if value is not None:
                batch.parts.append((lease, Part(stage, RESULT_PART, value)))
            batch.note(lease, Event.FINISHED, status, stage, reason, move.trace)
        case Advance(stage, value):
            batch.parts.append((lease, Part(stage, RESULT_PART, value)))
            batch.note(lease, Event.STAGE_COMMITTED, Status.RUNNING, stage)
        case HandOver(stage, value, _, queue):
            batch.parts.append((lease, Part(stage, RESULT_PART, value)))
            batch.note(lease, Event.HANDED_OVER, Status.PENDING, stage, queue)
            if move.joins:
                batch.joins.append((lease, move))
                return
            lane = lane_of(queue, lease.kind, move.gates)
            batch.placements.append(Placement(lease.task, lane, lease.band, lease.rank, batch.now))
        case TryAgain(stage, due_at, reason):
            batch.note(lease, Event.RETRY_SCHEDULED, Status.RETRYABLE, stage, reason, move.trace)
            batch.requeue(lease, due_at, move.over_at)
        case Defer(stage, due_at, reason):
            batch.note(lease, Event.DEFERRED, Status.PENDING, stage, reason)
            batch.requeue(lease, due_at, move.over_at)
        case Park(stage, waiting_for, due_at, _):
            batch.note(lease, Event.PARKED, Status.WAITING, stage, waiting_for)
            if due_at < NEVER:
                if (signal := signal_of(waiting_for)) is not None:  # the stage can see that the time ran out
                    batch.parts.append((lease, Part(stage, WAIT_PREFIX + signal, str(due_at).encode())))
                # Never straight into line: a task is woken only when it leaves the waiting room.
                batch.placements.append(place_after_stage(lease, max(due_at, batch.now + 1)))
        case Crash(stage, reason, status):
            batch.note(lease, Event.CRASHED, status, stage, reason)
            if not status.is_terminal:
                batch.requeue(lease, batch.now, move.over_at)
        case Expire(_, reason):
            batch.expired.setdefault(reason, []).append(lease.task)
        case Release():
            batch.note(lease, Event.RELEASED, Status.PENDING, lease.stage)
            batch.placements.append(_place_after_release(lease, move, batch.now))
        case Keep(stage, parts):
            batch.parts += [(lease, part) for part in parts]
            if any(part.part == CURSOR_PART for part in parts):
                batch.note(lease, Event.PROGRESSED, Status.RUNNING, stage)


def _log_refusal(lease: Lease, move: Move, batch: CommitBatch) -> None:
    """Log a refused commit; it writes nothing else."""
    batch.note(lease, Event.LOST, Status.RUNNING, lease.stage, f"{type(move).__name__} refused by the fence")


def _place_after_release(lease: Lease, move: Release, now: int) -> Placement:
    """The place in line of a released task: a suspect stays one."""
    suspect = lease.company > 0
    rank = lease.company if suspect else lease.rank
    queue, gates = (lease.queue, lease.gates) if move.queue is None else (move.queue, move.gates)
    lane = lane_of(queue, lease.kind, gates, suspect=suspect)
    return Placement(lease.task, lane, lease.band, rank, now)


def _write_with_rows(one: Commit, others: CommitBatch, *, alone: bool) -> Op[CommitResult]:
    """Write one commit with domain rows in a savepoint of its own: all of it or nothing. Its gates and budgets are
    settled with the others."""
    yield Query("savepoint")
    batch = CommitBatch(others.now)
    try:
        accepted = yield from _write_commit(one, batch)
        if accepted:
            try:
                yield Call(one.writes)
            except StoreFull as error:
                if alone:
                    raise
                raise TryAgainLater(str(error)) from error  # others may need less room
        yield from batch.flush()
    except (TryAgainLater, NoTimeLeft) as error:
        if alone:
            raise
        yield Query("rollback_to_savepoint")
        yield Query("release_savepoint")
        return SendLater() if isinstance(error, NoTimeLeft) else SendAlone(str(error))
    except (ConnectionLost, StoreError):
        raise  # the transaction is gone
    except Exception as error:  # an error of the application's own code or rows: it belongs to its stage
        try:
            yield Query("rollback_to_savepoint")
            yield Query("release_savepoint")
        except ConnectionLost as lost:
            raise lost from error
        return error
    yield Query("release_savepoint")
    others.left += batch.left
    others.billed += batch.billed
    others.billed_so_far += batch.billed_so_far
    others.settlements += batch.settlements
    return accepted
