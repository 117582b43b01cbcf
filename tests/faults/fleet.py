"""Worker processes that can be killed, frozen and thawed, and the questions one asks afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import psycopg

from onceward import App, Event, Payload, Status
from onceward.store.drivers.postgres import connect
from tests.faults.work import DATABASE, Steps, make_app
from tests.nursery import Process, nursery
from tests.proof.tally import SEED

DEADLINE_S = 60.0
STORES = ("sqlite", "postgres")
COMPILED: Path | None = None
"""Where processes that are not forked, such as the children of a supervisor, keep their compiled code."""


def compiling_once() -> dict[str, str]:
    """Our environment, for a process that finds or leaves compiled code in one place."""
    if COMPILED is None:
        return dict(os.environ)
    mine = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**mine, "PYTHONPYCACHEPREFIX": str(COMPILED)}


def begin(command: Sequence[str], variables: Mapping[str, str] | None = None, **streams: Any) -> Process:
    """Start a process of the fault tests, with more variables in its environment."""
    return nursery().start(command, environment={**compiling_once(), **(variables or {})}, **streams)


def wait_until(
    true: Callable[[], Any],
    what: str,
    else_: Callable[[], object] = str,
    *,
    limit_s: float = DEADLINE_S,
    every_s: float = 0.03,
) -> Any:
    """Wait for a condition; returns what it said. After the limit the test has failed, and `else_` may tell why."""
    give_up_at = time.monotonic() + limit_s
    while not (said := true()):
        assert time.monotonic() < give_up_at, f"waited {limit_s:g} s in vain until {what}\n{else_()}"
        time.sleep(every_s)
    return said


@dataclass
class Worker:
    """A process that works: a supervisor with its children, or one alone."""

    process: Process
    output: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def is_stopped(self) -> bool:
        """Whether a SIGSTOP has reached every thread: until then each of them may still take a lock."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        try:
            return {thread.read_text().rpartition(")")[2].split()[0] for thread in threads} == {"T"}
        except (FileNotFoundError, ProcessLookupError):  # one has just ended
            return False

    def end(self, limit_s: float = DEADLINE_S) -> int:
        """Wait for its end; returns its exit code."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {limit_s:g} s; it said:\n{self.said()}") from None

    def said(self) -> str:
        """The end of what it printed."""
        return self.output.read_text(errors="replace")[-6_000:]

    def summary(self) -> dict[str, Any]:
        """What it says that it has done, once it has ended in good order."""
        last: dict[str, Any] = json.loads(self.output.read_text().splitlines()[-1])
        return last


class Fleet:
    """Everything of one test: its database, its app, its worker processes."""

    def __init__(
        self,
        url: str,
        folder: Path,
        make: Callable[[str], App] = make_app,
        module: str = "tests.faults.worker",
    ) -> None:
        self.url = url
        self.folder = folder
        self._module = module
        self.app: App = make(url)
        self.app.prepare()
        self.workers: list[Worker] = []
        self._number = count(1)
        self._eyes: Any = None

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Working

    def enqueue(self, payloads: Iterable[Payload]) -> list[int]:
        """Ask for work; the ids of the tasks. Beside us, another fleet may have a worker in this process."""
        return [enqueued.id for enqueued in self.app.enqueue_many(payloads, root=True)]

    def keep_busy(self, seconds: float) -> list[int]:
        """Ask for short tasks at a steady rate for so long, and let them be done."""
        ids: list[int] = []
        ended = self.ended()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ids += self.enqueue(Steps(number, longest_ms=1) for number in range(10))
            time.sleep(0.1)
        wait_until(
            lambda: self.ended() == ended + len(ids), "all of it is done", self.state,
            limit_s=DEADLINE_S + seconds, every_s=0.1 + seconds / 60,
        )  # fmt: skip
        return ids

    def start(
        self,
        *,
        processes: int | None = None,
        until_idle: bool = False,
        lease: str = "10s",
        crash_at: str | None = None,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Worker:
        """Start a worker process, in a process group of its own; if it says so `under` another program."""
        command = [*under, sys.executable if under else "python", "-m", self._module]
        if processes is not None:
            command += ["--processes", str(processes)]
        if until_idle:
            command += ["--until-idle"]
        told = {"lease": lease, **(settings or {})}
        variables = {
            DATABASE: self.url,
            **{f"ONCEWARD_{name.upper()}": str(value) for name, value in told.items()},
            **(environment or {}),
        }
        if crash_at is not None:
            variables["ONCEWARD_CRASH_POINT"] = crash_at
        output = self.folder / f"worker-{next(self._number)}.log"
        with output.open("wb") as file:
            process = begin(command, variables, stdout=file, stderr=subprocess.STDOUT, new_session=True)
        worker = Worker(process, output)
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> float:
        """End a worker at once and forget it: its pid may become another's. When that was, in seconds since 1970."""
        at = time.time()
        worker.send(signal.SIGKILL)
        assert worker.end() == -signal.SIGKILL, worker.said()
        self.workers.remove(worker)
        worker.output.unlink()
        return at

    def run_dry(self, *, limit_s: float = DEADLINE_S, **options: Any) -> dict[str, Any]:
        """Have one more worker process do whatever is left; returns what it has done."""
        worker = self.start(until_idle=True, **options)
        code = worker.end(limit_s)
        assert code == 0, f"exit code {code}; it said:\n{worker.said()}"
        return worker.summary()

    def close(self) -> None:
        """End every process that is still there, with all its children."""
        for worker in self.workers:
            with suppress(ProcessLookupError):
                # The group also holds children whose supervisor was killed.
                os.killpg(worker.pid, signal.SIGKILL)
            worker.process.wait()
        if self._eyes is not None:
            self._eyes.close()
        self.app.close()

    # Asking

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """A look past the engine, on a connection of our own: tests ask often, and should not cost much."""
        try:
            return [tuple(row) for row in self._looking().execute(text)]
        except psycopg.OperationalError:
            self._eyes = None  # the server was restarted, or has closed our connection with all others
            return [tuple(row) for row in self._looking().execute(text)]

    def _looking(self) -> Any:
        if self._eyes is None:
            if self.app.dialect == "sqlite":
                self._eyes = apsw.Connection(self.url.removeprefix("sqlite:///"))
                self._eyes.set_busy_timeout(10_000)
            else:
                self._eyes = connect(self.url, "fault tests")  # which does not wait for ever either
        return self._eyes

    def living_pids(self) -> list[int]:
        """The worker processes that have introduced themselves and are not known to have ended."""
        return [pid for (pid,) in self.sql("SELECT pid FROM onceward_worker WHERE stopped_at IS NULL AND pid > 0")]

    def busy_pids(self, among: Container[int] | None = None) -> list[int]:
        """The worker processes that hold a task, of all or of these."""
        return [pid for (pid,) in self.sql(
            "SELECT DISTINCT w.pid FROM onceward_worker w JOIN onceward_task t ON t.worker = w.id AND t.status = 1"
            " WHERE w.stopped_at IS NULL"
        ) if among is None or pid in among]  # fmt: skip

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""
        rows = self.sql("SELECT status, count(*) FROM onceward_task GROUP BY status")
        return {Status(status): tasks for status, tasks in rows}

    def ended(self) -> int:
        """How many tasks have ended."""
        return sum(tasks for status, tasks in self.counts().items() if status.is_terminal)

    def rows(self) -> Counter[tuple[int, str]]:
        """How often each stage of each task has left its row."""
        return Counter({(task, stage): n for task, stage, n in self.sql(
            "SELECT task, stage, count(*) FROM effect GROUP BY task, stage"
        )})  # fmt: skip

    def events(self, event: Event) -> int:
        """How often something has happened, by the log."""
        [(times,)] = self.sql(f"SELECT count(*) FROM onceward_attempt WHERE event = {int(event)}")
        return int(times)

    def burned(self) -> list[tuple[Any, ...]]:
        """Tasks with a failure on their account."""
        return self.sql("SELECT id, failures, reason FROM onceward_task WHERE failures > 0")

    def has_open_transaction(self, for_s: float = 0.3) -> bool:
        """Whether somebody writes and does not come to an end for so long."""
        if self.app.dialect == "sqlite":
            with suppress(apsw.BusyError), closing(apsw.Connection(self.url.removeprefix("sqlite:///"))) as connection:
                connection.set_busy_timeout(round(1_000 * for_s))
                connection.execute("BEGIN IMMEDIATE")
                return False
            return True
        give_up_at = time.monotonic() + for_s
        writing = self._transactions()
        while writing and time.monotonic() < give_up_at:
            time.sleep(0.01)
            writing &= self._transactions()
        return bool(writing)

    def _transactions(self) -> set[tuple[Any, ...]]:
        """The transactions on PostgreSQL that are open and wait for their process."""
        return set(self.sql(
            "SELECT pid, xact_start FROM pg_stat_activity WHERE state = 'idle in transaction'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        ))  # fmt: skip

    # Judging

    def all_succeeded(self, tasks: Iterable[int]) -> None:
        """Every one of these tasks has succeeded, and none of them has used up a retry."""
        wanted = set(tasks)
        rows = self.sql("SELECT id, status, failures, reason FROM onceward_task")
        wrong = [row for row in rows if row[0] in wanted and row[1:3] != (int(Status.SUCCEEDED), 0)]
        assert not wrong, f"{len(wrong)} of {len(wanted)} did not simply succeed: {wrong[:5]}\n{self.said()}"
        retried = {row[0] for event in (Event.RETRY_SCHEDULED, Event.TIMED_OUT) for row in self.sql(
            f"SELECT task FROM onceward_attempt WHERE event = {int(event)}"
        )}  # fmt: skip
        assert not (retried & wanted), "retries were used up"

    def exactly_once(self, wanted: Iterable[tuple[int, str]]) -> None:
        """Each of these rows is there once, and no other row is."""
        expected, rows = set(wanted), self.rows()
        lost = sorted(expected - set(rows))
        double = sorted(row for row, times in rows.items() if times > 1)
        strange = sorted(set(rows) - expected)
        assert (lost, double, strange) == ([], [], []), "rows that are lost, that are double, that nobody asked for"

    def verified(self) -> None:
        """Every invariant of the engine holds."""
        report = self.app.verify()
        breaches = [breach.sentence for check in report.checks for breach in check.breaches]
        assert report.ok, f"{len(breaches)} breaches: {breaches[:10]}\n{self.said()}"

    def state(self) -> str:
        """Where everything stands, for the message of a test that has failed."""
        standing = ", ".join(f"{tasks} {status.word}" for status, tasks in self.counts().items())
        workers = self.sql("SELECT id, pid, stopped_at IS NULL, ended_how FROM onceward_worker ORDER BY id")
        return f"tasks: {standing}\nworkers: {workers}\n{self.said()}"

    def said(self) -> str:
        """What the workers printed, the end of each."""
        return "\n".join(f"--- {worker.output.name}\n{worker.said()[-1_500:]}" for worker in self.workers)


class Fleets:
    """Fleets on databases of their own: SQLite files, and schemas of one PostgreSQL database."""

    def __init__(self, postgres_url: str, folder: Path) -> None:
        self._postgres_url = postgres_url
        self._folder = folder
        self._number = count(1)

    def new(self, store: str) -> Fleet:
        """A fleet on a new database."""
        number = next(self._number)
        folder = self._folder / f"{store}-{number}"
        folder.mkdir()
        if store == "sqlite":
            return Fleet(f"sqlite:///{folder / 'onceward.db'}", folder)
        with psycopg.connect(self._postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA fleet_{number}")
        return Fleet(f"{self._postgres_url}&options=-csearch_path%3Dfleet_{number}", folder)

    def try_all(self, scenarios: Iterable[tuple[str, Callable[[Fleet], None]]], *, at_once: int = 4) -> None:
        """Try scenarios, each on a store and a database of its own, a few of them at the same time."""
        with ThreadPoolExecutor(at_once) as pool:
            trying = [pool.submit(self._try, store, scenario) for store, scenario in scenarios]
        errors = [error for future in trying if (error := future.exception()) is not None]
        if errors:
            raise errors[0]

    def on_each_store(self, *scenarios: Callable[[Fleet], None], at_once: int = 4) -> None:
        """Try scenarios on both stores."""
        self.try_all(((store, one) for one in scenarios for store in STORES), at_once=at_once)

    def take_turns(self, *scenarios: Callable[[Fleet], None], first: str = "postgres", at_once: int = 4) -> None:
        """Try scenarios on one store and the other in turn; with the next seed each is on the other one."""
        turn = STORES.index(first) + SEED - 1
        self.try_all(((STORES[(turn + place) % 2], one) for place, one in enumerate(scenarios)), at_once=at_once)

    def _try(self, store: str, scenario: Callable[[Fleet], None]) -> None:
        with self.new(store) as fleet:
            try:
                scenario(fleet)
                fleet.verified()
            except BaseException as error:
                error.add_note(f"on {store}: {scenario}")
                raise
