-- Queries of the room drivers as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: begin
-- IMMEDIATE, because a transaction that reads first and writes later fails if another has written in between.
-- The comment in the text tells it from a BEGIN of the application, which ctx.write denies.
BEGIN IMMEDIATE /* onceward */

-- name: begin_reading
-- DEFERRED, because it must not block writers.
BEGIN DEFERRED /* onceward */

-- name: commit
COMMIT /* onceward */

-- name: rollback
ROLLBACK /* onceward */

-- name: store_now
-- Nothing: one machine, one clock.

-- name: notify
-- Nothing: other processes see a commit by PRAGMA data_version.

-- name: hold_lock
-- Nothing: the lock on a presence file tells as much, because all processes are on one machine.

-- name: wait_briefly
-- Nothing: the transaction already is the only writer.

-- name: wait_normally
-- Nothing, likewise.

-- name: has_schema
-- Whether the tables of Onceward exist.
SELECT 1
FROM sqlite_schema
WHERE type = 'table' AND name = 'onceward_schema'

-- name: lock_schema
-- Nothing: the transaction already is the only writer.

-- name: create_schema_table
CREATE TABLE IF NOT EXISTS onceward_schema (
    version integer PRIMARY KEY,
    name text NOT NULL,
    at integer NOT NULL
)
