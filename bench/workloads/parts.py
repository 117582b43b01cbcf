"""What all workloads are made of: a part, phases of it, workers that run a backlog, rates and waits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from bench import processes
from bench.meter import Meter
from bench.plan import SIDES, STORES, Plan, Side, Store, Work
from bench.runlog import Run
from bench.samples import Outcome, percentile
from bench.target import Target


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement of a workload, on a fresh database."""

    name: str
    work: Work
    measure: Callable[[Target, Plan], Outcome]
    stores: tuple[Store, ...] = STORES
    sides: tuple[Side, ...] = SIDES
    every_round: bool = True


def phase(target: Target, name: str) -> Target:
    """The same database with a run log of its own, for one of several steps of a measurement."""
    return replace(target, log=target.log.with_suffix(f".{name}.runs"))


@contextmanager
def second_database(target: Target) -> Iterator[Target]:
    """Another fresh database beside that of a measurement, for what is to be compared with it in turns."""
    if target.store == "sqlite":
        yield replace(target, url=f"{target.url.removesuffix('.db')}.second.db")
        return
    address = urlsplit(target.url)
    name = f"{address.path.removeprefix('/')}_second"
    with psycopg.connect(target.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield replace(target, url=urlunsplit(address._replace(path=f"/{name}")))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def run_backlog(target: Target, count: int, workers: int = 1, *, kinds: bool = False, few: bool = False) -> Meter:
    """Run what is enqueued with so many worker processes, until the store itself says that nothing is left."""
    supervised: Meter | None = None
    if target.side == "engine" and workers > 1:
        with processes.started(processes.supervised_command(workers), target) as supervisor:
            supervised = Meter(target, [supervisor])
            processes.await_runs(target, count, [supervisor], supervised.look)
        # The supervisor does not end by itself. A worker that finds nothing to do is the store's word for "done".
        workers = 1
    with ExitStack() as stack:
        command = processes.worker_command(until_idle=True, kinds=kinds, few=few)
        started = [stack.enter_context(processes.started(command, target)) for _ in range(workers)]
        meter = Meter(target, started)
        processes.await_runs(target, count, started, meter.look if supervised is None else None)
        for worker in started:
            processes.await_exit(worker, target)
    return supervised or meter


def run_first(target: Target, count: int) -> None:
    """Run the first so many of a backlog, or a few more, with one worker process that is then told to stop."""
    with processes.started(processes.worker_command(), target) as worker:
        processes.await_runs(target, count, [worker])


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


def percentiles(name: str, waits: list[float]) -> dict[str, float]:
    """The usual three of them, as measures."""
    return {f"{name}-p{share}": percentile(waits, share / 100) for share in (50, 95, 99)} if waits else {}
