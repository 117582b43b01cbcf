"""One SQL text for both databases: which colons are parameters, and what is said of values that do not fit."""

from __future__ import annotations

import pytest

from onceward import ConfigError, sql


@pytest.mark.parametrize(
    ("text", "names", "postgres"),
    [
        ("INSERT INTO t VALUES (:a, :b_2)", {"a", "b_2"}, "INSERT INTO t VALUES (%(a)s, %(b_2)s)"),
        ("UPDATE t SET a=:a WHERE a<>:a", {"a"}, "UPDATE t SET a=%(a)s WHERE a<>%(a)s"),
        ("SELECT ':a', 'it''s :a', \":a\"", set(), "SELECT ':a', 'it''s :a', \":a\""),
        ("SELECT E'\\':a' || :b", {"b"}, "SELECT E'\\':a' || %(b)s"),
        ("SELECT $$ :a $$, $x$ $$ :a $x$, :b", {"b"}, "SELECT $$ :a $$, $x$ $$ :a $x$, %(b)s"),
        ("SELECT :a::text -- :b\n, /* :c\n */ :d", {"a", "d"}, "SELECT %(a)s::text -- :b\n, /* :c\n */ %(d)s"),
        ("SELECT 7 % 4, :a || '%'", {"a"}, "SELECT 7 %% 4, %(a)s || '%%'"),
        ("SELECT x[1:n]", set(), "SELECT x[1:n]"),
    ],
)
def test_parameters_are_found_and_nothing_else(text: str, names: set[str], postgres: str) -> None:
    statement = sql(text)
    assert statement.names == names
    assert (statement.on("sqlite"), statement.on("postgres")) == (text, postgres)


def test_values_that_do_not_fit_are_named() -> None:
    add = sql("INSERT INTO shelf VALUES (:book, :place)")
    assert add.checked({"book": "Emma", "place": 3}) == {"book": "Emma", "place": 3}
    with pytest.raises(ConfigError, match=r"sql\('INSERT INTO shelf .*no value for :place, no parameter :shelf"):
        add.checked({"book": "Emma", "shelf": 3})
    with pytest.raises(ConfigError, match="takes its values by name"):
        add.checked(["Emma", 3])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="it takes the text of a statement"):
        sql(" ")


def test_a_long_statement_is_named_by_its_beginning() -> None:
    assert repr(sql(f"SELECT  {'x' * 99}")) == f"sql('SELECT {'x' * 52}…')"
    assert sql("SELECT 1") == sql("SELECT 1")
    assert len({sql("SELECT 1"), sql("SELECT 1"), sql("SELECT 2")}) == 2
