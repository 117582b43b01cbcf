"""The write path of attempts: many stages in one transaction, each accepted or refused on its own.

For every commit: the fence first, then its checkpoints, its log row, its place in line, its domain rows; or nothing.
What a no-op task costs is decided here, so stages that simply advance or finish go through in groups.
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
from onceward.store.attempts.commit_batch import Gathered, back_in_line
from onceward.store.drivers.session import ConnectionLost, NoTimeLeft, TryAgainLater
from onceward.store.governance.budgets import reserve_more
from onceward.store.governance.cache import begin_fill, end_fill
from onceward.store.governance.gate_use import close_gate, take_tokens
from onceward.store.governance.holds import HoldLocked, set_aside_beyond
from onceward.store.lineage.identities import read_open_holders
from onceward.store.lineage.joins import Ended, read_families
from onceward.store.lineage.spawn_requests import Asked, Identity
from onceward.store.lines.lines import Placement
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Call, Many, Op, Query, Rows

Params = dict[str, Any]


class GivenUp(msgspec.Struct, frozen=True):
    """A retry was accepted as the end of its task, which has failed the same way before: why, in words."""

    reason: str


CommitResult = bool | Family | GivenUp | Exception
"""True: accepted, perhaps with what the task knows of its children now. False: refused, the lease was lost. An error:
its domain rows could not be written."""


PAUSED = Family(is_paused=True)
"""Accepted, but the task is paused: its attempt goes on no further."""


class SendAlone(Exception):
    """The domain rows of a commit met a lock or lost its transaction: it is to be tried in one of its own."""


class SendLater(SendAlone):
    """There was no time left in this transaction for the domain rows of a commit: it goes with the next."""


def commit(commits: Sequence[Commit], now: int, claimer: LineMemory | None = None) -> Op[list[CommitResult]]:
    """Write what attempts have to say; returns one verdict each. With a reader that claims in the same transaction, its
    claim says the rest to gates that it passes."""
    batch = Gathered(now)
    verdicts: list[CommitResult] = [True] * len(commits)
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
        # They are locked below, after what their own stages lock after them; and some of ours may be somebody else's.
        yield Query("lock_tasks", {"ids": sorted({*known, *(one.lease.task for one in commits)})})
    elif statements > 1 and (together := _of_one_lineage(commits)):
        yield Query("lock_tasks", {"ids": together})
    for place in reports:  # before what may end the same attempt
        verdicts[place] = yield from _alone(commits[place], batch)
    for (fence, stage, status, reason), places in finishes.items():
        held = _held([commits[place] for place in places], fence)
        ended = {"stage": stage, "status": int(status), "reason": reason, "event": int(Event.FINISHED), "now": now}
        rows = yield Query("finish_group", {**held, **ended})
        batch.ended += [Ended(task, status, awaited, of) for task, awaited, of in rows if awaited or of is not None]
        accepted = {row[0] for row in rows}
        if accepted:
            told = {**ended, "ids": sorted(accepted)}
            yield Query("end_group", told)
            yield Query("log_finish_group", told)
        _accept(accepted, places, commits, batch, verdicts)
    for (fence, queue, gates), places in advances.items():
        going_on = [commits[place] for place in places]
        held = _held(going_on, fence)
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
        _accept(accepted, places, commits, batch, verdicts, {task for task, is_paused in rows if is_paused})
    for (token, queue, gates, estimate), places in releases.items():
        change = {"token": token, "queue": queue, "gates": gates, "estimate": estimate, "now": now}
        rows = yield Query("release", {**change, "ids": sorted(commits[place].lease.task for place in places)})
        accepted = {row[0] for row in rows}
        if accepted:
            told = {"event": int(Event.RELEASED), "status": int(Status.PENDING), "stage": None, "note": None}
            yield Query("log_group", {**told, "ids": sorted(accepted), "now": now})
        _accept(accepted, places, commits, batch, verdicts)
    for place in sorted(single, key=lambda place: _order_in_cache(commits[place].move)):
        if not commits[place].writes:
            verdicts[place] = yield from _alone(commits[place], batch)
    yield from batch.flush()
    for place in single:
        if commits[place].writes:
            verdicts[place] = yield from _with_writes(commits[place], batch, alone=len(commits) == 1)
    yield from batch.settle_up(commits, claimer)
    if holding:
        yield from _hold([place for place in holding if verdicts[place]], commits, verdicts, batch)
    if advances or single:
        yield from _tell_of_children(commits, verdicts, batch)
    return verdicts


def _of_one_lineage(commits: Sequence[Commit]) -> list[int]:
    """The tasks that share their lineage with another one here. An operator locks a lineage in order: so must a commit
    that writes them in several statements."""
    lineages = [one.lease.lineage_bytes for one in commits]
    if len(set(lineages)) == len(lineages):
        return []
    times = Counter(lineages)
    return sorted({one.lease.task for one in commits if times[one.lease.lineage_bytes] > 1})


def _hold(places: Sequence[int], commits: Sequence[Commit], verdicts: list[CommitResult], batch: Gathered) -> Op[None]:
    """Set aside what stages want to hold. A transaction that has locked budgets waits for no other: a hold whose budget
    is locked goes alone."""
    asked = [(commits[place].lease, cast(Hold, commits[place].move)) for place in places]
    has_locked = batch.has_paid or any(type(one.move) is Take and one.move.budgets for one in commits)
    answers = yield from set_aside_beyond(asked, batch.now, waits=not has_locked)
    for place, answer in zip(places, answers, strict=True):
        verdicts[place] = SendAlone(str(answer)) if isinstance(answer, HoldLocked) else answer


def _is_joining(move: Move) -> bool:
    return type(move) is HandOver and move.joins


def _awaited_by(joining: Sequence[Commit]) -> Op[set[int]]:
    """The open tasks that commits with a join will wait for: children of before, and tasks that they link to."""
    known = {child for one in joining for child in one.lease.family.open_ones}
    wanted: set[Identity] = set()
    for one in joining:
        if one.spawns is not None:
            stage, key_hash, defaults = one.move.stage, one.spawns.key_hash, one.spawns.defaults  # type: ignore[attr-defined]
            wanted.update(
                *[Asked(one.lease, stage, key_hash, defaults, spawn).identities for spawn in one.spawns.asked]
            )
    if wanted:
        known |= yield from read_open_holders(wanted)
    return known


def _held(commits: Sequence[Commit], fence: int) -> Params:
    """Leases with the same fence, as a group of commits names them."""
    return {
        "ids": sorted([one.lease.task for one in commits]),
        "fence": fence,
        "tokens": list({one.lease.token for one in commits}),
    }


def _by_task(commits: Sequence[Commit], name: str) -> str:
    """What one attribute of their moves is, by their tasks, as JSON."""
    return msgspec.json.encode({one.lease.task: getattr(one.move, name) for one in commits}).decode()


def _accept(
    accepted: Collection[int],
    places: Sequence[int],
    commits: Sequence[Commit],
    batch: Gathered,
    verdicts: list[CommitResult],
    paused: Collection[int] = (),
) -> None:
    """Note what the commits of a group leave besides their task rows: those whose fences have held."""
    for place in places:
        one = commits[place]
        lease, move = one.lease, one.move
        if lease.task not in accepted:
            verdicts[place] = False
            _record_loss(lease, move, batch)
            continue
        if paused and lease.task in paused:
            verdicts[place] = PAUSED
        if type(move) is Release:
            batch.placements.append(_back_unjudged(lease, move, batch.now))
        elif move.value is not None:  # type: ignore[attr-defined]
            batch.parts.append((lease, Part(move.stage, RESULT_PART, move.value)))  # type: ignore[attr-defined]
        if one.spawns is not None or one.sizes is not None:
            batch.accept_effects(one)
        if lease.gates is not None or one.reports or one.bill is not None:
            batch.leave(one, move)


def _tell_of_children(commits: Sequence[Commit], verdicts: list[CommitResult], batch: Gathered) -> Op[None]:
    """Tasks that go on with their next stage hear what has become of the children they have asked for so far."""
    going_on = {
        one.lease.task: place
        for place, one in enumerate(commits)
        if type(one.move) is Advance
        and verdicts[place] is True
        and (one.spawns is not None or one.lease.family.children)
    }
    if going_on:
        alone = {one.lease.task for one in commits if one.writes}  # what they ask for was decided on its own
        families = {} if batch.spawned is None else batch.spawned.first_families(going_on.keys() - alone)
        if others := sorted(going_on.keys() - families.keys()):
            families |= yield from read_families(others)
        for task, family in families.items():
            verdicts[going_on[task]] = family


def _order_in_cache(move: Move) -> tuple[str, bytes]:
    """Answers are locked in the same order by all."""
    return (move.source, move.hash) if isinstance(move, Fill | Filled) else ("", b"")


def _alone(one: Commit, batch: Gathered) -> Op[bool | Family | GivenUp | NotYet | AnswerTaken]:
    """One commit: its fence, and what follows from it. True if the fence held, or what is true then."""
    lease = one.lease
    move = (yield from _or_giving_up(lease, one.move)) if isinstance(one.move, TryAgain) else one.move
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
        _record_loss(lease, move, batch)
        return False
    _record(lease, move, batch)
    batch.accept_effects(one)
    batch.leave(one, move)
    if isinstance(move, Take):
        return (yield from _take(lease, move, now)) or True
    if isinstance(move, Fill):
        return (yield from begin_fill(lease, move, now)) or True
    if isinstance(move, Filled):
        yield from end_fill(lease, move, now)
    if isinstance(move, Finish | Crash) and move.status.is_terminal:
        [(task, awaited, of)] = rows
        batch.ended.append(Ended(task, move.status, awaited, of))
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


def _or_giving_up(lease: Lease, move: TryAgain) -> Op[TryAgain | Finish]:
    """A retry, or the end of a task that has failed the same way before: then trying again only costs."""
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
    """Park a task, unless the signal it would wait for came after its attempt had looked: then it is due at once."""
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


def _record(lease: Lease, move: Move, batch: Gathered) -> None:
    """What an accepted commit leaves besides its task row."""
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
            batch.goesback_in_line(lease, due_at, move.over_at)
        case Defer(stage, due_at, reason):
            batch.note(lease, Event.DEFERRED, Status.PENDING, stage, reason)
            batch.goesback_in_line(lease, due_at, move.over_at)
        case Park(stage, waiting_for, due_at, _):
            batch.note(lease, Event.PARKED, Status.WAITING, stage, waiting_for)
            if due_at < NEVER:
                if (signal := signal_of(waiting_for)) is not None:  # the stage can see that the time ran out
                    batch.parts.append((lease, Part(stage, WAIT_PREFIX + signal, str(due_at).encode())))
                # Never straight into line: a task is woken only when it leaves the waiting room.
                batch.placements.append(back_in_line(lease, max(due_at, batch.now + 1)))
        case Crash(stage, reason, status):
            batch.note(lease, Event.CRASHED, status, stage, reason)
            if not status.is_terminal:
                batch.goesback_in_line(lease, batch.now, move.over_at)
        case Expire(_, reason):
            batch.expired.setdefault(reason, []).append(lease.task)
        case Release():
            batch.note(lease, Event.RELEASED, Status.PENDING, lease.stage)
            batch.placements.append(_back_unjudged(lease, move, batch.now))
        case Keep(stage, parts):
            batch.parts += [(lease, part) for part in parts]
            if any(part.part == CURSOR_PART for part in parts):
                batch.note(lease, Event.PROGRESSED, Status.RUNNING, stage)


def _record_loss(lease: Lease, move: Move, batch: Gathered) -> None:
    """A refused commit leaves one thing: a row that says so."""
    batch.note(lease, Event.LOST, Status.RUNNING, lease.stage, f"{type(move).__name__} refused by the fence")


def _back_unjudged(lease: Lease, move: Release, now: int) -> Placement:
    """The place in line of a task whose lease is given back: a suspect stays one."""
    suspect = lease.company > 0
    rank = lease.company if suspect else lease.rank
    queue, gates = (lease.queue, lease.gates) if move.queue is None else (move.queue, move.gates)
    lane = lane_of(queue, lease.kind, gates, suspect=suspect)
    return Placement(lease.task, lane, lease.band, rank, now)


def _with_writes(one: Commit, others: Gathered, *, alone: bool) -> Op[CommitResult]:
    """One commit with domain rows, in a savepoint of its own: if they cannot be written, nothing of it is. What it owes
    is settled with the others."""
    yield Query("savepoint")
    batch = Gathered(others.now)
    try:
        accepted = yield from _alone(one, batch)
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
    others.settling += batch.settling
    return accepted
