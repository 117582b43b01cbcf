"""`onceward-jobs init`: write a profile to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from onceward.terminal import print_json, show
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder.cli.speaking import complain
from onceward_apps.jobfinder.surroundings import profile_path
from onceward_apps.speaking import BAD_ANSWER, FINE, NOTHING_SAID, Flag, Output


def init(
    path: Annotated[
        Path | None, Parameter(name="FILE", help="Where to; otherwise where ONCEWARD_JOBS_PROFILE says, or your own.")
    ] = None,
    /,
    *,
    force: Annotated[bool, Flag, Parameter(help="Write over a profile that is there.")] = False,
    output: Output = NOTHING_SAID,
) -> int:
    """Write a profile with a comment for everything: skills with their ranks, places, salary, what you do not want."""
    where = path or profile_path()
    if where.exists() and not force:
        complain(f"there is a profile {where} already; --force writes over it")
        return BAD_ANSWER
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(profiles.template(), encoding="utf-8")
    if output.json:
        print_json({"profile": str(where)})
    else:
        show(f"wrote {where}; say in it what you can do and what you want, then: onceward-jobs add companies.csv")
    return FINE
