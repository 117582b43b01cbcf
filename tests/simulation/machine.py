"""One process of a simulation: a worker with all its parts, or a program that only enqueues.

Real: `WorkerProcess` from its registration to its last word, with the `Runner`, the `Committer`, the `Keeper`, the
`Housekeeping`, the scheduler and the settings that it puts together. Simulated: its threads. Each of them is a piece of
work that the world runs to its next wait, when the world likes; whoever sleeps in between lets the world go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceward import App
from onceward.model.times import StoreClock
from onceward.worker import process
from onceward.worker.committer import Committer
from onceward.worker.keeper import Keeper
from onceward.worker.presence import RunningStage
from onceward.worker.worker_orders import Orders
from tests.simulation.database import Crashed, SimulatedSession
from tests.simulation.loop import SimulatedLoop
from tests.simulation.threads import Hearing, NothingToDo, Pauses, Turn

if TYPE_CHECKING:
    from tests.simulation.world import World

KEEPER_EVERY_MS = (3_000, 9_000)
_THREADS = ("loop", "committer", "keeper", "job", "stage", "program")

Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class _Clock:
    """The clock of a machine: it ticks with the world, and may be wrong."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._world = machine.world

    def now(self) -> int:
        return self._world.wall_ms + self._machine.skew_ms

    def monotonic(self) -> int:
        return self._world.ms


class Machine:
    """A process, its clock, and whether it lives."""

    has_ended = False
    """Whether it was stopped in good order, and has come to its end."""

    def __init__(self, world: World, name: str, *, host: str = "here", skew_ms: int = 0) -> None:
        self.world = world
        self.name = name
        self.number = world.next_number()
        self.host = host
        self.skew_ms = skew_ms
        self.is_dead = False
        self.paused_until = 0
        self.clock = StoreClock(_Clock(self))
        self.presence_folder: Path | None = Path(f"/{host}") if world.plan.has_presence else None
        self.sessions: list[SimulatedSession] = []
        self._busy: dict[str, int] = {}
        """Its threads that are in the middle of something while the world goes on."""

    @contextmanager
    def running(self, thread: str) -> Iterator[None]:
        """A thread of this machine runs, from here until it waits or ends."""
        world = self.world
        before, before_thread = world.acting, world.thread
        world.acting, world.thread = self, 8 * self.number + _THREADS.index(thread)
        self._busy[thread] = self._busy.get(thread, 0) + 1
        try:
            yield
        except NothingToDo:
            pass
        except Crashed:
            self.die()
        except Exception as error:
            world.unexpected(error, f"in the {thread} of {self.name}")
        finally:
            self._busy[thread] -= 1
            world.acting, world.thread = before, before_thread
            if self.is_dead and not any(self._busy.values()):
                self.unwind()

    @property
    def stages_begun(self) -> int:
        """How many stages in threads are in the middle of something."""
        return self._busy.get("stage", 0)

    def is_busy(self, *threads: str) -> bool:
        """Whether one of these threads is in the middle of something."""
        return any(self._busy.get(thread) for thread in threads)

    def die(self) -> None:
        """As by SIGKILL: what is committed stays, and nothing else does."""
        self.is_dead = True

    def unwind(self) -> None:
        """It is dead, and none of its threads is in the middle of anything any more."""

    def steps(self) -> list[Callable[[], None]]:
        """What this machine could do now."""
        return []

    def next_at(self) -> int | None:
        """When it could do something, if it cannot now."""
        return None


class Worker(Machine):
    """A machine on which a worker process runs."""

    def __init__(self, world: World, name: str, app: Callable[[Machine], App], **place: Any) -> None:
        super().__init__(world, name, **place)
        self.jobs: deque[Job] = deque()
        self.stages: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = deque()
        self.running_stages: dict[int, RunningStage] = {}
        self.committer: Committer | None = None
        self.wake = Turn()
        self.has_heard = False
        self.keeper: Keeper | None = None
        self.keeper_at = 0
        self.keeper_pauses = Pauses()
        self.loop = SimulatedLoop(self)  # type: ignore[abstract]
        self.app = app(self)
        self._is_unwound = False
        with self.running("loop"):
            self._process = _Process(self)
            self._main = self.loop.create_task(self._process.work_on())

    @property
    def has_ended(self) -> bool:  # type: ignore[override]
        return bool(self._main.done())

    def request_stop(self) -> None:
        """Ask it to stop, as SIGTERM does."""
        self._process.request_stop()

    def die(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.jobs.clear()
            self.stages.clear()
            for session in self.sessions:
                session.discard()
            if not any(self._busy.values()):
                self.unwind()

    def unwind(self) -> None:
        if not self._is_unwound:
            self._is_unwound = True
            self.loop.unwind()

    def steps(self) -> list[Callable[[], None]]:
        # A thread that might wait for a lock of one that is in the middle of something has to wait here: it would be
        # run above the other one, which could then never let go.
        found: list[Callable[[], None]] = []
        at = self.loop.next_at
        if at is not None and at * 1_000 <= self.world.ms and not self.is_busy("loop"):
            found.append(self._run_loop)
        has_news = self.wake.calls or (self.has_heard and self.committer is not None and self.committer._hungry)
        if self.committer is not None and has_news and not self.is_busy("committer", "loop"):
            found.append(self._run_committer)
        if self.keeper is not None and self.keeper_at <= self.world.ms and not self.is_busy("keeper", "job"):
            found.append(self._run_keeper)
        if self.jobs and not self.is_busy("job", "committer", "keeper", "loop"):
            found.append(self._run_job)
        if self.stages and not self.is_busy("loop", "committer"):
            found.append(self._run_stage)
        return found

    def next_at(self) -> int | None:
        at = self.loop.next_at
        mine = [] if at is None or self.is_busy("loop") else [ceil(at * 1_000)]
        if self.keeper is not None and not self.is_busy("keeper", "job"):
            mine.append(self.keeper_at)
        return min(mine, default=None)

    def _run_loop(self) -> None:
        with self.running("loop"):
            self.loop.turn()

    def _run_committer(self) -> None:
        with self.running("committer"):
            self.wake.may_pass = True
            assert self.committer is not None
            self.committer._work()

    def finish_writing(self) -> None:
        """Write what is left, as somebody waits for the end of the committer."""
        assert self.committer is not None
        writing, self.committer = self.committer, None
        while writing._inbox or writing._wish or writing._in_doubt:
            try:
                self.wake.may_pass = True
                writing._work()
                return
            except NothingToDo:
                continue

    def _run_keeper(self) -> None:
        with self.running("keeper"):
            self.keeper_at = self.world.ms + self.world.chance.randint(*KEEPER_EVERY_MS)
            self.keeper_pauses.may_pass = True
            assert self.keeper is not None
            self.keeper._work()
            self.keeper = None  # it has ended

    def _run_job(self) -> None:
        function, future = self.jobs.popleft()
        value, error = None, None
        with self.running("job"):
            try:
                value = function()
            except Exception as raised:
                error = raised
        if self.is_dead or future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _run_stage(self) -> None:
        function, done = self.stages.popleft()
        value, error = None, None
        with self.running("stage"):
            try:
                value = copy_context().run(function)
            except Crashed:
                raise
            except BaseException as raised:  # as in StageThreads
                error = raised
        if not self.is_dead:
            self.loop.call_soon(done, value, error)


class _Process(process.WorkerProcess):
    """A worker process that hears what the world lets it hear."""

    def __init__(self, machine: Worker) -> None:
        app = machine.app
        super().__init__(
            app._store, app._registry, app._in_force, Orders(), app._readers.read, app._spawner, app._schedules
        )  # fmt: skip
        self._machine = machine
        self._loop = machine.loop

    async def work_on(self) -> None:
        """`run`, without what it does to the interpreter."""
        self._asked_to_stop = asyncio.Event()
        while True:
            await self._work()
            if not self._lost_everything:
                return
            self._lost_everything = False

    def _wakeup(self, session: Any) -> Any:
        return Hearing(self._machine)

    def _listener(self, worker: int, reception: Any) -> None:
        return None


def app_for(app: App, machine: Machine) -> App:
    """The same app in a simulated process."""
    machine.world.opening = machine
    return app.on("simulated")
