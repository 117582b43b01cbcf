"""A SQLite database: sessions for workers, sessions for clients, and the folder of presence files."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import apsw

from onceward.model.connection import Dialect
from onceward.model.times import StoreClock
from onceward.store.drivers import sqlite_library_guard
from onceward.store.drivers.session import Session
from onceward.store.drivers.sqlite import IN_MEMORY, OnConnect, Sighting, SqliteSession, flags_for


class SqliteStore:
    """A SQLite database, opened lazily. Every session is a connection of its own."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: str, clock: StoreClock, on_connect: OnConnect | None = None) -> None:
        self.is_memory = path == ":memory:"
        self.path = f"file:/onceward-{uuid.uuid4().hex}{IN_MEMORY}" if self.is_memory else path
        self.clock = clock
        self._on_connect = on_connect
        self.seen = Sighting()
        if not self.is_memory:
            sqlite_library_guard.watch()
        # A database in memory ends with its last connection: this one lasts as long as the store.
        self._anchor = apsw.Connection(self.path, flags=flags_for(self.path)) if self.is_memory else None

    def session(self, *, read_only: bool = False, patience_s: float = 60.0) -> Session:
        """A new session."""
        return SqliteSession(
            self.path, self.clock, self._on_connect, read_only=read_only, patience_s=patience_s, seen=self.seen
        )

    def client_session(self, *, read_only: bool = False) -> Session:
        """A session for a program that enqueues and reads, through the SQLite library that the process already uses."""
        if self.is_memory:
            return self.session(read_only=read_only)
        from onceward.store.drivers.sqlite3_client import ClientSqliteSession  # a worker never loads the other library

        return ClientSqliteSession(self.path, self.clock, self._on_connect, read_only=read_only, seen=self.seen)

    @property
    def place(self) -> str:
        """The path of the database, for people."""
        return ":memory:" if self.is_memory else self.path

    @property
    def presence_folder(self) -> Path | None:
        """Where workers of this database keep their presence files."""
        return None if self.is_memory else Path(f"{os.path.realpath(self.path)}-workers")
