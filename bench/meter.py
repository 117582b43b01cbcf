"""What a measurement costs the machine: CPU and memory of the workers, what they write, how often they commit.

Read from outside, so that nothing is measured by what is measured: from /proc, from the header of SQLite's
write-ahead log index, and from the statistics of PostgreSQL. Where the system does not tell, there is no figure.
"""

import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.processes import Process
from bench.runlog import RECORD
from bench.target import Target

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
# Of the header of the index of the write-ahead log: a counter "incremented with each transaction".
TRANSACTIONS = struct.Struct("=I")
TRANSACTIONS_AT = 8
# How long a server may take to see off the connections of a worker that has ended.
FAREWELL_SECONDS = 5.0
# Looking costs time that the workers could use.
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Look:
    """How things stood at one moment of a run."""

    runs: int
    cpu_seconds: float
    written: int
    transactions: int


class Meter:
    """Looks at workers while they run. What it tells is about the time between the first handler start and the last."""

    def __init__(self, target: Target, workers: list[Process]) -> None:
        self.target = target
        self.workers = workers
        self.first: Look | None = None
        self.last: Look | None = None
        self.peak_kb = 0
        self.next_look_at = 0.0

    def look(self, runs: int) -> None:
        """Note how things stand, unless one has just looked; workers that have ended are no longer looked at."""
        if time.monotonic() < self.next_look_at:
            return
        self.next_look_at = time.monotonic() + LOOK_SECONDS
        try:
            pids = [pid for worker in self.workers for pid in busy(worker.pid)]
            now = Look(runs, sum(map(cpu_seconds, pids)), sum(map(written, pids)), transactions(self.target))
            self.peak_kb = max(self.peak_kb, *(peak_kb(pid) for pid in pids))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return
        if self.first is None and runs:
            self.first = now
        if runs and (self.last is None or runs > self.last.runs):
            self.last = now

    def costs(self) -> dict[str, float]:
        """CPU a task, and on SQLite what was written and committed."""
        if self.first is None or self.last is None or self.last.runs == self.first.runs:
            return {}
        runs = self.last.runs - self.first.runs
        found = {"cpu": (self.last.cpu_seconds - self.first.cpu_seconds) / runs * 1e6}
        if self.target.store == "sqlite":
            # The run log is written by the same process.
            found["written"] = (self.last.written - self.first.written) / runs - RECORD.size
            found["commits"] = (self.last.transactions - self.first.transactions) / runs * 1_000
        return found

    def memory(self) -> dict[str, float]:
        """The most that any of the workers ever held."""
        return {"memory": self.peak_kb / 1_000} if self.peak_kb else {}


def busy(pid: int) -> list[int]:
    """The processes that do the work: the children of a supervisor, or the process itself if it has none."""
    children = (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [int(child) for child in children] or [pid]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all its threads."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_kb(pid: int) -> int:
    """The largest resident set of a process so far."""
    return _number(PROC / str(pid) / "status", "VmHWM:")


def written(pid: int) -> int:
    """How many bytes a process has handed to `write` and its kind: on SQLite the log, and what is copied from it."""
    return _number(PROC / str(pid) / "io", "wchar:")


def transactions(target: Target) -> int:
    """How many transactions the present write-ahead log of a SQLite file has seen."""
    if target.store != "sqlite":
        return 0
    with open(target.url.removeprefix("sqlite:///") + "-shm", "rb") as index:
        index.seek(TRANSACTIONS_AT)
        found = index.read(TRANSACTIONS.size)
    return int(TRANSACTIONS.unpack(found)[0]) if len(found) == TRANSACTIONS.size else 0  # it was opened a moment ago


def _number(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


@contextmanager
def postgres_costs(target: Target, tasks: int) -> Iterator[dict[str, float]]:
    """Fills a dictionary, at the end of the block, with the log and the commits a task of PostgreSQL."""
    found: dict[str, float] = {}
    if target.store != "postgres":
        yield found
        return
    with psycopg.connect(target.url, autocommit=True) as connection:
        before = _ledger(connection)
        yield found
        after = _ledger(connection)
    found["written"] = (after[0] - before[0]) / tasks
    found["commits"] = (after[1] - before[1]) / tasks * 1_000


def _ledger(connection: psycopg.Connection[tuple[int, ...]]) -> tuple[int, int]:
    """The position of the write-ahead log and the commits of this database, once all others have left it."""
    end = time.monotonic() + FAREWELL_SECONDS
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    while time.monotonic() < end and connection.execute(query).fetchone() != (0,):
        time.sleep(0.02)
    row = connection.execute(
        "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, xact_commit "
        "FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
