"""The library as an Onceward app: its pipelines on a database of its own.

Worker processes find it here, as `onceward_apps.documents.app:app`. Which database it is on, the environment says.
"""

from __future__ import annotations

import os
from pathlib import Path

from onceward import App, Config, ConfigError
from onceward_apps.documents.pipelines import PIPELINES
from onceward_apps.documents.tables import TABLES
from onceward_apps.documents.vectors import load_extension
from onceward_apps.documents.watching import WATCHES

VARIABLE = "ONCEWARD_DOCS"
"""The environment variable that names the library: a file, or the address of a database."""
LOCATION = f"{__name__}:app"
"""Where a worker process finds the app."""
DEATHS_ALLOWED = 50
"""A stage goes on from its cursor, so that a death costs little; what kills its reader ends by itself much earlier."""


def address(library: str | None = None) -> str:
    """The address of the database of a library; without a name that of the environment, or of the user's own."""
    named = library or os.environ.get(VARIABLE)
    if named is None:
        home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        named = str(Path(home) / "onceward-docs" / "library.db")
    return named if "://" in named else f"sqlite:///{Path(named).expanduser().absolute()}"


def library(url: str) -> App:
    """A library on this database. Nothing is connected to, or made, before it is used."""
    return App(
        url,
        PIPELINES,
        migrations=TABLES,
        on_connect=load_extension,
        config=Config(max_lost_workers=DEATHS_ALLOWED),
        watches=WATCHES,
    )


def opened(named: str | None = None, *, new: bool = False) -> App:
    """A library that is ready for use. Only where it may be `new`, a file that is not there is made."""
    url = address(named)
    if url.startswith("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        if new:
            file.parent.mkdir(parents=True, exist_ok=True)
        elif not file.exists():
            raise ConfigError(f"there is no library at {file}; it is made with: onceward-docs ingest PATHS")
    made = library(url)
    made.prepare()
    return made


app = library(address())
