"""Failover: the primary of three servers is killed or frozen, and another one takes its place.

With a synchronous standby nothing that was confirmed is lost. Without one what is lost is counted; but no stage rests
on what is gone, no task is left behind, and nothing is done twice in what is there.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from onceward import Event, StoreError
from tests.faults.fleet import Fleet, wait_until
from tests.faults.patroni import ARE_HERE, Cluster, Node
from tests.faults.work import STAGES, Steps, make_app
from tests.proof.tally import SEED, Tally

pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(not ARE_HERE, reason="needs root, and Debian's packages patroni, etcd-server and postgresql"),
]
FAILOVERS = 8
"""Each way twice."""
SLOWEST_S = 120.0
WAYS = ("node killed", "frozen", "server killed", "stays frozen")
"""How a primary is taken away."""


@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
def test_a_failover_loses_nothing_that_a_standby_had(synchronous: bool, tmp_path: Path) -> None:
    with Cluster(synchronous=synchronous) as cluster, Fleet(cluster.url, tmp_path) as fleet:
        fail_over(fleet, cluster, failovers=FAILOVERS)


def fail_over(fleet: Fleet, cluster: Cluster, *, failovers: int) -> None:
    """Take the primary away, again and again, while a program enqueues and workers work."""
    dice = random.Random(SEED * failovers)
    # As on machines of their own: no presence file tells that they live.
    settings, folders = {"concurrency": 10, "poll": "200ms"}, [fleet.folder / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    workers = [fleet.start(settings=settings, environment={"TMPDIR": str(folder)}) for folder in folders]
    recovery_s = []
    with enqueueing(cluster.url) as accepted:
        for number in range(failovers):
            wait_until(partial(_commits_again, fleet), "there is work", cluster.said, limit_s=SLOWEST_S)
            primary = wait_until(cluster.primary, "somebody leads", cluster.said)
            began_at = time.monotonic()
            bring_back = take_away(cluster, primary, dice, number)
            try:
                wait_until(partial(_is_led, cluster, primary), "another one leads", cluster.said, limit_s=SLOWEST_S)
                if number % len(WAYS) == WAYS.index("stays frozen"):
                    wait_until(partial(_commits_again, fleet), "nobody waits for it", cluster.said, limit_s=SLOWEST_S)
            finally:
                bring_back()
            wait_until(partial(_commits_again, fleet), "the work goes on", cluster.said, limit_s=SLOWEST_S)
            recovery_s.append(round(time.monotonic() - began_at, 3))
            cluster.make_whole()
            taking = [node for node in cluster.nodes if cluster.takes_writes(node)]
            assert taking == [cluster.primary()], "the old primary takes writes beside the new one"
    wait_until(partial(_is_all_done, fleet), "every task has ended", fleet.state, limit_s=SLOWEST_S)
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in workers} == {0}, fleet.state()

    assert fleet.sql("SELECT name, ended_how FROM onceward_worker WHERE ended_how LIKE 'died: %'") == []
    there = {task for (task,) in fleet.sql("SELECT id FROM onceward_task")}
    lost = len(accepted) - len(there.intersection(accepted))  # an id that is gone may have been given again
    if cluster.synchronous:
        assert lost == 0, f"{lost} of {len(accepted)} tasks that were accepted are gone"
    fleet.all_succeeded(there)
    fleet.exactly_once((task, stage) for task in there for stage in STAGES)
    fleet.verified()
    Tally(
        matrix="F36",
        fault=f"failover, {'synchronous' if cluster.synchronous else 'asynchronous'}",
        store="postgres",
        faults=failovers,
        accepted=len(accepted),
        commits=len(there) * len(STAGES),
        lost=lost,
        refused=fleet.events(Event.LOST),
        reconciled=sum(worker.summary()["unknown_commits"] for worker in workers),
        recovery_s=recovery_s,
    ).keep()


def take_away(cluster: Cluster, primary: Node, dice: random.Random, number: int) -> partial[None]:
    """Kill the node, freeze it, or kill its server alone; returns what brings it back, as soon as another one leads, or
    not before nobody waits for it any more.

    For a moment before, the standbys get nothing any more, so that there is something to lose.
    """
    cluster.hold_back(primary)
    time.sleep(dice.uniform(0.2, 0.5))
    match WAYS[number % len(WAYS)]:
        case "node killed":
            primary.kill()
            return partial(primary.start)
        case "server killed":
            primary.kill_server()
            is_back = partial(_is_running, primary)
            return partial(wait_until, is_back, "it is back", limit_s=SLOWEST_S)
        case _:
            primary.send(signal.SIGSTOP)
            return partial(primary.send, signal.SIGCONT)


def _is_running(node: Node) -> bool:
    return node.role().get("state") == "running"


@contextmanager
def enqueueing(url: str) -> Iterator[list[int]]:
    """A program that asks for work all the time, from whoever leads; lends what has been accepted so far."""
    accepted: list[int] = []
    is_over = threading.Event()

    def ask() -> None:
        number = 0
        while not is_over.wait(0.05):
            number += 1
            try:
                accepted.extend(one.id for one in app.enqueue_many([Steps(number, 20), Steps(-number, 20)]))
            except StoreError:
                app.close()  # it opens itself again

    with make_app(url) as app:
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            yield accepted
        finally:
            is_over.set()
            asking.join(SLOWEST_S)


def _is_led(cluster: Cluster, old: Node) -> bool:
    """Whether another one leads, or the old one again: a server that is back before the others have agreed may."""
    now = cluster.primary()
    return now is not None and cluster.takes_writes(now) and (now is not old or now.has_begun_again)


def _commits_again(fleet: Fleet) -> bool:
    before = _ended(fleet)
    time.sleep(0.2)
    return before >= 0 and _ended(fleet) > before


def _is_all_done(fleet: Fleet) -> bool:
    with suppress(psycopg.OperationalError):
        return all(status.is_terminal for status in fleet.counts())
    return False


def _ended(fleet: Fleet) -> int:
    """How many tasks have ended, or -1 while nobody can say."""
    try:
        return fleet.ended()
    except psycopg.OperationalError:
        return -1
