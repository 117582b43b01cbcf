"""The order of a run: rounds outside, systems innermost, so that all of them see the same minutes of the machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.peers import redis
from bench.peers.catalogue import System
from bench.peers.environments import Missing, prepare
from bench.peers.findings import Count, Failure, Findings, Sample
from bench.peers.measuring import PARTS, Subject
from bench.peers.plan import Plan, Work
from bench.plan import Side
from bench.processes import BenchError
from bench.servers import Scratch
from bench.target import Target

News = Callable[[str], None]
Say = Callable[[Sample | Count | Failure], None]


def ready(systems: tuple[System, ...], say: News) -> tuple[tuple[System, ...], dict[str, str]]:
    """Install what is not yet installed: the systems that can run, and why the others cannot."""
    able: list[System] = []
    skipped: dict[str, str] = {}
    for system in systems:
        try:
            if system.backend == "redis":
                redis.executable()
            prepare(system, say)
            able.append(system)
        except Missing as reason:
            skipped[system.name] = str(reason)
    return tuple(able), skipped


@contextmanager
def fresh(scratch: Scratch, system: System) -> Iterator[Target]:
    """An empty database, or an empty Redis, and an empty run log for one measurement."""
    side: Side = "floor" if system.name.startswith("floor-") else "engine"
    if system.backend != "redis":
        with scratch.fresh(side, system.backend) as target:
            yield target
        return
    # Only the run log of this target is used: a SQLite file comes to be when it is opened, and nobody does.
    with scratch.fresh(side, "sqlite") as target, redis.serve(target.log.with_suffix(".redis")) as url:
        yield replace(target, url=url)


def run(
    scratch: Scratch,
    plan: Plan,
    *,
    systems: tuple[System, ...],
    works: tuple[Work, ...],
    skipped: dict[str, str],
    say: Say,
) -> Findings:
    """Take every measurement that was asked for; one that fails is reported and the rest goes on."""
    samples: list[Sample] = []
    counts: list[Count] = []
    failures: list[Failure] = []
    for round in range(1, plan.rounds + 1):
        # Who goes first changes: what runs later finds the caches and the disk as the earlier have left them.
        order = systems if round % 2 else tuple(reversed(systems))
        for part in (part for part in PARTS if set(part.works) & set(works)):
            for system in (system for system in order if part.fits(system)):
                syncs_per_second = scratch.syncs_per_second(plan.probe_seconds)
                try:
                    with fresh(scratch, system) as target:
                        outcome = part.measure(Subject(system, target), plan)
                except BenchError as error:
                    failures.append(Failure(system.name, part.name, round, str(error)))
                    say(failures[-1])
                    continue
                counts.append(Count(system.name, part.name, round, outcome.tally, outcome.capped))
                if not outcome.sound:
                    say(counts[-1])
                for measure, value in outcome.values.items():
                    samples.append(Sample(system.name, measure, round, value, syncs_per_second))
                    say(samples[-1])
    return Findings(systems, tuple(samples), tuple(counts), tuple(failures), skipped)
