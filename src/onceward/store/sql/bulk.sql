-- Actions on all tasks that match a filter: one row each, carried on in portions by the process that has its lease.

-- name: newest_task
SELECT coalesce(max(id), 0)
FROM onceward_task

-- name: begin_bulk
INSERT INTO onceward_bulk (action, filter, reason, author, upto, cursor, expected, is_exact, created_at)
VALUES (:action, :filter, :reason, :author, :upto, :upto, :expected, :is_exact, :now)
RETURNING id

-- name: read_bulk
SELECT id, action, filter, reason, author, state, upto, cursor, expected, is_exact, done, left_alone, note, created_at,
    ended_at, taken_until
FROM onceward_bulk
WHERE id = :id

-- name: list_bulk
SELECT id, action, filter, reason, author, state, upto, cursor, expected, is_exact, done, left_alone, note, created_at,
    ended_at, taken_until
FROM onceward_bulk
ORDER BY id DESC
LIMIT :limit

-- name: untaken_bulk
-- Open actions that no process carries on now.
SELECT id
FROM onceward_bulk
WHERE state = 0
  AND taken_until < :now
ORDER BY id
LIMIT 100

-- name: take_bulk
-- Takes an open action for a while, or goes on having it.
UPDATE onceward_bulk
SET token = :token, taken_until = :until
WHERE id = :id
  AND state = 0
  AND (taken_until < :now OR token = :token)
RETURNING id

-- name: advance_bulk
-- Counts a portion, in the transaction that has done it. No row if the action was stopped or taken by another process.
UPDATE onceward_bulk
SET cursor = :cursor, done = done + :done, left_alone = left_alone + :left_alone,
    note = coalesce(:note, note), state = :state, ended_at = :ended_at, taken_until = :until
WHERE id = :id
  AND state = 0
  AND token = :token
  AND cursor = :before
RETURNING id

-- name: leave_bulk
-- Gives an action back: another process need not wait for the end of the lease.
UPDATE onceward_bulk
SET taken_until = 0
WHERE id = :id
  AND token = :token

-- name: stop_bulk
UPDATE onceward_bulk
SET state = 2, ended_at = :now, taken_until = 0
WHERE id = :id
  AND state = 0
RETURNING id

-- name: prune_bulk
DELETE FROM onceward_bulk
WHERE state > 0
  AND ended_at < :before
