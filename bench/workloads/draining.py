"""Running a backlog: plain tasks and others, large payloads, workflows, and how soon a worker begins."""

import statistics
import time

from bench import processes, runlog
from bench.meter import postgres_costs
from bench.plan import COMMIT_S, FEW_SLOTS, SIZES, STAGES, WAIT_S, Plan
from bench.runlog import Run, Tally
from bench.samples import Outcome
from bench.servers import slow_commits
from bench.target import Target
from bench.workloads.parts import phase, run_backlog, starts_per_second
from bench.workloads.spawning import spawn_all


def drain(target: Target, plan: Plan, *, workers: int) -> Outcome:
    """Run a backlog of no-op tasks, from the first handler start to the last; nothing may be left after that."""
    processes.ask(target, "fill", "noop", plan.drain)
    with postgres_costs(target, plan.drain) as costs:
        meter = run_backlog(target, plan.drain, workers)
    runs = runlog.read(target.log)
    values = {f"drain-{workers}": starts_per_second(runs)}
    if workers == 1:
        values |= {**meter.costs(), **costs}
    if workers == 2:
        values |= meter.memory()
    return Outcome(values, runlog.tally(runs, plan.drain))


def workflows(target: Target, plan: Plan) -> Outcome:
    """Run a backlog of workflows whose every stage is durable before the next; each stage is counted."""
    processes.ask(target, "fill", "five", plan.workflows)
    run_backlog(target, plan.workflows * STAGES)
    runs = runlog.read(target.log)
    return Outcome({"workflows": starts_per_second(runs) / STAGES}, runlog.tally(runs, plan.workflows * STAGES))


def kinds(target: Target, plan: Plan) -> Outcome:
    """Run as many plain, `def`, governed and spawned tasks, and plain ones again, one backlog after the other.

    What a kind is compared with is the mean of the plain ones before and after it.
    """
    tallies: list[Tally] = []

    def drained(name: str, kind: str) -> float:
        here = phase(target, name)
        processes.ask(here, "fill", kind, plan.kinds)
        run_backlog(here, plan.kinds, kinds=kind != "noop")
        runs = runlog.read(here.log)
        tallies.append(runlog.tally(runs, plan.kinds))
        return starts_per_second(runs)

    before = drained("before", "noop")
    blocking = drained("blocking", "blocking")
    governed = drained("governed", "governed")
    spawned, tally = _spawned(phase(target, "spawned"), plan.kinds)
    tallies.append(tally)
    plain = statistics.mean([before, drained("after", "noop")])
    return Outcome(
        {
            "kind-plain": plain,
            "kind-blocking": blocking,
            "kind-governed": governed,
            "kind-spawned": spawned,
            "blocking-share": blocking / plain,
            "governed-share": governed / plain,
            "spawned-share": spawned / plain,
        },
        runlog.total(tallies),
    )


def slow(target: Target, plan: Plan) -> Outcome:
    """Run a backlog of tasks that wait a little, on few slots, where the reply to every commit takes long."""
    processes.ask(target, "fill", "patient", plan.kinds)
    slow_commits(target.url, COMMIT_S)
    run_backlog(target, plan.kinds, kinds=True, few=True)
    runs = runlog.read(target.log)
    rate = starts_per_second(runs)
    return Outcome({"slow": rate, "slow-share": rate * WAIT_S / FEW_SLOTS}, runlog.tally(runs, plan.kinds))


def _spawned(target: Target, count: int) -> tuple[float, Tally]:
    """The rate at which tasks run that stages have spawned, once all of them are there."""
    stages = spawn_all(target, 0, count)
    run_backlog(target, count + len(stages))
    runs = runlog.read(target.log)
    children: list[Run] = [run for run in runs if run.number < count]
    return starts_per_second(children), runlog.tally(runs, count + len(stages))


def payloads(target: Target, plan: Plan) -> Outcome:
    """Run a backlog with payloads of each size: about as many bytes of each, but no more tasks than usual.

    Large ones may all be claimed at once, so the time is that of the whole worker process, less that of one which finds
    a single small task.
    """
    tallies: list[Tally] = []

    def took(name: str, count: int, payload_bytes: int) -> float:
        here = phase(target, name)
        processes.ask(here, "fill-with", count, payload_bytes)
        began = time.monotonic()
        run_backlog(here, count)
        seconds = time.monotonic() - began
        tallies.append(runlog.tally(runlog.read(here.log), count))
        return seconds

    one = took("one", 1, min(SIZES.values()))
    values: dict[str, float] = {}
    for size, payload_bytes in SIZES.items():
        count = max(3, min(plan.drain, plan.payload_bytes // payload_bytes))
        rate = count / max(took(size, count, payload_bytes) - one, 0.001)
        values |= {f"payload-{size}": rate, f"payload-{size}-mb": rate * payload_bytes / 1e6}
    return Outcome(values, runlog.total(tallies))


def startup(target: Target, plan: Plan) -> Outcome:
    """From the start of a worker process to its first handler, a task waiting."""
    took: list[float] = []
    tallies: list[Tally] = []
    for number in range(plan.starts):
        here = phase(target, str(number))
        processes.ask(here, "fill", "noop", 1)
        began_ns = time.monotonic_ns()
        run_backlog(here, 1)
        runs = runlog.read(here.log)
        tallies.append(runlog.tally(runs, 1))
        took += [(run.started_ns - began_ns) / 1e6 for run in runs]
    return Outcome({"startup": statistics.median(took)} if took else {}, runlog.total(tallies))
