"""Migrates a database to the schema of this program, one recorded step at a time.

Each step runs in a transaction of its own, under a lock, and is recorded in that same transaction: two processes that
migrate at once apply every step once, and an interrupted step has not happened. The record decides whether a step is
done, so after a commit without a reply the migration reads it again; no receipt is needed (and before the first step
there is no table for one).

A change of a table waits for its readers, and all later statements wait behind it. So it waits half a second at most,
lets the others pass, and tries again as long as the session is patient.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import apsw

from onceward.errors import ConfigError, SchemaTooNew, SchemaTooOld, StoreError, WriteRefused
from onceward.model.arguments import is_held, shown
from onceward.model.connection import Connection, Dialect
from onceward.store import queries
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.drivers.sql_check import objection
from onceward.store.op import Call, Query

Result = TypeVar("Result")
Work = str | Callable[[Connection], object]
"""The work of an application's migration: SQL statements, or a function that gets a connection."""

FUNCTION = "function"


def newest_version(dialect: Dialect) -> int:
    """The schema version of this program."""
    return max(version for version, _, _ in queries.migrations(dialect))


def schema_version(session: Session) -> int:
    """The schema version of the database; 0 without any tables of Onceward."""
    return session.patiently(lambda: _version(session))


def check(session: Session) -> None:
    """Raise unless the database has exactly the schema of this program."""
    _compare(schema_version(session), newest_version(session.dialect))


def prepare(session: Session, now: int) -> list[str]:
    """Make a database ready for use; returns the names of the steps applied.

    SQLite and an empty PostgreSQL are migrated. A PostgreSQL in use is not, because other programs may still need its
    present schema: an operator decides that, with `onceward migrate`.
    """
    version, newest = schema_version(session), newest_version(session.dialect)
    if version < newest and (version == 0 or session.dialect == "sqlite"):
        return migrate(session, now)
    _compare(version, newest)
    return []


def migrate(session: Session, now: int) -> list[str]:
    """Migrate the schema from any earlier version; returns the names of the steps applied."""
    version, newest = schema_version(session), newest_version(session.dialect)
    if version > newest:
        _compare(version, newest)
    return [
        name
        for number, name, statements in queries.migrations(session.dialect)
        if number > version and session.patiently(_step(session, number, name, statements, now))
    ]


def _step(session: Session, number: int, name: str, statements: Sequence[str], now: int) -> Callable[[], bool]:
    def apply() -> bool:
        session.run(Query("create_schema_table"))
        if _version(session) >= number:  # another process was faster
            return False
        for statement in statements:
            _execute(session, statement, f"migration {number} ({name})")
        session.run(Query("record_schema_step", {"version": number, "name": name, "now": now}))
        return True

    return lambda: _locked(session, apply)


def _version(session: Session) -> int:
    if not session.run(Query("has_schema")):
        return 0
    [(version,)] = session.run(Query("schema_version"))
    return int(version)


def _compare(version: int, newest: int) -> None:
    if version > newest:
        raise SchemaTooNew(
            f"the database has schema version {version}, this Onceward knows up to {newest}; upgrade the package"
        )
    if version < newest:
        raise SchemaTooOld(
            f"the database has schema version {version}, this Onceward needs {newest}; run: onceward migrate"
        )


@dataclass(frozen=True, slots=True, init=False)
class Migration:
    """One step of the application's own schema, applied once to every database.

    `Migration("001 listings", "CREATE TABLE …")` serves both databases; `Migration(name, sqlite=…, postgres=…)` has a
    text for each, and either may be a function that is given a connection. Once applied, a step must not change:
    write a new one.
    """

    name: str
    sqlite: Work | None
    postgres: Work | None

    def __init__(
        self, name: str, both: Work | None = None, *, sqlite: Work | None = None, postgres: Work | None = None
    ) -> None:
        if not isinstance(name, str) or not name or not is_held(name):
            raise ConfigError(f"{shown(name)} is no name of a migration; take a short text")
        if both is None and sqlite is None and postgres is None:
            raise ConfigError(f"migration {name!r} does nothing; give it SQL or a function")
        for work in (both, sqlite, postgres):
            is_text = isinstance(work, str) and work.strip() and is_held(work)
            if work is not None and not is_text and not callable(work):
                raise ConfigError(f"migration {name!r}: {shown(work)} is no SQL or a function of a connection")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sqlite", both if sqlite is None else sqlite)
        object.__setattr__(self, "postgres", both if postgres is None else postgres)

    def work(self, dialect: Dialect) -> Work:
        """Its work on a database."""
        work = self.sqlite if dialect == "sqlite" else self.postgres
        if work is None:
            raise ConfigError(f"migration {self.name!r} says nothing for {dialect}; add {dialect}=…, or {dialect}=''")
        return work

    def digest(self, dialect: Dialect) -> str:
        """A digest of its text without white space, to detect changes; all functions have the same."""
        work = self.work(dialect)
        if not isinstance(work, str):
            return FUNCTION
        return hashlib.sha256(" ".join(work.split()).encode()).hexdigest()


def apply_app_migrations(session: Session, migrations: Sequence[Migration], now: int) -> list[str]:
    """Apply new migrations in order; returns their names. An applied migration that has changed is an error."""
    names = [migration.name for migration in migrations]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two migrations are named {name!r}")
    if not migrations:
        return []
    known = session.patiently(lambda: _applied(session))
    return [
        migration.name
        for migration in migrations
        if not _is_applied(migration, session.dialect, known) and session.patiently(_app_step(session, migration, now))
    ]


def _app_step(session: Session, migration: Migration, now: int) -> Callable[[], bool]:
    def apply() -> bool:
        if _is_applied(migration, session.dialect, _applied(session)):  # another process was faster
            return False
        _carry_out(session, migration)
        digest = migration.digest(session.dialect)
        session.run(Query("record_app_migration", {"name": migration.name, "digest": digest, "now": now}))
        return True

    return lambda: _locked(session, apply)


def _applied(session: Session) -> dict[str, str]:
    return {row[0]: row[1] for row in session.run(Query("app_migrations"))}


def _is_applied(migration: Migration, dialect: Dialect, known: dict[str, str]) -> bool:
    if migration.name not in known:
        return False
    if known[migration.name] != migration.digest(dialect):
        raise ConfigError(
            f"migration {migration.name!r} has changed since it was applied to this database; "
            "put it back as it was, and write the change as a new migration"
        )
    return True


def _carry_out(session: Session, migration: Migration) -> None:
    work, what = migration.work(session.dialect), f"migration {migration.name!r}"
    if isinstance(work, str):
        for statement in _statements(work, session.dialect):
            _execute(session, statement, what)
    else:
        try:
            session.run(Call([(work, ())]))
        except Exception as error:
            raise session.engine_error(error) from error
    if not session.in_transaction():
        raise ConfigError(f"{what} has ended the transaction it runs in; leave that to the engine")


def _statements(text: str, dialect: Dialect) -> list[str]:
    """Split a text into statements; none may begin or end a transaction."""
    if dialect == "postgres":
        _refuse(objection(text))
        return [text] if text.strip() else []
    statements, rest = [], ""
    for piece in text.split(";"):
        rest = f"{rest};{piece}" if rest else piece
        if apsw.complete(f"{rest};"):  # not inside a string, a comment or the body of a trigger
            statements.append(rest.strip())
            rest = ""
    statements = [statement for statement in (*statements, rest.strip()) if statement]
    for statement in statements:
        _refuse(objection(statement.partition(";")[0]))
    return statements


def _refuse(objected: str | None) -> None:
    if objected is not None:
        raise WriteRefused(objected)


def _execute(session: Session, statement: str, what: str) -> None:
    try:
        session.opened().execute(statement)
    except Exception as error:
        meaning = session.engine_error(error)
        if isinstance(meaning, ConnectionLost | TryAgainLater):
            raise meaning from error
        raise StoreError(f"{what} failed and nothing of it was kept: {error}; in: {statement[:200]}") from error


def _locked(session: Session, apply: Callable[[], bool]) -> bool:
    """Run a step in a transaction under the migration lock; False if it was done already."""
    session.run(Query("begin"))
    session.run(Query("lock_schema"))
    session.run(Query("wait_briefly"))
    done = apply()
    session.run(Query("commit" if done else "rollback"))
    return done
