"""The supervisor: it runs no code of the application, so nothing of the application can keep it from its duties.

It starts the children, renews all their leases in one statement, releases the leases of a dead one at once and starts
another, and kills a child in which a stage ignores its time limit: limits hold for any code, C extensions included. One
that was stopped (SIGSTOP) and stands still for as long as its lease is killed too: it may hold a lock of the database.
A child that dies leaves suspects; those run in a child of their own, in halves, in the end alone.

The supervisor outlives every error of its duties: a child that cannot be started, a database that is away, a driver
that raises. Its healthy children go on meanwhile, and each duty is tried again.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from onceward.errors import StartedByImport, StoreError
from onceward.settings.effective import EffectiveSettings
from onceward.store.attempts.workers import Death, NewWorker, living_workers, register, stop
from onceward.store.drivers.availability import database
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.op import Query
from onceward.support.logs import EngineLog, stopping
from onceward.worker import presence
from onceward.worker.engine_failures import ChildFailures
from onceward.worker.housekeeping import Housekeeping, killed_for_time
from onceward.worker.watcher import Watcher
from onceward.worker.worker_orders import RETIRED, STARTED_BY_IMPORT, Summary, worker_name

STEP_S = 0.05
STEPS_PER_LOOK = 5
"""Every so many steps of the watchdog it looks for children that are stopped."""
FIRST_RESTART_PAUSE_S, LONGEST_RESTART_PAUSE_S = 0.1, 5.0
FIRST_SUSPECTS_PAUSE_S, LONGEST_SUSPECTS_PAUSE_S = 1.0, 30.0
SETTLED_AFTER_S = 10.0
"""A child that lives this long has started well, whatever ends it later."""
LONGEST_GOODBYE_S = 15.0
"""How long after its grace period a child may take to give back its leases before we do it for it."""

_CHILD = ("-P", "-m", "onceward.worker.child")  # -P: a queue.py of the app is not Python's
logger = EngineLog("onceward.supervisor")


@dataclass(slots=True)
class Backoff:
    """Pauses between tries, each twice as long as the one before."""

    first_s: float
    longest_s: float
    ends_at: float = 0.0
    _pause_s: float = 0.0

    def grow(self, now: float) -> None:
        """Wait from now on, for longer than the last time."""
        self._pause_s = min(max(self.first_s, self._pause_s * 2), self.longest_s)
        self.ends_at = now + self._pause_s

    def reset(self) -> None:
        """Begin again without a pause."""
        self._pause_s = self.ends_at = 0.0


@dataclass(slots=True)
class ChildProcess:
    """A worker process."""

    process: subprocess.Popen[bytes]
    worker: int
    name: str
    presence: Path
    for_suspects: bool
    late: frozenset[int] = frozenset()
    """The tasks for whose time limits it was killed, and which of them it was, if that can be told."""
    culprits: frozenset[int] = frozenset()
    too_slow: bool = False
    stopped_looks: int = 0
    """At how many looks on end it was stopped. Looks are counted, not time: who was stopped with it saw nothing."""
    stood_still: bool = False
    started_at: float = field(default_factory=time.monotonic)
    failures: int = -1
    """Where it reads of failures that it shall tell the application of."""
    memory_kills: int | None = None
    """How many processes of this machine had been killed for their memory when this one was started."""


class Supervisor:
    """Keeps a number of worker processes at work."""

    def __init__(
        self,
        store: Any,
        app_path: str,
        in_force: EffectiveSettings,
        *,
        processes: int,
        concurrency: int | None = None,
        queues: Sequence[str] | None,
        until_idle: bool,
        name: str | None,
    ) -> None:
        self._store = store
        self._app_path = app_path
        self._in_force = in_force
        self._wanted = processes
        self._concurrency = concurrency
        self._queues = list(queues) if queues is not None else None
        self._until_idle = until_idle
        self._name = worker_name(name)
        self._session = store.session(patience_s=5.0)
        self._children: list[ChildProcess] = []
        self._number = 0
        self._is_over = threading.Event()
        self._watchdog = threading.Thread(target=self._watch_limits, name="onceward watchdog", daemon=True)
        self._stop_requests = 0
        self._stop_at: float | None = None
        self._gives_up: str | None = None
        """Why it starts no more children, and ends with an error."""
        self._suspects = True
        self._restarts = Backoff(FIRST_RESTART_PAUSE_S, LONGEST_RESTART_PAUSE_S)
        self._suspect_starts = Backoff(FIRST_SUSPECTS_PAUSE_S, LONGEST_SUSPECTS_PAUSE_S)
        self._burials = 0
        self._troubles: dict[str, str] = {}
        """What each duty failed with the last time: the log says it once."""
        self._finished = 0
        self._watcher = Watcher(store.session(patience_s=5.0), lambda: in_force.config)
        self._failures = ChildFailures()
        self._housekeeping = Housekeeping(
            self._session,
            in_force.config,
            mine=lambda: [child.worker for child in self._children],
            declared_dead=self._declared_dead,
            suspects_found=self._suspects_found,
            presence_folder=store.presence_folder,
            on_failure=self._failures.add,
        )

    def request_stop(self, *_: Any) -> None:
        """Stop in good order; asked a second time, at once."""
        self._stop_requests += 1

    def run(self) -> Summary:
        """Supervise until asked to stop, or until every child has found nothing left to do."""
        if self._store.presence_folder is None:
            raise StoreError("a database in memory cannot be shared by processes; use a file")
        before = self._take_signals()
        self._watchdog.start()
        self._watcher.start()
        try:
            told = 0
            while True:
                if self._stop_requests > told:
                    told = self._stop_requests
                    self._session.insist_for(0.0)  # the caller waits for the end, and must not wait for the database
                    self._guarded(partial(self._tell_to_stop, told))
                self._guarded(self._look_at_settings)
                self._guarded(self._housekeeping.step)
                self._guarded(self._reap)
                self._failures.hand_over([child.failures for child in self._children])
                if told:  # not what was asked meanwhile: the children have not heard of that yet
                    if not self._children or self._ends_without_database():
                        break
                    self._guarded(self._kill_stragglers)
                elif self._is_done():
                    break
                else:
                    self._guarded(self._start_missing)
                time.sleep(STEP_S)
        finally:
            self._is_over.set()
            self._watcher.stop()
            for child in self._children:
                child.process.kill()
                _hang_up(child)
            for number, handler in before:
                signal.signal(number, handler)
            self._session.close()
        if self._gives_up is not None:
            raise StartedByImport(self._gives_up)
        return Summary()

    # Starting

    def _start_missing(self) -> None:
        now = time.monotonic()
        if now < self._restarts.ends_at:
            return
        ordinary = sum(not child.for_suspects for child in self._children)
        for _ in range(self._wanted - self._finished - ordinary):
            if not self._start(for_suspects=False):
                return
        if self._failures.has_any and not self._children:
            self._start(for_suspects=True)  # it tells of them, and ends where there are no suspects
        elif self._suspects and not any(child.for_suspects for child in self._children):
            self._start_for_suspects(now)

    def _start_for_suspects(self, now: float) -> None:
        """Start the child that runs suspects, if there are any. New ones have it at once; those that no child of ours
        can take, because they are paused or of another app, cost a start now and then, not one every second."""
        if len(self._housekeeping.reclaimed) != self._burials:
            self._burials = len(self._housekeeping.reclaimed)
            self._suspect_starts.reset()
        if now < self._suspect_starts.ends_at:
            return
        self._suspects = False
        if self._session.read(Query("any_suspects")):
            self._suspect_starts.grow(now)
            self._start(for_suspects=True)
        else:
            self._suspect_starts.reset()

    def _start(self, *, for_suspects: bool) -> bool:
        """Start a child; false if the system cannot start a process now. Then the next start waits."""
        self._number += 1
        name = f"{self._name}/{self._number}{' (suspects)' if for_suspects else ''}"
        path = presence.new_path(self._store.presence_folder)
        new = NewWorker(name, socket.gethostname(), 0, str(path), "", "", self._in_force.config.lease_ms)
        worker = self._session.transact(lambda: register(new, self._store.clock.now()))
        command = [sys.executable, *_CHILD, self._app_path, str(worker), str(path), name]
        if self._concurrency is not None:
            command += ["--concurrency", str(self._concurrency)]
        command += [f"--queue={queue}" for queue in self._queues or ()]  # one by one: their names may hold anything
        if for_suspects:
            command += ["--suspects"]
        elif self._until_idle:
            command += ["--until-idle"]
        try:
            process, failures = _begun(command)
        except Exception as error:  # no memory, no room for processes, an interpreter that is being replaced
            self._tell_trouble("start", "a worker process cannot be started, trying again", error)
            self._restarts.grow(time.monotonic())
            self._suspects = self._suspects or for_suspects
            self._session.transact(lambda: stop(worker, "could not be started", self._store.clock.now()))
            return False
        self._troubles.pop("start", None)
        child = ChildProcess(process, worker, name, path, for_suspects, failures=failures, memory_kills=_memory_kills())
        self._children.append(child)
        return True

    # Watching

    def _look_at_settings(self) -> None:
        """The children look for themselves; how long they get to stop is for both to know."""
        self._in_force.look_if_time(self._session)
        self._housekeeping.adopt(self._in_force.config)

    def _reap(self) -> None:
        for child in list(self._children):
            code = child.process.poll()
            if code is not None:
                self._guarded(partial(self._take_leave, child, code))

    def _take_leave(self, child: ChildProcess, code: int) -> None:
        """Take back what a child that has ended still held, and forget it."""
        seen = next((one for one in self._session.ask(living_workers) if one.id == child.worker), None)
        began_well = code == 0
        if seen is not None and self._stop_at is not None and not child.presence.exists():
            self._session.transact(lambda: stop(child.worker, "stopped before it began", self._store.clock.now()))
        elif seen is not None:
            # It has not signed off, whatever its exit code says: a stage can end its process with 0 too.
            reclaimed = self._housekeeping.bury(seen, _death(child, code))
            if reclaimed is None:
                return  # its last transaction is still open, or another was faster: the next look tells
            began_well = reclaimed.released + reclaimed.suspects + reclaimed.timed_out > 0
        elif code == 0 and not child.for_suspects and self._until_idle:
            self._finished += 1
        if code == STARTED_BY_IMPORT:  # every other child would do the same
            self._gives_up = (
                f"the workers could not start: importing {self._app_path} begins work; "
                'put that below `if __name__ == "__main__":`'
            )
            self._stop_requests = max(self._stop_requests, 1)
        if began_well or code == RETIRED or time.monotonic() - child.started_at >= SETTLED_AFTER_S:
            self._restarts.reset()
        else:  # it would be started and ended again and again
            self._restarts.grow(time.monotonic())
        child.presence.unlink(missing_ok=True)
        _hang_up(child)
        self._children.remove(child)

    def _watch_limits(self) -> None:
        """In a thread of its own: a child that blocks with a lock of the database in its hands must be killed too."""
        steps = 0
        while not self._is_over.wait(STEP_S):
            steps += 1
            try:
                self._kill_overdue()
                if steps % STEPS_PER_LOOK == 0:
                    self._kill_stopped()
            except Exception:  # a loop that must live
                logger.exception("looking for stages that ignore their time limits failed")

    def _kill_overdue(self) -> None:
        for child in list(self._children):
            if child.late or child.process.poll() is not None:
                continue
            late = presence.overdue(child.presence)
            if late:
                child.late = frozenset(one.task for one in late)
                child.culprits = presence.culprits(late, child.process.pid)
                logger.warning(
                    "killing a worker whose stage ignores its time limit",
                    worker=child.name,
                    late=sorted(child.late),
                    culprits=sorted(child.culprits),
                )
                child.process.kill()

    def _kill_stopped(self) -> None:
        most_looks = self._in_force.config.lease_ms / 1_000 / (STEP_S * STEPS_PER_LOOK)
        for child in list(self._children):
            is_stopped = child.process.poll() is None and presence.is_stopped(child.process.pid)
            child.stopped_looks = child.stopped_looks + 1 if is_stopped else 0
            if child.stopped_looks > most_looks and not child.stood_still:
                child.stood_still = True
                logger.warning("killing a worker that was stopped for as long as its lease", worker=child.name)
                child.process.kill()

    def _suspects_found(self) -> None:
        self._suspects = True

    def _declared_dead(self, workers: set[int]) -> None:
        """Others think that a child is dead and have taken its leases: it can write nothing more, so it may go."""
        for child in self._children:
            if child.worker in workers:
                child.process.kill()

    def _is_done(self) -> bool:
        is_idle = self._finished >= self._wanted and not self._children and not self._suspects
        return self._until_idle and is_idle and not self._failures.has_any

    def _guarded(self, duty: Callable[[], object]) -> None:
        """Do a duty, and outlive its error: the children must not end because one of them cannot be served."""
        name = str(getattr(duty, "__name__", duty))
        try:
            duty()
            self._troubles.pop(name, None)
        except Exception as error:
            if isinstance(error, StoreError | ConnectionLost | TryAgainLater):
                database.note_failure(self._session, error)
            else:
                self._tell_trouble(name, "a duty of the supervisor failed, trying again", error)
            self._session.discard()
            time.sleep(0.2)

    def _tell_trouble(self, duty: str, line: str, error: Exception) -> None:
        if self._troubles.get(duty) != str(error):
            self._troubles[duty] = str(error)
            logger.error(line, exc_info=error)

    # Stopping

    def _take_signals(self) -> list[tuple[int, Any]]:
        if threading.current_thread() is not threading.main_thread():
            return []
        return [(number, signal.signal(number, self.request_stop)) for number in (signal.SIGTERM, signal.SIGINT)]

    def _tell_to_stop(self, times: int) -> None:
        if self._stop_at is None:
            self._stop_at = time.monotonic()
            stages = sum(len(presence.running(child.presence) or ()) for child in self._children)
            logger.info(stopping(stages, is_away=database.is_away))
        for child in self._children:
            if not child.presence.exists():  # it is still importing the application, and holds nothing
                child.process.kill()
            with suppress(OSError, ValueError):
                assert child.process.stdin is not None
                child.process.stdin.write(b"stop\n" * (1 if times == 1 else 2))
                child.process.stdin.flush()

    def _ends_without_database(self) -> bool:
        """Whether nothing is left but to tell a database that is away: other workers find out what was held here."""
        if not database.is_away or any(child.process.poll() is None for child in self._children):
            return False
        logger.warning("stopped while the database is away: another worker takes back what was held here")
        return True

    def _kill_stragglers(self) -> None:
        """A child that does not end after its grace period cannot give back its leases; we do it for it."""
        assert self._stop_at is not None
        grace_s = 0.0 if self._stop_requests > 1 else self._in_force.config.grace_ms / 1_000
        if time.monotonic() - self._stop_at > grace_s + LONGEST_GOODBYE_S:
            for child in self._children:
                child.too_slow = True
                child.process.kill()


def _begun(command: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """A child, and the end of a pipe to it that is written to without waiting."""
    read_end, write_end = os.pipe()
    # Ctrl-C on a terminal reaches the child too: until it can say what that means to it, it does not hear it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.set_blocking(write_end, False)
        given = [*command, "--failures", str(read_end)]
        return subprocess.Popen(given, stdin=subprocess.PIPE, pass_fds=[read_end]), write_end
    except BaseException:
        os.close(write_end)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(read_end)


def _hang_up(child: ChildProcess) -> None:
    """Close the pipes to a child."""
    with suppress(OSError):
        assert child.process.stdin is not None
        child.process.stdin.close()
    os.close(child.failures)


def _death(child: ChildProcess, code: int) -> Death:
    if child.late:
        return killed_for_time(child.late, child.culprits)
    if child.too_slow:
        return Death("was killed: it did not stop within its grace period", frozenset())
    if child.stood_still:
        running = presence.running(child.presence) or ()
        return Death("was killed: it was stopped for as long as its lease", frozenset(one.task for one in running))
    # The kernel kills what takes too much memory with the same signal as everybody else, but counts it.
    counted = _memory_kills()
    by_outsider = code in (-signal.SIGKILL, -signal.SIGTERM) and counted is not None and counted == child.memory_kills
    running = presence.running(child.presence) or ()
    return Death(_how(code), frozenset(one.task for one in running), by_outsider=by_outsider)


def _memory_kills() -> int | None:
    """How many processes of this machine were killed for their memory so far; None where the system does not count."""
    try:
        counters = Path("/proc/vmstat").read_text()
    except OSError:
        return None
    found = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
    return None if found is None else int(found[1])


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
