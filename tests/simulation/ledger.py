"""What must be true: a small model of leases and effects beside the engine, fed by what its transactions have said.

The engine's own operations tell the ledger what they have decided; it believes them when their transaction is really
committed, and forgets them when it is not, also where the process that ran it never hears which of both it was. So the
ledger knows at each moment who holds what, which stages have committed and which rows of the application must be there,
without having read a single row of the engine's.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from onceward.model.lineage import Family
from onceward.model.task import Advance, Commit, Expire, Fill, Filled, Finish, HandOver, Hold, Keep, Lease, Report, Take
from onceward.store.attempts import commit_batch, expiry
from onceward.store.operations import pruning, task_actions
from onceward.support.lazily import LazyModule
from onceward.worker import housekeeping, process, writer
from tests.simulation import stand_ins
from tests.simulation.work import STAGES

if TYPE_CHECKING:
    from tests.simulation.world import World

_GOES_ON = (Advance, Keep, Report, Take, Hold, Fill, Filled)
"""Moves after which the attempt still holds its task."""

Effect = tuple[int, int, str, str, int]
"""A row of the application's own: task, run, stage, part, fence."""


Made = tuple[str, str, int | None]
"""A task that is to be made once: its kind, its payload, and the time for which a schedule has made it."""


class Violated(BaseException):
    """A promise is broken. Nothing in the engine catches this."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(f"{kind}: {sentence}")
        self.kind = kind


class Held(NamedTuple):
    """Who holds a task."""

    token: bytes
    fence: int
    worker: int


@dataclass(slots=True)
class Truth:
    """What is durable."""

    held: dict[int, Held] = field(default_factory=dict)
    fences: dict[int, int] = field(default_factory=dict)
    done: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    """The stages that have committed, by task and run."""
    ended: dict[int, int] = field(default_factory=dict)
    effects: Counter[Effect] = field(default_factory=Counter)
    """The rows of the application that must be there."""
    written: frozenset[tuple[int, int, str, str]] = frozenset()
    """Those of them that must not come once more, under whatever fence."""
    accepted: frozenset[int] = frozenset()
    """The tasks whose enqueuer was told that they are durable."""
    reopened: frozenset[int] = frozenset()
    """Those that an operator has opened again."""
    pruned: tuple[Made, ...] = ()
    """What was made once and must not be made again, of what is there no more."""
    commits: int = 0

    def copy(self) -> Truth:
        """The same, to be kept."""
        return Truth(
            dict(self.held), dict(self.fences), dict(self.done), dict(self.ended), copy(self.effects), self.written,
            self.accepted, self.reopened, self.pruned, self.commits,
        )  # fmt: skip


class Ledger:
    """The truth about one world, and whether the engine keeps to it."""

    def __init__(self, world: World) -> None:
        self.truth = Truth()
        self._world = world
        self._broken = world.broken
        self._said: list[Callable[[], None]] = []
        """What the open transaction has decided, not yet believed."""
        self._tokens: set[bytes] = set()
        self._leased: list[Lease] = []
        self._let_go: dict[int, Held] = {}
        """Who has held what came to its end by time, in the transaction that is being believed."""

    # Transactions

    def begin(self) -> None:
        """A transaction begins: whatever an earlier one has said and not committed is void."""
        self._said.clear()

    def believe(self) -> list[Lease]:
        """The open transaction is committed; what it has claimed."""
        self._leased = []
        self._let_go.clear()
        for said in self._said:
            said()
        self._said.clear()
        return self._leased

    def say(self, fact: Callable[[], None]) -> None:
        """An operation has decided something, in the transaction that is open."""
        self._said.append(fact)

    # Facts

    def claimed(self, leases: Sequence[Lease]) -> None:
        """Tasks were leased."""
        truth = self.truth
        for lease in leases:
            task = lease.task
            if task in truth.ended:
                self._broken("lease", f"task {task} was claimed after its end")
            if lease.fence <= truth.fences.get(task, 0):
                self._broken("lease", f"task {task} got fence {lease.fence} after fence {truth.fences[task]}")
            if task in truth.held:
                self._broken("lease", f"task {task} was claimed while worker {truth.held[task].worker} held it")
            truth.fences[task] = lease.fence
            truth.held[task] = Held(lease.token, lease.fence, lease.worker)
        if leases[0].token in self._tokens:
            self._broken("lease", "a token was given out twice")
        self._tokens.add(leases[0].token)
        self._leased += leases
        self._world.counts["claims"] += len(leases)

    def committed(self, commits: Sequence[Commit], verdicts: Sequence[Any]) -> None:
        """Attempts have handed in what they want written, and were accepted or refused."""
        self._world.counts["groups of commits"] += len(commits) > 1
        for one, verdict in zip(commits, verdicts, strict=True):
            if verdict is False:
                self._world.counts["refused writes"] += 1
            elif verdict is True or isinstance(verdict, Family):
                self._accepted(one)
            # What is an error was not written, or as Taken and NotYet changes nothing here.

    def _accepted(self, one: Commit) -> None:
        truth, lease, move = self.truth, one.lease, one.move
        held = truth.held.get(lease.task)
        if held is None and isinstance(move, Expire):
            held = self._let_go.get(lease.task)
        what = f"{type(move).__name__} of task {lease.task} under fence {lease.fence}"
        if held is None:
            self._broken("stale commit", f"{what} was accepted, but nobody holds it")
            return
        if held.token != lease.token:
            self._broken("stale commit", f"{what} was accepted, but fence {held.fence} holds it")
        truth.commits += 1
        if isinstance(move, Advance | HandOver | Finish):
            self._stage_done(lease, move)
        self._world.checks.look_at_commit(lease, move)
        for _, arguments in one.writes:
            truth.effects[arguments] += 1
            if arguments[:4] in truth.written:
                self._broken("double effect", f"{what} wrote {arguments} once more")
            truth.written |= {arguments[:4]}
        if not isinstance(move, _GOES_ON):
            truth.held.pop(lease.task, None)

    def _stage_done(self, lease: Lease, move: Advance | HandOver | Finish) -> None:
        key = (lease.task, lease.run)
        done = self.truth.done.get(key, ())
        self._world.counts["stage commits"] += 1
        names = STAGES[lease.kind]
        if missing := [name for name in names[: names.index(move.stage)] if name not in done]:
            self._broken("order", f"task {lease.task}: stage {move.stage} committed without {missing}")
        if move.stage in done:
            self._broken("double effect", f"task {lease.task}: stage {move.stage} committed twice")
        if isinstance(move, Finish):
            self.truth.ended[lease.task] = int(move.status)
        else:
            self.truth.done[key] = (*done, move.stage)

    def let_go(self, worker: int) -> None:
        """A worker was declared dead, or has signed off: it holds nothing any more."""
        self.truth.held = {task: held for task, held in self.truth.held.items() if held.worker != worker}

    def cancelled(self, task: int) -> None:
        """A task was cancelled: whoever held it holds it no more."""
        self.truth.held.pop(task, None)
        self.truth.ended[task] = -1

    def expired(self, ended: Sequence[int], at_last_stage: Sequence[int]) -> None:
        """The time of tasks is over: whoever held them holds them no more."""
        for task in (*ended, *at_last_stage):
            if (held := self.truth.held.pop(task, None)) is not None:
                self._let_go[task] = held
        self.truth.ended |= dict.fromkeys(ended, -1)
        self._world.counts["tasks whose time was over"] += len(ended) + len(at_last_stage)

    def reopened(self, task: int) -> None:
        """An operator has opened a task again: what had ended it may happen once more."""
        self.truth.ended.pop(task, None)
        self.truth.reopened |= {task}
        self.truth.written = frozenset(row for row in self.truth.written if row[0] != task)

    def pruned(self, tasks: Mapping[int, Made]) -> None:
        """Tasks were deleted: they had come to their end, and are not missed."""
        truth = self.truth
        for task in tasks:
            if task not in truth.ended:
                self._broken("lost", f"task {task} was pruned and had not ended")
            del truth.ended[task]
        truth.accepted = truth.accepted.difference(tasks)  # of keys, `-=` would make a set that a copy shares
        truth.pruned += tuple(tasks.values())
        self._world.counts["tasks pruned"] += len(tasks)


# How the ledger hears of it

_MADE = "SELECT id, kind, CAST(payload AS text), scheduled_at FROM onceward_task"


def _told(fact: Callable[[Ledger], None]) -> None:
    ledger = stand_ins.here.ledger
    ledger.say(lambda: fact(ledger))


def _spied_claim(real: Callable[..., Any]) -> Callable[..., Any]:
    def claim(*arguments: Any, **named: Any) -> Any:
        claimed = yield from real(*arguments, **named)
        if claimed.leases:
            _told(lambda ledger: ledger.claimed(claimed.leases))
        return claimed

    return claim


def _spied_commit(real: Callable[..., Any]) -> Callable[..., Any]:
    def commit(commits: Sequence[Commit], *arguments: Any) -> Any:
        verdicts = yield from real(commits, *arguments)
        told = list(verdicts)
        _told(lambda ledger: ledger.committed(commits, told))
        return verdicts

    return commit


def _spied_bury(real: Callable[..., Any]) -> Callable[..., Any]:
    def bury(worker: Any, *arguments: Any) -> Any:
        reclaimed = yield from real(worker, *arguments)
        if reclaimed is not None:
            ended = list(reclaimed.quarantined)
            _told(lambda ledger: _buried(ledger, worker.id, ended))
        return reclaimed

    return bury


def _buried(ledger: Ledger, worker: int, ended: Sequence[int]) -> None:
    stand_ins.here.counts["workers buried"] += 1
    ledger.let_go(worker)
    for task in ended:
        ledger.truth.ended[task] = -1


def _spied_stop(real: Callable[..., Any]) -> Callable[..., Any]:
    def stop(worker: int, *arguments: Any) -> Any:
        yield from real(worker, *arguments)
        _told(lambda ledger: ledger.let_go(worker))

    return stop


def _spied_cancel(real: Callable[..., Any]) -> Callable[..., Any]:
    def cancel(task: int, *arguments: Any) -> Any:
        yield from real(task, *arguments)
        _told(lambda ledger: ledger.cancelled(task))

    return cancel


def _spied_cancel_all(real: Callable[..., Any]) -> Callable[..., Any]:
    def cancel_all(*arguments: Any) -> Any:
        tasks = yield from real(*arguments)
        _told(lambda ledger: [ledger.cancelled(task) for task in tasks])
        return tasks

    return cancel_all


def _spied_expire(real: Callable[..., Any]) -> Callable[..., Any]:
    def expire(*arguments: Any) -> Any:
        found: dict[str, list[int]] = {"expire_tasks": [], "expire_into_last_stage": []}
        expiring = real(*arguments)
        rows: Any = None
        while True:
            try:
                request = expiring.send(rows)
            except StopIteration as end:
                ended = end.value
                break
            rows = yield request
            if (name := getattr(request, "name", "")) in found:
                found[name] += [row[0] for row in rows]
        _told(lambda ledger: ledger.expired(found["expire_tasks"], found["expire_into_last_stage"]))
        return ended

    return expire


def _spied_reopen(real: Callable[..., Any]) -> Callable[..., Any]:
    def reopen(task: int, **named: Any) -> Any:
        found = yield from real(task, **named)
        _told(lambda ledger: ledger.reopened(task))
        return found

    return reopen


def _spied_prune(real: Callable[..., Any]) -> Callable[..., Any]:
    def prune_tasks(*arguments: Any) -> Any:
        pruning = real(*arguments)
        there = {task: (kind, text, at) for task, kind, text, at in stand_ins.here.database.ask(_MADE)}
        gone = yield next(pruning)  # the first thing it does is to delete them
        _told(lambda ledger: ledger.pruned({row[0]: there[row[0]] for row in gone}))
        try:
            request = pruning.send(gone)
            while True:
                request = pruning.send((yield request))
        except StopIteration as end:
            return end.value

    return prune_tasks


@contextmanager
def _nothing_kept() -> Iterator[None]:
    """Let stand-ins of modules forget what they have taken from these: it was, or will be, another one."""

    def forget() -> None:
        ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "onceward"]
        for one in [value for module in ours for value in vars(module).values() if type(value) is LazyModule]:
            for kept in [name for name in vars(one) if name[0] != "_"]:
                delattr(one, kept)

    forget()
    try:
        yield
    finally:
        forget()


@contextmanager
def listening() -> Iterator[None]:
    """While this lasts, the operations of the engine tell the ledger of the world what they have decided."""
    with (
        _nothing_kept(),
        mock.patch.multiple(
            writer,
            commit=_spied_commit(writer.commit),
            claim=_spied_claim(writer.claim),
            claim_from=_spied_claim(writer.claim_from),
            claim_suspects=_spied_claim(writer.claim_suspects),
        ),
        mock.patch.object(housekeeping, "bury", _spied_bury(housekeeping.bury)),
        mock.patch.object(process, "stop", _spied_stop(process.stop)),
        mock.patch.object(pruning, "prune_tasks", _spied_prune(pruning.prune_tasks)),
        mock.patch.multiple(
            task_actions,
            cancel=_spied_cancel(task_actions.cancel),
            cancel_all=_spied_cancel_all(task_actions.cancel_all),
            reopen=_spied_reopen(task_actions.reopen),
        ),
        mock.patch.object(expiry, "expire", _spied_expire(expiry.expire)),
        mock.patch.object(commit_batch, "expire", _spied_expire(commit_batch.expire)),
    ):
        yield
