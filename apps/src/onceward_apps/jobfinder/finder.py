"""The job finder as an Onceward app: its pipelines on a database of its own, for a person."""

from __future__ import annotations

import os
from pathlib import Path

from onceward import App, ConfigError, StopList
from onceward_apps.jobfinder import profile as profiles
from onceward_apps.jobfinder import surroundings
from onceward_apps.jobfinder.pipelines import PIPELINES, SCHEDULES
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.settings import settings
from onceward_apps.jobfinder.tables import TABLES
from onceward_apps.jobfinder.watching import WATCHES

VARIABLE = "ONCEWARD_JOBS"
"""The environment variable that names the database: a file, or an address."""
LOCATION = "onceward_apps.jobfinder.app:app"
"""Where a worker process finds the app."""


def address(named: str | None = None) -> str:
    """The address of a database; without a name that of the environment, or of the user's own."""
    named = named or os.environ.get(VARIABLE)
    if named is None:
        home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        named = str(Path(home) / "onceward-jobs" / "jobs.db")
    return named if "://" in named else f"sqlite:///{Path(named).expanduser().absolute()}"


def jobfinder(url: str, profile: Profile | None = None) -> App:
    """The job finder on this database, for a person. Nothing is connected to, or made, before it is used."""
    return App(
        url,
        PIPELINES,
        migrations=TABLES,
        schedules=SCHEDULES,
        stop_list=profile.stop_list() if profile else StopList(),
        settings=settings(profiles.flat(profile.settings) if profile else None),
        watches=WATCHES,
    )


def opened(named: str | None = None, *, new: bool = False) -> App:
    """The job finder, ready for use, with the profile of the environment if there is one. Only where it may be `new`, a
    file that is not there is made."""
    url, profile = address(named), own_profile()
    if url.startswith("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        if new:
            file.parent.mkdir(parents=True, exist_ok=True)
        elif not file.exists():
            raise ConfigError(f"there is no database at {file}; it is made with: onceward-jobs add")
    made = jobfinder(url, profile)
    made.prepare()
    return made


def own_profile() -> Profile | None:
    """The profile of the environment, if there is one."""
    return surroundings.profile() if surroundings.profile_path().is_file() else None
