"""A disk without space: a clear error, nothing lost, and work goes on once there is some."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import apsw
import pytest

from onceward import App, Context, Payload, Pipeline, Status
from onceward.errors import StoreFull
from onceward.worker.presence import Presence
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import Orders
from tests.disk.engine import NOTES, assert_sound, assert_verified, insert_note
from tests.disk.letters import until
from tests.proof.tally import Tally
from tests.small_disk import fill, small_disk

SIZE = 16 << 20
BALLAST = 6 << 20
"""Enough that the log can be copied into the database."""
FULL = "the disk of .* is full; nothing was lost"


class Letter(Payload, kind="letter"):
    """A task that may be large."""

    number: int
    text: str = ""


class Mailing:
    """An app whose stages wait until they are let go."""

    def __init__(self, file: Path) -> None:
        letter = Pipeline(Letter)
        self.may_go = threading.Event()
        self.begun = threading.Semaphore(0)

        @letter.stage
        def send(ctx: Context[Letter]) -> None:
            self.begun.release()
            assert self.may_go.wait(60)
            ctx.write(insert_note, ctx.task.id, "sent")

        self.file = file
        self.app = App(f"sqlite:///{file}", [letter], migrations=[NOTES])
        self.app.prepare()

    def assert_sent(self, tasks: list[int]) -> None:
        """All of these have ended, and each has left one row."""
        assert all(self.app.tasks.get(task).status is Status.SUCCEEDED for task in tasks)
        notes = self.app.read(lambda connection: connection.execute("SELECT task FROM note ORDER BY task").fetchall())
        assert [task for (task,) in notes] == sorted(tasks)
        assert_verified(self.app)
        assert_sound(self.file)
        Tally(matrix="F22", fault="disk full", store="sqlite", faults=1, accepted=len(tasks), commits=len(tasks)).keep()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with a few megabytes."""
    with small_disk(tmp_path / "disk", SIZE) as folder:
        yield folder


@pytest.fixture
def mailing(disk: Path) -> Iterator[Mailing]:
    """An app on that disk."""
    made = Mailing(disk / "onceward.db")
    yield made
    made.app.close()


def enqueue_until_full(app: App) -> list[int]:
    """Ask for large tasks until there is no space; those that were accepted."""
    kept: list[int] = []
    with suppress(StoreFull):
        kept.extend(app.enqueue(Letter(number, os.urandom(30_000).hex())).id for number in count())
    return kept


def change_until_full(app: App) -> None:
    """Have the same small thing written again and again until there is no space."""
    with suppress(StoreFull):
        for number in count():
            app.settings.set("concurrency", 100 + number % 2)


def test_payloads_fill_the_disk(disk: Path, mailing: Mailing) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    kept = enqueue_until_full(mailing.app)
    assert len(kept) > 10
    with pytest.raises(StoreFull, match=FULL):
        mailing.app.enqueue_many([Letter(number, os.urandom(30_000).hex()) for number in range(-20, 0)])
    assert mailing.app.stats.counts()[Status.PENDING] == len(kept)
    assert_verified(mailing.app)
    ballast.unlink()
    mailing.may_go.set()
    mailing.app.run(until_idle=True)
    mailing.assert_sent(kept)


def test_the_log_fills_the_disk_while_a_reader_pins_it(disk: Path, mailing: Mailing) -> None:
    kept = [mailing.app.enqueue(Letter(0)).id]
    (disk / "other").write_bytes(bytes(10 << 20))
    with closing(apsw.Connection(str(mailing.file))) as reader:
        reader.execute("CREATE TABLE gone AS SELECT randomblob(500000); DROP TABLE gone; PRAGMA wal_checkpoint")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM onceward_task").fetchall()
        change_until_full(mailing.app)
        with pytest.raises(StoreFull, match=FULL):
            mailing.app.enqueue(Letter(1))
        reader.execute("COMMIT")
    kept.append(mailing.app.enqueue(Letter(2)).id)  # the log is written from its beginning again: there is room
    with pytest.raises(StoreFull, match="a worker needs a little of it"):
        mailing.app.run(until_idle=True)
    (disk / "other").unlink()
    mailing.may_go.set()
    mailing.app.run(until_idle=True)
    mailing.assert_sent(kept)


def test_another_file_fills_the_disk_under_a_worker(
    disk: Path, mailing: Mailing, caplog: pytest.LogCaptureFixture
) -> None:
    kept = [one.id for one in mailing.app.enqueue_many([Letter(number) for number in range(5)])]
    processes: list[WorkerProcess] = []
    thread = threading.Thread(target=lambda: mailing.app._work(Orders(), on_start=processes.append))
    thread.start()
    try:
        assert all(mailing.begun.acquire(timeout=60) for _ in kept)
        fill(disk / "other")
        mailing.may_go.set()
        until(lambda: "cannot be used, trying again" in caplog.text, "the worker has met the full disk")
        with pytest.raises(StoreFull, match=FULL):
            mailing.app.enqueue_many([Letter(number, os.urandom(30_000).hex()) for number in range(20)], root=True)
        (disk / "other").unlink()
        until(lambda: mailing.app.stats.counts().get(Status.SUCCEEDED) == len(kept), "everything is sent")
    finally:
        (disk / "other").unlink(missing_ok=True)
        processes[0].request_stop()
        thread.join()
    mailing.assert_sent(kept)


def test_a_worker_that_has_not_begun_anything_survives_a_full_disk(disk: Path) -> None:
    presence = Presence(disk / "workers" / "one", slots=1_000)
    fill(disk / "other")
    child = os.fork()
    if child == 0:  # where there is no space for a page of the file, the system kills whoever writes to it
        for slot in range(1_000):
            presence.enter(slot + 1, 0, 1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    presence.remove()
