-- Queries of the room operations as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: old_transactions
-- Transactions of this database with a snapshot or writes that began before a time. Those of other users show only to a
-- role that may read all statistics.
SELECT coalesce(nullif(application_name, ''), 'unnamed'), pid, (extract(epoch FROM xact_start) * 1000)::bigint AS since
FROM pg_stat_activity
WHERE datname = current_database()
  AND backend_type = 'client backend'
  AND pid <> pg_backend_pid()
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
  AND xact_start < to_timestamp(:before / 1000.0)
ORDER BY since, pid
LIMIT :limit

-- name: prune_claims
-- Delete claims whose tasks are all gone and which no living worker still searches; the rest proves every fence.
DELETE FROM onceward_claim
WHERE seq > :after
  AND seq <= :upto
  AND at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM unnest(onceward_claim.tasks) AS claimed (task)
    JOIN onceward_task t ON t.id = claimed.task
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
WITH gone (id, count) AS (
    ROWS (id uuid, count bigint)
)
UPDATE onceward_lineage l
SET pruned = l.pruned + gone.count
FROM gone
WHERE l.id = gone.id

-- name: set_scheduled
WITH fired (task, at) AS (
    ROWS (task bigint, at bigint)
)
UPDATE onceward_task t
SET scheduled_at = fired.at
FROM fired
WHERE t.id = fired.task

-- name: lock_settings
-- One transaction at a time, because two new values may contradict each other although neither does alone.
-- The number is "settings" in ASCII.
SELECT pg_advisory_xact_lock(8315180330343360371)

-- name: lock_intake
-- The oldest rows that wait, of kinds that a worker knows.
-- Locked: another worker takes other rows.
SELECT id, kind, payload, priority, due_at
FROM onceward_intake
WHERE done_at IS NULL
  AND kind IN TEXTS :kinds
ORDER BY id
LIMIT :count
FOR UPDATE SKIP LOCKED
