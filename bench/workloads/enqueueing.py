"""Enqueueing: one by one, in bulk, and from many callers at once."""

from bench import processes, runlog
from bench.plan import CALLERS, Plan
from bench.samples import Outcome
from bench.target import Target
from bench.workloads.parts import run_backlog


def enqueue(target: Target, plan: Plan) -> Outcome:
    """Enqueue one by one, then in bulk; afterwards a worker runs it all, so that every job is counted."""
    measured = processes.ask(target, "enqueue", plan.singles, plan.bulk)
    asked_for = 1 + plan.singles + plan.bulk
    run_backlog(target, asked_for)
    return Outcome(
        {
            "enqueue-one": plan.singles / measured["singles_seconds"],
            "enqueue-bulk": plan.bulk / measured["bulk_seconds"],
        },
        runlog.tally(runlog.read(target.log), asked_for),
    )


def callers(target: Target, plan: Plan) -> Outcome:
    """Enqueue one by one from one caller and from many: awaiting in one event loop, then waiting in threads."""
    count = plan.singles // CALLERS * CALLERS
    measured = processes.ask(target, "callers", count)
    run_backlog(target, measured["asked_for"])
    return Outcome(
        {
            "callers-1": measured["callers_1"],
            "callers-many": measured["callers_many"],
            "callers-share": measured["callers_many"] / measured["callers_1"],
            "threads-1": measured["threads_1"],
            "threads-many": measured["threads_many"],
            "threads-share": measured["threads_many"] / measured["threads_1"],
        },
        runlog.tally(runlog.read(target.log), measured["asked_for"]),
    )
