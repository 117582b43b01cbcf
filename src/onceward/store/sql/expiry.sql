-- What ends by time: tasks, and those of batches and lineages.

-- name: expire_tasks
-- Fails tasks at their time limit. Their tokens are gone, so the fence refuses later writes; a task in its expiry stage
-- keeps the reason for which it came there.
UPDATE onceward_task
SET status = #failed, ended_at = :now, token = NULL, waiting_for = NULL, reason = coalesce(expiry, :reason)
WHERE id IN :ids
  AND status IN #open
RETURNING id, run, fence, stage, awaited, batch, reason

-- name: expire_into_last_stage
-- Sends started tasks into the expiry stage of their pipeline. The fence refuses what their attempts still write.
UPDATE onceward_task
SET status = #pending, token = NULL, waiting_for = NULL, due_at = :now, reason = :reason, expiry = :reason, gates = NULL,
    estimate = NULL, touched = 1, failures = 0, crashes = 0, company = 0, same_errors = 0, clock_at = -1
WHERE id IN :ids
  AND status IN #open
  AND started_at IS NOT NULL
  AND expiry IS NULL
  AND kind IN (SELECT kind FROM onceward_at_expiry)
RETURNING id, run, fence, stage, kind, queue, band, rank

-- name: add_kinds_at_expiry
INSERT INTO onceward_at_expiry (kind)
ROWS (kind text)
ON CONFLICT (kind) DO NOTHING

-- name: drop_kinds_at_expiry
DELETE FROM onceward_at_expiry
WHERE kind IN TEXTS :kinds

-- name: overdue_lineages
-- Lineages and branches past their deadline that are not closed yet.
SELECT id, root, created_at, deadline_at
FROM onceward_lineage
WHERE overdue = 0
  AND deadline_at <= :now
ORDER BY deadline_at
LIMIT 100

-- name: open_in_lineage
-- Open tasks of a lineage, without tasks in their expiry stage: these have a time of their own.
SELECT id
FROM onceward_task
WHERE lineage = :lineage
  AND id > :after
  AND status IN #open
  AND expiry IS NULL
ORDER BY id
LIMIT :count

-- name: open_in_branch
-- As open_in_lineage, for a task and its descendants.
SELECT t.id
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id >= :task
  AND (:whole = 1 OR t.id = :task OR substr(t.ancestry, :offset, 8) = :mark)
  AND t.status IN #open
  AND t.expiry IS NULL
ORDER BY t.id
LIMIT :count

-- name: is_overdue
-- Checks the deadline again under the locks: an operator may have raised it.
SELECT 1
FROM onceward_lineage
WHERE id = :lineage
  AND overdue = 0
  AND deadline_at <= :now

-- name: close_lineage
-- Closes (or reopens) a lineage to spawns. The row lock holds back spawns while we look; later ones are refused. No row
-- if an operator has raised the deadline, or another look has closed it.
UPDATE onceward_lineage
SET overdue = :overdue
WHERE id = :lineage
  AND overdue <> :overdue
  AND deadline_at <= :now
RETURNING id

-- name: limit_times
-- Stores when the time of tasks in line may be over; a repeated pair adds nothing.
INSERT INTO onceward_time_limit (at, task)
ROWS (at bigint, task bigint)
ON CONFLICT (at, task) DO NOTHING

-- name: due_time_limits
-- Time limits that are due, for these kinds; kind is NULL for a task that is gone.
SELECT l.at, l.task, t.kind
FROM onceward_time_limit l
LEFT JOIN onceward_task t ON t.id = l.task
WHERE l.at <= :now
  AND (t.kind IS NULL OR t.kind IN TEXTS :kinds)
ORDER BY l.at, l.task
LIMIT :count

-- name: next_time_limit
SELECT min(at)
FROM onceward_time_limit

-- name: drop_time_limits
DELETE FROM onceward_time_limit
WHERE (at, task) IN (ROWS (at bigint, task bigint))

-- name: read_clocks
-- Tasks in line with a running clock.
SELECT id, kind, queue, gates, paused, coalesce(clock_at, progressed_at, started_at), expiry
FROM onceward_task
WHERE id IN :ids
  AND status IN #startable
  AND started_at IS NOT NULL
  AND coalesce(clock_at, 0) >= 0

-- name: stop_clocks
-- Stops the clocks of tasks that a pause holds back: their time begins anew with the next claim.
UPDATE onceward_task
SET clock_at = -1
WHERE id IN :ids

-- name: drop_passing_parts
-- Deletes parts that a reopened task no longer needs: those of its expiry stage, and the times of its waits.
DELETE FROM onceward_checkpoint
WHERE task = :task
  AND (substr(stage, 1, 1) = '!' OR substr(part, 1, 5) = 'wait/')
