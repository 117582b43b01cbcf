"""`onceward-jobs demo`: see it at work on an invented web."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from onceward_apps.jobfinder.demo.performing import perform
from onceward_apps.speaking import NOTHING_SAID, Flag, Output


def demo(
    *,
    web: Annotated[bool, Flag, Parameter(help="Serve the dashboard of what has happened in the end.")] = False,
    output: Output = NOTHING_SAID,
) -> int:
    """See it find jobs on an invented web that has everything wrong with it, while one of two workers is killed.

    It takes half a minute, needs no network, and leaves its database behind to look around in. The exit code is 1 if
    anything that was promised does not hold.
    """
    return perform(as_json=output.json, web=web)
