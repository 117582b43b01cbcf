"""The fence: whoever has lost the lease can write nothing, whatever it wants to write; and the log says so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onceward import Budget, Event, Status
from onceward.model.source import GateLimits
from onceward.model.task import (
    CURSOR_PART,
    NEVER,
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
    Write,
)  # fmt: skip
from onceward.store.attempts import commits
from onceward.store.operations import task_actions
from tests.store.children import child, together
from tests.store.conftest import Hands
from tests.worker.conftest import NOTES, Clockwork, insert_note

LATER = 1_800_000_000_000
MOVES: list[Move] = [
    Advance("first", b'"stale"', "second"),
    Advance("first", b'"stale"', "second", "heavy"),
    HandOver("first", b'"stale"', "second", "heavy"),
    Finish("first", b'"stale"', Status.SUCCEEDED, None),
    Finish("first", None, Status.FILTERED, "stale"),
    TryAgain("first", LATER, "stale"),
    Defer("first", LATER, "stale"),
    Park("first", "signal:go", NEVER, "stale"),
    Park("first", "signal:go", LATER, "stale"),
    Release(),
    Release("heavy"),
    Crash("first", "stale", Status.PENDING),
    Crash("first", "stale", Status.FAILED),
    Keep("first", (Part("first", CURSOR_PART, b'"stale"'),)),
    Keep("first", (Part("first", "once/pay", b'"stale"'),)),
    Take("web", GateLimits()),
    Hold("first", Budget("usd", 5).rule, "stale", 1),
    Fill("web", b"h" * 16, 1_000),
    Filled("web", b"h" * 16, b'"stale"', 1_000),
    Report("first", 99, 100, "stale"),
    Expire("first", "stale"),
]


def test_every_kind_of_move_is_tried_here() -> None:
    assert {type(move) for move in MOVES} == set(Move.__subclasses__())


def reclaimed(hands: Hands, lease: Lease) -> None:
    hands.bury(lease.worker, frozenset())


def reclaimed_as_suspect(hands: Hands, lease: Lease) -> None:
    hands.bury(lease.worker, frozenset({lease.task}))


def claimed_by_another(hands: Hands, lease: Lease) -> None:
    hands.bury(lease.worker, frozenset())
    [new] = hands.claim(hands.worker("bee"))
    assert (new.task, new.fence) == (lease.task, lease.fence + 1)


def finished_by_another(hands: Hands, lease: Lease) -> None:
    hands.bury(lease.worker, frozenset())
    [new] = hands.claim(hands.worker("bee"))
    hands.commit(new, Finish("first", b'"fresh"', Status.SUCCEEDED, None))


def cancelled(hands: Hands, lease: Lease) -> None:
    hands.do(lambda: task_actions.cancel(lease.task, "stop", hands.now))


LOSSES = [reclaimed, reclaimed_as_suspect, claimed_by_another, finished_by_another, cancelled]


def everything(hands: Hands) -> dict[str, list[Any]]:
    """All rows that an attempt could leave, but the log's."""
    tables = ("task", "checkpoint", "ready", "due", "progress", "signal", "blob")
    rows = {table: hands.sql(f"SELECT * FROM onceward_{table}") for table in tables}
    return {table: sorted(map(repr, found)) for table, found in rows.items()}


@pytest.mark.parametrize("lose", LOSSES)
def test_nothing_of_a_lost_lease_is_kept_and_the_log_says_so(hands: Hands, lose: Any) -> None:
    for move in MOVES:
        hands.enqueue()
        [lease] = hands.claim(hands.worker("ant"))
        lose(hands, lease)
        before = everything(hands)
        log_before = hands.sql("SELECT count(*) FROM onceward_attempt")[0][0]
        assert hands.commit(lease, move) is False, move
        assert everything(hands) == before, move
        [(event, fence, worker, note)] = hands.sql(
            "SELECT event, fence, worker, note FROM onceward_attempt WHERE task = ? ORDER BY id DESC LIMIT 1",
            lease.task,
        )
        assert (event, fence, worker) == (Event.LOST, lease.fence, lease.worker)
        assert note == f"{type(move).__name__} refused by the fence"
        assert hands.sql("SELECT count(*) FROM onceward_attempt")[0][0] == log_before + 1
        clear_away(hands, lease.task)


def clear_away(hands: Hands, task: int) -> None:
    """End a task, so that the next claim finds the next one alone."""
    [(status,)] = hands.sql("SELECT status FROM onceward_task WHERE id = ?", task)
    if not Status(status).is_terminal:
        hands.do(lambda: task_actions.cancel(task, "out of the way", hands.now))


def test_the_domain_rows_of_a_lost_lease_are_not_even_tried(clockwork: Clockwork, hands: Hands) -> None:
    hands.sql(NOTES.work("sqlite"))  # type: ignore[arg-type]
    tried: list[int] = []
    for move in MOVES:
        hands.enqueue()
        [lease] = hands.claim(hands.worker("ant"))
        claimed_by_another(hands, lease)
        assert hands.commit(lease, move, writes=((insert_note, (lease.task, "stale")), (tried.append, ()))) is False
        clear_away(hands, lease.task)
    assert tried == []
    assert hands.sql("SELECT * FROM note") == []


def test_the_same_fence_under_another_token_is_refused_too(hands: Hands) -> None:
    """A restored backup may hand out a fence twice; the token of a claim is never the same."""
    hands.enqueue()
    [lease] = hands.claim(hands.worker("ant"))
    twin = msgspec.structs.replace(lease, token=b"x" * 16)
    for move in MOVES:
        assert hands.commit(twin, move) is False, move
    assert hands.commit(lease, MOVES[3]) is True


def test_in_one_batch_each_is_accepted_or_refused_on_its_own(hands: Hands) -> None:
    hands.enqueue(6)
    ant = hands.worker("ant")
    leases = hands.claim(ant)
    stale = leases[::2]
    for lease in stale:
        hands.do(lambda task=lease.task: task_actions.cancel(task, "stop", hands.now))  # type: ignore[misc]
    moves: list[Move] = [
        MOVES[3], MOVES[3], MOVES[0], MOVES[0], TryAgain("first", hands.now, "no"), TryAgain("first", hands.now, "no"),
    ]  # fmt: skip
    assert hands.commit_all(list(zip(leases, moves, strict=True))) == [False, True] * 3


def test_a_claim_is_given_to_one_worker_at_a_time(clockwork: Clockwork) -> None:
    first, second = clockwork.hands(), clockwork.hands()
    tasks = first.enqueue(20)
    ant, bee = first.worker("ant"), second.worker("bee")
    claimed: dict[int, list[int]] = {ant: [], bee: []}
    while any(len(found) for found in (take(first, ant, claimed), take(second, bee, claimed))):
        pass
    assert sorted(claimed[ant] + claimed[bee]) == tasks
    assert claimed[ant]
    assert claimed[bee]


def take(hands: Hands, worker: int, claimed: dict[int, list[int]]) -> list[Lease]:
    leases = hands.claim(worker, 3)
    claimed[worker] += [lease.task for lease in leases]
    return leases


def test_fences_grow_with_every_claim(hands: Hands) -> None:
    [task] = hands.enqueue()
    for number in range(1, 6):
        [lease] = hands.claim(hands.worker())
        assert (lease.task, lease.fence) == (task, number)
        assert hands.commit(lease, Release()) is True


@pytest.mark.parametrize(
    "made",
    [
        lambda word: Finish("first", msgspec.json.encode(word), Status.SUCCEEDED, None),
        lambda word: Advance("first", msgspec.json.encode(word), "second"),
    ],
    ids=["finish", "advance"],
)
def test_in_one_transaction_an_old_lease_of_ours_is_not_taken_for_the_new_one(hands: Hands, made: Any) -> None:
    hands.enqueue(3)
    ours = hands.worker("ant")
    old = hands.claim(ours)
    hands.commit(old[0], Release())
    [new] = hands.claim(ours)
    assert (new.task, new.fence) == (old[0].task, 2)
    # One transaction with both tokens, and with both fences of one task.
    moves = [(lease, made("old")) for lease in old] + [(new, made("new"))]
    assert hands.commit_all(moves) == [False, True, True, True]
    kept = dict(hands.sql("SELECT task, value FROM onceward_checkpoint"))
    assert {task: bytes(value) for task, value in kept.items()} == {
        old[0].task: b'"new"',
        old[1].task: b'"old"',
        old[2].task: b'"old"',
    }


@pytest.mark.parametrize("move", [move for move in MOVES if isinstance(move, Finish | Advance)])
def test_a_new_claim_of_ours_lets_nothing_of_an_old_one_through(hands: Hands, move: Move) -> None:
    """What goes through together names all tokens of it: only the fence tells the old lease of a task from the new."""
    hands.enqueue(2)
    ours = hands.worker("ant")
    [old, _] = hands.claim(ours)
    hands.commit(old, Release())
    hands.enqueue()
    again, other = hands.claim(ours)
    assert (again.task, again.fence, other.fence) == (old.task, 2, old.fence)
    assert again.token == other.token
    assert hands.commit_all([(old, move), (other, move)]) == [False, True]
    assert hands.commit(again, MOVES[3]) is True


@pytest.mark.parametrize("move", [move for move in MOVES if isinstance(move, Finish | Advance | HandOver | Keep)])
@pytest.mark.parametrize("writes", [(), ((insert_note, (1, "stale")),)], ids=["plain", "with rows"])
def test_no_stage_spawns_under_a_lost_lease(hands: Hands, move: Move, writes: tuple[Write, ...]) -> None:
    hands.enqueue(key="parent")
    [lease] = hands.claim(hands.worker("ant"))
    claimed_by_another(hands, lease)
    asked = together("parent", child("stale"))
    assert hands.do(lambda: commits.commit([Commit(lease, move, writes, asked)], hands.now)) == [False]
    assert hands.sql("SELECT key FROM onceward_task") == [("parent",)]
    assert hands.sql("SELECT * FROM onceward_lineage") == []
    assert hands.sql("SELECT * FROM onceward_identity") == []


@pytest.mark.parametrize("move", [move for move in MOVES if isinstance(move, Finish | Advance | Release)])
def test_the_same_fence_without_the_token_is_no_lease(hands: Hands, move: Move) -> None:
    """As after a database was restored from an older copy: the fence counts again from there, the token is random."""
    hands.enqueue(2)
    [lease, other] = hands.claim(hands.worker("ant"))
    hands.sql("UPDATE onceward_task SET token = ? WHERE id = ?", b"r" * 16, lease.task)
    assert hands.commit_all([(lease, move), (other, move)]) == [False, True]
    hands.sql("UPDATE onceward_task SET token = ? WHERE id = ?", lease.token, lease.task)  # as it was, to be verified


@pytest.mark.parametrize("others", [1, 300])
def test_a_group_goes_on_each_to_its_own_next_stage(hands: Hands, others: int) -> None:
    tasks = hands.enqueue(others + 2)
    leases = hands.claim(hands.worker("ant"))
    following = {lease.task: f"after {lease.task % 3}" for lease in leases}
    hands.do(lambda: task_actions.cancel(tasks[-1], "stop", hands.now))
    verdicts = hands.commit_all(
        [(lease, Advance(f"at {lease.task % 5}", b"1", following[lease.task])) for lease in leases]
    )
    assert verdicts == [lease.task != tasks[-1] for lease in leases]
    assert dict(hands.sql("SELECT id, stage FROM onceward_task WHERE id <> ?", tasks[-1])) == {
        task: stage for task, stage in following.items() if task != tasks[-1]
    }
    logged = hands.sql("SELECT task, stage FROM onceward_attempt WHERE event = ?", int(Event.STAGE_COMMITTED))
    assert sorted(logged) == [(task, f"at {task % 5}") for task in tasks[:-1]]
