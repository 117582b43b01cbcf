-- Batches: opened with all their tasks, counted with every task that is spawned or ends, ended once.

-- name: insert_batch
-- Opens a batch. The unique name decides: of two concurrent inserts one returns no row. A batch that a task opens lies
-- inside the batch of that task.
INSERT INTO onceward_batch (name, deadline_at, scope, then_data, opener, inside, created_at)
VALUES (:name, :deadline_at, :scope, :then_data, :opener, (SELECT batch FROM onceward_task WHERE id = :opener), :now)
ON CONFLICT (name) DO NOTHING
RETURNING id

-- name: batch_of_opener
-- The batch of this name, if the same task has opened it before.
SELECT id, scope
FROM onceward_batch
WHERE name = :name
  AND opener = :opener

-- name: refuse_in_batch
-- Sets the count of refused children. A stage that opens its batch again asks for all again: the last count holds.
UPDATE onceward_batch
SET refused = :refused
WHERE id = :batch

-- name: follow_batch
-- Names the task that follows a stage's batch; it exists from the start (decision 21).
UPDATE onceward_batch
SET then_task = :task
WHERE id = :batch

-- name: lock_open_batch
-- Locks a batch if it is open. A transaction that is ending it is waited for; then no row comes back.
UPDATE onceward_batch
SET status = status
WHERE name = :name
  AND status = #batch_open
RETURNING id

-- name: batches_around
-- The batches inside which others lie, at whatever depth.
WITH RECURSIVE around (batch, id) AS (
    SELECT id, inside
    FROM onceward_batch
    WHERE id IN :ids
      AND inside IS NOT NULL
    UNION ALL
    SELECT around.batch, b.inside
    FROM around
    JOIN onceward_batch b ON b.id = around.id
    WHERE b.inside IS NOT NULL
)
SELECT batch, id
FROM around

-- name: ending_batch
-- Reads a batch without open tasks. Its row is locked by the count that found none open.
SELECT succeeded, filtered, skipped, failed, cancelled, refused, name, reason, then_data, then_task
FROM onceward_batch
WHERE id = :batch

-- name: end_batch
UPDATE onceward_batch
SET status = :status, then_task = :then_task, ended_at = :now
WHERE id = :batch
  AND status = #batch_open
  AND open = 0

-- name: overdue_batches
SELECT id, name, created_at, deadline_at
FROM onceward_batch
WHERE status = #batch_open
  AND deadline_at <= :now
ORDER BY deadline_at
LIMIT 100

-- name: mark_overdue
-- Notes the exceeded deadline: the batch will end as failed, however its last task ends.
UPDATE onceward_batch
SET reason = :reason
WHERE id = :batch
  AND status = #batch_open

-- name: open_in_batch
-- Open tasks of a batch and of the batches inside it, without tasks in their expiry stage: these have their own time.
WITH RECURSIVE within (id) AS (
    SELECT id
    FROM onceward_batch
    WHERE id = :batch
    UNION ALL
    SELECT b.id
    FROM within
    JOIN onceward_batch b ON b.inside = within.id
)
SELECT t.id
FROM within
JOIN onceward_task t ON t.batch = within.id
WHERE t.id > :after
  AND t.status IN #open
  AND t.expiry IS NULL
ORDER BY t.id
LIMIT :count

-- name: report_batches
-- Batches, newest first; with a name, that one.
SELECT id, name, status, total, open, succeeded, filtered, skipped, failed, cancelled, refused, reason, deadline_at,
    created_at, ended_at, then_task
FROM onceward_batch
WHERE (name = :name) IS NOT FALSE
  AND (status = :status) IS NOT FALSE
ORDER BY id DESC
LIMIT :limit

-- name: verify_batches
-- What a batch says of its tasks, those of the batches inside it among them, and what its tasks say.
WITH RECURSIVE within (batch, id) AS (
    SELECT id, id
    FROM onceward_batch
    UNION ALL
    SELECT within.batch, b.id
    FROM within
    JOIN onceward_batch b ON b.inside = within.id
)
SELECT b.id, b.name, b.status, b.total, b.open, b.succeeded + b.filtered + b.skipped + b.failed + b.cancelled,
    CASE WHEN b.then_data IS NULL THEN 0 ELSE 1 END, b.then_task, b.ended_at,
    (
        SELECT count(*)
        FROM within
        JOIN onceward_task t ON t.batch = within.id
        WHERE within.batch = b.id
          AND t.status IN #open
    ),
    (SELECT min(t.id) FROM onceward_task t WHERE t.batch = b.id), b.opener,
    (SELECT count(*) FROM onceward_task t WHERE t.id = b.then_task AND t.waiting_for = 'batch:' || b.name)
FROM onceward_batch b
ORDER BY b.id
