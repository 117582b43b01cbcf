"""Arrays as they go to PostgreSQL: whatever is sent comes back the same."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceward.store.drivers import postgres_arrays

NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
BYTES = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=16, max_size=16))
TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20))
UUIDS = st.one_of(st.none(), st.uuids())


@pytest.mark.parametrize(
    ("kind", "values"), [("bigint", NUMBERS), ("bytea", BYTES), ("text", TEXTS), ("uuid", UUIDS)], ids=lambda one: ""
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_array_comes_back_as_it_was_sent(postgres_url: str, kind: str, values: Any, data: st.DataObject) -> None:
    sent = data.draw(st.lists(values, max_size=12))
    with _connection(postgres_url) as connection:
        [(received,)] = connection.execute(
            f"SELECT %s::{kind}[]", [postgres_arrays.column(kind, sent)], binary=True
        ).fetchall()
    assert received == sent


def test_a_narrow_column_takes_numbers(postgres_url: str) -> None:
    with _connection(postgres_url) as connection:
        rows = connection.execute(
            "SELECT unnest(%s::smallint[])", [postgres_arrays.column("smallint", [-2, None, 2])]
        ).fetchall()
    assert rows == [(-2,), (None,), (2,)]


def test_lists_among_parameters_become_columns() -> None:
    params = postgres_arrays.with_columns({"ids": [1, 2], "names": ["a"], "none": [], "one": 7, "hashes": [b"x"]})
    assert [type(value).__name__ for value in params.values()] == ["Numbers", "Texts", "list", "int", "Bytes"]


def test_uuids_may_come_as_bytes(postgres_url: str) -> None:
    one = uuid.uuid4()
    with _connection(postgres_url) as connection:
        [(received,)] = connection.execute(
            "SELECT %s::uuid[]", [postgres_arrays.column("uuid", [one, one.bytes])]
        ).fetchall()
    assert received == [one, one]


def _connection(url: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(url, autocommit=True)
    postgres_arrays.teach(connection.adapters)
    return connection
