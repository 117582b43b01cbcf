"""`onceward-jobs hide`, `applied` and `not-for-me`: what a person decides about listings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from onceward.terminal import print_json, show
from onceward_apps.jobfinder import verdict_rows
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where
from onceward_apps.jobfinder.explaining import listing_named
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.verdicts import Decision
from onceward_apps.speaking import FINE, NOTHING_SAID, Flag, Output
from onceward_apps.transactions import transaction

Named = Annotated[
    str, Parameter(name="LISTING", required=True, help="Their addresses, or their ids or the beginnings of those.")
]
Undo = Annotated[bool, Flag, Parameter(help="Take the verdict back.")]


def hide(
    *named: Named,
    undo: Undo = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Hide listings: `matches` and `report` no longer show them. It says nothing of listings that are like them."""
    return _decide("hidden", named, undo=undo, where=where, output=output)


def applied(
    *named: Named,
    undo: Undo = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Note that you applied: `matches` says so, and listings like these score more from now on."""
    return _decide("applied", named, undo=undo, where=where, output=output)


def not_for_me(
    *named: Named,
    undo: Undo = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Say that listings are not for you: they are hidden, and listings like these score less from now on."""
    return _decide("not for me", named, undo=undo, where=where, output=output)


def _decide(decision: Decision, named: Sequence[str], *, undo: bool, where: Where, output: Output) -> int:
    with opened(where.db) as app:
        listings = list(dict.fromkeys(app.read(listing_named, word) for word in named))
        with transaction(app) as connection:
            if undo:
                listings = [one for one in listings if verdict_rows.take_back(connection, one)]
            else:
                for one in listings:
                    verdict_rows.decide(connection, one, decision, round(time.time() * 1_000))
    verdict = None if undo else decision
    if output.json:
        print_json([{"listing": one, "verdict": verdict} for one in listings])
    elif not listings:
        show("there was no verdict to take back")
    else:
        show(*(f"{one}: {verdict or 'no verdict any more'}" for one in listings))
    return FINE
