"""Finished tasks by the million, without waiting for them to run: copies of those that did, made by SQL.

A copy has a number, a lineage and an identity of its own and its lines in the log, as if it had been enqueued and run.
"""

from typing import Any

import apsw
import psycopg

from bench.target import Target

# By store: what makes a lineage and an identity nobody has.
FRESH = {
    "sqlite": {"lineage": "randomblob(16)", "identity": "randomblob(16)"},
    "postgres": {"lineage": "gen_random_uuid()", "identity": "uuid_send(gen_random_uuid())"},
}
COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info(?1)",
    "postgres": "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND table_schema = 'public'",
}


def multiply_finished(target: Target, wanted: int) -> int:
    """Double the finished tasks until there are about `wanted`, then have the database look at its tables again."""
    if target.store == "sqlite":
        connection = apsw.Connection(target.url.removeprefix("sqlite:///"))
        connection.execute("PRAGMA journal_mode = WAL")
        try:
            return _multiply(target, connection, wanted)
        finally:
            connection.close()
    with psycopg.connect(target.url, autocommit=True) as server:
        return _multiply(target, server, wanted)


def _multiply(target: Target, connection: Any, wanted: int) -> int:
    count, offset = _one(connection, "SELECT count(*), max(id) FROM onceward_task")
    attempts = _one(connection, "SELECT max(id) FROM onceward_attempt")[0]
    copy_tasks = _copy(target, connection, "onceward_task", "id", {"id": "id + {tasks}", **FRESH[target.store]})
    shifted = {"id": "id + {attempts}", "task": "task + {tasks}"}
    copy_log = _copy(target, connection, "onceward_attempt", "task", shifted)
    while count < wanted:
        # Numbers have next to no gaps, so that the last step can stop where it is enough.
        most = min(offset, wanted - count)
        connection.execute(copy_tasks.format(tasks=offset, most=most))
        connection.execute(copy_log.format(tasks=offset, attempts=attempts, most=most))
        count, offset = _one(connection, "SELECT count(*), max(id) FROM onceward_task")
        attempts = _one(connection, "SELECT max(id) FROM onceward_attempt")[0]
    if target.store == "postgres":
        for table in ("onceward_task", "onceward_attempt"):
            connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")
        connection.execute("VACUUM ANALYZE")
    else:
        connection.execute("ANALYZE")
    return int(count)


def _copy(target: Target, connection: Any, table: str, task: str, changed: dict[str, str]) -> str:
    """The statement that copies what a table says of the first tasks, with some columns made anew."""
    names = [row[0] for row in connection.execute(COLUMNS[target.store], (table,))]
    overriding = "OVERRIDING SYSTEM VALUE" if target.store == "postgres" else ""
    values = ", ".join(changed.get(name, name) for name in names)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) {overriding} SELECT {values} FROM {table} WHERE {task} <= {{most}}"
    )


def _one(connection: Any, query: str) -> tuple[int, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return tuple(row)
