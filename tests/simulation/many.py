"""Running many seeds in several processes, and the sum of what has come of them."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from tests.proof.tally import Tally
from tests.simulation.simulate import Result, Simulator

AT_ONCE = 20
"""How many seeds a process runs before it says what has come of them."""
PARTS_A_PROCESS = 40
"""After so many of these it is replaced: what is left of worlds that have ended adds up, 140 kB for each."""
ENOUGH = 3
"""After so many broken promises there is enough to look at, unless somebody says otherwise."""
EVERY_S = 10.0
"""How often it is said how far it is."""
MATRIX = "F11/F14/F27/F50-F55/F60"
FAULT = "simulated worlds: crashes, lost replies, freezes, clocks, restores of older copies, operators, deadlines"


@dataclass(slots=True)
class Sum:
    """What has come of some seeds."""

    seeds: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violated: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Add what has come of one more."""
        self.seeds += 1
        self.counts.update(result.counts)
        self.faults.update(result.faults)
        if result.violation is not None:
            self.violated.append(result)

    def merge(self, other: Sum) -> None:
        """Add what has come of others."""
        self.seeds += other.seeds
        self.counts.update(other.counts)
        self.faults.update(other.faults)
        self.violated += other.violated

    @property
    def tally(self) -> Tally:
        """The same for the table of all fault tests. It is kept only where no promise was broken."""
        return Tally(
            matrix=MATRIX,
            fault=FAULT,
            store="sqlite",
            faults=self.faults.total(),
            accepted=self.counts["tasks accepted"],
            commits=self.counts["stage commits"],
            refused=self.counts["refused writes"],
            reconciled=self.counts["commits in doubt that had happened"]
            + self.counts["commits in doubt that had not happened"],
            seeds=self.seeds,
        )

    def told(self) -> Iterator[str]:
        """All of it in lines."""
        yield f"{self.seeds:,} seeds in {self.seconds:.0f} s, {self.seeds / max(self.seconds, 0.001):.0f} a second"
        yield "done:"
        yield from (f"  {count:>12,}  {what}" for what, count in sorted(self.counts.items()))
        yield f"gone wrong, {self.faults.total():,} in all:"
        yield from (f"  {count:>12,}  {what}" for what, count in sorted(self.faults.items()))
        yield f"promises broken: {len(self.violated)}"


def chosen(text: str) -> range:
    """The seeds that somebody has asked for: a number of them, or the first and the last."""
    first, dash, last = text.replace(",", "").replace("_", "").partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


def run_many(
    seeds: range, processes: int, minutes: float | None, tell: Callable[[str], None], enough: int = ENOUGH
) -> Sum:
    """Run seeds, all or as many as there is time for, until enough promises are broken; sum up what came of them."""
    found, began = Sum(), time.monotonic()
    told_at = began
    parts = (seeds[start : start + AT_ONCE] for start in range(0, len(seeds), AT_ONCE))
    spawning = multiprocessing.get_context("spawn")
    with spawning.Pool(processes, _begin, maxtasksperchild=PARTS_A_PROCESS) as pool, suppress(KeyboardInterrupt):
        waiting = [pool.apply_async(_run_some, (part,)) for part in islice(parts, processes + 1)]
        while waiting:
            found.merge(waiting.pop(0).get())
            now = time.monotonic()
            found.seconds = now - began
            if now - told_at > EVERY_S:
                told_at = now
                tell(f"  {found.seeds:,} seeds, {found.seeds / found.seconds:.0f} a second")
            is_over = minutes is not None and found.seconds > minutes * 60
            if not is_over and len(found.violated) < enough:
                waiting += [pool.apply_async(_run_some, (part,)) for part in islice(parts, 1)]
    return found


_simulator: Simulator


def _begin() -> None:
    global _simulator
    _simulator = Simulator().__enter__()


def _run_some(seeds: range) -> Sum:
    found = Sum()
    for seed in seeds:
        found.add(_simulator.run(seed))
    return found
