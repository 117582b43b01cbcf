"""What a function given to `ctx.write` may say to the database, and what it may not."""

from __future__ import annotations

import pytest

from onceward.errors import WriteRefused
from onceward.store.guard import refuse_transaction_control


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
        "",
        ";;",
    ],
)
def test_rows_of_the_applications_own_are_its_own_business(sql: str) -> None:
    refuse_transaction_control(sql)


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
    with pytest.raises(WriteRefused, match=r"is not allowed in ctx\.write: the engine commits these rows"):
        refuse_transaction_control(sql)


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
    ],
)
def test_the_engines_own_tables_are_only_for_reading(sql: str) -> None:
    with pytest.raises(WriteRefused, match=r"the engine's own; ctx\.write may only read them"):
        refuse_transaction_control(sql)
