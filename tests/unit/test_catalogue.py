"""Named queries: one text for both databases, and for every driver's way of naming parameters."""

from __future__ import annotations

import re

import pytest

from onceward.store.queries import (
    Statements,
    colon,
    dollar,
    migrations,
    parse_blocks,
    percent,
    queries,
    spell_out,
    text_for_rows,
)

FILE = """-- What stands before the first name is not read.

-- name: first
-- A sentence about it.
SELECT 1
WHERE :a = :b;

-- name: nothing
-- Nothing: the other database needs it.

-- name: second
UPDATE t
SET a = :a,
    -- a remark
    b = ':no'
"""


def test_a_file_is_its_named_queries_without_their_comments() -> None:
    assert parse_blocks(FILE) == {
        "first": "SELECT 1\nWHERE :a = :b",
        "nothing": "",
        "second": "UPDATE t\nSET a = :a,\n    b = ':no'",
    }


def test_a_name_that_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="query first stands twice"):
        parse_blocks("-- name: first\nSELECT 1\n-- name: first\nSELECT 2\n")


def test_a_file_without_names_has_no_queries() -> None:
    assert parse_blocks("SELECT 1") == {}
    assert parse_blocks("") == {}


def test_a_list_of_ids_is_an_array_or_a_json_text() -> None:
    text = "SELECT 1 FROM t WHERE id IN :ids"
    assert spell_out(text, "postgres") == "SELECT 1 FROM t WHERE id = ANY (:ids::bigint[])"
    assert spell_out(text, "sqlite") == "SELECT 1 FROM t WHERE id IN (SELECT value FROM json_each(:ids))"


def test_statuses_are_words_in_the_text_and_numbers_in_the_database() -> None:
    text = "UPDATE t SET status = #waiting WHERE status IN #startable AND gates <> '#'"
    assert spell_out(text, "postgres") == "UPDATE t SET status = 3 WHERE status IN (0, 2) AND gates <> '#'"


def test_many_rows_are_arrays_in_order_or_values() -> None:
    text = "INSERT INTO t (a, b) ROWS (a bigint, b double precision)"
    assert spell_out(text, "sqlite") == "INSERT OR FAIL INTO t (a, b) VALUES (:a, :b)"
    assert spell_out(text, "postgres") == (
        "INSERT INTO t (a, b) SELECT a, b FROM unnest(:a::bigint[], :b::double precision[]) "
        "WITH ORDINALITY AS given (a, b, place) ORDER BY place"
    )


def test_several_rows_for_sqlite_have_what_they_have_in_common_once() -> None:
    one, three = text_for_rows("insert_checkpoints", 1), text_for_rows("insert_checkpoints", 3)
    assert "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)\n" in one
    assert "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7), (?1, ?8, ?9, ?10, ?11, ?12, ?13), (?1, ?14, " in three


def test_a_write_of_sqlite_never_keeps_a_journal_of_its_own() -> None:
    writes = [
        text
        for text in (Statements("sqlite", colon)[name].text for name in queries("sqlite"))
        if re.search(r"^(INSERT|UPDATE)\b", text, re.M)
    ]
    assert len(writes) > 100
    assert [
        text for text in writes if not re.search(r"^(INSERT OR FAIL INTO|UPDATE OR FAIL) onceward_", text, re.M)
    ] == []


def test_every_driver_gets_its_own_way_of_naming_parameters() -> None:
    assert ":task" in Statements("sqlite", colon)["cancel"].text
    assert "%(task)s" in Statements("postgres", percent)["cancel"].text
    numbered = Statements("postgres", dollar)["cancel"]
    assert sorted(numbered.places) == ["now", "reason", "task"]
    assert f"id = ${numbered.places.index('task') + 1}" in numbered.text
    assert "::" not in numbered.text.replace("::bigint", "")


def test_both_databases_know_queries_of_the_same_names() -> None:
    assert set(queries("sqlite")) <= set(queries("postgres")), "what one of them does not need is an empty query there"


def test_both_databases_are_migrated_in_the_same_steps() -> None:
    steps = [[step[:2] for step in migrations(dialect)] for dialect in ("sqlite", "postgres")]  # type: ignore[arg-type]
    assert steps[0] == steps[1]
    assert [number for number, _ in steps[0]] == list(range(1, len(steps[0]) + 1))
