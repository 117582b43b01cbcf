"""From enqueue to start: to an idle worker, at half load and at 70 % of what this database has just shown."""

from contextlib import ExitStack
from typing import Any

from bench import processes, runlog
from bench.plan import HALF_LOAD, HIGH_LOAD, Plan
from bench.runlog import Run, Tally
from bench.samples import Outcome
from bench.target import Target
from bench.workloads.parts import percentiles, phase, run_backlog, starts_per_second, waits_ms


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
    return Outcome(percentiles("latency", waits_ms(runs, measured)), runlog.tally(runs, asked_for))


def load(target: Target, plan: Plan) -> Outcome:
    """Drain a backlog, then enqueue steadily at half that rate, then at 70 % of it, from another process."""
    full = phase(target, "full")
    processes.ask(full, "fill", "noop", plan.drain)
    run_backlog(full, plan.drain)
    runs = runlog.read(full.log)
    rate = starts_per_second(runs)
    tallies = [runlog.tally(runs, plan.drain)]
    values: dict[str, float] = {}
    for name, share in (("half", HALF_LOAD), ("high", HIGH_LOAD)):
        runs, measured, tally = _steady(phase(target, name), int(rate * share), plan.load_seconds)
        tallies.append(tally)
        sent = len(measured["sent_ns"])
        end_ns = measured["began_ns"] + int(plan.load_seconds * 1e9)
        values[f"{name}-rate"] = sent / plan.load_seconds
        values |= percentiles(name, waits_ms(runs, measured))
        if name == "high":
            in_time = [run for run in runs if run.number >= measured["first_number"] and run.started_ns <= end_ns]
            values["high-in-time"] = len(in_time) / sent
    return Outcome(values, runlog.total(tallies))


def _steady(target: Target, per_second: int, seconds: float) -> tuple[list[Run], dict[str, Any], Tally]:
    """A steady load beside one worker; what ran, what was sent, and the count."""
    with ExitStack() as stack:
        request = processes.client_command("steady", per_second, seconds)
        client = stack.enter_context(processes.started(request, target))
        processes.await_ready(client, target)
        worker = stack.enter_context(processes.started(processes.worker_command(), target))
        measured = processes.answer(client, target)
        asked_for = measured["first_number"] + len(measured["sent_ns"])
        processes.await_runs(target, asked_for, [worker])
    runs = runlog.read(target.log)
    return runs, measured, runlog.tally(runs, asked_for)
