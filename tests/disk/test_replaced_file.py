"""Another file is put in the place of the database while it is open, or it is deleted: nothing is acknowledged into a
file that nobody can see, and workers go on from what is there."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from onceward import App, Context, Pipeline, Status
from onceward.errors import StoreError, StoreUnavailable
from onceward.store.drivers.availability import database
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import Orders
from tests.disk.engine import assert_sound, assert_verified
from tests.disk.letters import Letter, mailing, until
from tests.proof.tally import Tally


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with mailing(tmp_path / "onceward.db") as made:
        yield made


def copy_of(app: App, copy: Path) -> Path:
    """A copy of a database as it is now."""
    with closing(apsw.Connection(app._store.place)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    return copy


def put_in_place(app: App, copy: Path | None) -> None:
    """Move a database and what belongs to it away, and put a copy in its place, or nothing."""
    place = Path(app._store.place)
    away = place.parent / "away"
    away.mkdir(exist_ok=True)
    for name in (place.name, f"{place.name}-wal", f"{place.name}-shm"):
        if (place.parent / name).exists():
            (place.parent / name).rename(away / name)
    if copy is not None:
        ready = Path(shutil.copy(copy, away / "ready.db"))
        ready.rename(place)  # at a stroke: half a copy is a database without tables, or none


def numbers(app: App) -> list[str]:
    """The letters that were sent, as a new connection sees them."""
    with closing(apsw.Connection(app._store.place)) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY task").fetchall()]


def test_what_is_acknowledged_is_in_the_file_that_is_there(app: App, tmp_path: Path) -> None:
    app.enqueue(Letter(1))
    copy = copy_of(app, tmp_path / "copy.db")
    app.enqueue(Letter(2))
    put_in_place(app, copy)
    task = app.enqueue(Letter(3))
    with closing(apsw.Connection(app._store.place)) as other:
        assert other.execute("SELECT id FROM onceward_task ORDER BY id").fetchall() == [(1,), (task.id,)]
    app.run(until_idle=True)
    assert numbers(app) == ["1", "3"]
    assert_verified(app)


def test_nothing_is_acknowledged_where_the_file_is_gone(app: App) -> None:
    app.enqueue(Letter(1))
    put_in_place(app, None)
    session = app._session()
    session._patience_s = 0.1
    for _ in range(2):
        with pytest.raises(StoreError):
            app.enqueue(Letter(2))
    assert not Path(app._store.place).exists()


def test_no_session_of_a_process_makes_an_empty_file_in_the_place_of_a_deleted_one(app: App) -> None:
    app.enqueue(Letter(1))
    late = app._store.session(patience_s=0.0)  # a worker begins many, and opens them when it needs them
    put_in_place(app, None)
    with pytest.raises(StoreUnavailable, match="it is not there any more"):
        late.opened()
    assert not Path(app._store.place).exists()


def test_a_worker_that_its_supervisor_has_just_started_makes_none_either(tmp_path: Path) -> None:
    with mailing(tmp_path / "gone.db") as app:
        app._work(Orders(worker=1), on_start=lambda process: process.request_stop())
    assert not (tmp_path / "gone.db").exists()


def test_a_worker_that_is_told_twice_to_stop_does_not_wait_for_a_database_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceward.worker.process.LAST_COMMITS_S", 300.0)
    began, may_end = threading.Event(), threading.Event()
    pipeline = Pipeline(Letter)

    @pipeline.stage
    def send(ctx: Context[Letter]) -> None:
        began.set()
        may_end.wait(30)

    processes: list[WorkerProcess] = []
    with App(f"sqlite:///{tmp_path / 'onceward.db'}", [pipeline]) as app:
        app.enqueue(Letter(1))
        thread = threading.Thread(target=lambda: app._work(Orders(), on_start=processes.append), daemon=True)
        thread.start()
        assert began.wait(30)
        put_in_place(app, None)
        may_end.set()
        until(lambda: database.is_away, "the worker has noticed")
        processes[0].request_stop()
        processes[0].request_stop()
        thread.join(60)
        assert not thread.is_alive()


def test_workers_go_on_from_an_older_copy_that_was_put_in_place_under_them(app: App, tmp_path: Path) -> None:
    app.prepare()
    processes: list[WorkerProcess] = []
    thread = threading.Thread(target=lambda: app._work(Orders(), on_start=processes.append))
    thread.start()
    try:
        app.enqueue(Letter(1), root=True)
        until(lambda: numbers(app) == ["1"], "the first letter is sent")
        copy = copy_of(app, tmp_path / "copy.db")
        app.enqueue(Letter(2), root=True)
        until(lambda: numbers(app) == ["1", "2"], "the second letter is sent")
        put_in_place(app, copy)
        began = time.monotonic()
        app.enqueue(Letter(3), root=True)
        until(lambda: numbers(app) == ["1", "3"], "the worker sends what is in the copy")
        took_s = time.monotonic() - began
    finally:
        processes[0].request_stop()
        thread.join()
    assert [app.tasks.get(task).status for task in (1, 2)] == [Status.SUCCEEDED] * 2
    assert_verified(app)
    assert_sound(Path(app._store.place))
    Tally(
        matrix="F27",
        fault="older copy put in place under a worker",
        store="sqlite",
        faults=1,
        accepted=3,
        commits=3,
        recovery_s=[took_s],
    ).keep()
