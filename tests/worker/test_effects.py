"""Effects: committed with a result or a verdict that keeps them, dropped with an error, never beyond their bounds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from string import ascii_letters
from typing import Any

import pytest
from psycopg import InterfaceError, OperationalError

import onceward
from onceward import (
    App,
    ConfigError,
    Connection,
    Context,
    Failed,
    Filtered,
    Migration,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    Skipped,
    Status,
    Waiting,
)  # fmt: skip
from onceward.errors import WriteRefused
from onceward.store import queries
from onceward.testing import Harness
from onceward.worker.runner import UNWRITABLE
from onceward.worker.writer import Item, Wish, Writer, Written
from tests.worker.conftest import NOTES, Start, insert_note, notes, words


class Job(Payload, kind="job"):
    name: str = "job"


def pipeline_of(stage: Callable[[Context[Job]], Any], **options: Any) -> Pipeline[Job]:
    """A pipeline of one stage."""
    pipeline = Pipeline(Job, **options)
    pipeline.stage(stage)
    return pipeline


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (None, Status.SUCCEEDED),
        (Filtered("five strikes"), Status.FILTERED),
        (Skipped("seen before"), Status.SKIPPED),
        (Failed("no such page"), Status.FAILED),
        (Waiting(until="approved"), Status.WAITING),
    ],
)
def test_effects_commit_with_a_result_or_a_verdict(start: Start, verdict: BaseException | None, status: Status) -> None:
    def judge(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, "kept")
        if verdict is not None:
            raise verdict

    harness = start(pipeline_of(judge), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status is status
    assert notes(harness.app) == [(task.id, "kept")]


def test_effects_commit_with_every_poll(start: Start) -> None:
    def poll(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, f"look {ctx.task.deferrals}")
        if ctx.task.deferrals < 2:
            raise Waiting(after="30s")

    harness = start(pipeline_of(poll), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert notes(harness.app) == [(task.id, "look 0"), (task.id, "look 1"), (task.id, "look 2")]
    assert harness.task(task).status is Status.SUCCEEDED


@pytest.mark.parametrize("error", [Retryable("busy"), ValueError("odd"), SystemExit(1), TimeoutError()])
def test_effects_are_dropped_with_an_error(start: Start, error: BaseException) -> None:
    tries: list[int] = []

    def attempt(ctx: Context[Job]) -> None:
        tries.append(ctx.task.attempt)
        ctx.write(insert_note, ctx.task.id, f"try {ctx.task.attempt}")
        if ctx.task.attempt < 3:
            raise error

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert tries == [1, 2, 3]
    assert notes(harness.app) == [(task.id, "try 3")]


def test_a_permanent_error_drops_them_too(start: Start) -> None:
    def attempt(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, "dropped")
        raise PermissionError("no")

    harness = start(pipeline_of(attempt, retry=Retry(permanent=(PermissionError,))), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, "PermissionError: no")
    assert notes(harness.app) == []


def breaks_a_constraint(connection: Connection) -> None:
    connection.execute("INSERT INTO note (task, text) VALUES (1, '')")


def breaks_by_itself(connection: Connection) -> None:
    raise LookupError("no such row")


def raises_a_verdict(connection: Connection) -> None:
    raise Filtered("too late for that")


def leaves(connection: Connection) -> None:
    raise SystemExit(1)


def knows_no_such_table(connection: Connection) -> None:
    connection.execute("INSERT INTO nowhere VALUES (1)")


BROKEN = [breaks_a_constraint, breaks_by_itself, raises_a_verdict, leaves, knows_no_such_table]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_write_that_fails_is_an_error_of_its_stage(start: Start, broken: Callable[..., None]) -> None:
    def attempt(ctx: Context[Job]) -> int:
        ctx.write(insert_note, ctx.task.id, f"try {ctx.task.attempt}")
        if ctx.payload.name == "broken" and ctx.task.attempt < 3:
            ctx.write(broken)
        return ctx.task.attempt

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    [task, *others] = harness.app.enqueue_many([Job("broken"), Job("fine"), Job("fine too")])
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert harness.task(task).results == {"attempt": 3}
    assert words(harness, task) == ["retry scheduled", "retry scheduled", "finished"]
    assert notes(harness.app) == [(task.id, "try 3"), *((other.id, "try 1") for other in others)]


def test_a_write_that_never_works_ends_the_task_with_its_reason(start: Start) -> None:
    def attempt(ctx: Context[Job]) -> None:
        ctx.write(breaks_by_itself)

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert (
        harness.task(task).reason == "failed after 3 retries: LookupError: no such row (in ctx.write(breaks_by_itself))"
    )


def test_a_failing_write_of_a_verdict_leaves_the_verdict_unwritten(start: Start) -> None:
    def attempt(ctx: Context[Job]) -> None:
        if ctx.task.attempt == 1:
            ctx.write(breaks_by_itself)
            raise Filtered("five strikes")

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert words(harness, task) == ["retry scheduled", "finished"]
    assert harness.task(task).status is Status.SUCCEEDED


REFUSED = [
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "SAVEPOINT mine",
    "SELECT 1; COMMIT",
    "/* quietly */ commit",
    "UPDATE onceward_task SET status = 4",
    "DELETE FROM onceward_attempt",
    "WITH x AS (SELECT 1) INSERT INTO onceward_setting VALUES ('a', 'b', 1, 'c')",
    "ALTER TABLE onceward_task ADD COLUMN mine integer",
    "CREATE INDEX mine ON onceward_task (reason)",
    "DROP INDEX onceward_task_waiting",
    "DROP TABLE onceward_pause",
    "CREATE TEMP TABLE onceward_task (id integer)",
]
REFUSED_BY = {
    "sqlite": [
        queries.queries("sqlite")["commit"],  # prepared before, and allowed, for the engine
        "UPDATE main . [onceward_task] SET status = 4",
        "INSERT OR REPLACE INTO onceward_setting VALUES (1, 2, 3, 4)",
        "CREATE TRIGGER mine AFTER INSERT ON onceward_task BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER mine AFTER INSERT ON onceward_task BEGIN SELECT 1; END",
        "CREATE TRIGGER a AFTER INSERT ON note BEGIN DELETE FROM onceward_task; END; INSERT INTO note VALUES (1, 'a')",
        "PRAGMA writable_schema = on",
        "PRAGMA synchronous = off",
        "UPDATE sqlite_sequence SET seq = 1",
        "ATTACH ':memory:' AS mine",
    ],
    "postgres": [
        "UPDATE public . onceward_task SET status = 4",
        'UPDATE U&"\\006fnceward_task" SET status = 4',
        "DO $$ BEGIN EXECUTE 'UPDATE onceward_' || 'task SET status = 4'; END $$",
        "CREATE TRIGGER mine AFTER INSERT ON onceward_task EXECUTE FUNCTION now()",
        "TRUNCATE note, onceward_pause",
        "LOCK TABLE onceward_task",
        "SELECT pg_advisory_lock(1)",
        "/* quietly */ SET statement_timeout = 1",
    ],
}
ALLOWED = [
    "UPDATE note SET text = 'b' WHERE task IN (SELECT id FROM onceward_task)",
    "CREATE TABLE mine (id integer, onceward_id bigint REFERENCES onceward_task)",
    "CREATE INDEX mine_id ON mine (id)",
    "UPDATE mine SET onceward_id = NULL",
    "CREATE VIEW mine_too AS SELECT id FROM onceward_task",
    "ALTER TABLE mine ADD COLUMN more integer",
    "DROP VIEW mine_too",
    "DROP TABLE mine",
]


def test_a_write_can_neither_end_the_transaction_nor_touch_the_engines_tables(start: Start) -> None:
    def attempt(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, "dropped")
        ctx.write(lambda connection: connection.execute(ctx.payload.name).fetchall())

    harness = start(pipeline_of(attempt, retry=Retry(permanent=(WriteRefused,))), migrations=[NOTES])
    tables = harness.app.read(_schema)
    tasks = [harness.enqueue(Job(sql)) for sql in (*REFUSED, *REFUSED_BY[harness.app.dialect])]
    harness.drain()
    ends = {harness.task(task).payload.name: harness.task(task) for task in tasks}
    assert [sql for sql, end in ends.items() if not (end.reason or "").startswith("WriteRefused: ")] == []
    assert notes(harness.app) == []
    assert harness.app.read(_schema) == tables


def test_a_write_may_do_anything_with_tables_of_its_own(start: Start) -> None:
    def attempt(ctx: Context[Job]) -> None:
        for sql in ALLOWED:
            ctx.write(lambda connection, sql: connection.execute(sql), sql)

    harness = start(pipeline_of(attempt, retry=Retry(retries=0)), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def _schema(connection: Connection) -> list[Any]:
    objects = "sqlite_schema" if connection.dialect == "sqlite" else "pg_class"
    name = "name || coalesce(sql, '')" if connection.dialect == "sqlite" else "relname || relnatts || relhastriggers"
    return sorted(connection.execute(f"SELECT {name} FROM {objects}").fetchall())


def test_a_connection_is_lent_for_one_write_only(start: Start) -> None:
    kept: list[Connection] = []

    def attempt(ctx: Context[Job]) -> None:
        ctx.write(kept.append)

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    harness.enqueue(Job())
    harness.drain()
    with pytest.raises(WriteRefused, match="lent to one function and is closed now"):
        kept[0].execute("SELECT 1")


@pytest.mark.untroubled("it counts how often a write function runs: with every try")
def test_a_write_reads_what_the_ones_before_it_have_written(start: Start) -> None:
    seen: list[Any] = []

    def look(connection: Connection) -> None:
        seen.append(connection.execute("SELECT text FROM note").fetchall())

    def attempt(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, "first")
        ctx.write(look)

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    harness.enqueue(Job())
    harness.drain()
    assert seen == [[("first",)]]


def test_many_rows_go_with_one_call(start: Start) -> None:
    def insert_many(connection: Connection, task: int) -> None:
        marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
        connection.executemany(f"INSERT INTO note VALUES ({marks})", [(task, f"{n}") for n in range(3)])

    def attempt(ctx: Context[Job]) -> None:
        ctx.write(insert_many, ctx.task.id)

    harness = start(pipeline_of(attempt), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert notes(harness.app) == [(task.id, "0"), (task.id, "1"), (task.id, "2")]


def test_asking_the_app_for_work_inside_a_write_is_an_error_of_the_stage(start: Start) -> None:
    apps: list[App] = []

    def attempt(ctx: Context[Job]) -> None:
        ctx.write(lambda connection: apps[0].enqueue(Job("inner")) and None)

    harness = start(pipeline_of(attempt, retry=Retry(retries=0)), migrations=[NOTES])
    apps.append(harness.app)
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert "ctx.write" in (harness.task(task).reason or "")
    assert harness.app.stats.counts()[Status.PENDING] == 0


Refuse = Callable[[Harness, str], None]


@pytest.fixture
def refuse() -> Iterator[Refuse]:
    """Has the database itself refuse task rows of some statuses."""
    with ExitStack() as stack:

        def refuse_statuses(harness: Harness, statuses: str) -> None:
            session = harness.app._store.session()
            stack.callback(session.close)
            connection = session.opened()
            if session.dialect == "sqlite":
                connection.execute(
                    f"CREATE TRIGGER refusal BEFORE UPDATE ON onceward_task WHEN NEW.status IN ({statuses})"
                    " BEGIN SELECT RAISE(ABORT, 'the database refuses'); END"
                )
            else:
                connection.execute(
                    f"ALTER TABLE onceward_task ADD CONSTRAINT refusal CHECK (status NOT IN ({statuses})) NOT VALID"
                )
                stack.callback(connection.execute, "ALTER TABLE onceward_task DROP CONSTRAINT refusal")

        yield refuse_statuses


def nothing(ctx: Context[Job]) -> None:
    """A stage without a result."""


def test_a_move_that_the_database_refuses_is_an_error_of_its_stage(start: Start, refuse: Refuse) -> None:
    harness = start(pipeline_of(nothing, retry=Retry(retries=1)))
    refuse(harness, f"{Status.SUCCEEDED:d}")
    task = harness.enqueue(Job())
    harness.drain()
    harness.advance("2s")
    harness.drain()
    assert words(harness, task) == ["retry scheduled", "finished"]
    assert harness.task(task).status is Status.FAILED
    assert (harness.task(task).reason or "").startswith("failed after 1 retry: ")


def test_a_task_of_which_nothing_can_be_written_fails_all_the_same(start: Start, refuse: Refuse) -> None:
    harness = start(pipeline_of(nothing))
    refuse(harness, f"{Status.SUCCEEDED:d}, {Status.RETRYABLE:d}")
    task = harness.enqueue(Job())
    harness.drain()
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, UNWRITABLE)


@pytest.mark.untroubled("it counts how often the end of a task is refused")
def test_a_task_whose_end_is_refused_again_and_again_ends_once_it_can(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    harness = start(pipeline_of(nothing, retry=Retry(retries=0)))
    task = harness.enqueue(Job())
    write = Writer.write

    def refuse(writer: Writer, items: Sequence[Item], wish: Wish | None, **options: Any) -> Written:
        if items and len(refused) < 5:
            refused.append(len(items))
            return replace(write(writer, (), wish, **options), items=items, verdicts=[ValueError("no")] * len(items))
        return write(writer, items, wish, **options)

    monkeypatch.setattr(Writer, "write", refuse)
    harness.drain()
    assert len(refused) == 5
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, UNWRITABLE)


INDEXED = Migration("pages", "CREATE TABLE page (url text PRIMARY KEY)")


def insert_page(connection: Connection, url: str) -> None:
    connection.execute(f"INSERT INTO page (url) VALUES ({'?' if connection.dialect == 'sqlite' else '%s'})", (url,))


def test_a_row_that_the_database_cannot_index_fails_its_task_alone(start: Start) -> None:
    """PostgreSQL has no room for it in an index, SQLite has; nobody else waits for that."""
    endless = "".join(random.Random(7).choices(ascii_letters, k=100_000))

    def save(ctx: Context[Job]) -> None:
        ctx.write(insert_page, endless if ctx.payload.name == "endless" else ctx.payload.name)

    harness = start(pipeline_of(save, retry=Retry(retries=0)), migrations=[INDEXED])
    long, short = harness.enqueue(Job("endless")), harness.enqueue(Job("short"))
    harness.drain()
    assert harness.task(short).status is Status.SUCCEEDED
    if harness.app.dialect == "sqlite":
        assert harness.task(long).status is Status.SUCCEEDED
    else:
        assert harness.task(long).status is Status.FAILED
        assert "index row" in str(harness.task(long).reason)


def stop_itself(connection: Connection, how: str) -> None:
    """What goes wrong on PostgreSQL while the connection is as good as ever; SQLite has nothing like it."""
    if connection.dialect == "sqlite" or how == "fine":
        return
    if how == "misused":
        connection.execute("SELECT 1").close()
        raise InterfaceError("the cursor is closed")
    if how == "elsewhere":
        raise OperationalError("another server is away")
    connection.execute(how)


@pytest.mark.parametrize(
    "how",
    [
        "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)",
        "SELECT repeat('xx', 1000000000)",
        "misused",
        "elsewhere",
        "SET TRANSACTION READ ONLY",
        "SET statement_timeout = 1",
        "SET LOCAL lock_timeout = 1",
        "SELECT set_config('search_path', 'nowhere', false)",
        "SET LOCAL search_path = nowhere",
        'SET LOCAL "statement_timeout" TO 1',
        "RESET ALL",
    ],
)
def test_a_function_that_stops_itself_fails_its_task_alone(start: Start, how: str) -> None:
    def save(ctx: Context[Job]) -> None:
        ctx.write(stop_itself, ctx.payload.name)

    harness = start(pipeline_of(save, retry=Retry(retries=0)))
    stopped, fine = harness.enqueue(Job(how)), harness.enqueue(Job("fine"))
    harness.drain()
    assert harness.task(fine).status is Status.SUCCEEDED
    assert (harness.task(stopped).status is Status.SUCCEEDED) is (harness.app.dialect == "sqlite")


def test_a_function_may_have_settings_of_its_own(start: Start) -> None:
    def said(connection: Connection) -> None:
        if connection.dialect == "postgres":
            connection.execute("SET CONSTRAINTS ALL DEFERRED")
            connection.execute("SET LOCAL shop.customer = 'ada'")
            connection.execute("SET LOCAL work_mem = '8MB'")
            connection.execute("SELECT set_config('shop.customer', %s, true)", ("ada",))

    def save(ctx: Context[Job]) -> None:
        ctx.write(said)

    harness = start(pipeline_of(save, retry=Retry(retries=0)))
    task = harness.enqueue(Job("fine"))
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


async def later(ctx: Context[Job]) -> None: ...


def wrapped(ctx: Context[Job]) -> Any:
    return later(ctx)


def yields(ctx: Context[Job]) -> Any:
    return (letter for letter in "ab")


@pytest.mark.parametrize("at_expiry", [False, True])
@pytest.mark.parametrize(
    ("stage", "says"),
    [
        (lambda ctx: Failed("no such page"), r"returned Failed\(…\), which is a verdict; write: raise Failed"),
        (lambda ctx: Waiting(until="approved"), r"returned Waiting\(…\), which is a verdict"),
        (wrapped, "returned a coroutine, which ran nothing"),
        (yields, "returned a generator, which ran nothing"),
    ],
)
def test_a_verdict_that_is_returned_or_a_call_not_awaited_fails_the_task_for_good(
    start: Start, stage: Callable[[Context[Job]], Any], says: str, at_expiry: bool
) -> None:
    def judge(ctx: Context[Job]) -> Any:
        return stage(ctx)

    def wait(ctx: Context[Job]) -> None:
        raise Waiting(after="30m")

    pipeline = pipeline_of(wait if at_expiry else judge, retry=Retry(retries=0))
    if at_expiry:
        pipeline.at_expiry(judge)
    harness = start(pipeline)
    task = harness.enqueue(Job())
    harness.drain()
    found = harness.task(task)
    assert found.status is Status.FAILED
    assert any(re.search(says, one.note or "") for one in found.history)


def test_one_text_writes_and_reads_on_both_databases(start: Start) -> None:
    add = onceward.sql("INSERT INTO note (task, text) VALUES (:task, :text || ' %')")
    found = onceward.sql("SELECT text FROM note WHERE task = :task AND text LIKE '%:%'")

    def both(connection: Connection, task: int) -> None:
        add(connection, {"task": task, "text": "in a function:"})
        assert len(found.rows(connection, {"task": task})) == 2

    def stage(ctx: Context[Job]) -> list[str]:
        ctx.write(add, {"task": ctx.task.id, "text": "by itself:"})
        ctx.write(both, ctx.task.id)
        ctx.checkpoint(1)
        return sorted(text for [text] in ctx.read(found.rows, {"task": ctx.task.id}))

    harness = start(pipeline_of(stage), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).results["stage"] == ["by itself: %", "in a function: %"]


def test_a_text_without_its_values_is_refused_where_it_is_handed_over_and_named_where_it_fails(start: Start) -> None:
    def stage(ctx: Context[Job]) -> None:
        with pytest.raises(ConfigError, match="no value for :text"):
            ctx.write(onceward.sql("INSERT INTO note VALUES (1, :text)"), {})
        ctx.write(onceward.sql("INSERT INTO nowhere VALUES (:text)"), {"text": "x"})

    harness = start(pipeline_of(stage, retry=Retry(retries=0)), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert str(harness.task(task).reason).endswith("(in ctx.write(sql('INSERT INTO nowhere VALUES (:text)')))")
