"""What stands around every page: the navigation with what is wrong where, the place of the database, the time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.app import App
from onceward.errors import StoreError
from onceward.operations.sources import SourceState

LETS_THROUGH = (SourceState.OPEN, SourceState.HALF_OPEN)
FRESH_S = 15.0
"""How old the counts of the navigation may be: all open pages share them."""


class Entry(NamedTuple):
    """One entry of the navigation."""

    name: str
    path: str
    word: str
    key: str
    """The letter that leads there after `g`."""
    gives_way: bool = False
    """Whether it is left out where there is little room."""


NAVIGATION = (
    Entry("overview", "/", "Overview", "o"),
    Entry("tasks", "/tasks", "Tasks", "t"),
    Entry("lineages", "/lineages", "Lineages", "l"),
    Entry("batches", "/batches", "Batches", "", gives_way=True),
    Entry("sources", "/sources", "Sources", "s"),
    Entry("budgets", "/budgets", "Budgets", "b"),
    Entry("schedules", "/schedules", "Schedules", "", gives_way=True),
    Entry("workers", "/workers", "Workers", "w"),
    Entry("alerts", "/alerts", "Alerts", "a"),
    Entry("settings", "/settings", "Settings", "", gives_way=True),
    Entry("envelope", "/envelope", "Envelope", "", gives_way=True),
    Entry("store", "/store", "Store", "", gives_way=True),
)


@dataclass(frozen=True, slots=True)
class Shell:
    """The frame of a page: what is wrong, by entry of the navigation, and where this is."""

    name: str
    place: str
    dialect: str
    wrong: dict[str, int] = field(default_factory=dict)


class ShellReader:
    """Reads the frame of all pages from the database, at most once in some seconds."""

    def __init__(self, app: App, name: str) -> None:
        self._app = app
        place = app._store.place
        dialect = "SQLite" if app.dialect == "sqlite" else "PostgreSQL"
        self._empty = Shell(name, place.rpartition("/")[2] or place, dialect)
        self._shell = self._empty
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def empty(self) -> Shell:
        """The frame without counts, for pages that say that the database is away."""
        return self._empty

    async def read(self) -> Shell:
        """Return the frame, as of some seconds ago at most."""
        async with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                self._shell = await asyncio.to_thread(self._look)
                self._read_at = time.monotonic()
            return self._shell

    def _look(self) -> Shell:
        app, empty = self._app, self._empty
        try:
            wrong = {
                "sources": sum(one.state not in LETS_THROUGH for one in app.sources.list()),
                "budgets": sum(one.is_closed or one.waiting > 0 for one in app.budgets.list()),
                "alerts": len(app.alerts.list()),
            }
        except StoreError:
            wrong = {}
        return Shell(empty.name, empty.place, empty.dialect, wrong)
