-- Queries of the room drivers as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: begin
BEGIN

-- name: begin_reading
-- One snapshot for all that follows.
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: store_now
-- The database's clock, in milliseconds: the only query that asks for it (R4).
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: notify
-- One for a transaction, at commit: something has changed. It carries nothing that a poll would not find.
SELECT pg_notify('onceward', '')

-- name: hold_lock
-- Held for as long as the connection lives, and on this run of the server: by its timeline, which a failover changes, and
-- its start. Shared: the server may not have noticed yet that an older connection of this worker is gone.
SELECT CASE WHEN pg_try_advisory_lock_shared(
    mod('onceward_worker'::regclass::oid::bigint, 2147483648)::integer, mod(:worker::bigint, 2147483648)::integer
) THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint END

-- name: wait_briefly
-- For the rest of this transaction: what another one has locked is not worth a longer wait.
SET LOCAL lock_timeout = 500

-- name: wait_as_ever
-- For the rest of this transaction, as if nobody had said that.
SET LOCAL lock_timeout = DEFAULT

-- name: has_schema
-- Whether Onceward has ever been here: by the search path, as all other names are found.
SELECT 1
WHERE to_regclass('onceward_schema') IS NOT NULL

-- name: lock_schema
-- For this transaction alone, so that it works through a pooler too. The number is "onceward" in ASCII.
SELECT pg_advisory_xact_lock(8029464473093894756)

-- name: create_schema_table
CREATE TABLE IF NOT EXISTS onceward_schema (
    version integer PRIMARY KEY,
    name text NOT NULL,
    at bigint NOT NULL
)
