"""The workloads: what each does to a fresh database, and what it measures."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import processes, runlog
from bench.plan import CHILDREN, SIDES, STAGES, STORES, Plan, Side, Store, Work
from bench.runlog import Run
from bench.samples import Outcome, percentile
from bench.servers import held_snapshot
from bench.target import Target


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement of a workload, on a fresh database."""

    name: str
    work: Work
    stores: tuple[Store, ...]
    measure: Callable[[Target, Plan], Outcome]
    every_round: bool = True
    sides: tuple[Side, ...] = SIDES


def enqueue(target: Target, plan: Plan) -> Outcome:
    """Enqueue one by one, then in bulk; afterwards a worker runs it all, so that every job is counted."""
    measured = processes.ask(target, "enqueue", plan.singles, plan.bulk)
    asked_for = 1 + plan.singles + plan.bulk
    run_backlog(target, asked_for, 1)
    return Outcome(
        {
            "enqueue-one": plan.singles / measured["singles_seconds"],
            "enqueue-bulk": plan.bulk / measured["bulk_seconds"],
        },
        runlog.tally(runlog.read(target.log), asked_for),
    )


def drain(target: Target, plan: Plan, *, workers: int) -> Outcome:
    """Run a backlog of no-op tasks, from the first handler start to the last; nothing may be left after that."""
    processes.ask(target, "fill", "noop", plan.drain)
    run_backlog(target, plan.drain, workers)
    runs = runlog.read(target.log)
    return Outcome({f"drain-{workers}": starts_per_second(runs)}, runlog.tally(runs, plan.drain))


def workflows(target: Target, plan: Plan) -> Outcome:
    """Run a backlog of workflows whose every stage is durable before the next; each stage is counted."""
    processes.ask(target, "fill", "five", plan.workflows)
    run_backlog(target, plan.workflows * STAGES, 1)
    runs = runlog.read(target.log)
    return Outcome({"workflows": starts_per_second(runs) / STAGES}, runlog.tally(runs, plan.workflows * STAGES))


def spawn(target: Target, plan: Plan) -> Outcome:
    """Enqueue in bulk, then have stages spawn as many, from the first of them to when the last is durable.

    The children stand in a queue of their own; afterwards a worker runs them all, so that every job is counted.
    """
    measured = processes.ask(target, "enqueue", 0, plan.spawned)
    first_child = 1 + plan.spawned
    fans = processes.ask(target, "fans", first_child, plan.spawned)["fans"]
    with processes.started(processes.worker_command(until_idle=True, fans=True), target) as worker:
        processes.await_runs(target, 2 * fans, [worker])
        processes.await_exit(worker, target)
    stages = runlog.read(target.log)
    seconds = (stages[-1].started_ns - stages[0].started_ns) / 1e9 if stages else 0.0
    asked_for = first_child + plan.spawned + 2 * fans
    run_backlog(target, asked_for, 1)
    spawned, enqueued = fans * CHILDREN / seconds if seconds else 0.0, plan.spawned / measured["bulk_seconds"]
    return Outcome(
        {"spawn": spawned, "spawn-bulk": enqueued, "spawn-share": spawned / enqueued},
        runlog.tally(runlog.read(target.log), asked_for),
    )


def guard(target: Target, plan: Plan) -> Outcome:
    """What the guard costs in a small lineage and in a large one. Nothing of it ever runs."""
    measured = processes.ask(target, "guard", plan.large_lineage)
    small, large = measured["small"], measured["large"]
    return Outcome({"guard-small": small, "guard-large": large, "guard-growth": large / small}, runlog.tally([], 0))


def governed(target: Target, plan: Plan) -> Outcome:
    """What gates cost a claim, behind one source and with very many. Nothing of it ever runs."""
    took = processes.ask(target, "governed", plan.sources)
    return Outcome(
        {
            "claim-plain": took["plain"],
            "claim-governed": took["one"],
            "claim-behind": took["behind"],
            "governed-cost": took["one"] / took["plain"],
            "sources-cost": took["beside"] / took["again"],
            "behind-cost": took["behind"] / took["again"],
        },
        runlog.tally([], 0),
    )


def latency(target: Target, plan: Plan) -> Outcome:
    """From just before the enqueue call in one process to the handler's start in an idle worker process."""
    with ExitStack() as stack:
        client = stack.enter_context(
            processes.started(processes.client_command("latency", plan.latencies, plan.gap_ms), target)
        )
        processes.await_ready(client, target)
        worker = stack.enter_context(processes.started(processes.worker_command(), target))
        measured = processes.answer(client, target)
        asked_for = measured["first_number"] + plan.latencies
        processes.await_runs(target, asked_for, [worker])
    runs = runlog.read(target.log)
    waits = waits_ms(runs, measured)
    return Outcome(
        {
            "latency-p50": percentile(waits, 0.50),
            "latency-p95": percentile(waits, 0.95),
            "latency-p99": percentile(waits, 0.99),
        },
        runlog.tally(runs, asked_for),
    )


def steady(target: Target, plan: Plan, *, held: bool) -> Outcome:
    """A steady load for a while, with or without an old snapshot held open: how much of it started in that while."""
    with ExitStack() as stack:
        request = ("steady", plan.steady_per_second, plan.hold_seconds)
        client = stack.enter_context(processes.started(processes.client_command(*request), target))
        processes.await_ready(client, target)
        with held_snapshot(target.url) if held else nullcontext():
            worker = stack.enter_context(processes.started(processes.worker_command(), target))
            measured = processes.answer(client, target)
        asked_for = measured["first_number"] + len(measured["sent_ns"])
        processes.await_runs(target, asked_for, [worker])
    runs = runlog.read(target.log)
    end_ns = measured["began_ns"] + int(plan.hold_seconds * 1e9)
    in_time = sum(1 for run in runs if run.number >= measured["first_number"] and run.started_ns <= end_ns)
    name = "steady-held" if held else "steady-plain"
    return Outcome(
        {name: in_time / len(measured["sent_ns"]), f"{name}-p99": percentile(waits_ms(runs, measured), 0.99)},
        runlog.tally(runs, asked_for),
    )


def run_backlog(target: Target, count: int, workers: int) -> None:
    """Run what is enqueued with so many worker processes, until the store itself says that nothing is left."""
    if target.side == "engine" and workers > 1:
        with processes.started(processes.supervised_command(workers), target) as supervisor:
            processes.await_runs(target, count, [supervisor])
        # The supervisor does not end by itself. A worker that finds nothing to do is the store's word for "done".
        workers = 1
    with ExitStack() as stack:
        command = processes.worker_command(until_idle=True)
        started = [stack.enter_context(processes.started(command, target)) for _ in range(workers)]
        processes.await_runs(target, count, started)
        for worker in started:
            processes.await_exit(worker, target)


def starts_per_second(runs: list[Run]) -> float:
    """Handler starts a second between the first and the last."""
    if len(runs) < 2:
        return 0.0
    return (len(runs) - 1) / ((runs[-1].started_ns - runs[0].started_ns) / 1e9)


def waits_ms(runs: list[Run], measured: dict[str, Any]) -> list[float]:
    """How long each job stood between the enqueue call and its first start."""
    first, sent_ns = measured["first_number"], measured["sent_ns"]
    return [
        (run.started_ns - sent_ns[run.number - first]) / 1e6 for run in runs if 0 <= run.number - first < len(sent_ns)
    ]


PARTS = (
    Part("enqueue", "enqueue", STORES, enqueue),
    Part("drain-1", "drain", STORES, partial(drain, workers=1)),
    Part("drain-2", "drain", STORES, partial(drain, workers=2)),
    Part("latency", "latency", STORES, latency),
    Part("workflows", "workflows", STORES, workflows),
    Part("spawn", "spawn", STORES, spawn, sides=("engine",)),
    Part("guard", "spawn", STORES, guard, every_round=False, sides=("engine",)),
    Part("governed", "governed", STORES, governed, sides=("engine",)),
    # Minutes long, so once a run; only PostgreSQL keeps dead rows for an old snapshot.
    Part("steady-plain", "steady", ("postgres",), partial(steady, held=False), every_round=False),
    Part("steady-held", "steady", ("postgres",), partial(steady, held=True), every_round=False),
)
