-- What is deleted when tasks have been over for long enough.

-- name: prunable_tasks
-- Tasks that ended before a time, in the order of ids; no index holds the end of a task (R13), so this walks. A task
-- stays while a parent, or a task linked to it, is open or ended later: it may still ask for the outcome.
SELECT id
FROM onceward_task
WHERE id > :after
  AND id < :upto
  AND status >= #ended
  AND ended_at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_task p
    WHERE p.id = onceward_task.parent
      AND (p.status < #ended OR p.ended_at >= :before)
  )
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_link l
    JOIN onceward_task p ON p.id = l.parent
    WHERE l.child = onceward_task.id
      AND (p.status < #ended OR p.ended_at >= :before)
  )
ORDER BY id
LIMIT :count

-- name: first_younger_task
-- The first task made after a time; later ones cannot have ended before it.
SELECT (
    SELECT id
    FROM onceward_task
    WHERE created_at >= :before
    ORDER BY id
    LIMIT 1
)

-- name: prune_tasks
-- Deletes tasks; the conditions are checked again, because an operator may have reopened one.
DELETE FROM onceward_task
WHERE id IN :ids
  AND status >= #ended
  AND ended_at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_task p
    WHERE p.id = onceward_task.parent
      AND (p.status < #ended OR p.ended_at >= :before)
  )
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_link l
    JOIN onceward_task p ON p.id = l.parent
    WHERE l.child = onceward_task.id
      AND (p.status < #ended OR p.ended_at >= :before)
  )
RETURNING id, payload_blob, lineage, scopes, identity

-- name: prune_batches
-- Batches that ended before a time, and of which no task and no batch inside is left.
DELETE FROM onceward_batch
WHERE status > #batch_open
  AND ended_at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_task t
    WHERE t.batch = onceward_batch.id
  )
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_batch b
    WHERE b.inside = onceward_batch.id
  )
RETURNING id, scope

-- name: drop_counters
-- The counters of batches that are gone.
DELETE FROM onceward_lineage
WHERE id IN (ROWS (id uuid))

-- name: prune_links
DELETE FROM onceward_link
WHERE parent IN :ids
   OR child IN :ids

-- name: prune_refusals
DELETE FROM onceward_refusal
WHERE parent IN :ids

-- name: close_lineages
-- Deletes the rows of lineages and narrower scopes without a task left.
DELETE FROM onceward_lineage
WHERE id IN (ROWS (id uuid))
  AND pruned >= tasks
RETURNING id

-- name: lineages_left
SELECT id
FROM onceward_lineage
WHERE id IN (ROWS (id uuid))

-- name: drop_lineage_identities
DELETE FROM onceward_identity
WHERE scope IN (ROWS (scope bytea))

-- name: drop_lineage_aliases
-- Aliases stay as long as their lineage: a descendant must not repeat a pruned ancestor.
DELETE FROM onceward_alias
WHERE lineage IN (ROWS (lineage uuid))

-- name: drop_lineage_failures
DELETE FROM onceward_failure
WHERE lineage IN (ROWS (lineage uuid))

-- name: prune_checkpoints
DELETE FROM onceward_checkpoint
WHERE task IN :ids
RETURNING value_blob

-- name: prune_log
DELETE FROM onceward_attempt
WHERE task IN :ids
RETURNING id

-- name: prune_signals
DELETE FROM onceward_signal
WHERE task IN :ids

-- name: prune_progress
DELETE FROM onceward_progress
WHERE task IN :ids

-- name: prune_blobs
-- Deletes large values that no row refers to any more.
DELETE FROM onceward_blob
WHERE hash IN (ROWS (hash bytea))
  AND NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.payload_blob = onceward_blob.hash)
  AND NOT EXISTS (SELECT 1 FROM onceward_checkpoint c WHERE c.value_blob = onceward_blob.hash)
  AND NOT EXISTS (SELECT 1 FROM onceward_cache c WHERE c.value_blob = onceward_blob.hash)
RETURNING hash

-- name: prune_places
-- Places in line that a task which ended out of turn has left behind. A task and its place are inserted together, so
-- that no task is missed here that is only just being enqueued.
DELETE FROM onceward_ready
WHERE NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = onceward_ready.task)
RETURNING task

-- name: prune_due
DELETE FROM onceward_due
WHERE NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = onceward_due.task)
RETURNING task

-- name: next_claims
-- Where the next piece of the claims ends.
SELECT max(seq)
FROM (
    SELECT seq
    FROM onceward_claim
    WHERE seq > :after
      AND at < :before
    ORDER BY seq
    LIMIT :count
) AS piece

-- name: prune_workers
-- A worker is remembered as long as any claim of it is: so every log row can name its worker.
DELETE FROM onceward_worker
WHERE stopped_at < :before
  AND NOT EXISTS (SELECT 1 FROM onceward_claim c WHERE c.worker = onceward_worker.id)
RETURNING id
