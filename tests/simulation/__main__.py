"""`python -m tests.simulation`: run seeds on all cores, or one seed with its history."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from tests.simulation.many import ENOUGH, chosen, run_many
from tests.simulation.simulate import Simulator, told


def main() -> int:
    """Simulate; 0 if no promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one, and tell its history")
    parser.add_argument("--seeds", default="1000", help="how many, or which: 5000, or 20000-29999")
    parser.add_argument("--minutes", type=float, help="begin no seed after so long")
    parser.add_argument("--enough", type=int, default=ENOUGH, help="begin no seed after so many broken promises")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many seeds run at a time")
    given = parser.parse_args()
    if given.seed is not None:
        return _run_one(given.seed)
    found = run_many(chosen(given.seeds), given.processes, given.minutes, partial(print, flush=True), given.enough)
    for result in found.violated[: given.enough]:
        print("\n".join(["", *told(result)]))
    print("\n".join(["", *found.told()]))
    for result in found.violated:
        print(f"  make simulate SEED={result.seed}    {result.violation}")
    if found.violated:
        return 1
    found.tally.keep()
    return 0


def _run_one(seed: int) -> int:
    with Simulator() as simulator:
        result = simulator.run(seed)
    for line in told(result):
        print(line)
    return 0 if result.violation is None else 1


if __name__ == "__main__":
    sys.exit(main())
