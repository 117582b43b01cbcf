"""The measurements: what each does to a system on a fresh database, and what it gives."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Any

import psycopg

from bench import processes, runlog
from bench.peers import usage
from bench.peers.catalogue import System
from bench.peers.environments import interpreter
from bench.peers.findings import Outcome, Value, rate
from bench.peers.plan import Plan, Work
from bench.plan import STAGES
from bench.processes import Process
from bench.samples import percentile
from bench.target import Target

# Starting a worker may take seconds; once jobs run, a pause of this length means that no more will.
PATIENCE_SECONDS = 30.0
MOVING_SECONDS = 1.0
STALL_SECONDS = 10.0
LIFE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Subject:
    """A system on the database and run log of one measurement."""

    system: System
    target: Target


@contextmanager
def started(subject: Subject, module: str, *request: object) -> Iterator[Process]:
    """A process of the system in a session of its own; it and its children are gone after the block."""
    command = [str(interpreter(subject.system)), "-m", f"bench.peers.{module}", subject.system.name]
    with open(processes.errors_of(subject.target), "a", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [*command, *map(str, request)],
            cwd=processes.ROOT,
            env={**subject.target.environment(), "PYTHONPATH": str(processes.ROOT)},
            stdout=subprocess.PIPE if module == "client" else errors,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    watchdog = Timer(LIFE_SECONDS, processes.kill, [process])
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        # Nothing is asked of it any more, and how a system ends politely is not what is measured.
        processes.kill(process)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def fill(subject: Subject, *request: object) -> dict[str, Any]:
    """Have a client make a backlog: what it measured meanwhile."""
    with started(subject, "client", *request) as client:
        measured = processes.answer(client, subject.target)
    if subject.system.backend == "postgres":
        # What autovacuum does within a minute. Without statistics some peers plan a claim as a sort of all that waits.
        with psycopg.connect(subject.target.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    return measured


@contextmanager
def workers(subject: Subject, count: int) -> Iterator[list[Process]]:
    """So many worker processes: each its own, or one supervisor that starts them."""
    with ExitStack() as stack:
        if count > 1 and subject.system.own_supervisor:
            yield [stack.enter_context(started(subject, "worker", count))]
        else:
            yield [stack.enter_context(started(subject, "worker")) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Drained:
    """What became of a backlog: the rate of handler starts, the tally, CPU per 1,000 starts and peak memory."""

    rate: Value
    tally: runlog.Tally
    cpu_seconds: float | None
    peak_mb: float | None


def run_backlog(subject: Subject, expected: int, count: int, plan: Plan) -> Drained:
    """Let workers at a backlog until every job has started, the cap is over or nothing moves any more."""
    with workers(subject, count) as running:
        before, already = await_first(subject, running), runlog.length(subject.target.log)
        capped = await_rest(subject, expected, running, plan.cap_seconds)
        after, at_last = usage_of(running), runlog.length(subject.target.log)
        # A job that some worker holds twice would run again about now.
        time.sleep(plan.settle_seconds)
    runs = runlog.read(subject.target.log)
    cpu = None
    if before is not None and after is not None and at_last > already:
        cpu = (after.cpu_seconds - before.cpu_seconds) / (at_last - already) * 1000
    return Drained(
        rate(runs, plan.cap_seconds, capped=capped), runlog.tally(runs, expected), cpu, after.peak_mb if after else None
    )


def usage_of(running: list[Process]) -> usage.Usage | None:
    """What the workers have used so far."""
    return usage.of_sessions([process.pid for process in running])


def await_first(subject: Subject, running: list[Process]) -> usage.Usage | None:
    """Return when the first handler has started: what the workers had used until then."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not runlog.length(subject.target.log):
        if all(process.poll() is not None for process in running):
            raise processes.failure("every worker ended before a job ran", subject.target)
        if time.monotonic() > end:
            raise processes.failure(f"no job ran within {PATIENCE_SECONDS:.0f} s", subject.target)
        time.sleep(0.002)
    return usage_of(running)


def await_rest(subject: Subject, expected: int, running: list[Process], cap_seconds: float) -> bool:
    """Return when all handlers have started, when the cap is over, or when nothing has moved for long.

    True means that the work was still going on at the cap. One that stands still there is waited for: what it has
    left is lost, not late.
    """
    began = moved_at = time.monotonic()
    seen = 0
    while (runs := runlog.length(subject.target.log)) < expected:
        now = time.monotonic()
        if runs > seen:
            seen, moved_at = runs, now
        if now - began >= cap_seconds and now - moved_at < MOVING_SECONDS:
            return True
        if now - moved_at > STALL_SECONDS or all(process.poll() is not None for process in running):
            return False
        time.sleep(0.005)
    return False


def backlog(subject: Subject, plan: Plan) -> Outcome:
    """Enqueue one by one, then in bulk; one worker process then drains it all, and every job is counted."""
    measured = fill(subject, "backlog", plan.singles, plan.jobs, plan.fill_seconds)
    drained = run_backlog(subject, measured["total"], 1, plan)
    values = {
        "enqueue-one": Value(measured["enqueue-one"]),
        "drain-1": drained.rate,
    }
    if measured["enqueue-bulk"] is not None:
        values["enqueue-bulk"] = Value(measured["enqueue-bulk"])
    if drained.cpu_seconds is not None:
        values["cpu"] = Value(drained.cpu_seconds)
    if drained.peak_mb is not None:
        values["memory"] = Value(drained.peak_mb)
    return Outcome(values, drained.tally, drained.rate.capped)


def drain_by_two(subject: Subject, plan: Plan) -> Outcome:
    """Two worker processes drain a backlog."""
    total = fill(subject, "fill", "noop", plan.jobs, plan.fill_seconds)["total"]
    drained = run_backlog(subject, total, 2, plan)
    return Outcome({"drain-2": drained.rate}, drained.tally, drained.rate.capped)


def workflows(subject: Subject, plan: Plan) -> Outcome:
    """One worker process runs workflows of five durable steps; every step is counted."""
    total = fill(subject, "fill", "five", plan.workflows, plan.fill_seconds)["total"]
    drained = run_backlog(subject, total * STAGES, 1, plan)
    per_second = Value(drained.rate.value / STAGES, drained.rate.capped)
    return Outcome({"workflows": per_second}, drained.tally, drained.rate.capped)


def latency(subject: Subject, plan: Plan) -> Outcome:
    """From just before the enqueue call in one process to the handler's start in an idle worker process."""
    with ExitStack() as stack:
        client = stack.enter_context(started(subject, "client", "latency", plan.latencies, plan.gap_seconds))
        processes.await_ready(client, subject.target)
        running = stack.enter_context(workers(subject, 1))
        measured = processes.answer(client, subject.target)
        await_rest(subject, measured["total"], running, PATIENCE_SECONDS)
    runs = runlog.read(subject.target.log)
    first, sent_ns = measured["first_number"], measured["sent_ns"]
    waits = [
        (run.started_ns - sent_ns[run.number - first]) / 1e6 for run in runs if 0 <= run.number - first < len(sent_ns)
    ]
    if not waits:
        raise processes.failure("no job ran", subject.target)
    values = {"latency-p50": Value(percentile(waits, 0.50)), "latency-p99": Value(percentile(waits, 0.99))}
    return Outcome(values, runlog.tally(runs, measured["total"]), capped=False)


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement, and the workloads that it belongs to."""

    name: str
    works: tuple[Work, ...]
    measure: Callable[[Subject, Plan], Outcome]
    needs_steps: bool = False

    def fits(self, system: System) -> bool:
        """Whether the system has what the measurement needs."""
        return system.workflows or not self.needs_steps


PARTS = (
    Part("backlog", ("enqueue", "drain"), backlog),
    Part("drain-2", ("drain",), drain_by_two),
    Part("workflows", ("workflows",), workflows, needs_steps=True),
    Part("latency", ("latency",), latency),
)
