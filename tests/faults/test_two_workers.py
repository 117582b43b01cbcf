"""Two workers, twenty tasks, and a worker that dies: the tests that every queue should begin with."""

from __future__ import annotations

from onceward import Event
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import STAGES, Gate, Steps


def test_twenty_tasks_two_workers_each_once(fleet: Fleet) -> None:
    tasks = fleet.enqueue(Steps(number) for number in range(20))
    settings = {"concurrency": 3}  # so that neither can take them all
    workers = [fleet.start(until_idle=True, settings=settings) for _ in range(2)]
    assert [worker.end() for worker in workers] == [0, 0]
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in STAGES)
    assert fleet.sql("SELECT DISTINCT fence FROM onceward_task") == [(1,)]


def test_a_dead_workers_task_is_reclaimed_and_finished(fleet: Fleet) -> None:
    [task] = fleet.enqueue([Gate(1, str(fleet.folder))])
    doomed = fleet.start()
    wait_until(lambda: list(fleet.folder.glob("inside-1-*")), "the stage has begun")
    gone_at = fleet.kill(doomed)
    (fleet.folder / "open").touch()
    fleet.run_dry()
    fleet.all_succeeded([task])
    fleet.exactly_once([(task, "pass_through"), (task, "after")])
    history = fleet.app.tasks.get(task).history
    [lost] = [happening for happening in history if happening.event is Event.CRASHED]
    assert "died" in (lost.note or "")
    assert [happening.fence for happening in history] == [1, 1, 2, 2]
    fleet.verified()
    recovery_s = recovered_s(fleet.app, {doomed.pid: gone_at})
    assert len(recovery_s) == 1
    keep(fleet.app, "F01", "worker killed inside a stage", faults=1, recovery_s=recovery_s)
