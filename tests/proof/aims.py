"""How much of each kind of fault is wanted before a release, how much all runs have reached, and how fast they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.proof.runs import Ran
from tests.proof.tally import Tally

KILLS = ("F01", "F02", "F03", "F09", "F50", "F52", "F54", "F55")


@dataclass(frozen=True)
class Aim:
    """A number that is wanted, and what counts towards it."""

    what: str
    wanted: int
    counted: Callable[[Tally], int]


AIMS = (
    Aim("processes killed", 10_000, lambda one: one.faults if one.matrix in KILLS and "killed" in one.fault else 0),
    Aim("processes that froze past their lease and came back", 1_000, lambda one: _in(one, "F04", "F14")),
    Aim("commits whose reply was lost", 1_000, lambda one: _in(one, "F32")),
    Aim("servers crashed", 200, lambda one: _in(one, "F31")),
    Aim("calls to the disk that failed", 500, lambda one: _in(one, "F20")),
    Aim("simulated worlds", 1_000_000, lambda one: one.seeds if one.fault.startswith("simulated worlds") else 0),
    Aim("mistakes in the protocol that were put in and caught", 25, lambda one: one.caught),
)


def lines(runs: Sequence[Ran]) -> Iterator[list[str]]:
    """The lines of the table: what, how much is wanted, how much there is, and how much an hour where it was tried."""
    for aim in AIMS:
        found = [(sum(map(aim.counted, run.tallies)), run.minutes) for run in runs]
        tried = [(count, minutes) for count, minutes in found if count]
        reached = sum(count for count, _ in tried)
        hours = sum(minutes for _, minutes in tried) / 60
        yield [aim.what, f"{aim.wanted:,}", f"{reached:,}", f"{reached / hours:,.0f}" if hours else "–"]


def _in(tally: Tally, *matrix: str) -> int:
    return tally.faults if tally.matrix in matrix else 0
