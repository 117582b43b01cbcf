"""Workers frozen past their lease and thawed: whatever they still want to write is refused, and nothing is lost."""

from __future__ import annotations

import signal

import pytest

from onceward import Event
from tests.faults.fleet import Fleet, Worker, wait_until
from tests.faults.work import STAGES, Gate, Steps

GATE_STAGES = ("pass_through", "after")


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
    for worker in frozen:
        _wait_until_inside(fleet, worker)
        _freeze_between_transactions(fleet, worker)
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
    refused = fleet.events(Event.LOST)
    assert refused > 0
    print(
        f"\n{fleet.app.dialect}: {workers} workers frozen past their lease, {len(tasks + more)} tasks,"
        f" lost 0, double 0, stale commits 0, fence rejections {refused}"
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
