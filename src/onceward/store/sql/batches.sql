-- Batches: opened with all their tasks, counted with every task that is spawned or ends, ended once.

-- name: insert_batch
-- The name decides: of two who open the same batch one gets no row.
INSERT INTO onceward_batch (name, deadline_at, scope, then_data, created_at)
VALUES (:name, :deadline_at, :scope, :then_data, :now)
ON CONFLICT (name) DO NOTHING
RETURNING id

-- name: ending_batch
-- A batch of which nothing is open any more. Its row is locked by the count that said so.
SELECT succeeded, filtered, skipped, failed, cancelled, reason, then_data
FROM onceward_batch
WHERE id = :batch

-- name: end_batch
UPDATE onceward_batch
SET status = :status, then_task = :then_task, ended_at = :now
WHERE id = :batch
  AND status = 0
  AND open = 0

-- name: overdue_batches
SELECT id, name, created_at, deadline_at
FROM onceward_batch
WHERE status = 0
  AND deadline_at <= :now
ORDER BY deadline_at
LIMIT 100

-- name: mark_overdue
-- However its last task ends now, this batch has failed.
UPDATE onceward_batch
SET reason = :reason
WHERE id = :batch
  AND status = 0

-- name: open_in_batch
SELECT id
FROM onceward_task
WHERE batch = :batch
  AND id > :after
  AND status IN (0, 1, 2, 3)
ORDER BY id
LIMIT :count

-- name: expire_tasks
-- Nothing of an expired task is written any more: its token is gone.
UPDATE onceward_task
SET status = 7, ended_at = :now, token = NULL, waiting_for = NULL, reason = :reason
WHERE id IN :ids
  AND status IN (0, 1, 2, 3)
RETURNING id, run, fence, stage, awaited, batch

-- name: report_batches
-- Batches, newest first; with a name, that one.
SELECT id, name, status, total, open, succeeded, filtered, skipped, failed, cancelled, reason, deadline_at, created_at,
    ended_at, then_task
FROM onceward_batch
WHERE (name = :name) IS NOT FALSE
  AND (status = :status) IS NOT FALSE
ORDER BY id DESC
LIMIT :limit

-- name: verify_batches
-- What a batch says of its tasks, and what its tasks say.
SELECT b.id, b.name, b.status, b.total, b.open, b.succeeded + b.filtered + b.skipped + b.failed + b.cancelled,
    CASE WHEN b.then_data IS NULL THEN 0 ELSE 1 END, b.then_task, b.ended_at,
    (SELECT count(*) FROM onceward_task t WHERE t.batch = b.id AND t.status IN (0, 1, 2, 3)),
    (SELECT min(t.id) FROM onceward_task t WHERE t.batch = b.id)
FROM onceward_batch b
ORDER BY b.id
