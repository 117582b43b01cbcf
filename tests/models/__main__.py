"""`python -m tests.models`: check every model and every twin, print what was found, and write it to a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.models.spin import Outcome, check, check_twin, missing, models

RESULTS = Path("build/proof/models.json")


def main() -> int:
    """Check; 0 if every model holds and every twin breaks."""
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("names", nargs="*", help="the models to check; all, if none is named")
    parser.add_argument("--larger", action="store_true", help="with the larger bounds as well")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures go")
    given = parser.parse_args()
    if lacking := missing():
        print(lacking)
        return 2
    found: list[dict[str, Any]] = []
    for model in models():
        if given.names and model.name not in given.names:
            continue
        print(f"{model.name}: {model.about}")
        worlds = [{}, *model.larger] if given.larger else [{}]
        found += [_said(model.name, "", None, bounds, check(model, bounds)) for bounds in worlds]
        found += [_said(model.name, twin.define, twin.breaks, {}, check_twin(model, twin)) for twin in model.twins]
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wrong = [one for one in found if not one["as_expected"]]
    print(f"{len(found)} searches, {sum(one['states'] for one in found):,} states, {len(wrong)} not as expected")
    print(f"written to {given.results}")
    return 1 if wrong else 0


def _said(model: str, twin: str, expected: str | None, bounds: dict[str, int], outcome: Outcome) -> dict[str, Any]:
    as_expected = outcome.violated == expected and (bool(twin) or not outcome.unreached)
    words = "holds" if outcome.violated is None else f"breaks {outcome.violated}"
    more = " ".join(f"{name}={value}" for name, value in bounds.items())
    print(
        f"  {twin or more or 'as it is':44} {words:26} {outcome.states:>11,} states  depth {outcome.depth:>4}"
        f"  {outcome.seconds:6.1f} s{'' if as_expected else '   NOT AS EXPECTED'}"
    )
    for place in outcome.unreached if not twin else ():
        print(f"    never reached: {place}")
    return {
        "model": model,
        "twin": twin,
        "bounds": bounds,
        "expected": expected,
        "violated": outcome.violated,
        "states": outcome.states,
        "depth": outcome.depth,
        "seconds": round(outcome.seconds, 2),
        "as_expected": as_expected,
    }


if __name__ == "__main__":
    sys.exit(main())
