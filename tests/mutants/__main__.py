"""`python -m tests.mutants`: put each mistake into a copy of the source, and see which test finds it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.mutants.applying import copied, hunt, on_each_database, run
from tests.mutants.protocol import MUTANTS

RESULTS = Path("build/proof/mutants.json")


def main() -> int:
    """Hunt; 0 if every mutant was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="the mutants to hunt, by the beginnings of their names; all, if none")
    parser.add_argument("--narrow", action="store_true", help="ask only the tests that are expected to find them")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures go")
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or one.name.startswith(tuple(given.names))]
    began = time.monotonic()
    with copied(None) as copy:
        wrong = run(copy, sorted({test for mutant in chosen for test in mutant.tests}), [])
    if wrong is not None:
        print(f"without any mutant {wrong} fails: nothing can be said of mutants")
        return 2
    print(f"{'as it is':48} all pass  {time.monotonic() - began:6.1f} s")
    found: list[dict[str, Any]] = []
    for mutant in chosen:
        for one in on_each_database(mutant):
            verdict = hunt(one, wider=not given.narrow)
            print(f"{one.name:48} {verdict.caught_by or 'NOT CAUGHT'}  {verdict.seconds:.1f} s", flush=True)
            found.append(
                {
                    "mutant": mutant.name,
                    "variant": one.name,
                    "about": mutant.about,
                    "caught": verdict.caught_by is not None,
                    "caught_by": verdict.caught_by,
                    "tests": verdict.tests,
                    "seconds": round(verdict.seconds, 1),
                }
            )
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    missed = {one["mutant"] for one in found if not one["caught"]}
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants caught; written to {given.results}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
