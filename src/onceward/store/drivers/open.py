"""Opens the store at a database address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.connection import Dialect
from onceward.model.times import Clock, StoreClock, SystemClock
from onceward.store.drivers.session import Session
from onceward.support.redaction import redacted

OnConnect = Callable[[Any], None]


class Store(Protocol):
    """A database, opened lazily."""

    dialect: Dialect
    clock: StoreClock
    is_memory: bool

    def session(self, *, read_only: bool = False, patience_s: float = 60.0) -> Session:
        """A new session."""

    def client_session(self, *, read_only: bool = False) -> Session:
        """A session for a program that enqueues and reads."""

    @property
    def place(self) -> str:
        """Where the database is, for people."""

    @property
    def presence_folder(self) -> Any:
        """Where workers keep their presence files."""


def open_store(
    url: str, clock: Clock | None = None, on_connect: OnConnect | None = None, *, prepare: bool = True
) -> Store:
    """The store at an address; it connects at its first use."""
    times = StoreClock(clock or SystemClock())
    scheme, separator, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not separator:
        raise ConfigError(
            f"{redacted(shown(url))} is no database address; write sqlite:///file.db or postgresql://host/name"
        )
    if scheme == "sqlite":
        from onceward.store.drivers.sqlite_store import SqliteStore

        path = rest.removeprefix("/")
        if rest in ("", "/:memory:", ":memory:"):
            return SqliteStore(":memory:", times, on_connect)
        if not rest.startswith("/"):
            raise ConfigError(f"{url!r}: a SQLite address has three slashes, sqlite:///{rest}, and four for /{rest}")
        return SqliteStore(path, times, on_connect)
    if scheme in ("postgresql", "postgres"):
        from onceward.store.drivers.postgres import PostgresStore

        return PostgresStore(url, times, on_connect, prepare=prepare)
    raise ConfigError(f"Onceward keeps its work in SQLite or PostgreSQL, not in {scheme!r}: {redacted(url)!r}")
