"""What a function given to `ctx.write` may say to the database, and what it may not."""

from __future__ import annotations

import pytest

from onceward.store.drivers.sql_check import OWN_TABLES, leaves_trace, objection, session_objection


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO price VALUES (1)",
        "SELECT 'COMMIT'",
        "SELECT 'it''s; COMMIT'",
        "INSERT INTO note VALUES ('; ROLLBACK; ')",
        'SELECT "commit" FROM t',
        "SELECT 1 -- ; COMMIT",
        "SELECT 1 /* ; COMMIT; */",
        "SELECT $$; COMMIT; $$",
        "SELECT $tag$; COMMIT; $tag$",
        "SELECT count(*) FROM onceward_task",
        "INSERT INTO copy SELECT id FROM onceward_task",
        "INSERT INTO mine_onceward_task VALUES (1)",
        "UPDATE t SET a = 'update onceward_task'",
        "SELECT CASE WHEN a THEN 1 END FROM t",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "DELETE FROM begin_dates",
        "SELECT task.id FROM mine JOIN public . onceward_task AS task ON true FOR UPDATE OF mine",
        "INSERT INTO mine VALUES (1) ON CONFLICT (id) DO UPDATE SET a = (SELECT max(id) FROM onceward_task)",
        "CREATE TABLE mine (task bigint REFERENCES public.onceward_task ON DELETE CASCADE)",
        "ALTER TABLE mine ADD FOREIGN KEY (task) REFERENCES onceward_task (id)",
        "CREATE TEMP TABLE IF NOT EXISTS mine AS SELECT * FROM onceward_task",
        "CREATE OR REPLACE VIEW mine AS SELECT * FROM onceward_task",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
        "UPDATE mine SET onceward_id = 1",
        "SELECT E'it\\'s', 'UPDATE onceward_task'",
        "SELECT E'a' \n '\\'; COMMIT --'",
        "SELECT /* a /* COMMENT */ ; COMMIT */ 1",
        "SET LOCAL work_mem = '64MB'",
        "SET CONSTRAINTS ALL DEFERRED",
        "SELECT set_config('shop.customer', %s, true)",
        "SELECT pg_advisory_xact_lock(1)",
        "(SELECT 1) UNION (SELECT 2)",
        "",
        ";;",
    ],
)
def test_rows_of_the_applications_own_are_its_own_business(sql: str) -> None:
    assert objection(sql) is None
    assert session_objection(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "commit;",
        "  \n\tBegin",
        "BEGIN IMMEDIATE",
        "START TRANSACTION",
        "END",
        "ROLLBACK",
        "ROLLBACK TO SAVEPOINT a",
        "ABORT",
        "SAVEPOINT a",
        "RELEASE a",
        "PREPARE TRANSACTION 'x'",
        "ATTACH 'other.db' AS o",
        "DETACH o",
        "SELECT 1; COMMIT",
        "INSERT INTO t VALUES (';'); COMMIT; SELECT 1",
        "/* quietly */ COMMIT",
        "-- quietly\nCOMMIT",
        "SELECT $$a$$; COMMIT",
    ],
)
def test_a_statement_that_begins_or_ends_a_transaction_is_refused(sql: str) -> None:
    assert "is not allowed in ctx.write: the engine commits these rows" in str(objection(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE onceward_task SET status = 4",
        "update  only onceward_task set status = 4",
        'UPDATE "onceward_task" SET status = 4',
        "UPDATE public.onceward_task SET status = 4",
        'UPDATE "public"."onceward_task" SET status = 4',
        "INSERT INTO onceward_attempt VALUES (1)",
        "DELETE FROM onceward_ready",
        "DELETE FROM ONCEWARD_READY",
        "TRUNCATE onceward_claim",
        "TRUNCATE TABLE onceward_claim",
        "DROP TABLE onceward_task",
        "DROP TABLE IF EXISTS onceward_task",
        "ALTER TABLE onceward_task ADD COLUMN a int",
        "MERGE INTO onceward_task USING x ON true",
        "WITH x AS (SELECT 1) DELETE FROM onceward_task",
        "WITH gone AS (DELETE FROM onceward_task RETURNING id) SELECT * FROM gone",
        "SELECT 1; DELETE /* quietly */ FROM onceward_task",
        "UPDATE public . onceward_task SET status = 4",
        "UPDATE public /* a */ . -- b\n onceward_task SET status = 4",
        "UPDATE ONLY (onceward_task) SET status = 4",
        'UPDATE U&"\\006fnceward_task" SET status = 4',
        "UPDATE u&\"!00006fnceward_task\" UESCAPE '!' SET status = 4".replace("!0000", "!+0000"),
        "EXPLAIN ANALYZE UPDATE onceward_task SET status = 4",
        "SELECT 1 INTO onceward_mine",
        "SELECT E'a' \n '\\''; DELETE FROM onceward_task; --'",
        'WITH a AS (SELECT %(")s), d AS (DELETE FROM onceward_task) SELECT 1 AS "b"',
        "SELECT /* a /* b */ */ 1; DELETE FROM onceward_task",
        "COPY onceward_pause FROM PROGRAM 'echo'",
        "LOCK TABLE onceward_task",
        "TRUNCATE mine, onceward_pause",
        "DROP TABLE IF EXISTS mine, onceward_watch",
        "DROP INDEX onceward_task_waiting",
        "ALTER TABLE IF EXISTS ONLY public.onceward_task SET (fillfactor = 90)",
        "ALTER TABLE onceward_task ADD FOREIGN KEY (id) REFERENCES mine",
        "CREATE INDEX mine ON onceward_task (reason)",
        "CREATE TRIGGER mine AFTER INSERT ON onceward_task EXECUTE FUNCTION f()",
        "CREATE RULE mine AS ON INSERT TO onceward_task DO ALSO NOTHING",
        "CREATE TEMP TABLE onceward_task (id int)",
        "CREATE FUNCTION f() RETURNS void BEGIN ATOMIC DELETE FROM onceward_task; END",
        "GRANT ALL ON onceward_task TO public",
        "COMMENT ON TABLE onceward_task IS 'mine'",
        "REINDEX TABLE onceward_task",
    ],
)
def test_the_engines_own_tables_are_only_for_reading(sql: str) -> None:
    assert objection(sql) == OWN_TABLES


@pytest.mark.parametrize(
    "sql",
    [
        "SET search_path = x",
        "/* quietly */ SET statement_timeout = 1",
        "SET LOCAL statement_timeout = 1",
        "SET LOCAL search_path TO x",
        "SET SESSION AUTHORIZATION x",
        "RESET ALL",
        "DISCARD ALL",
        "LISTEN onceward",
        "SELECT set_config('search_path', 'x', false)",
        "SELECT pg_catalog . \"set_config\"(%s, 'x', true)",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_advisory_unlock_all()",
        "DO $$ BEGIN EXECUTE 'UPDATE onceward_' || 'task SET reason = NULL'; END $$",
    ],
)
def test_a_connection_that_others_use_is_not_changed(sql: str) -> None:
    assert "is allowed in ctx.write" in str(session_objection(sql)).replace("is not allowed", "is allowed")


@pytest.mark.parametrize(
    "sql", ["/* a */ SET x = 1", "SELECT 1; LISTEN x", "DO $$ $$", "SELECT \"set_config\"('a.b', 'c', false)"]
)
def test_a_connection_that_was_changed_is_known_to_be(sql: str) -> None:
    assert leaves_trace(sql)
    assert not leaves_trace("SELECT 'SET x = 1' -- SET x = 1")
