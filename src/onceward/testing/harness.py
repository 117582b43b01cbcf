"""The real engine on a database in memory, with a clock moved by hand and workers that die on request."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from onceward.app import App
from onceward.client.enqueueing import Enqueued
from onceward.errors import ConfigError
from onceward.model.lineage import Limits
from onceward.model.payload import Payload
from onceward.model.task import NEVER, Commit
from onceward.model.times import Duration
from onceward.operations.intake import tasks_of_intake
from onceward.store.attempts.expiry import (
    expire_batches,
    expire_lineages,
    expire_tasks,
    next_time_check,
    store_kinds_at_expiry,
)
from onceward.store.attempts.workers import Death, LivingWorker, NewWorker, bury, living_workers, register, stop
from onceward.store.governance import cache
from onceward.store.governance.budget_waits import declare as declare_budgets
from onceward.store.governance.budget_waits import sweep_budgets
from onceward.store.governance.budget_waits import wake_for_code as wake_for_budgets_of_code
from onceward.store.governance.sources import declare as declare_sources
from onceward.store.lineage.growth import Growth
from onceward.store.lines.idle import is_due_besides_signals, signal_waits
from onceward.store.lines.lines import look
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Op, drive
from onceward.store.operations.access import declare_secret_fields
from onceward.store.operations.task_actions import wake_for_code
from onceward.testing.bounds import bounded
from onceward.testing.clock import FakeClock
from onceward.views.task import Task
from onceward.worker import crash_points
from onceward.worker.engine_failures import FailureDelivery
from onceward.worker.event_loop import run_on_loop
from onceward.worker.failures import call
from onceward.worker.intake import take_in_some
from onceward.worker.runner import Runner
from onceward.worker.runner_ports import Place, Ports, Share
from onceward.worker.scheduler import fire_due
from onceward.worker.threads import StageThreads
from onceward.worker.writer import Answer, Item, Wish, Writer

MOST_ROUNDS = 100_000


class _SimulatedCrash(BaseException):
    """The worker dies here. Nothing in the engine catches it and goes on."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What `drain` came to. Truthy if nothing is left to do but tasks that wait for a signal."""

    is_done: bool
    waits: Mapping[int, str] = field(default_factory=dict)
    """The signal that each waiting task waits for, by the id of the task."""

    def __bool__(self) -> bool:
        return self.is_done

    def __str__(self) -> str:
        if not self.is_done:
            return "work is left: the attempts that were allowed are used up, or it goes on without end"
        waits = ", ".join(f"task {task} waits for the signal {name!r}" for task, name in sorted(self.waits.items()))
        return f"everything is done, but {waits}" if waits else "everything is done"


class Harness:
    """An app on a database of its own, and workers that do everything at once when told to `drain`.

    Time stands still unless moved: `drain` moves it to the next due task by itself. On another database than one in
    memory: `Harness(app, url=…)`.
    """

    def __init__(self, app: App, *, url: str = "sqlite:///:memory:", seed: int = 0) -> None:
        self.clock = FakeClock()
        self.app = app.on(url, clock=self.clock)
        self._dice = random.Random(seed)
        self._armed = ""
        self._times = 0
        self._stages = {stage.name for pipeline in app._registry for stage in pipeline._every_stage}
        self._attempts_left: int | None = None
        self._worker: _InlineWorker | None = None
        self.crashes = 0
        self.app.prepare()
        with self.app._lock:
            fire_due(self.app._session(), self.app._schedules, self.clock.now())

    def enqueue(self, payload: Payload, **options: Any) -> Enqueued:
        """`app.enqueue`."""
        return self.app.enqueue(payload, **options)

    def task(self, task: Enqueued | int) -> Task:
        """`app.tasks.get`, by id or by what `enqueue` returned."""
        return self.app.tasks.get(task if isinstance(task, int) else task.id)

    def crash(self, point: str, times: int = 1) -> None:
        """Make the next worker that comes to a point die there: "after claim", "after scrape", "inside commit", …

        With `times`, so do the workers after it, until that many have died.
        """
        when, _, name = point.partition(" ")
        if point not in crash_points.POINTS and not (when in ("before", "after") and name in self._stages):
            raise ConfigError(f"{point!r} is no crash point; there are: {', '.join(crash_points.POINTS)}")
        self._armed, self._times = point, times
        self._watch_points()

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        self.clock.advance(duration)

    def drain(self, *, wait_for_due: bool = True, attempts: int | None = None) -> Drained:
        """Work until nothing is left to do, moving the clock to whatever is due next unless told not to.

        A wait for a signal with a time limit runs out once; a stage that then waits for the same signal again is left
        waiting. A worker that dies is buried, and another one goes on. With `attempts` no more than so many attempts
        of stages begin: then the worker dies. The result is truthy if all was done, and names the waits that are left.
        """
        is_done = self._drain(wait_for_due, attempts)
        return Drained(is_done, {task: name for task, name, _ in self.app._ask(signal_waits)})

    def assert_bounded(self, payload: Payload | None = None, *, most: int, limits: Limits | None = None) -> Growth:
        """Fail if one root can make, or makes, more than so many tasks.

            harness.assert_bounded(Company("acme"), most=50)    # what this one really does
            harness.assert_bounded(most=10_000)                 # what the configuration allows any root to do

        With a payload, it is enqueued and everything is drained, but not for ever: its lineage has room for one task
        more than `most`, so that a loop or a bomb ends at once and the message shows how it grew: which kind
        multiplied, and which spawns were refused. Tasks that stages begin with `root=True` count too. A stage that
        waits for ever is told as well. Without a payload, or with the `limits` that such a root is given, the envelope
        of the configuration must not allow more than `most` either.

        Returns how the lineage has grown: `.tasks`, `.branches` (kind by kind), `.refusals`.
        """
        return bounded(self.app, payload, most, limits, lambda attempts: self._drain(True, attempts))

    def _drain(self, wait_for_due: bool, most_attempts: int | None = None) -> bool:
        """Work, but begin no more than so many attempts; returns whether all was done."""
        self._attempts_left = most_attempts
        run_out: set[tuple[int, str]] = set()
        while True:
            worker = _InlineWorker(self.app, self.clock, self._dice, run_out)
            self._worker = worker
            self._watch_points()
            try:
                run_on_loop(worker.work(wait_for_due=wait_for_due))
            except _SimulatedCrash:
                pass  # a worker that dies has said so: worker.is_dead
            finally:
                self._worker = crash_points.hook = None
            is_out_of_patience = self._attempts_left is not None and self._attempts_left < 0
            if worker.is_dead:
                self.crashes += not is_out_of_patience
                worker.bury()
            worker.close()
            if is_out_of_patience or not worker.is_dead:
                return not is_out_of_patience and worker.is_done

    def _watch_points(self) -> None:
        """Hear of crash points, if a worker is at work that may die at one."""
        if self._worker is not None and (self._times or self._attempts_left is not None):
            crash_points.hook = partial(self._reached, self._worker)

    def _reached(self, worker: _InlineWorker, point: str) -> None:
        if self._attempts_left is not None and point.removeprefix("before ") in self._stages and not worker.is_dead:
            self._attempts_left -= 1
            if self._attempts_left < 0:
                worker.die()
        if point == self._armed and self._times and not worker.is_dead:
            self._times -= 1
            worker.die()
        if worker.is_dead:
            raise _SimulatedCrash


class _InlineWorker:
    """A worker without threads of its own but one for stages: everything happens in a fixed order."""

    def __init__(self, app: App, clock: FakeClock, dice: random.Random, run_out: set[tuple[int, str]]) -> None:
        """`run_out` collects waits for signals whose time ran out: the clock is not moved for them again."""
        self._app = app
        self._run_out = run_out
        self._clock = clock
        self._dice = dice
        self._store = app._store
        self._session = self._store.session()
        told = app._on_failure
        self._on_failure = None if told is None else lambda failure: call(told, failure)
        self._deliver_failures = FailureDelivery(self._session, self._on_failure)
        self._inbox: list[Item] = []
        self._wish: Callable[[], Wish] | None = None
        self._submitted = 0
        self._runner: Runner | None = None
        self._started: frozenset[int] = frozenset()
        self.is_dead = False
        self.is_done = False

    async def work(self, *, wait_for_due: bool) -> None:
        self._app._in_force.look(self._session)
        registry, config = self._app._registry, self._app.config
        registry.check_runnable()
        new = NewWorker("harness", socket.gethostname(), os.getpid(), None, "", "", config.lease_ms)
        self._worker = self._session.transact(lambda: self._enter(new))
        sweeps = self._store.dialect == "postgres"
        limits_of = registry.limits_of if registry.governs else None
        rules: dict[str, Any] = {"budgets_of": registry.budgets_of, "limits_of_old": registry.limits_of}
        writer = Writer(
            self._session,
            self._worker,
            LineMemory(registry.lanes(None), limits_of, sweeps, **rules),
            LineMemory(registry.lanes(None, suspect=True), limits_of, sweeps, **rules),
        )
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_ignore_crash)
        threads = StageThreads(self._loop, 1)
        runner = self._runner = self._make_runner(threads)
        self._sweep()
        runner.look_again()
        suspect_lanes = registry.lanes(None, suspect=True)
        lanes = registry.lanes(None) + suspect_lanes
        seen = None
        for _ in range(MOST_ROUNDS):
            await self._settle(writer, runner)
            view = drive(look(LineMemory(lanes, registry.limits_of)), self._session)
            present = (self._submitted, self._clock.now())
            if view.heads and present != seen:  # enqueued meanwhile, or a suspect whose time has come
                seen = present
                runner.claims.look_for_suspects |= any(lane in suspect_lanes for lane, *_ in view.heads)
                runner.look_again()
                continue
            if sweep_budgets(self._session, self._clock.now()):  # not all that was set aside was needed
                runner.look_again()
                continue
            due_at = view.next_at
            if due_at is None or not wait_for_due or (due_at > self._clock.now() and self._waits_again()):
                self.is_done = True
                break
            limit_at = drive(next_time_check(), self._session)
            due_at = due_at if limit_at is None else min(due_at, max(limit_at, self._clock.now()))
            if due_at > self._clock.now():
                self._clock.advance((due_at - self._store.clock.now()) / 1_000)
                self._sweep()
            runner.look_again()
        threads.close()
        self._session.transact(lambda: stop(self._worker, "stopped", self._store.clock.now()))

    def _make_runner(self, threads: StageThreads) -> Runner:
        app, clock = self._app, self._store.clock
        ports = Ports(
            submit=self._submit,
            wish=self._take_wish,
            read=app._readers.read,
            look_up=lambda source, hashed: app._ask(lambda: cache.look_up(source, hashed)),
            setting=app._in_force.value,
            spawner=app._spawner,
            now=clock.now,
            monotonic=clock.monotonic,
            pass_time=lambda ms: self._clock.advance(ms / 1_000),
        )
        place = Place(threads=threads, isolates=False)
        share = Share(queues=frozenset(app._registry.queues))
        return Runner(app._registry, app.config, ports, place, share, dice=self._dice, on_failure=self._on_failure)

    def _waits_again(self) -> bool:
        """Whether only waits for signals are left whose time ran out before; notes those that run out next."""
        if drive(is_due_besides_signals(), self._session):
            return False
        limited = {
            (task, name): due_at for task, name, due_at in drive(signal_waits(), self._session) if due_at < NEVER
        }
        fresh = {wait: due_at for wait, due_at in limited.items() if wait not in self._run_out}
        if fresh:
            first_at = min(fresh.values())
            self._run_out |= {wait for wait, due_at in fresh.items() if due_at <= first_at}
        return not fresh and bool(limited)

    def _sweep(self) -> None:
        """Do what has come to be due by the clock alone."""
        now = self._store.clock.now()
        expire_batches(self._session, now, self._deliver_failures)
        sweep_budgets(self._session, now)
        expire_lineages(self._session, now, self._deliver_failures)
        expire_tasks(
            self._session, self._app._registry.limits_ms(self._app.config.task_limit_ms), now, self._deliver_failures
        )
        take_in_some(self._session, self._app._registry.kinds, tasks_of_intake(self._app))
        while fire_due(self._session, self._app._schedules, now).fired:
            pass  # of many missed times some are fired at a time

    def _enter(self, new: NewWorker) -> Op[int]:
        now = self._store.clock.now()
        worker = yield from register(new, now)
        for pipeline in self._app._registry:
            yield from wake_for_code(pipeline.kind, pipeline._fingerprint, now)
        yield from store_kinds_at_expiry(*self._app._registry.kinds_at_expiry)
        yield from declare_secret_fields(self._app._registry.secret_fields)
        registry = self._app._registry
        yield from wake_for_budgets_of_code(registry.kinds, registry.budgets_waited_for, now)
        yield from declare_sources(self._app._registry.longest_us, now)
        yield from declare_budgets(self._app._registry.budgets.values(), now)
        return worker

    async def _settle(self, writer: Writer, runner: Runner) -> None:
        """Write and run until nothing moves any more."""
        while True:
            if self.is_dead:
                raise _SimulatedCrash
            if self._inbox or self._wish:
                items, self._inbox = self._inbox, []
                wish, self._wish = None if self._wish is None else self._wish(), None
                try:
                    runner.delivered(writer.write(items, wish))
                except _SimulatedCrash:
                    self._note_what_runs()
                    raise
            elif runner.is_drained:
                return
            else:
                self._event.clear()
                if not (self._inbox or self._wish):
                    await self._event.wait()
            await asyncio.sleep(0)

    def _submit(self, commit: Commit, answer: Answer) -> None:
        self._submitted += 1
        if not self.is_dead:
            self._inbox.append(Item(commit, answer))
        self._event.set()

    def _take_wish(self, make: Callable[[], Wish]) -> None:
        self._wish = make
        self._event.set()

    def die(self) -> None:
        """Drop whatever this worker still does."""
        self.is_dead = True
        self._note_what_runs()
        self._loop.call_soon_threadsafe(self._event.set)

    def _note_what_runs(self) -> None:
        if self._runner is not None:
            self._started = frozenset(self._runner.leases.tasks)

    def bury(self) -> None:
        """Everybody sees at once that this worker is dead."""
        self._note_what_runs()
        seen: LivingWorker = next(one for one in drive(living_workers(), self._session) if one.id == self._worker)
        self._session.undo()
        deaths = self._app.config.max_lost_workers
        death = Death("died in a test", self._started)
        reclaimed = self._session.transact(lambda: bury(seen, death, deaths, lambda _: 0, self._store.clock.now()))
        if reclaimed is not None:
            self._deliver_failures(reclaimed.failures)

    def close(self) -> None:
        """Leave the database."""
        self._session.close()


def _ignore_crash(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), _SimulatedCrash):
        loop.default_exception_handler(context)
