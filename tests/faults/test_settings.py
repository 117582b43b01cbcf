"""Settings that are changed while real worker processes run: they go by them within seconds."""

from __future__ import annotations

import pytest

from onceward import Status
from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import Gate, Listen

SECONDS = 5.0


@pytest.mark.parametrize("processes", [None, 1])
@pytest.mark.alone
def test_a_running_worker_goes_by_a_changed_concurrency(fleet: Fleet, processes: int | None) -> None:
    fleet.enqueue(Gate(number, str(fleet.folder)) for number in range(6))
    worker = fleet.start(processes=processes, until_idle=True, settings={"concurrency": 1, "threads": 8})

    def inside() -> int:
        return len(list(fleet.folder.glob("inside-*")))

    wait_until(lambda: inside() == 1, "one stage has begun", fleet.state)
    fleet.app.settings.set("concurrency", 4)
    wait_until(lambda: inside() == 4, "three more have", fleet.state, limit_s=SECONDS)
    fleet.app.settings.set("concurrency", 2)
    (fleet.folder / "open").touch()
    assert worker.end() == 0
    assert fleet.counts() == {Status.SUCCEEDED: 6}


@pytest.mark.alone
def test_running_stages_hear_of_a_changed_setting(fleet: Fleet) -> None:
    tasks = fleet.enqueue([Listen(), Listen(apart=True)])
    worker = fleet.start(until_idle=True)

    def listening() -> bool:
        notes = [fleet.app.tasks.get(task).progress for task in tasks]
        return all(progress is not None and progress.note == "hello" for progress in notes)

    wait_until(listening, "both have heard the first value", fleet.state)
    fleet.app.settings.set("greeting", "good evening")
    wait_until(lambda: fleet.counts().get(Status.SUCCEEDED) == 2, "both heard the other", fleet.state, limit_s=SECONDS)
    assert worker.end() == 0
