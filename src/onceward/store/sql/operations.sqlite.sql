-- Queries of the room operations as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: old_transactions
-- Nothing: SQLite does not list readers. Its log, a file, grows meanwhile.

-- name: prune_claims
-- Delete claims whose tasks are all gone and which no living worker still searches; the rest proves every fence.
DELETE FROM onceward_claim
WHERE seq > :after
  AND seq <= :upto
  AND at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM json_each(onceward_claim.tasks) AS claimed
    JOIN onceward_task t ON t.id = claimed.value
  )
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_worker w
    WHERE w.id = onceward_claim.worker
      AND w.stopped_at IS NULL
      AND w.low_claim <= onceward_claim.seq
  )
RETURNING seq

-- name: count_pruned
-- Count pruned tasks of a lineage; `tasks` still counts them, because a limit is about all tasks ever made.
UPDATE onceward_lineage
SET pruned = pruned + gone.column2
FROM (ROWS (id uuid, count bigint)) AS gone
WHERE onceward_lineage.id = gone.column1

-- name: set_scheduled
UPDATE onceward_task
SET scheduled_at = fired.column2
FROM (ROWS (task bigint, at bigint)) AS fired
WHERE onceward_task.id = fired.column1

-- name: lock_settings
-- Nothing: the transaction already is the only writer.

-- name: lock_intake
-- The oldest rows that wait, of kinds that a worker knows.
-- A transaction that writes has the file for itself, so that nothing is locked.
SELECT id, kind, payload, priority, due_at
FROM onceward_intake
WHERE done_at IS NULL
  AND kind IN TEXTS :kinds
ORDER BY id
LIMIT :count
