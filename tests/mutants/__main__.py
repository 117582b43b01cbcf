"""`python -m tests.mutants`: put each mistake into a copy of the source, and see which test finds it."""

from __future__ import annotations

import argparse
import sys
import time

from tests.mutants.applying import copied, hunt, on_each_database, run
from tests.mutants.protocol import MUTANTS
from tests.proof.tally import Tally


def main() -> int:
    """Hunt; 0 if every mutant was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="the mutants to hunt, by the beginnings of their names; all, if none")
    parser.add_argument("--narrow", action="store_true", help="ask only the tests that are expected to find them")
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or one.name.startswith(tuple(given.names))]
    began = time.monotonic()
    with copied(None) as copy:
        wrong = run(copy, sorted({test for mutant in chosen for test in mutant.tests}), [])
    if wrong is not None:
        print(f"without any mutant {wrong} fails: nothing can be said of mutants")
        return 2
    print(f"{'as it is':48} all pass  {time.monotonic() - began:6.1f} s")
    missed = set()
    for mutant in chosen:
        for one in on_each_database(mutant):
            verdict = hunt(one, wider=not given.narrow)
            print(f"{one.name:48} {verdict.caught_by or 'NOT CAUGHT'}  {verdict.seconds:.1f} s", flush=True)
            if verdict.caught_by is None:
                missed.add(mutant.name)
    caught = len(chosen) - len(missed)
    Tally(matrix="mutants", fault="mistakes in the protocol", store="model", faults=len(chosen), caught=caught).keep()
    print(f"{caught} of {len(chosen)} mutants caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
