"""The named queries: each is known to both databases, is used, and the claim never reads a table from end to end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

import onceward
from onceward.store import queries
from onceward.store.drivers.sqlite import MOST_ROWS, as_parameter
from onceward.store.op import Many, Op
from onceward.store.queries import Dialect
from tests.pooler import IS_BETWEEN
from tests.store.conftest import NOON, Hands

SOURCE = Path(onceward.__file__).parent
ONLY_THERE = {"snapshot": "postgres"}
"""Queries that one database has no use for, and nobody asks it for."""

HOT: dict[str, dict[str, Any]] = {
    "pop": {"lane": "default:note", "band": 2, "rank": 0, "seq": 10_000, "rank_max": 1 << 62, "count": 100},
    "look": {
        "lanes": ["default:note", "default:page"],
        "bands": [1, 2],
        "line_lanes": ["default:note", "default:page"],
        "line_bands": [2, 2],
        "ranks": [-1, 0],
        "seqs": [-1, 10_000],
        "due_after": NOON,
    },
    "pop_due": {"after": 0, "now": NOON, "count": 500},
    "rows_behind": {"lane": "default:note", "band": 2, "rank": 0, "seq": 10},
    "lease_tasks": {
        "ids": [5, 500, 5_000],
        "token": b"t" * 16,
        "worker": 1,
        "now": NOON,
        "due_by": NOON,
        "passed": ["5@shop"],
        "suspects": False,
    },
    "quick_claim": {
        "lane": "default:note",
        "band": 2,
        "rank": 0,
        "seq": 10_000,
        "count": 50,
        "token": b"t" * 16,
        "worker": 1,
        "now": NOON,
        "receipt": b"r" * 16,
        "before": b"b" * 16,
    },
    "read_quick_claim": {"worker": 1, "token": b"t" * 16},
    "enqueue_one": {
        "kind": "note",
        "version": 1,
        "queue": "default",
        "band": 2,
        "lane": "default:note",
        "notification": "2 default:note",
        "key": None,
        "identity": b"i" * 16,
        "payload": b"{}",
        "lineage": "00000000-0000-0000-0000-000000000001",
        "now": NOON,
        "receipt": b"r" * 16,
    },
    "enqueued_one": {"lineage": "00000000-0000-0000-0000-000000000001"},
    "drop_popped": {"lane": "default:note", "band": 2, "rank": 0, "seq": 10_000},
    "drop_popped_heads": {"places": [("default:note", 2, 0, 10_000), ("default:page", 2, 0, 1)]},
    "pop_and_lease": {
        "lanes": ["default:note"],
        "bands": [2],
        "counts": [100],
        "ranks": [0],
        "seqs": [10_000],
        "names": ["shop"],
        "tats": [NOON],
        "calls": [100],
        "worker": 1,
        "token": b"t" * 16,
        "now": NOON,
    },
    "write_leases": {"ids": [5, 500, 5_000], "token": b"t" * 16, "worker": 1, "now": NOON},
    "finish_group": {
        "ids": [5, 500, 5_000],
        "fence": 1,
        "tokens": [b"t" * 16, b"u" * 16],
        "stage": "last",
        "status": 4,
        "reason": None,
        "event": 3,
        "now": NOON,
    },
    "advance_group": {
        "ids": [5, 500, 5_000],
        "fence": 1,
        "tokens": [b"t" * 16, b"u" * 16],
        "next": '{"5": "b", "500": "b", "5000": "c"}',
        "done": '{"5": "a", "500": "a", "5000": "b"}',
        "queue": None,
        "gates": None,
        "event": 2,
        "now": NOON,
    },
    "end_group": {"ids": [5, 500, 5_000], "stage": "last", "status": 4, "reason": None, "event": 3, "now": NOON},
    "go_on_group": {"next": '{"5": "b", "500": "b", "5000": "c"}', "queue": None, "gates": None, "now": NOON},
    "advance": {
        "ids": [5, 500, 5_000],
        "token": b"t" * 16,
        "stage": "next",
        "queue": None,
        "gates": None,
        "now": NOON,
    },
    "finish": {"ids": [5, 500, 5_000], "token": b"t" * 16, "stage": "last", "status": 4, "reason": None, "now": NOON},
    "release": {
        "ids": [5, 500, 5_000],
        "token": b"t" * 16,
        "queue": None,
        "gates": None,
        "estimate": None,
        "now": NOON,
    },
    "take_back": {"ids": [5, 500, 5_000], "token": b"t" * 16, "now": NOON},
    "held_by_claim": {"ids": [5, 500, 5_000], "token": b"t" * 16},
    "still_held": {"ids": [5, 500, 5_000]},
    "try_again": {
        "task": 5,
        "token": b"t" * 16,
        "stage": "first",
        "due_at": NOON,
        "reason": "x",
        "counted": 1,
        "error": b"e" * 16,
    },
    "wake_due": {"ids": [5, 500, 5_000], "now": NOON},
    "read_checkpoints": {"ids": [5, 500, 5_000]},
    "read_signals": {"ids": [5, 500, 5_000]},
    "read_blobs": {"ids": [5, 500, 5_000]},
    "spawning_tasks": {"ids": [5, 500, 5_000]},
    "holders": {"ids": [5, 500, 5_000]},
    "tasks_waiting_for": {"task": 5_000},
    "child_ids": {"task": 5_000},
    "still_joined": {"ids": [5, 500, 5_000]},
}
"""What runs for every claim and every commit, with values as they occur."""


@cache
def trees() -> list[ast.AST]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))]


def texts(node: ast.AST) -> set[str]:
    """All text constants in a piece of code."""
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def asked_for() -> set[str]:
    """The names that code gives to Query and Many."""
    return {
        name
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Query", "Many")
        for name in texts(node.args[0])
    }


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_query_is_missing(dialect: Dialect) -> None:
    missing = asked_for() - set(queries.queries(dialect))
    assert {name for name in missing if ONLY_THERE.get(name, dialect) == dialect} == set()


def test_no_query_is_unused() -> None:
    known = {**queries.queries("sqlite"), **queries.queries("postgres")}
    assert set(known) - {text for tree in trees() for text in texts(tree)} == set()


def test_both_databases_know_the_same_queries() -> None:
    assert set(queries.queries("sqlite")) ^ set(queries.queries("postgres")) == set(ONLY_THERE)


def test_every_query_is_prepared_by_its_database(hands: Hands, subtests: pytest.Subtests) -> None:
    connection = hands.session.opened()
    if hands.session.dialect == "sqlite":
        for name, statement in queries.Statements("sqlite", queries.colon).items():
            with subtests.test(name):
                if not statement.text:  # nothing to do on this database
                    continue
                connection.execute(f"EXPLAIN {statement.text}", dict.fromkeys(statement.places)).fetchall()
    else:
        for name, statement in queries.Statements("postgres", queries.dollar).items():
            with subtests.test(name):
                for text in {statement.text, statement.text_for_one}:
                    answer = connection.pgconn.prepare(b"", text.encode())
                    assert not answer.error_message, f"{answer.error_message.decode()}\n{text}"


def test_no_text_holds_what_a_driver_would_take_for_a_parameter() -> None:
    for name, statement in queries.Statements("postgres", queries.percent).items():
        assert "%" not in re.sub(r"%\(\w+\)s", "", statement.text), name


def fill(hands: Hands, rows: int) -> None:
    """Many tasks in line, of which the database has not made any statistics."""
    some = (
        f"SELECT value FROM generate_series(1, {rows}) AS value"
        if hands.session.dialect == "postgres"
        else f"SELECT value FROM (WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n "
        f"WHERE value < {rows}) SELECT value FROM n)"
    )
    for text in (
        "INSERT INTO onceward_task (kind, version, queue, band, identity, payload, lineage, due_at, created_at) "
        f"SELECT 'note', 1, 'default', 2, i, i, l, value, 1 FROM ({some}) AS n, (SELECT identity i, lineage l "
        "FROM onceward_task LIMIT 1) AS one",
        f"INSERT INTO onceward_ready (lane, band, rank, {'' if hands.session.dialect == 'postgres' else 'seq, '}"
        f"task, at) SELECT 'default:note', 2, 0, {'' if hands.session.dialect == 'postgres' else 'value, '}value, 1 "
        f"FROM ({some}) AS n WHERE value > 1",
        "INSERT INTO onceward_due (due_at, task, lane, band, rank) "
        f"SELECT {NOON} + value, value, 'default:note', 2, 0 FROM ({some}) AS n",
        "INSERT INTO onceward_checkpoint (task, run, stage, part, at) "
        f"SELECT value, 1, 'first', '', 1 FROM ({some}) AS n",
        "INSERT INTO onceward_attempt (task, run, fence, event, status, at) "
        f"SELECT value, 1, 1, 1, 1, 1 FROM ({some}) AS n",
    ):
        hands.sql(text)


@pytest.fixture
def without_statistics(hands: Hands) -> Iterator[None]:
    """Nobody looks after the tables, so that the database knows nothing of what they have come to hold."""
    if hands.session.dialect == "sqlite":
        yield
        return
    tables = [f"onceward_{table}" for table in ("task", "ready", "due", "checkpoint", "attempt")]
    for table in tables:
        hands.sql(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    yield
    for table in tables:
        hands.sql(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


@pytest.mark.skipif(IS_BETWEEN, reason="behind a pooler there are no settings of a session, by which plans are made")
@pytest.mark.parametrize("rows", [0, 20_000])
@pytest.mark.usefixtures("without_statistics")
def test_what_is_hot_never_reads_a_table_from_end_to_end(hands: Hands, rows: int, subtests: pytest.Subtests) -> None:
    hands.enqueue()
    if rows:
        fill(hands, rows)
    known = queries.queries(hands.session.dialect)
    for name in (name for name in HOT if known[name]):  # what another statement of this database does is empty here
        with subtests.test(name):
            if hands.session.dialect == "sqlite":
                assert read_through(sqlite_plan(hands, name)) == []
            else:
                # The plan for any values is kept until the server has new statistics: one that was made while the
                # table was small must serve when it is large.
                assert read_through(postgres_plan(hands, name, "force_generic_plan")) == []
                if rows:
                    assert read_through(postgres_plan(hands, name, "force_custom_plan")) == []


def test_what_is_given_in_rows_is_never_looked_for_from_end_to_end(hands: Hands, subtests: pytest.Subtests) -> None:
    if hands.session.dialect == "postgres":
        pytest.skip("PostgreSQL takes arrays, and plans them as above")
    for name, text in queries.queries("sqlite").items():
        if "ROWS (" in text:
            for count in (1, MOST_ROWS):
                with subtests.test(name, count=count):
                    statement = queries.text_for_rows(name, count)
                    last = max(int(number) for number in re.findall(r"\?(\d+)", statement))
                    rows = hands.session.opened().execute(f"EXPLAIN QUERY PLAN {statement}", [None] * last).fetchall()
                    assert [row[3] for row in rows if re.match(r"SCAN \w*onceward_", row[3])] == []


@pytest.mark.parametrize("count", [0, 1, MOST_ROWS - 1, MOST_ROWS, 2 * MOST_ROWS + 7])
def test_all_rows_of_many_are_written_and_answered(hands: Hands, count: int) -> None:
    rows = [(bytes(16), number.to_bytes(16, "big"), number) for number in range(count)]

    def take() -> Op[list[int]]:
        first = yield Many("take_identities", rows)
        again = yield Many("take_identities", [(scope, hashed, -1) for scope, hashed, _ in rows])
        assert sorted(row[2] for row in first) == sorted(row[2] for row in again)
        return [row[2] for row in first]

    assert sorted(hands.do(take)) == list(range(count))
    assert hands.sql("SELECT count(*) FROM onceward_identity") == [(count,)]


def test_a_statement_that_fails_in_its_middle_leaves_nothing(hands: Hands) -> None:
    def fail() -> Op[None]:
        yield Many("take_identities", [(bytes(16), bytes(16), 1)])
        yield Many("insert_joins", [(1, 2), (3, 4), (5, None)])

    with pytest.raises(Exception, match=r"(?i)not.null"):
        hands.do(fail)
    assert hands.sql("SELECT count(*) FROM onceward_identity") == [(0,)]
    assert hands.sql("SELECT count(*) FROM onceward_join") == [(0,)]


def read_through(plan: list[str]) -> list[str]:
    """The steps of a plan that read a whole table; a list that was given as JSON is none, nor what was just found."""
    return [step for step in plan if re.search(r"Seq Scan|^SCAN (?!waiting|.*VIRTUAL TABLE)", step)]


def sqlite_plan(hands: Hands, name: str) -> list[str]:
    statement = queries.Statements("sqlite", queries.colon)[name]
    given = {place: as_parameter(HOT[name][place]) for place in statement.places}
    rows = hands.session.opened().execute(f"EXPLAIN QUERY PLAN {statement.text}", given).fetchall()
    return [str(row[3]) for row in rows]


def postgres_plan(hands: Hands, name: str, mode: str) -> list[str]:
    connection = hands.session.opened()
    statement = queries.Statements("postgres", queries.dollar)[name]
    values = sql.SQL(", ").join(sql.Literal(HOT[name][place]) for place in statement.places)
    call = sql.SQL("EXPLAIN EXECUTE hot ({})").format(values) if statement.places else sql.SQL("EXPLAIN EXECUTE hot")
    connection.execute(f"PREPARE hot AS {statement.text}", prepare=False)
    try:
        connection.execute(f"SET plan_cache_mode = {mode}", prepare=False)
        return [row[0] for row in connection.execute(call, prepare=False)]
    finally:
        connection.execute("DEALLOCATE hot", prepare=False)
