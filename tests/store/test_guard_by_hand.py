"""The spawn guard by hand: what becomes of children that belong to a batch when a rule refuses them."""

from __future__ import annotations

import uuid

import msgspec

from onceward.authoring.child_builder import key_hash
from onceward.model.lineage import Rule, Spawn, StageBatch
from onceward.model.status import Status
from onceward.model.task import NEVER, Advance, Commit, Finish, Lease
from onceward.store.attempts import commits
from onceward.store.attempts.expiry import expire
from onceward.store.lineage.spawn_guard import spawn
from onceward.store.lineage.spawn_requests import Decision, InBatch, SpawnRequest
from onceward.store.op import Many, Op
from onceward.store.operations import task_actions
from tests.store.children import ASKS, DEFAULTS, child, commit, joining, together
from tests.store.conftest import Hands


def ask(hands: Hands, lease: Lease, key: str, *wanted: Spawn, batch: InBatch | None = None) -> list[Decision]:
    """What the guard decides if a task with this key asks for these."""
    asked = [SpawnRequest(lease, "first", key_hash(key), DEFAULTS, one, batch) for one in wanted]
    return hands.do(lambda: spawn(asked, hands.now)).decisions


def below(hands: Hands) -> Lease:
    """A task with the key “child”, which is no root."""
    ant = hands.worker()
    hands.enqueue(key="top")
    [top] = hands.claim(ant)
    commit(hands, top, "top", Finish("first", None, Status.SUCCEEDED, None), child("child"))
    [lease] = hands.claim(ant)
    return lease


def test_what_follows_a_batch_is_refused_and_no_operator_is_asked(hands: Hands) -> None:
    """It waits for the end of the batch, so that it cannot wait for approval too."""
    lease = below(hands)
    after = [child("top", **ASKS).following("night"), child("bad", stopped="it is bad", **ASKS).following("night")]
    wanted = (*after, child("top", **ASKS))
    first, second, third = ask(hands, lease, "child", *wanted)
    assert [one.refused and one.refused.rule for one in (first, second)] == [Rule.CYCLE, Rule.STOPPED]
    assert [one.rule for one in third.parked] == [Rule.CYCLE]


def test_the_counter_of_a_batch_is_named_so_by_every_opener(hands: Hands) -> None:
    lease = below(hands)
    scope = uuid.uuid4()

    def open_counter() -> Op[None]:
        yield Many("open_lineages", [(scope, lease.task, 0, 1, 0, NEVER, 0, hands.now)])

    hands.do(open_counter)
    decisions = ask(
        hands, lease, "child", child("a"), child("b", policies=((Rule.LIMIT, "refuse"),)), batch=InBatch(1, scope)
    )
    assert [one.is_new for one in decisions] == [True, False]
    assert decisions[1].refused is not None
    assert decisions[1].refused.reason == "its batch has no room: max_tasks is 1"


def test_no_more_than_a_hundred_wait_for_room_whatever_batches_they_are_in(hands: Hands) -> None:
    lease = below(hands)
    scopes = [uuid.uuid4(), uuid.uuid4()]

    def open_counters() -> Op[None]:
        yield Many("open_lineages", [(scope, lease.task, 0, 1, 0, NEVER, 1, hands.now) for scope in scopes])

    hands.do(open_counters)
    wanted = [child(str(number), **ASKS) for number in range(160)]
    asked = [
        SpawnRequest(lease, "first", key_hash("child"), DEFAULTS, one, InBatch(number % 2, scopes[number % 2]))
        for number, one in enumerate(wanted)
    ]
    decisions = hands.do(lambda: spawn(asked, hands.now)).decisions
    assert [bool(one.parked) for one in decisions] == [True] * 100 + [False] * 60


def test_what_follows_a_batch_and_has_failed_is_waited_for_by_none_of_it(hands: Hands) -> None:
    ant = hands.worker("ant")
    hands.enqueue()
    [top] = hands.claim(ant)
    last, first = child("last").following("night"), child("first").added_to("night")
    spawns = msgspec.structs.replace(together("top", last, first), batches=(StageBatch("night"),))
    hands.do(
        lambda: commits.commit([Commit(top, Finish("first", None, Status.SUCCEEDED, None), (), spawns)], hands.now)
    )
    [(follower,)] = hands.sql("SELECT then_task FROM onceward_batch")
    [member] = hands.claim(ant)
    hands.do(lambda: expire([follower], "its time is over", hands.now))
    commit(hands, member, "first", Advance("first", b"1", "second"), child("last"))
    hands.do(lambda: task_actions.reopen(follower, fresh=False, stage=None, forget=(), now=hands.now))
    commit(hands, member, "first", joining("second", "third"))
    waiting = [task for (task,) in hands.sql("SELECT id FROM onceward_task WHERE status = 3")]
    assert waiting == [follower], "each would wait for the other"
    assert hands.sql("SELECT rule FROM onceward_refusal") == [("cycle",)]
