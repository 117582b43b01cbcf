"""The write path of attempts: many commits in one transaction, each accepted or refused on its own (decision 18).

For every commit: the fence first, then its checkpoints, its log row, its place in line, its domain rows; or nothing.
The cost of a no-op task is decided here, so commits that simply advance or finish go through in groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from onceward.errors import StoreError, StoreFull
from onceward.model.status import Event, Status
from onceward.model.task import (
    RESULT_PART,
    Advance,
    Commit,
    Fill,
    Filled,
    Finish,
    HandOver,
    Hold,
    Move,
    Part,
    Release,
    Report,
    Take,
)
from onceward.store.attempts.commit_batch import CommitBatch, place_after_release
from onceward.store.attempts.commit_results import PAUSED, CommitResult, SendAlone, SendLater
from onceward.store.attempts.write_move import write_move
from onceward.store.drivers.session_errors import ConnectionLost, NoTimeLeft, TryAgainLater
from onceward.store.governance.holds import HoldLocked, set_aside_beyond
from onceward.store.lineage.identities import read_open_holders
from onceward.store.lineage.joins import EndedTask, read_families
from onceward.store.lineage.spawn_requests import Identity, SpawnRequest
from onceward.store.op import Call, Op, Query

Params = dict[str, Any]
_FinishKey = tuple[int, str, Status, str | None]
"""Fence, stage, status, reason."""
_AdvanceKey = tuple[int, str | None, str | None]
"""Fence, queue, gates."""
_ReleaseKey = tuple[bytes, str | None, str | None, int | None]
"""Token, queue, gates, estimate."""


def commit(commits: Sequence[Commit], now: int) -> Op[list[CommitResult]]:
    """Write commits; returns one answer each."""
    batch = CommitBatch(now)
    answers: list[CommitResult] = [True] * len(commits)
    places = _sort_by_statement(commits)
    yield from _lock_in_order(places, commits)
    for place in places.reports:  # before what may end the same attempt
        answers[place] = yield from write_move(commits[place], batch)
    yield from _write_finishes(places.finishes, commits, batch, answers)
    yield from _write_advances(places.advances, commits, batch, answers)
    yield from _write_releases(places.releases, commits, batch, answers)
    for place in sorted(places.single, key=lambda place: _order_in_cache(commits[place].move)):
        answers[place] = yield from write_move(commits[place], batch)
    yield from batch.flush()
    for place in places.with_rows:
        answers[place] = yield from _write_with_rows(commits[place], batch, alone=len(commits) == 1)
    yield from batch.settle_up(commits)
    if holding := [place for place in places.single if type(commits[place].move) is Hold and answers[place]]:
        yield from _hold(holding, commits, answers, batch)
    if places.advances or places.single or places.with_rows:
        yield from _answer_with_families(commits, answers, batch)
    return answers


class _Places(NamedTuple):
    """The places of commits in their transaction, by the statement that writes them; each group shares its values."""

    finishes: dict[_FinishKey, list[int]]
    advances: dict[_AdvanceKey, list[int]]
    releases: dict[_ReleaseKey, list[int]]
    reports: list[int]
    single: list[int]
    with_rows: list[int]
    """Commits with domain rows, each in a savepoint of its own."""

    @property
    def statements(self) -> int:
        """How many statements or more write to tasks."""
        groups = len(self.finishes) + len(self.advances) + len(self.releases)
        return groups + len(self.reports) + len(self.single) + len(self.with_rows)


def _sort_by_statement(commits: Sequence[Commit]) -> _Places:
    places = _Places({}, {}, {}, [], [], [])
    for place, one in enumerate(commits):
        move = one.move
        if one.writes:
            places.with_rows.append(place)
        elif type(move) is Finish and not move.fingerprint and move.trace is None:
            key = (one.lease.fence, move.stage, move.status, move.reason)
            places.finishes.setdefault(key, []).append(place)
        elif type(move) is Advance:
            places.advances.setdefault((one.lease.fence, move.queue, move.gates), []).append(place)
        elif type(move) is Release:
            places.releases.setdefault((one.lease.token, move.queue, move.gates, move.estimate), []).append(place)
        elif type(move) is Report:
            places.reports.append(place)
        else:
            places.single.append(place)
    return places


def _lock_in_order(places: _Places, commits: Sequence[Commit]) -> Op[None]:
    """Lock tasks in order of their ids, where several statements would lock them in another (decision 46)."""
    alone = [*places.single, *places.with_rows]
    joining = [commits[place] for place in alone if _is_joining(commits[place].move)]
    if joining and (known := (yield from _awaited_by(joining))):
        # Joins lock children below, and our tasks may be children of other tasks.
        yield Query("lock_tasks", {"ids": sorted({*known, *(one.lease.task for one in commits)})})
    elif places.statements > 1 and (together := _of_one_lineage(commits)):
        yield Query("lock_tasks", {"ids": together})


def _write_finishes(
    groups: dict[_FinishKey, list[int]], commits: Sequence[Commit], batch: CommitBatch, answers: list[CommitResult]
) -> Op[None]:
    """End tasks, those that have ended in the same way with one statement."""
    now = batch.now
    for (fence, stage, status, reason), places in groups.items():
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


def _write_advances(
    groups: dict[_AdvanceKey, list[int]], commits: Sequence[Commit], batch: CommitBatch, answers: list[CommitResult]
) -> Op[None]:
    """Advance tasks to their next stages under the same leases, those with the same fence with one statement."""
    now = batch.now
    for (fence, queue, gates), places in groups.items():
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


def _write_releases(
    groups: dict[_ReleaseKey, list[int]], commits: Sequence[Commit], batch: CommitBatch, answers: list[CommitResult]
) -> Op[None]:
    """Give tasks back, those of one claim with one statement."""
    now = batch.now
    for (token, queue, gates, estimate), places in groups.items():
        change = {"token": token, "queue": queue, "gates": gates, "estimate": estimate, "now": now}
        rows = yield Query("release", {**change, "ids": sorted(commits[place].lease.task for place in places)})
        accepted = {row[0] for row in rows}
        if accepted:
            told = {"event": int(Event.RELEASED), "status": int(Status.PENDING), "stage": None, "note": None}
            yield Query("log_group", {**told, "ids": sorted(accepted), "now": now})
        _collect_group(accepted, places, commits, batch, answers)


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
            batch.note_refusal(lease, move)
            continue
        if paused and lease.task in paused:
            answers[place] = PAUSED
        if type(move) is Release:
            batch.placements.append(place_after_release(lease, move, batch.now))
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


def _write_with_rows(one: Commit, others: CommitBatch, *, alone: bool) -> Op[CommitResult]:
    """Write one commit with domain rows in a savepoint of its own: all of it or nothing. Its gates and budgets are
    settled with the others."""
    yield Query("savepoint")
    batch = CommitBatch(others.now)
    try:
        accepted = yield from write_move(one, batch)
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
