"""Pairs of transactions that meet at tasks which wait for others: whoever ends a child, and whoever has to do with its
parent. What must be true is as in `scenes`; here it is also who locks what first."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from onceward import Event, Status
from onceward.model.lineage import Family, Spawn, StageBatch
from onceward.model.payload import identity
from onceward.model.task import Commit, Lease, NewTask, band_of
from onceward.store.attempts import commits
from onceward.store.lineage import batches, pause_lineage
from onceward.store.lineage.joins import read_families
from onceward.store.lineage.remote_spawn import spawn_remotely
from onceward.store.lineage.trees import Head, head_of
from onceward.store.op import Op
from onceward.store.operations import task_actions
from tests.isolation.scenes import DONE, ON, Scene, committing, doing, fell, in_line, row
from tests.isolation.tester import Work
from tests.store.children import DEFAULTS, child, joining, known_as, together
from tests.store.conftest import NOON, Hands


def _root(key: str) -> NewTask:
    return NewTask(
        kind="note", version=1, queue="default", band=band_of(0), key=key, identity=identity("note", key),
        payload=b"{}", lineage=uuid.uuid4(), due_at=NOON, created_at=NOON,
    )  # fmt: skip


def _waiting(hands: Hands, *keys: str) -> tuple[int, list[Lease]]:
    """A task that waits for its children, which run. All of them belong to a batch."""
    ant = hands.worker("ant")
    hands.do(lambda: batches.open_batch(batches.NewBatch("night"), [_root("top")], NOON))
    [lease] = hands.claim(ant)
    spawns = together("top", *map(child, keys))
    hands.do(lambda: commits.commit([Commit(lease, joining("first", "second"), (), spawns)], NOON))
    assert row(hands, lease.task)[0] is Status.WAITING
    return lease.task, sorted(hands.claim(ant), key=lambda lease: lease.task)


def _woken(hands: Hands, task: int) -> bool:
    return bool(hands.sql("SELECT id FROM onceward_attempt WHERE task = ? AND event = ?", task, int(Event.WOKEN)))


def _to_lineage(task: int, act: Callable[[Head], Op[Any]]) -> Work:
    """What an operator does to a task and all that descends from it."""

    def carry_out() -> Op[Any]:
        return (yield from act((yield from head_of(task))))

    return doing(lambda _: carry_out())


# Ends


def end_and_end(hands: Hands, _: str) -> Scene:
    """The last two children end: the parent is in line, once."""
    task, [left, right] = _waiting(hands, "left", "right")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("left", "right")] == [True, True]
        assert (row(hands, task)[0], in_line(hands, task)) == (Status.PENDING, 1)
        [(last,)] = hands.sql(
            "SELECT task FROM onceward_attempt WHERE event = ? ORDER BY id DESC LIMIT 1", int(Event.FINISHED)
        )
        return "left" if last == right.task else "right"

    return Scene({"left": committing(left, DONE), "right": committing(right, DONE)}, judge)


def end_and_cancel(hands: Hands, _: str) -> Scene:
    """A child ends while its parent is cancelled: that is cancelled, and waits for nobody."""
    task, [awaited] = _waiting(hands, "left")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert ([bool(one) for one in fell(outcomes["end"])], fell(outcomes["cancel"])) == ([True], None)
        assert row(hands, task)[0] is Status.CANCELLED
        assert hands.sql("SELECT * FROM onceward_join") == []
        return "end" if _woken(hands, task) else "cancel"

    cancelling = doing(lambda _: task_actions.cancel(task, "not wanted", NOON))
    return Scene({"end": committing(awaited, DONE), "cancel": cancelling}, judge)


def end_and_reopen(hands: Hands, _: str) -> Scene:
    """A child ends while an operator lets its parent go on without it: either way it goes on."""
    task, [awaited] = _waiting(hands, "left")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["end"])] == [True]
        assert (row(hands, task)[0], in_line(hands, task) > 0) == (Status.PENDING, True)
        return "end" if _woken(hands, task) else "reopen"

    reopening = doing(lambda _: task_actions.reopen(task, fresh=False, stage=None, forget=(), now=NOON))
    return Scene({"end": committing(awaited, DONE), "reopen": reopening}, judge)


def end_and_reopen_of_a_cancelled_parent(hands: Hands, _: str) -> Scene:
    """A parent that was cancelled while it waited is opened again while its child ends, both in one batch."""
    task, [awaited] = _waiting(hands, "left")
    hands.do(lambda: task_actions.cancel(task, "not wanted", NOON))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert ([bool(one) for one in fell(outcomes["end"])], fell(outcomes["reopen"])) == ([True], None)
        assert (row(hands, task)[0], in_line(hands, task) > 0) == (Status.PENDING, True)
        return "reopen" if _woken(hands, task) else "end"

    reopening = doing(lambda _: task_actions.reopen(task, fresh=False, stage=None, forget=(), now=NOON))
    return Scene({"end": committing(awaited, DONE), "reopen": reopening}, judge)


# What is done to whole lineages


def end_and_cancel_all(hands: Hands, _: str) -> Scene:
    """A child ends while everything of its lineage is cancelled: its parent is, and the child if it was too late."""
    task, [awaited] = _waiting(hands, "left")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [accepted] = fell(outcomes["end"])
        assert fell(outcomes["cancel"]) == ([task] if accepted else [task, awaited.task])
        assert row(hands, task)[0] is Status.CANCELLED
        return "end" if accepted else "cancel"

    cancelling = _to_lineage(task, lambda head: task_actions.cancel_all(head, "not wanted", NOON))
    return Scene({"end": committing(awaited, DONE), "cancel": cancelling}, judge)


def end_and_pause(hands: Hands, _: str) -> Scene:
    """A child ends while its lineage is paused: whoever is open is."""
    task, [awaited] = _waiting(hands, "left")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["end"])] == [True]
        assert hands.sql("SELECT id FROM onceward_task WHERE status < 4 AND paused = 0") == []
        assert row(hands, task)[0] is Status.PENDING
        return "pause" if fell(outcomes["pause"]) == 2 else "end"

    pausing_all = _to_lineage(task, lambda head: pause_lineage.pause(head, NOON))
    return Scene({"end": committing(awaited, DONE), "pause": pausing_all}, judge)


def end_and_resume(hands: Hands, _: str) -> Scene:
    """A child ends while the branch that it heads is resumed: nothing is paused, and its parent is in line."""
    task, [awaited] = _waiting(hands, "left")
    _to_lineage(awaited.task, lambda head: pause_lineage.pause(head, NOON))(hands.session)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["end"])] == [True]
        assert hands.sql("SELECT id FROM onceward_task WHERE paused = 1") == []
        assert (row(hands, task)[0], in_line(hands, task)) == (Status.PENDING, 1)
        return "resume" if fell(outcomes["resume"]) == 1 else "end"

    resuming = _to_lineage(awaited.task, lambda head: pause_lineage.resume(head, NOON))
    return Scene({"end": committing(awaited, DONE), "resume": resuming}, judge)


# Spawns


def spawning_end_and_arrival(hands: Hands, _: str) -> Scene:
    """A child spawns and ends while work arrives for its parent: that waits for it, or goes on without."""
    task, [awaited] = _waiting(hands, "left")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["end"])] == [True]
        [(_, arrived)] = fell(outcomes["arrive"]).decisions
        waits = hands.sql("SELECT child FROM onceward_join WHERE parent = ?", task)
        assert (row(hands, task)[0], waits) in (
            (Status.WAITING, [(arrived.task,)]),
            (Status.PENDING, []),
        )
        return "arrive" if waits else "end"

    def wanted(_: Lease) -> list[Spawn]:
        return [child("from afar")]

    arriving = doing(lambda _: spawn_remotely(task, awaited.lineage, wanted, DEFAULTS, NOON))
    ending = committing(awaited, DONE, spawns=together("left", child("below")))
    return Scene({"end": ending, "arrive": arriving}, judge)


def _knowing(hands: Hands, lease: Lease) -> Lease:
    """The lease of a task that has heard of its children."""
    family: Family = hands.do(lambda: read_families([lease.task]))[lease.task]
    return msgspec.structs.replace(lease, family=family)


def _with_child(hands: Hands, key: str, worker: int) -> tuple[Lease, Lease]:
    """A task that runs, and its child, which runs too."""
    [lease] = hands.claim(worker)
    hands.do(lambda: commits.commit([Commit(lease, ON, (), together(key, child(f"of {key}")))], NOON))
    [below] = hands.claim(worker)
    return _knowing(hands, lease), below


def spawning_join_and_spawning_end(hands: Hands, _: str) -> Scene:
    """A parent spawns and joins while a child that it had before spawns and ends: it waits for those that are open."""
    hands.enqueue()
    top, below = _with_child(hands, "top", hands.worker("ant"))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("join", "end")] == [True, True]
        [(new,)] = hands.sql("SELECT id FROM onceward_task WHERE key = 'another'")
        assert row(hands, top.task)[0] is Status.WAITING
        assert hands.sql("SELECT child FROM onceward_join WHERE parent = ?", top.task) == [(new,)]
        [(note,)] = hands.sql("SELECT note FROM onceward_attempt WHERE event = ?", int(Event.PARKED))
        return "join" if note == "children: 2 have not ended" else "end"

    works = {
        "join": committing(top, joining("second", "third"), spawns=together("top", child("another"))),
        "end": committing(below, DONE, spawns=together("of top", child("far below"))),
    }
    return Scene(works, judge)


def joins_crosswise(hands: Hands, _: str) -> Scene:
    """Two workers each commit the join of one task and the end of the other's child: nobody waits for who has ended."""
    ant = hands.worker("ant")
    hands.enqueue()
    left, of_left = _with_child(hands, "left", ant)
    hands.enqueue()
    right, of_right = _with_child(hands, "right", ant)

    def both(parent: Lease, other: Lease) -> Work:
        moves = [Commit(parent, joining("second", "third")), Commit(other, DONE)]
        return doing(lambda _: commits.commit(moves, NOON))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [list(map(bool, fell(outcomes[name]))) for name in ("ant", "bee")] == [[True, True]] * 2
        assert [row(hands, one.task)[0] for one in (left, right)] == [Status.PENDING] * 2
        return "bee" if _woken(hands, right.task) else "ant"

    return Scene({"ant": both(left, of_right), "bee": both(right, of_left)}, judge)


def links_crosswise(hands: Hands, _: str) -> Scene:
    """Two tasks each ask for what the other one is, and join: one waits for the other, which is refused a circle."""
    hands.enqueue(2)
    left, right = hands.claim(hands.worker("ant"))
    for lease, key in ((left, "a"), (right, "b")):
        spawns = known_as(together(key), key, unique="everywhere")
        hands.do(lambda lease=lease, spawns=spawns: commits.commit([Commit(lease, ON, (), spawns)], NOON))
    return _linking(left, right, child("b", unique="everywhere"), child("a", unique="everywhere"))


def links_crosswise_in_a_lineage(hands: Hands, _: str) -> Scene:
    """The same of two children of one task."""
    _, [left, right] = _waiting(hands, "left", "right")
    return _linking(left, right, child("right"), child("left"))


def _linking(left: Lease, right: Lease, of_left: Spawn, of_right: Spawn) -> Scene:
    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("left", "right")] == [True, True]
        [(child_id, parent)] = hands.sql(
            "SELECT child, parent FROM onceward_join WHERE parent IN (?, ?)", left.task, right.task
        )
        assert {child_id, parent} == {left.task, right.task}
        assert (row(hands, parent)[0], row(hands, child_id)[0]) == (Status.WAITING, Status.PENDING)
        return "left" if parent == left.task else "right"

    move = joining("second", "third")
    works = {
        "left": committing(left, move, spawns=together("left", of_left)),
        "right": committing(right, move, spawns=together("right", of_right)),
    }
    return Scene(works, judge)


# What follows a batch


def _followed(hands: Hands) -> tuple[int, Lease]:
    """What follows a batch, and the only task of that, which runs; all of it inside another batch."""
    ant = hands.worker("ant")
    hands.do(lambda: batches.open_batch(batches.NewBatch("around"), [_root("top")], NOON))
    [lease] = hands.claim(ant)
    last, first = child("last").following("night"), child("left").added_to("night")
    spawns = msgspec.structs.replace(together("top", last, first), batches=(StageBatch("night"),))
    hands.do(lambda: commits.commit([Commit(lease, ON, (), spawns)], NOON))
    [(follower,)] = hands.sql("SELECT then_task FROM onceward_batch WHERE name = 'night'")
    [first_one] = hands.claim(ant)
    return follower, first_one


def batch_end_and_reopen(hands: Hands, _: str) -> Scene:
    """A batch ends while an operator lets what follows it go on without that: either way it goes on."""
    follower, last = _followed(hands)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["end"])] == [True]
        assert (row(hands, follower)[0], in_line(hands, follower) > 0) == (Status.PENDING, True)
        return "end" if _woken(hands, follower) else "reopen"

    reopening = doing(lambda _: task_actions.reopen(follower, fresh=False, stage=None, forget=(), now=NOON))
    return Scene({"end": committing(last, DONE), "reopen": reopening}, judge)


def batch_end_and_cancel(hands: Hands, _: str) -> Scene:
    """A batch ends while what follows it is cancelled, inside another batch: that counts both."""
    follower, last = _followed(hands)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert ([bool(one) for one in fell(outcomes["end"])], fell(outcomes["cancel"])) == ([True], None)
        assert row(hands, follower)[0] is Status.CANCELLED
        return "end" if _woken(hands, follower) else "cancel"

    cancelling = doing(lambda _: task_actions.cancel(follower, "not wanted", NOON))
    return Scene({"end": committing(last, DONE), "cancel": cancelling}, judge)


def batch_end_and_reopen_of_a_cancelled_follower(hands: Hands, _: str) -> Scene:
    """What follows a batch was cancelled, and is opened again while the batch ends, inside another one."""
    follower, last = _followed(hands)
    hands.do(lambda: task_actions.cancel(follower, "not wanted", NOON))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert ([bool(one) for one in fell(outcomes["end"])], fell(outcomes["reopen"])) == ([True], None)
        assert (row(hands, follower)[0], in_line(hands, follower) > 0) == (Status.PENDING, True)
        return "reopen" if _woken(hands, follower) else "end"

    reopening = doing(lambda _: task_actions.reopen(follower, fresh=False, stage=None, forget=(), now=NOON))
    return Scene({"end": committing(last, DONE), "reopen": reopening}, judge)


def mixed_ends_and_pause(hands: Hands, _: str) -> Scene:
    """One commit ends a task and lets an older one of its lineage go on, while the lineage is paused."""
    task, [older, newer] = _waiting(hands, "left", "right")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["commit"])] == [True, True]
        assert hands.sql("SELECT id FROM onceward_task WHERE status < 4 AND paused = 0") == []
        return "commit" if fell(outcomes["commit"])[0] is True else "pause"

    both = [Commit(older, ON), Commit(newer, DONE)]
    work = doing(lambda _: commits.commit(both, NOON))
    return Scene({"commit": work, "pause": _to_lineage(task, lambda head: pause_lineage.pause(head, NOON))}, judge)


WAITING_SCENES: Sequence[Callable[[Hands, str], Scene]] = (
    end_and_end,
    end_and_cancel,
    end_and_reopen,
    end_and_reopen_of_a_cancelled_parent,
    end_and_cancel_all,
    end_and_pause,
    end_and_resume,
    mixed_ends_and_pause,
    spawning_end_and_arrival,
    spawning_join_and_spawning_end,
    joins_crosswise,
    links_crosswise,
    links_crosswise_in_a_lineage,
    batch_end_and_reopen,
    batch_end_and_cancel,
    batch_end_and_reopen_of_a_cancelled_follower,
)
