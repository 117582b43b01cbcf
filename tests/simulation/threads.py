"""The threads of a simulated worker process, its presence, and how it hears of others: what stands in for them.

Each thread is a piece of work that the world runs to its next wait. The code of the threads is real, with other events
to wait for: one that is waited for although it is not set ends the piece.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from onceward.authoring.pipeline import Pipeline
from onceward.store.lines import lines
from onceward.worker import cache_reader, claim_ahead, committer, desk, housekeeping, introduction, process
from onceward.worker.committer import Committer
from onceward.worker.keeper import Keeper
from onceward.worker.presence import RunningStage
from onceward.worker.wakeup import Wakeup
from tests.simulation import stand_ins
from tests.simulation.loop import SimulatedLoop

if TYPE_CHECKING:
    from tests.simulation.machine import Worker

TICK_S = 5.0
"""How often a worker looks at its time limits: in reality that is 100 times as often, and finds nothing."""


class NothingToDo(BaseException):
    """A simulated thread has come to the place where a real one would wait."""


class Turn:
    """A `threading.Event` on which one thread waits: it passes once each time that the thread is run."""

    def __init__(self) -> None:
        self._is_set = False
        self.may_pass = False

    def is_set(self) -> bool:
        if not self.may_pass:
            raise NothingToDo
        return self._is_set

    @property
    def calls(self) -> bool:
        """Whether the thread would wake."""
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = self.may_pass = False

    def wait(self, timeout: float | None = None) -> bool:
        raise NothingToDo


class Pauses:
    """The event that ends a keeper: it waits a while, does one step, and waits again."""

    def __init__(self) -> None:
        self._is_set = False
        self.may_pass = False

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        if not self.may_pass:
            raise NothingToDo
        self.may_pass = False
        return False


class _Thread:
    """A thread that somebody waits for the end of: whatever it still has to do is done then."""

    def __init__(self, machine: Worker, name: str, finish: Callable[[], None]) -> None:
        self._machine = machine
        self._name = name
        self._finish = finish

    def start(self) -> None:
        pass

    def join(self, timeout: float | None = None) -> None:
        with self._machine.running(self._name):
            self._finish()


class Hearing(Wakeup):
    """Hears of commits of others, if the world lets it."""

    def __init__(self, machine: Worker) -> None:
        self._machine = machine

    def start(self, loop: Any, wake: Any) -> None:
        pass

    def before_looking(self) -> None:
        self._machine.has_heard = False

    def wait(self) -> bool:
        if not self._machine.has_heard:
            raise NothingToDo
        self._machine.has_heard = False
        return True

    def close(self) -> None:
        pass


class _StageThreads:
    """The threads for `def` stages: a stage that is begun comes to its end, unless it waits for a commit."""

    def __init__(self, loop: SimulatedLoop, count: int) -> None:
        self._machine = loop.machine
        self._count = count

    @property
    def free(self) -> int:
        return self._count - len(self._machine.stages) - self._machine.stages_begun

    def submit(self, function: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._machine.stages.append((function, done))

    def abandon_one(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Answer(concurrent.futures.Future[Any]):
    """What a thread waits for while the world goes on."""

    def result(self, timeout: float | None = None) -> Any:
        stand_ins.here.wait_until(self.done)
        return super().result(0)


class _Presence:
    """The presence of a process: gone when it dies, and its slots are seen by everybody on its host."""

    def __init__(self, path: Path, _slots: int) -> None:
        self.path = path
        self._machine = stand_ins.here.acting
        self.slots: dict[int, RunningStage] = {}
        self._machine.running_stages = self.slots
        self._numbered = 0
        stand_ins.here.presences[str(path)] = self._machine

    def enter(self, task: int, limit_at: int, thread: int) -> int:
        self._numbered += 1
        self.slots[self._numbered] = RunningStage(task, limit_at, thread)
        return self._numbered

    def extend(self, slot: int, limit_at: int) -> None:
        one = self.slots[slot]
        self.slots[slot] = RunningStage(one.task, limit_at, one.thread)

    def leave(self, slot: int) -> None:
        self.slots.pop(slot, None)

    def remove(self) -> None:
        stand_ins.here.presences.pop(str(self.path), None)


class _PresenceFiles:
    """The presence files of a host, as others see them."""

    Presence = _Presence

    @staticmethod
    def new_path(folder: Path) -> Path:
        return folder / f"{stand_ins.here.acting.name}-{stand_ins.here.chance.getrandbits(32):x}"

    @staticmethod
    def recorded(path: str | None, folder: Path | None) -> Path | None:
        return None if path is None or folder is None else Path(path)

    @staticmethod
    def is_dead(path: Path) -> bool:
        machine = stand_ins.here.presences.get(str(path))
        return machine is not None and machine.is_dead

    @staticmethod
    def running(path: Path) -> list[RunningStage] | None:
        machine = stand_ins.here.presences.get(str(path))
        return None if machine is None else list(machine.running_stages.values())

    @staticmethod
    def overdue(_path: Path) -> list[RunningStage]:
        return []  # nobody kills a process for a stage that overstays: that is what a supervisor is for

    @staticmethod
    def culprits(_late: Any, _pid: int | None) -> frozenset[int]:
        return frozenset()


def _forget_presence(path: Path) -> None:
    if _PresenceFiles.is_dead(path):
        stand_ins.here.presences.pop(str(path), None)


def _make_committer(writer: Any, wakeup: Any, loop: SimulatedLoop, _apart: Any) -> Committer:
    machine = loop.machine
    made = Committer(writer, wakeup, loop)  # one thread writes all: what has to be sent alone comes after the others
    made._wake = machine.wake = Turn()  # type: ignore[assignment]
    made._thread = _Thread(machine, "committer", machine.finish_writing)  # type: ignore[assignment]
    machine.committer = made
    return made


def _make_keeper(session: Any, in_force: Any, runner: Any, writer: Any, loop: SimulatedLoop, **others: Any) -> Keeper:
    machine = loop.machine
    keeper = Keeper(session, in_force, runner, writer, loop, **others)
    keeper._stopping = machine.keeper_pauses = Pauses()  # type: ignore[assignment]
    keeper._thread = _Thread(machine, "keeper", lambda: None)  # type: ignore[assignment]
    machine.keeper = keeper
    machine.keeper_at = machine.world.ms
    return keeper


def _kept_fingerprints() -> property:
    """Each made once and not for every worker that begins: it takes longer than a transaction."""
    real: property = vars(Pipeline)["_fingerprint"]
    return property(cache(real.__get__))


class _NoWatcher:
    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self, *, last_look: bool) -> None:
        pass


@contextmanager
def simulated_threads() -> Iterator[None]:
    """While this lasts, a worker process has no thread but the one that simulates it."""
    with (
        mock.patch.multiple(
            process,
            StageThreads=_StageThreads,
            Committer=_make_committer,
            Keeper=_make_keeper,
            Watcher=_NoWatcher,
            TICK_S=TICK_S,
        ),
        mock.patch.multiple(
            introduction,
            presence=_PresenceFiles,
            os=SimpleNamespace(getpid=lambda: stand_ins.here.acting.number),
        ),
        mock.patch.multiple(housekeeping, presence=_PresenceFiles, _forget_presence=_forget_presence),
        # Nobody waits for a lock that somebody holds who sleeps below: there is one thread.
        mock.patch.object(cache_reader, "threading", SimpleNamespace(Lock=nullcontext)),
        mock.patch.object(Pipeline, "_fingerprint", _kept_fingerprints()),
        # What is rare where there is much to do happens all the time here.
        mock.patch.object(claim_ahead, "LOW_CLAIM_STEP", 1),
        mock.patch.object(committer, "LARGEST_BATCH", 4),
        mock.patch.object(lines, "DUE_BATCH", 2),
        mock.patch.multiple(lines, FEWEST_LOOKED_AT=2, MOST_LOOKED_AT=4),
        mock.patch.object(desk, "concurrent", SimpleNamespace(futures=SimpleNamespace(Future=_Answer))),
    ):
        yield
