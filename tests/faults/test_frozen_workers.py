"""Workers frozen past their lease and thawed: whatever they still want to write is refused, and nothing is lost."""

from __future__ import annotations

import random
import signal
import time
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from onceward import Event, Status
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, Fleets, Worker, wait_until
from tests.faults.signalling import SIGNAL
from tests.faults.work import STAGES, Gate, Steps
from tests.proof.tally import SEED

GATE_STAGES = ("pass_through", "after")
NEVER_SUSPECTED = 1_000_000
"""Nobody can tell a frozen worker from one that its task has frozen; here it is always the former."""


def test_a_frozen_worker_cannot_finish_a_reclaimed_task(fleet: Fleet) -> None:
    freeze(fleet, workers=3)


@pytest.mark.torture
def test_twenty_frozen_workers_cannot_finish_reclaimed_tasks(fleet: Fleet) -> None:
    freeze(fleet, workers=20)


def freeze(fleet: Fleet, *, workers: int) -> None:
    """Freeze workers in the middle of a stage, let a healthy one take over, and thaw them.

    They are frozen inside a stage, not at random: a process that stops inside a SQLite write transaction stops all
    writers with it, and only its end helps; on PostgreSQL it keeps its own rows locked.
    """
    tasks = fleet.enqueue(Gate(number, str(fleet.folder)) for number in range(workers))
    frozen = [fleet.start(lease="1s", settings={"concurrency": 1}) for _ in range(workers)]
    frozen_at: dict[int, float] = {}
    for worker in frozen:
        _wait_until_inside(fleet, worker)
        _freeze_between_transactions(fleet, worker)
        frozen_at[worker.pid] = time.time()
    (fleet.folder / "open").touch()
    healthy = fleet.start(lease="1s")
    more = fleet.enqueue(Steps(number, longest_ms=0) for number in range(50))
    wait_until(lambda: fleet.ended() == len(tasks) + len(more), "the healthy worker has done it all", fleet.state)
    assert fleet.events(Event.CRASHED) == workers
    # There is work again when they wake up: a claim made by one that was declared dead must not be lost either.
    more += fleet.enqueue(Steps(number, longest_ms=0) for number in range(200))
    for worker in frozen:
        worker.send(signal.SIGCONT)
    wait_until(
        lambda: {worker.pid for worker in frozen} <= set(fleet.living_pids()),
        "each of them has learned that it was declared dead, and has begun again",
        fleet.state,
    )
    wait_until(lambda: fleet.ended() == len(tasks) + len(more), "every task has ended", fleet.state)
    for worker in [*frozen, healthy]:
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in [*frozen, healthy]} == {0}

    fleet.all_succeeded(tasks + more)
    fleet.exactly_once(
        [(task, stage) for task in tasks for stage in GATE_STAGES]
        + [(task, stage) for task in more for stage in STAGES]
    )
    fleet.verified()
    assert fleet.events(Event.LOST) > 0
    keep(
        fleet.app,
        "F04",
        "worker frozen inside a stage past its lease, and thawed",
        faults=workers,
        recovery_s=recovered_s(fleet.app, frozen_at),
    )


def _wait_until_inside(fleet: Fleet, worker: Worker) -> None:
    """Now its claim is durable and its stage runs; nothing but its heartbeat writes."""
    wait_until(lambda: list(fleet.folder.glob(f"inside-*-{worker.pid}")), "the stage has begun", fleet.state)


def _freeze_between_transactions(fleet: Fleet, worker: Worker) -> None:
    """Stop it; if that was in the middle of a heartbeat, let it go on and try again."""

    def frozen() -> bool:
        worker.send(signal.SIGSTOP)
        wait_until(worker.is_stopped, "all its threads stand still", fleet.state, every_s=0.001)
        if not fleet.has_open_transaction():
            return True
        worker.send(signal.SIGCONT)
        return False

    wait_until(frozen, "it is frozen between two transactions", fleet.state)


# Between a stage and its commit: who comes back there can only write.


def test_a_worker_frozen_between_its_stage_and_the_commit_is_refused_when_it_comes_back(fleets: Fleets) -> None:
    fleets.take_turns(partial(freeze_before_commits, rounds=1, workers=4), first="sqlite")


@pytest.mark.torture
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_hundreds_of_workers_frozen_before_their_commits_are_refused(fleets: Fleets, store: str) -> None:
    fleets.try_all([(store, partial(freeze_before_commits, rounds=40, workers=10))])


def freeze_before_commits(fleet: Fleet, *, rounds: int, workers: int, lease_s: float = 1.0) -> None:
    """The same workers freeze again and again, each with a finished stage in its hands, and are thawed some time after
    their work was done by others. Each time they begin anew."""
    dice = random.Random(f"{SEED} {rounds} {fleet.app.dialect}")
    begun_at = time.monotonic()
    lease, may_die = f"{lease_s:g}s", {"max_lost_workers": NEVER_SUSPECTED}
    environment = {SIGNAL: "SIGSTOP at after pass_through then before commit"}
    frail = [
        fleet.start(lease=lease, settings={"concurrency": 1, **may_die}, environment=environment)
        for _ in range(workers)
    ]
    healthy = fleet.start(lease=lease, settings={"concurrency": 8, "threads": 8, **may_die})
    tasks: list[int] = []
    zombies = 0
    recovery_s: list[float] = []
    for number in count(1):
        folder = fleet.folder / f"round-{number}"
        folder.mkdir()
        wait_until(partial(_are_at_work, fleet, frail), "all of them are at work", fleet.state)
        # Two for each of them, which may hold one that it has not begun, and eight for the healthy one.
        mine = fleet.enqueue(Gate(which, str(folder)) for which in range(2 * workers + 8))
        tasks += mine
        wait_until(partial(_are_inside, folder, frail), "each of them is inside a stage", fleet.state)
        frozen_at = time.time()
        (folder / "open").touch()
        for worker in frail:
            wait_until(worker.is_stopped, "each of them is frozen", fleet.state, every_s=0.002)
        frozen = list(frail)
        wait_until(partial(_have_ended, fleet, frail, frozen, mine), "others have done their work", fleet.state)
        time.sleep(dice.uniform(0, lease_s))
        assert all(worker.is_stopped() for worker in frozen)
        zombies += len(frozen)
        recovery_s += recovered_s(fleet.app, {worker.pid: frozen_at for worker in frozen})
        for worker in frail:
            worker.send(signal.SIGCONT)
        if number >= rounds and zombies:  # all of them may have had to be thawed
            break
    took_s = time.monotonic() - begun_at
    wait_until(partial(_are_at_work, fleet, frail), "all of them are at work again", fleet.state)
    for worker in [*frail, healthy]:
        worker.send(signal.SIGTERM)
    wait_until(partial(_are_gone, frail), "all of them have ended", fleet.state)
    assert {worker.end() for worker in [*frail, healthy]} == {0}
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in GATE_STAGES)
    fleet.verified()
    # Some hear from their heartbeat that they were declared dead before they come to their commit.
    assert fleet.events(Event.LOST) > zombies / 2, "most of them have tried to write"
    print(f"\n{fleet.app.dialect}: {zombies / took_s * 3_600:,.0f} zombies an hour")
    fault = "worker frozen between a stage and its commit past its lease, and thawed"
    keep(fleet.app, "F04", fault, faults=zombies, recovery_s=recovery_s)


def _are_at_work(fleet: Fleet, workers: list[Worker]) -> bool:
    _wake(workers)
    return {worker.pid for worker in workers} <= set(fleet.living_pids())


def _are_inside(folder: Path, workers: list[Worker]) -> bool:
    _wake(workers)
    return {worker.pid for worker in workers} <= {int(path.name.split("-")[2]) for path in folder.glob("inside-*")}


def _are_gone(workers: list[Worker]) -> bool:
    _wake(workers)
    return all(worker.process.poll() is not None for worker in workers)


def _wake(workers: list[Worker]) -> None:
    """One that had more than one stage in its hands has frozen again at the end of the next, or when it stops."""
    for worker in workers:
        if worker.is_stopped():
            worker.send(signal.SIGCONT)


def _have_ended(fleet: Fleet, frail: list[Worker], frozen: list[Worker], tasks: list[int]) -> bool:
    """Whether all these tasks have. Another thread of a frozen worker may have been in the middle of a transaction, so
    that nobody can take its task: such a one is thawed, and does not count."""
    ids = ", ".join(map(str, tasks))
    left = fleet.sql(f"SELECT count(*) FROM onceward_task WHERE id IN ({ids}) AND status < {int(Status.SUCCEEDED)}")
    if left != [(0,)] and fleet.has_open_transaction(for_s=2.0):
        if frozen:
            frozen.pop()
        for worker in frail:
            if worker not in frozen:
                worker.send(signal.SIGCONT)
    return left == [(0,)]
