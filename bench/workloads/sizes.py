"""What grows and what is held: a large backlog, many finished rows, an old snapshot, a slow reader."""

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench import processes, runlog
from bench.client import WARM_UPS
from bench.clone import multiply_finished
from bench.plan import FIRST_SHARE, Plan
from bench.runlog import Run, Tally
from bench.samples import Outcome, percentile
from bench.servers import held_snapshot
from bench.target import Target
from bench.workloads.parts import phase, run_backlog, run_first, second_database, starts_per_second, waits_ms

# Beyond the time that is asked for: to begin, to warm up, to catch up.
SPARE_SECONDS = 120.0
LINGER_SECONDS = 2.0


def backlog(target: Target, plan: Plan) -> Outcome:
    """The first tasks of small backlogs and the first tasks of a large one, in turns."""
    with second_database(target) as large:
        processes.ask(large, "fill", "noop", plan.large_backlog)
        return _in_turns(
            "backlog", plan, lambda name: _small_backlog(target, plan, name), lambda name: _first(large, plan, name)
        )


def finished(target: Target, plan: Plan) -> Outcome:
    """The first tasks of small backlogs beside few finished ones and beside very many, in turns."""
    with second_database(target) as many:
        for here in (target, many):
            _small_backlog(here, plan, "before")
        multiply_finished(many, plan.finished)
        return _in_turns(
            "finished",
            plan,
            lambda name: _small_backlog(target, plan, name),
            lambda name: _small_backlog(many, plan, name),
        )


def _in_turns(
    name: str, plan: Plan, small: Callable[[str], tuple[float, Tally]], large: Callable[[str], tuple[float, Tally]]
) -> Outcome:
    """Rates of two that take turns; how they compare is the median of how each pair does."""
    pairs = [(small(f"small-{number}"), large(f"large-{number}")) for number in range(plan.repeats)]
    values = {
        f"{name}-small": statistics.median(rate for (rate, _), _ in pairs),
        f"{name}-large": statistics.median(rate for _, (rate, _) in pairs),
        f"{name}-share": statistics.median(large / small for (small, _), (large, _) in pairs),
    }
    return Outcome(values, runlog.total([tally for pair in pairs for _, tally in pair]))


def _small_backlog(target: Target, plan: Plan, name: str) -> tuple[float, Tally]:
    """The rate of the first tasks of a small backlog that is run to its end."""
    here = phase(target, name)
    processes.ask(here, "fill", "noop", plan.small)
    run_backlog(here, plan.small)
    runs = runlog.read(here.log)
    return starts_per_second(runs[: int(plan.small * FIRST_SHARE)]), runlog.tally(runs, plan.small)


def _first(target: Target, plan: Plan, name: str) -> tuple[float, Tally]:
    """The rate of the first tasks of what is there."""
    here = phase(target, name)
    first = int(plan.small * FIRST_SHARE)
    run_first(here, first)
    runs = runlog.read(here.log)
    return starts_per_second(runs[:first]), runlog.tally_of_some(runs)


def snapshot(target: Target, plan: Plan) -> Outcome:
    """A steady load for a while, and on while an old snapshot is held: started in each while, and how soon."""
    seconds = plan.before_seconds + plan.hold_seconds
    with ExitStack() as stack:
        life = seconds + SPARE_SECONDS
        command = processes.client_command("steady", plan.steady_per_second, seconds)
        client = stack.enter_context(processes.started(command, target, life_seconds=life))
        processes.await_ready(client, target)
        worker = stack.enter_context(processes.started(processes.worker_command(), target, life_seconds=life))
        processes.await_runs(target, WARM_UPS + int(plan.before_seconds * plan.steady_per_second), [worker])
        with held_snapshot(target.url):
            held_ns = time.monotonic_ns()
            measured = processes.answer(client, target)
        asked_for = measured["first_number"] + len(measured["sent_ns"])
        processes.await_runs(target, asked_for, [worker])
    runs = runlog.read(target.log)
    began_ns = measured["began_ns"]
    end_ns = began_ns + int(seconds * 1e9)
    before = [run for run in runs if began_ns <= run.started_ns < held_ns]
    held = [run for run in runs if held_ns <= run.started_ns < end_ns]
    values = {
        "snapshot-before": len(before) / ((held_ns - began_ns) / 1e9),
        "snapshot-held": len(held) / ((end_ns - held_ns) / 1e9),
        "snapshot-before-p99": percentile(waits_ms(before, measured), 0.99),
        "snapshot-held-p99": percentile(waits_ms(held, measured), 0.99),
    }
    values["snapshot-kept"] = values["snapshot-held"] / values["snapshot-before"]
    values["snapshot-growth"] = values["snapshot-held-p99"] / values["snapshot-before-p99"]
    by_second = _by_second(runs, measured, int(seconds))
    series = {
        "snapshot-p50": [percentile(waits, 0.50) for waits in by_second],
        "snapshot-p99": [percentile(waits, 0.99) for waits in by_second],
        "snapshot-held-at": [(held_ns - began_ns) / 1e9],
    }
    return Outcome(values, runlog.tally(runs, asked_for), series)


def _by_second(runs: list[Run], measured: dict[str, Any], seconds: int) -> list[list[float]]:
    """How long the jobs stood that began in each second of the load; at least one nought for a second without any."""
    found: list[list[float]] = [[] for _ in range(seconds)]
    for run in runs:
        second = (run.started_ns - measured["began_ns"]) // 1_000_000_000
        if 0 <= second < seconds:
            found[second] += waits_ms([run], measured)
    return [waits or [0.0] for waits in found]


def reader(target: Target, plan: Plan) -> Outcome:
    """Run a backlog, and another one while somebody reads slowly; how large the write-ahead log became each time."""
    rates: dict[str, float] = {}
    logs = {"without": 0, "with": 0}
    tallies: list[Tally] = []
    for name in ("without", "with"):
        here = phase(target, name)
        processes.ask(here, "fill", "noop", plan.drain)
        with ExitStack() as stack:
            if name == "with":
                stack.enter_context(processes.started(processes.reader_command(LINGER_SECONDS), here))
            worker = stack.enter_context(processes.started(processes.worker_command(until_idle=True), here))
            processes.await_runs(here, plan.drain, [worker], partial(_look_at_log, here, logs, name))
            processes.await_exit(worker, here)
        runs = runlog.read(here.log)
        rates[name] = starts_per_second(runs)
        tallies.append(runlog.tally(runs, plan.drain))
    return Outcome(
        {
            "reader-without": rates["without"],
            "reader-with": rates["with"],
            "reader-share": rates["with"] / rates["without"],
            "reader-wal-without": logs["without"] / 1e6,
            "reader-wal-with": logs["with"] / 1e6,
        },
        runlog.total(tallies),
    )


def _look_at_log(target: Target, largest: dict[str, int], name: str, _: int) -> None:
    """Remember the size of the write-ahead log if it was never larger."""
    with suppress(FileNotFoundError):
        size = Path(target.url.removeprefix("sqlite:///") + "-wal").stat().st_size
        largest[name] = max(largest[name], size)
