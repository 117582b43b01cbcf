"""A database with the engine's tables for every example: hundreds of times, so it is copied or emptied, not made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import apsw

from onceward.store.drivers.migrate import migrate
from onceward.store.drivers.open import Store, open_store
from onceward.store.drivers.session import Session
from onceward.testing import FakeClock
from tests.pooler import IS_BETWEEN
from tests.store.conftest import NOON

Emptied = tuple[str, Callable[[], None]]
"""The address of a PostgreSQL database, and how it is emptied: what the fixture `emptying` gives."""


@cache
def _pattern() -> apsw.Connection:
    store = open_store("sqlite:///:memory:", FakeClock(NOON))
    session = store.session()
    migrate(session, NOON)
    connection: apsw.Connection = session.opened()
    return connection


def in_memory() -> tuple[Store, Session]:
    """A SQLite database in memory, and a connection to it."""
    store = open_store("sqlite:///:memory:", FakeClock(NOON))
    session = store.session()
    with session.opened().backup("main", _pattern(), "main") as copying:
        copying.step()
    return store, session


def on_postgres(emptying: Emptied) -> Session:
    """A connection to an emptied PostgreSQL database."""
    url, empty = emptying
    empty()
    return open_store(url, FakeClock(NOON), prepare=not IS_BETWEEN).session()
