"""Many spawn at once: a cap lets in exactly as many as it says, an identity is taken once, and nothing that is killed
on the way adds a task or loses one."""

from __future__ import annotations

import random
import signal
import time
from functools import partial
from typing import Any

import pytest

from onceward import Limits, Status
from onceward.model.lineage import EVERYWHERE
from onceward.model.payload import identity
from onceward.model.task import Advance, Lease, NewTask, band_of
from onceward.model.times import uuid7
from onceward.store.drivers.session import Session
from onceward.store.lineage.unique_roots import enqueue_root
from tests.faults.counting import keep, recovered_s, taken_back
from tests.faults.fleet import Fleet, wait_until
from tests.faults.spawners import PROCESSES, THREADS, Spawners, Wish
from tests.faults.work import Bomb, Ping
from tests.killing import kill_a_busy_one
from tests.proof.tally import SEED
from tests.store.children import DEFAULTS, child, commit, together
from tests.store.conftest import Hands

SPAWNERS = PROCESSES * THREADS
ASKED_EACH = 2


@pytest.fixture
def session(fleet: Fleet) -> Any:
    """A session on the fleet's database, by hand."""
    opened: Session = fleet.app._store.session(patience_s=10)
    yield opened
    opened.close()


@pytest.fixture
def hands(session: Session) -> Hands:
    hands = Hands(session)
    hands.now = int(time.time() * 1_000)
    return hands


# One cap


def test_64_spawners_race_one_cap(fleet: Fleet, hands: Hands) -> None:
    race_one_cap(fleet, hands, rounds=3)


@pytest.mark.torture
def test_64_spawners_race_one_cap_again_and_again(fleet: Fleet, hands: Hands) -> None:
    race_one_cap(fleet, hands, rounds=60)


def race_one_cap(fleet: Fleet, hands: Hands, *, rounds: int) -> None:
    """Each of 64 tasks of a lineage ends and asks for two children, all at the same moment."""
    dice = random.Random(SEED * rounds)
    worker = hands.worker()
    asked = SPAWNERS * ASKED_EACH
    with Spawners(fleet.url) as spawners:
        for number in range(rounds):
            room = (37, 0, asked + 5)[number] if number < 3 else dice.randrange(asked + 10)
            root = new_root(hands, f"root {number}", max_tasks=1 + SPAWNERS + room)
            [lease] = hands.claim(worker)
            parents = [f"{number} parent {place}" for place in range(SPAWNERS)]
            commit(hands, lease, f"root {number}", Advance("first", b"1", "last"), *map(child, parents))
            leases = hands.claim(worker)
            assert len(leases) == SPAWNERS
            spawners.race([wish(hands, one, ASKED_EACH) for one in leases], hands.now)

            accepted = min(room, asked)
            tasks = fleet.sql(f"SELECT identity, depth FROM onceward_task WHERE lineage = {lineage_of(root)}")
            assert len(tasks) == 1 + SPAWNERS + accepted
            assert len({bytes(row[0]) for row in tasks}) == len(tasks), "every child exists once"
            assert [row[0] for row in fleet.sql(f"SELECT tasks FROM onceward_lineage WHERE root = {root}")] == [
                1 + SPAWNERS + accepted
            ]
            told = fleet.sql(
                f"SELECT rule, count(*) FROM onceward_refusal WHERE lineage = {lineage_of(root)} GROUP BY 1"
            )
            assert told == ([("limit", asked - accepted)] if accepted < asked else [])
            hands.claim(worker)  # so that nothing of this round is left for the next one
    fleet.verified()
    keep(fleet.app, "F50", f"{SPAWNERS} spawners race one cap", faults=rounds)


# One identity


def test_six_lineages_race_one_key(fleet: Fleet, hands: Hands) -> None:
    race_one_key(fleet, hands, rounds=3)


@pytest.mark.torture
def test_six_lineages_race_one_key_again_and_again(fleet: Fleet, hands: Hands) -> None:
    race_one_key(fleet, hands, rounds=60)


def race_one_key(fleet: Fleet, hands: Hands, *, rounds: int) -> None:
    """Six tasks that have nothing to do with each other ask for the same work, which is unique everywhere."""
    worker = hands.worker()
    with Spawners(fleet.url) as spawners:
        for number in range(rounds):
            roots = hands.enqueue(6)
            leases = hands.claim(worker)
            wanted = child(f"company {number}", unique="everywhere")
            spawners.race([Wish(one, together("", wanted)) for one in leases], hands.now)

            live = fleet.sql(f"SELECT id, parent FROM onceward_task WHERE key = 'company {number}'")
            assert len(live) == 1
            [(task, parent)] = live
            linked = {row[0] for row in fleet.sql(f"SELECT parent FROM onceward_link WHERE child = {task}")}
            assert linked == set(roots) - {parent}
            assert len(linked) == 5
            [(holder,)] = hands.sql(
                "SELECT task FROM onceward_identity WHERE scope = ? AND hash = ?", EVERYWHERE, wanted.identity
            )
            assert holder == task
            hands.claim(worker)  # so that nothing of this round is left for the next one
    assert fleet.sql("SELECT count(*) FROM onceward_refusal") == [(0,)]
    fleet.verified()
    keep(fleet.app, "F51", "six lineages race one key", faults=rounds)


def new_root(hands: Hands, key: str, *, max_tasks: int) -> int:
    root = NewTask(
        kind="note", version=1, queue="default", band=band_of(0), key=key, identity=identity("note", key),
        payload=b"{}", lineage=uuid7(hands.now), due_at=hands.now, created_at=hands.now,
        bounds=DEFAULTS.replaced(Limits(max_tasks=max_tasks)),
    )  # fmt: skip
    task = hands.do(lambda: enqueue_root(root, hands.now)).task
    assert task is not None
    return task


def wish(hands: Hands, lease: Lease, count: int) -> Wish:
    return Wish(lease, together(str(lease.task), *(child(f"{lease.task} child {number}") for number in range(count))))


def lineage_of(root: int) -> str:
    return f"(SELECT lineage FROM onceward_task WHERE id = {root})"


# Bombs


def test_a_lineage_bomb_stops_at_its_cap_while_workers_are_killed(fleet: Fleet) -> None:
    explode(fleet, most=100, circles=10, kills=3, longest_ms=150)


@pytest.mark.torture
def test_a_large_lineage_bomb_stops_at_its_cap_while_workers_are_killed(fleet: Fleet) -> None:
    explode(fleet, most=2_000, circles=200, kills=40, longest_ms=400)


def explode(fleet: Fleet, *, most: int, circles: int, kills: int, longest_ms: int) -> None:
    """Every task asks for ten new ones, and pairs of pipelines ask for each other, until the guard stops them."""
    dice = random.Random(SEED * most)
    limits = Limits(max_tasks=most, max_depth=20)
    bomb = fleet.app.enqueue(Bomb("0", longest_ms), limits=limits).id
    pings = fleet.enqueue(Ping(number, longest_ms) for number in range(circles))
    worker = fleet.start(processes=4, settings={"concurrency": 8})
    wanted = most + 2 * circles
    killed: dict[int, float] = {}
    while len(killed) < kills and fleet.ended() < wanted:
        alive = wait_until(lambda: _some_are_there(fleet, set(killed)), "some children are there", fleet.state)
        if pid := kill_a_busy_one(partial(fleet.busy_pids, alive), dice, patience_s=1):
            killed[pid] = time.time()
        time.sleep(min(0.4, dice.expovariate(1 / 0.1)))
    wait_until(lambda: fleet.ended() >= wanted, "everything has ended", fleet.state, limit_s=60 + kills)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0

    assert fleet.counts() == {Status.SUCCEEDED: wanted}, "exactly as many as the cap says, and not one failed"
    family = [row[0] for row in fleet.sql(f"SELECT id FROM onceward_task WHERE lineage = {lineage_of(bomb)}")]
    assert len(family) == most
    [(tasks, cap)] = fleet.sql(f"SELECT tasks, max_tasks FROM onceward_lineage WHERE root = {bomb}")
    assert (tasks, cap) == (most, most)
    refused = fleet.sql(
        f"SELECT rule, min(reason), max(reason), count(*) FROM onceward_refusal WHERE lineage = {lineage_of(bomb)}"
        " GROUP BY rule"
    )
    reason = f"its lineage has no room: max_tasks is {most}"
    assert refused == [("limit", reason, reason, 10 * most - (most - 1))]

    circle = fleet.sql(
        "SELECT t.kind, t.depth, r.rule, r.ancestor, t.parent FROM onceward_task t"
        " LEFT JOIN onceward_refusal r ON r.parent = t.id WHERE t.kind IN ('ping', 'pong') ORDER BY t.id"
    )
    assert [row for row in circle if row[0] == "ping"] == [("ping", 0, None, None, None)] * circles
    pongs = [row for row in circle if row[0] == "pong"]
    assert sorted(row[4] for row in pongs) == sorted(pings)
    assert all(row == ("pong", 1, "cycle", row[4], row[4]) for row in pongs), "each stops at the first repeat"

    everyone = [row[:2] for row in fleet.sql("SELECT id, stage FROM onceward_task")]
    fleet.exactly_once((task, stage) for task, stage in everyone)
    fleet.verified()
    assert taken_back(fleet.app) > 0, "no kill has hit anything"
    fault = "worker killed while its tasks spawn up to a cap"
    keep(fleet.app, "F50", fault, faults=len(killed), recovery_s=recovered_s(fleet.app, killed))


def _some_are_there(fleet: Fleet, killed: set[int]) -> set[int]:
    alive = set(fleet.living_pids()) - killed
    return alive if len(alive) >= 2 or fleet.ended() else set()
