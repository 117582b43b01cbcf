"""The command about what can happen at worst."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from onceward.cli import screens, target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import BAD_ANSWER, FINE, complain
from onceward.cli.options import NOTHING_SAID, Output


@command_line.command(
    sort_key=20,
    help_epilogue=example(
        "onceward envelope shop.tasks:app",
        "onceward envelope shop.tasks:app --max-tasks-per-root 500",
        "onceward envelope shop.tasks:app --usd-per-1000-calls 0.40 --max-usd-per-hour 25",
    ),
)
def envelope(
    app: Annotated[str, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app.")],
    /,
    *,
    max_tasks_per_root: Annotated[
        int | None,
        Parameter(validator=Number(gte=1), help="End with code 1 if one root can make more tasks than that."),
    ] = None,
    usd_per_1000_calls: Annotated[
        float | None, Parameter(validator=Number(gte=0), help="What a thousand outside calls cost.")
    ] = None,
    max_usd_per_hour: Annotated[
        float | None,
        Parameter(validator=Number(gte=0), help="End with code 1 if an hour can cost more, or nothing bounds it."),
    ] = None,
    max_calls_per_hour: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=0), help="End with code 1 if an hour can make more calls, or nothing bounds it."
        ),
    ] = None,
    ticks_only: Annotated[
        bool, Parameter(negative="", help="No worker runs this app: judge an hour by its ticks alone.")
    ] = False,
    measured: Annotated[
        bool, Parameter(negative="", help="Show beside it what an hour has come to: this asks the database.")
    ] = False,
    output: Output = NOTHING_SAID,
) -> int:
    """Show what can happen at worst, by the configuration alone: tasks and attempts of one root, and an hour.

    No database is asked and nothing runs, so that a build can refuse a change which would let work or money run away.
    """
    found = target_app.loaded(app).envelope(usd_per_1000_calls=usd_per_1000_calls, measured=measured)
    too_wide = []
    if max_tasks_per_root is not None and found.exceeds(max_tasks_per_root):
        too_wide.append(f"{found.sentence}; allowed are {max_tasks_per_root:,}")
    for allowed, what, unit in ((max_usd_per_hour, "usd", "USD"), (max_calls_per_hour, "calls", "calls")):
        worst = found.hourly.worst(what, ticks_only=ticks_only)
        if allowed is not None and worst.is_above(allowed):
            too_wide.append(f"{worst.sentence('an hour can come to', unit)}; allowed are {allowed:,}")
    bounds = {
        "max_tasks_per_root": max_tasks_per_root,
        "max_usd_per_hour": max_usd_per_hour,
        "max_calls_per_hour": max_calls_per_hour,
    }
    answer(
        output,
        lambda: {**found.document, **bounds, "ok": not too_wide},
        lambda: screens.envelope_screen(found),
    )
    for sentence in too_wide:
        complain(sentence)
    return BAD_ANSWER if too_wide else FINE
