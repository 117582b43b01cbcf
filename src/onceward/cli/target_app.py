"""The app that a command is about, and what commands ask of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from onceward.app import App
from onceward.cli.options import Where
from onceward.errors import ConfigError, OncewardError, StoreUnavailable
from onceward.model.retry import error_text
from onceward.model.status import Status
from onceward.model.times import moment
from onceward.store.attempts.workers import living_workers
from onceward.store.op import Op, Query
from onceward.store.reports import tasks
from onceward.views.lineage import as_id
from onceward.worker import find_app, presence

APP_VARIABLE, DB_VARIABLE = "ONCEWARD_APP", "ONCEWARD_DB"


def loaded(location: str) -> App:
    """The app at `module:app` or `path/to/file.py:app`, looked for from the working directory."""
    try:
        app: App = find_app.load(location)
    except OncewardError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{location} cannot be imported: {error_text(error)} (--debug shows where)") from error
    return app


@contextmanager
def database(where: Where, *, may_create: bool = False) -> Iterator[App]:
    """The app that a command is about, its database reached. What only asks makes no database out of a typing error."""
    app = _wanted(where)
    try:
        if not may_create:
            _refuse_missing_file(app)
        # Once, and now: the engine itself would try for a minute before it gives up, which a worker is right to do.
        app._raw_session().opened()
        yield app
    finally:
        app.close()


def place_named(app: str | None, where: Where) -> Where:
    """The database that is meant where the app stands first on the command line, or is given by its option."""
    if app is None:
        return where
    if where.app is not None:
        raise ConfigError("the app is named twice; leave out --app")
    return Where(app=app, db=where.db)


def _wanted(where: Where) -> App:
    location, url = where.app, where.db
    if location is None and url is None:
        location, url = os.environ.get(APP_VARIABLE), os.environ.get(DB_VARIABLE)
        if location:
            url = None
    if location:
        app = loaded(location)
        return app.on(url) if url else app
    if url:
        return App(url)
    raise ConfigError(
        f"which database? give --db sqlite:///file.db or --app module:app, or set {DB_VARIABLE} or {APP_VARIABLE}"
    )


def _refuse_missing_file(app: App) -> None:
    if app.dialect != "sqlite":
        return
    place = app._store.place
    if place == ":memory:":
        raise ConfigError("a database in memory is seen by the process that made it and by no other; give a file")
    file = Path(place).absolute()
    if not file.exists():
        raise StoreUnavailable(
            f"there is no database file {file}; is this the right folder? onceward migrate makes one"
        )


# What an App does not offer by itself.


def present(app: App) -> datetime:
    """What time it is by the database's clock, by which heartbeats are written."""

    def look() -> Op[Any]:
        return (yield Query("store_now"))

    if rows := app._ask(look):
        app._store.clock.measured(rows[0][0])
    return moment(app._store.clock.now())


def stored_payload(app: App, task_id: int) -> bytes:
    """The payload of a task as it is stored; no code is needed to see it."""
    row = app._ask(lambda: tasks.task(task_id))
    return b"null" if row is None else row.payload


def lineage_named(app: App, text: str) -> uuid.UUID:
    """The lineage that is meant by its id, or by the number of a task in it."""
    meant = as_id(text)
    return app.tasks.get(meant).lineage if isinstance(meant, int) else meant


def running_in(app: App, worker_id: int) -> int:
    """How many stages run in a worker process of this machine, by the file in which it notes them."""
    for seen in app._ask(living_workers):
        path = presence.recorded(seen.presence, app._store.presence_folder)
        if seen.id == worker_id and path is not None:
            return len(presence.running(path) or ())
    return 0


def place_of(app: App) -> str:
    """Where the database of an app is, without a password; of a file its whole path."""
    place = app._store.place
    return str(Path(place).absolute()) if app.dialect == "sqlite" and place != ":memory:" else place


def is_missing(app: App) -> bool:
    """Whether the database of an app is a file that is not there yet."""
    return app.dialect == "sqlite" and app._store.place != ":memory:" and not Path(app._store.place).exists()


def ended_since(app: App, began: int) -> dict[Status, int]:
    """How many tasks have ended since a time, and how."""
    return app._ask(lambda: tasks.ended_since(began))
