"""Migrations: every step once, recorded with itself, whoever asks for it and however often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onceward.errors import ConfigError, SchemaTooNew, SchemaTooOld, StoreError, WriteRefused
from onceward.store import queries
from onceward.store.drivers.migrate import (
    Migration,
    apply_app_migrations,
    check,
    migrate,
    newest_version,
    prepare,
    schema_version,
)
from onceward.store.drivers.session import Session

NAMES = [name for _, name, _ in queries.migrations("sqlite")]


def sql(session: Session, text: str) -> list[Any]:
    cursor = session.opened().execute(text)
    return list(cursor) if text.startswith("SELECT") else []


def test_both_databases_have_the_same_steps() -> None:
    assert [step[:2] for step in queries.migrations("sqlite")] == [step[:2] for step in queries.migrations("postgres")]
    assert [number for number, _, _ in queries.migrations("sqlite")] == list(range(1, len(NAMES) + 1))


def test_an_empty_database_is_migrated_step_by_step_and_says_so(session: Session) -> None:
    assert schema_version(session) == 0
    assert migrate(session, now=5) == NAMES
    assert schema_version(session) == newest_version(session.dialect) == len(NAMES)
    assert sql(session, "SELECT version, name, at FROM onceward_schema ORDER BY version") == [
        (number, name, 5) for number, name in enumerate(NAMES, 1)
    ]


def test_migrating_again_does_nothing(session: Session) -> None:
    migrate(session, now=5)
    assert migrate(session, now=6) == []
    assert not session.in_transaction()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Adds a step to the schema, as a later version of Onceward will."""

    def add() -> None:
        known = queries.migrations
        step = (len(NAMES) + 1, "later", ["CREATE TABLE onceward_later (a integer)"])
        monkeypatch.setattr(queries, "migrations", lambda dialect: [*known(dialect), step])

    return add


def test_a_database_goes_on_from_the_version_it_has(session: Session, later: Callable[[], None]) -> None:
    migrate(session, now=5)
    later()
    assert migrate(session, now=6) == ["later"]
    assert schema_version(session) == newest_version(session.dialect) == len(NAMES) + 1


def test_a_step_that_fails_leaves_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(1, "good", ["CREATE TABLE good (a integer)"]), (2, "bad", ["CREATE TABLE half (a integer)", "NONSENSE"])]
    monkeypatch.setattr(queries, "migrations", lambda _: steps)
    with pytest.raises(StoreError, match=r"migration 2 \(bad\) failed and nothing of it was kept"):
        migrate(session, now=5)
    assert schema_version(session) == 1
    sql(session, "CREATE TABLE half (a integer)")  # it is not there


def test_many_processes_migrate_at_once_and_every_step_happens_once(open_session: Callable[[], Session]) -> None:
    applied: list[str] = []
    together = threading.Barrier(4)

    def one(session: Session) -> None:
        together.wait()
        applied.extend(migrate(session, now=5))

    threads = [threading.Thread(target=one, args=(open_session(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == sorted(NAMES)
    check(open_session())


def test_a_newer_schema_is_refused_with_both_numbers(session: Session) -> None:
    migrate(session, now=5)
    sql(session, "INSERT INTO onceward_schema (version, name, at) VALUES (900, 'tomorrow', 5)")
    for refuse in (check, lambda s: prepare(s, 6), lambda s: migrate(s, 6)):
        with pytest.raises(SchemaTooNew, match=rf"version 900, this Onceward knows up to {len(NAMES)}; upgrade"):
            refuse(session)


def test_an_older_schema_is_refused_by_check_with_the_command_to_run(session: Session) -> None:
    with pytest.raises(SchemaTooOld, match=r"version 0, .* run: onceward migrate"):
        check(session)


def test_first_use_prepares_sqlite_and_an_empty_postgres(session: Session) -> None:
    assert prepare(session, 5) == NAMES
    assert prepare(session, 6) == []


def test_first_use_leaves_an_older_postgres_alone(session: Session, later: Callable[[], None]) -> None:
    prepare(session, 5)
    later()
    if session.dialect == "sqlite":
        assert prepare(session, 6) == ["later"]
    else:
        with pytest.raises(SchemaTooOld):
            prepare(session, 6)


# The application's own steps.


@pytest.fixture
def ready(session: Session) -> Session:
    migrate(session, now=5)
    return session


ROWS = Migration("001 rows", "CREATE TABLE own_row (a integer); CREATE INDEX own_row_a ON own_row (a)")


def test_an_applications_migration_is_applied_once(ready: Session) -> None:
    assert apply_app_migrations(ready, [ROWS], 6) == ["001 rows"]
    assert apply_app_migrations(ready, [ROWS], 7) == []
    assert sql(ready, "SELECT name, at FROM onceward_app_migration") == [("001 rows", 6)]
    assert sql(ready, "SELECT a FROM own_row") == []


def test_new_ones_are_applied_in_order(ready: Session) -> None:
    apply_app_migrations(ready, [ROWS], 6)
    second = Migration("002 more", "ALTER TABLE own_row ADD COLUMN b integer")
    third = Migration("003 fill", "INSERT INTO own_row (a, b) VALUES (1, 2)")
    assert apply_app_migrations(ready, [ROWS, second, third], 7) == ["002 more", "003 fill"]
    assert sql(ready, "SELECT a, b FROM own_row") == [(1, 2)]


def test_a_migration_that_changed_after_it_was_applied_is_named(ready: Session) -> None:
    apply_app_migrations(ready, [ROWS], 6)
    with pytest.raises(ConfigError, match=r"'001 rows' has changed since it was applied"):
        apply_app_migrations(ready, [Migration("001 rows", "CREATE TABLE own_row (a text)")], 7)


def test_white_space_is_no_change(ready: Session) -> None:
    apply_app_migrations(ready, [Migration("one", "CREATE TABLE one (a integer)")], 6)
    assert apply_app_migrations(ready, [Migration("one", "\n  CREATE TABLE one\n  (a integer)\n")], 7) == []


def test_each_database_gets_its_own_text(ready: Session) -> None:
    each = Migration("own", sqlite="CREATE TABLE own_sqlite (a blob)", postgres="CREATE TABLE own_postgres (a bytea)")
    apply_app_migrations(ready, [each], 6)
    assert sql(ready, f"SELECT a FROM own_{ready.dialect}") == []


def test_a_migration_without_a_text_for_this_database_is_refused(ready: Session) -> None:
    other = Migration("lonely", postgres="SELECT 1") if ready.dialect == "sqlite" else Migration("lonely", sqlite="S")
    with pytest.raises(ConfigError, match=rf"'lonely' says nothing for {ready.dialect}"):
        apply_app_migrations(ready, [other], 6)


def test_a_function_is_given_the_connection_inside_the_transaction(ready: Session) -> None:
    def make(connection: Any) -> None:
        connection.execute("CREATE TABLE made (dialect text)")
        connection.execute(f"INSERT INTO made VALUES ('{connection.dialect}')")

    assert apply_app_migrations(ready, [Migration("made", make)], 6) == ["made"]
    assert sql(ready, "SELECT dialect FROM made") == [(ready.dialect,)]
    assert apply_app_migrations(ready, [Migration("made", make)], 7) == []


def test_a_migration_that_fails_leaves_nothing_and_no_record(ready: Session) -> None:
    def half(connection: Any) -> None:
        connection.execute("CREATE TABLE half (a integer)")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        apply_app_migrations(ready, [ROWS, Migration("half", half)], 6)
    with pytest.raises(StoreError, match="migration 'half' failed and nothing of it was kept"):
        apply_app_migrations(ready, [Migration("half", "CREATE TABLE half (a integer); NONSENSE")], 6)
    assert sql(ready, "SELECT name FROM onceward_app_migration") == [("001 rows",)]
    sql(ready, "CREATE TABLE half (a integer)")


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK", "BEGIN"])
def test_a_migration_cannot_end_its_transaction(ready: Session, word: str) -> None:
    with pytest.raises(WriteRefused):
        apply_app_migrations(ready, [Migration("bad", f"CREATE TABLE half (a integer); {word}")], 6)
    with pytest.raises(WriteRefused):
        apply_app_migrations(ready, [Migration("bad", lambda connection: connection.execute(word))], 6)
    sql(ready, "CREATE TABLE half (a integer)")


def test_a_trigger_is_one_statement(ready: Session) -> None:
    if ready.dialect == "postgres":
        pytest.skip("PostgreSQL's triggers call functions")
    trigger = """
        CREATE TABLE watched (a integer, note text DEFAULT 'a; b');
        CREATE TRIGGER watching AFTER INSERT ON watched BEGIN
            UPDATE watched SET a = a + 1; -- ; here too
            UPDATE watched SET a = a + 1;
        END;
        INSERT INTO watched (a) VALUES (1);
    """
    apply_app_migrations(ready, [Migration("trigger", trigger)], 6)
    assert sql(ready, "SELECT a, note FROM watched") == [(3, "a; b")]


def test_two_processes_apply_it_once(ready: Session, open_session: Callable[[], Session]) -> None:
    applied: list[str] = []
    together = threading.Barrier(3)

    def one(session: Session) -> None:
        together.wait()
        applied.extend(apply_app_migrations(session, [ROWS], 6))

    threads = [threading.Thread(target=one, args=(open_session(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert applied == ["001 rows"]


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ConfigError, match="does nothing"):
        Migration("empty")
    with pytest.raises(ConfigError, match="no name"):
        Migration("", "SELECT 1")


def test_two_migrations_of_one_name_are_refused(ready: Session) -> None:
    with pytest.raises(ConfigError, match="two migrations are named '001 rows'"):
        apply_app_migrations(ready, [ROWS, ROWS], 6)
