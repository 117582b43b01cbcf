"""Work that makes work: spawning beside enqueueing, trees, and what guards and gates cost by themselves."""

from bench import processes, runlog
from bench.plan import CHILDREN, Plan
from bench.runlog import Run
from bench.samples import Outcome
from bench.target import Target
from bench.workloads.parts import run_backlog, starts_per_second


def spawn(target: Target, plan: Plan) -> Outcome:
    """Enqueue in bulk, then have stages spawn as many, from the first of them to when the last is durable.

    The children stand in a queue of their own; afterwards a worker runs them all, so that every job is counted.
    """
    measured = processes.ask(target, "enqueue", 0, plan.spawned)
    first_child = 1 + plan.spawned
    stages = spawn_all(target, first_child, plan.spawned)
    seconds = (stages[-1].started_ns - stages[0].started_ns) / 1e9 if stages else 0.0
    asked_for = first_child + plan.spawned + len(stages)
    run_backlog(target, asked_for)
    children = len(stages) // 2 * CHILDREN
    spawned, enqueued = children / seconds if seconds else 0.0, plan.spawned / measured["bulk_seconds"]
    return Outcome(
        {"spawn": spawned, "spawn-bulk": enqueued, "spawn-share": spawned / enqueued},
        runlog.tally(runlog.read(target.log), asked_for),
    )


def spawn_all(target: Target, first_child: int, count: int) -> list[Run]:
    """Have stages spawn `count` no-op tasks, which are left standing; the runs of those who did, two each."""
    fans = processes.ask(target, "fans", first_child, count)["fans"]
    with processes.started(processes.worker_command(until_idle=True, fans=True), target) as worker:
        processes.await_runs(target, 2 * fans, [worker])
        processes.await_exit(worker, target)
    return runlog.read(target.log)


def trees(target: Target, plan: Plan) -> Outcome:
    """Enqueue roots and let their trees grow to the last leaf, from the first handler start to the last."""
    tasks = processes.ask(target, "plant", plan.trees)["tasks"]
    run_backlog(target, tasks, kinds=True)
    runs = runlog.read(target.log)
    return Outcome({"trees": starts_per_second(runs)}, runlog.tally(runs, tasks))


def guard(target: Target, plan: Plan) -> Outcome:
    """What the guard costs in a small lineage and in a large one. Nothing of it ever runs."""
    measured = processes.ask(target, "guard", plan.large_lineage, plan.claims)
    small, large = measured["small"], measured["large"]
    return Outcome({"guard-small": small, "guard-large": large, "guard-growth": large / small}, runlog.tally([], 0))


def governed(target: Target, plan: Plan) -> Outcome:
    """What gates cost a claim, behind one source and with very many. Nothing of it ever runs."""
    took = processes.ask(target, "governed", plan.sources, plan.claims)
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
