"""The order of a run: rounds outside, sides innermost, so that floor and engine see the same minutes of the machine."""

from collections.abc import Callable

from bench.plan import Plan, Side, Store, Work
from bench.processes import BenchError
from bench.samples import Count, Failure, Results, Sample, Series
from bench.servers import Scratch
from bench.workloads import PARTS, Part

Say = Callable[[int, Part, Store, Side, Sample | Count | Failure], None]


def run(
    scratch: Scratch,
    plan: Plan,
    *,
    sides: tuple[Side, ...],
    stores: tuple[Store, ...],
    works: tuple[Work, ...],
    say: Say,
) -> Results:
    """Take every measurement that was asked for; one that fails is reported and the rest goes on."""
    samples: list[Sample] = []
    counts: list[Count] = []
    failures: list[Failure] = []
    series: list[Series] = []
    for round in range(1, plan.rounds + 1):
        # Who goes first changes: the second to run finds the caches and the disk as the first has left them.
        order = sides if round % 2 else tuple(reversed(sides))
        for part in PARTS:
            if part.work not in works or not (part.every_round or round == 1):
                continue
            for store in (store for store in stores if store in part.stores):
                for side in (side for side in order if side in part.sides):
                    syncs_per_second = scratch.syncs_per_second(plan.probe_seconds)
                    try:
                        with scratch.fresh(side, store) as target:
                            outcome = part.measure(target, plan)
                    except BenchError as error:
                        failures.append(Failure(store, side, part.name, round, str(error)))
                        say(round, part, store, side, failures[-1])
                        continue
                    counts.append(Count(store, side, part.name, round, outcome.tally))
                    say(round, part, store, side, counts[-1])
                    for measure, value in outcome.values.items():
                        samples.append(Sample(store, side, measure, round, value, syncs_per_second))
                        say(round, part, store, side, samples[-1])
                    series += [Series(store, side, name, tuple(values)) for name, values in outcome.series.items()]
    return Results(tuple(samples), tuple(counts), tuple(failures), tuple(series))
