"""`python -m tests.models`: check every model and every twin, and print what was found."""

from __future__ import annotations

import argparse
import sys

from tests.models.spin import Outcome, check, check_twin, missing, models
from tests.proof.tally import Tally


def main() -> int:
    """Check; 0 if every model holds and every twin breaks."""
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("names", nargs="*", help="the models to check; all, if none is named")
    parser.add_argument("--larger", action="store_true", help="with the larger bounds as well")
    given = parser.parse_args()
    if lacking := missing():
        print(lacking)
        return 2
    searches = states = wrong = 0
    for model in models():
        if given.names and model.name not in given.names:
            continue
        print(f"{model.name}: {model.about}")
        worlds = [{}, *model.larger] if given.larger else [{}]
        found = [(check(model, bounds), "", None, bounds) for bounds in worlds]
        twins = [(check_twin(model, twin), twin.define, twin.breaks, {}) for twin in model.twins]
        wrong += sum(not _said(*one) for one in [*found, *twins])
        searches += len(found) + len(twins)
        seen = sum(outcome.states for outcome, *_ in found)
        states += seen
        about = f"model of {model.name}, with {len(twins)} broken twins"
        Tally(matrix="model", fault=about, store="model", faults=len(twins), states=seen).keep()
    print(f"{searches} searches, {states:,} states, {wrong} not as expected")
    return 1 if wrong else 0


def _said(outcome: Outcome, twin: str, expected: str | None, bounds: dict[str, int]) -> bool:
    """Print what a search has found; whether that was expected."""
    as_expected = outcome.violated == expected and (bool(twin) or not outcome.unreached)
    words = "holds" if outcome.violated is None else f"breaks {outcome.violated}"
    more = " ".join(f"{name}={value}" for name, value in bounds.items())
    print(
        f"  {twin or more or 'as it is':44} {words:26} {outcome.states:>11,} states  depth {outcome.depth:>4}"
        f"  {outcome.seconds:6.1f} s{'' if as_expected else '   NOT AS EXPECTED'}"
    )
    for place in outcome.unreached if not twin else ():
        print(f"    never reached: {place}")
    return as_expected


if __name__ == "__main__":
    sys.exit(main())
