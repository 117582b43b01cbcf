"""Somebody reads an old state of the database for minutes: a report, a backup, a forgotten console.

The database may throw nothing away meanwhile, neither rows (PostgreSQL) nor pages of its log (SQLite). Work goes on as
fast as before, and what has piled up goes away with the reader.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

import apsw
import psycopg
import pytest

from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers import sqlite
from onceward.store.drivers.sqlite import SqliteSession
from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import STAGES
from tests.proof.tally import Tally

MOST_TIMES = 10
"""How many times longer than before a task may wait for its start, at the 99th percentile."""
NOISE_MS = 500.0


@contextmanager
def old_snapshot(fleet: Fleet) -> Iterator[None]:
    """Meanwhile a transaction is open that has read something."""
    if fleet.app.dialect == "sqlite":
        reader = apsw.Connection(fleet.url.removeprefix("sqlite:///"))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM onceward_task").fetchall()
        yield
        reader.close()
    else:
        with psycopg.connect(fleet.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT count(*) FROM onceward_task")
            yield


@pytest.mark.alone
def test_an_old_snapshot_slows_no_worker_down(fleet: Fleet) -> None:
    work_beside_a_reader(fleet, seconds=1)


@pytest.mark.torture
def test_a_snapshot_of_many_minutes_slows_no_worker_down(fleet: Fleet) -> None:
    work_beside_a_reader(fleet, seconds=240)


def work_beside_a_reader(fleet: Fleet, *, seconds: float) -> None:
    """Have the same work done without a reader and beside one, and see how long tasks wait for their start."""
    worker = fleet.start(settings={"concurrency": 50})
    wait_until(fleet.living_pids, "the worker is there", fleet.state)
    before = fleet.keep_busy(min(seconds, 30))
    with old_snapshot(fleet):
        beside = fleet.keep_busy(seconds)
    after = fleet.keep_busy(min(seconds, 30))
    normal_ms, held_ms = waited_ms(fleet, before), waited_ms(fleet, beside)
    assert held_ms <= MOST_TIMES * normal_ms + NOISE_MS, f"{held_ms:.0f} ms, without the reader {normal_ms:.0f} ms"
    ids = [*before, *beside, *after]
    worker.send(signal.SIGTERM)
    assert worker.end() == 0, worker.said()
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    store = fleet.app.dialect
    Tally(
        matrix="F24" if store == "sqlite" else "F37",
        fault=f"snapshot held for {seconds:g} s under load",
        store=store,
        faults=1,
        accepted=len(ids),
        commits=len(ids) * len(STAGES),
    ).keep()


def waited_ms(fleet: Fleet, ids: list[int]) -> float:
    """How long these have waited for their start, at the 99th percentile."""
    rows = fleet.sql(f"SELECT started_at - created_at FROM onceward_task WHERE id BETWEEN {ids[0]} AND {ids[-1]}")
    return quantiles([waited for (waited,) in rows], n=100)[98]


def test_a_log_that_has_grown_beside_a_reader_is_cut_when_it_has_gone(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LARGEST_LOG", 1 << 20)
    path = migrated_sqlite_url.removeprefix("sqlite:///")
    log = Path(f"{path}-wal")
    writer, reader = SqliteSession(path, StoreClock(SystemClock())), apsw.Connection(path)

    writer.opened().execute("CREATE TABLE note (text)")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM note").fetchall()
    while log.stat().st_size < 8 << 20:
        writer.opened().execute("INSERT INTO note VALUES (randomblob(100000))")
    reader.close()
    for _ in range(3):
        writer.opened().execute("INSERT INTO note VALUES ('small')")
    assert log.stat().st_size <= 2 << 20
    writer.close()
