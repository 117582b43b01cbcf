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
-- The database's clock, in milliseconds: the only query that reads it (R4).
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: notify
-- Notify workers at commit that something has changed; a poll would find it too.
SELECT pg_notify('onceward', '')

-- name: hold_lock
-- Take a worker's lock for the life of the connection, and return the run of the server (decision 48). A run is a
-- timeline, which a failover changes, and a start time. The lock is shared: an older connection of this worker may
-- still hold it.
SELECT CASE WHEN pg_try_advisory_lock_shared(
    mod('onceward_worker'::regclass::oid::bigint, 2147483648)::integer, mod(:worker::bigint, 2147483648)::integer
) THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint END

-- name: wait_briefly
-- Limit lock waits to half a second for the rest of this transaction.
SET LOCAL lock_timeout = 500

-- name: wait_normally
-- Wait as long as usual on this connection for the rest of this transaction.
SELECT set_config('lock_timeout', coalesce(nullif(current_setting('onceward.lock_timeout', true), ''), '0'), true)

-- name: has_schema
-- Whether the tables of Onceward exist, by the search path, as for all other names.
SELECT 1
WHERE to_regclass('onceward_schema') IS NOT NULL

-- name: lock_schema
-- A lock of this transaction, which works through a pooler too. The number is "onceward" in ASCII.
SELECT pg_advisory_xact_lock(8029464473093894756)

-- name: create_schema_table
CREATE TABLE IF NOT EXISTS onceward_schema (
    version integer PRIMARY KEY,
    name text NOT NULL,
    at bigint NOT NULL
)
