-- What the figures of the last hours are made of. The log and the claims are read backwards by their ids, a page at a
-- time: no index knows their times, and a page is no reason to keep a snapshot.

-- name: log_before
SELECT id, task, fence, event, status, stage, worker, at
FROM onceward_attempt
WHERE id < :before
ORDER BY id DESC
LIMIT :count

-- name: claims_before
SELECT seq, at, tasks, fences
FROM onceward_claim
WHERE seq < :before
ORDER BY seq DESC
LIMIT :count

-- name: sizes_of_tasks
-- Kind, payload size and times of tasks.
SELECT t.id, t.kind, coalesce(
    length(t.payload), (SELECT length(b.data) FROM onceward_blob b WHERE b.hash = t.payload_blob), 0
), t.created_at, t.due_at, t.fence
FROM onceward_task t
WHERE t.id IN :ids

-- name: measured_sizes
-- What stages have measured with `ctx.measure`.
SELECT task, stage, value
FROM onceward_checkpoint
WHERE task IN :ids
  AND part = 'size'
  AND value IS NOT NULL

-- name: stages_committed_before
-- The last committed stage of each attempt before a log row.
SELECT task, fence, max(at)
FROM onceward_attempt
WHERE task IN :ids
  AND event = 1
  AND id < :before
GROUP BY task, fence

-- name: old_claims_of_worker
SELECT token, tasks, at
FROM onceward_claim
WHERE worker = :worker
  AND seq >= :low_claim
  AND at < :before
ORDER BY seq
LIMIT :count

-- name: signs_of_life
-- Running tasks with the times of their last log row and their last progress.
SELECT t.id, t.token, t.kind, t.stage,
    coalesce((SELECT max(a.at) FROM onceward_attempt a WHERE a.task = t.id), 0),
    coalesce((SELECT p.at FROM onceward_progress p WHERE p.task = t.id), 0)
FROM onceward_task t
WHERE t.id IN :ids
  AND t.status = #running

-- name: waits_without_end
-- Tasks that wait without a time limit for one kind of thing, and since when.
SELECT t.id, t.kind, t.stage, t.waiting_for,
    coalesce((SELECT max(a.at) FROM onceward_attempt a WHERE a.task = t.id), t.created_at)
FROM onceward_task t
WHERE t.waiting_for >= :first
  AND t.waiting_for < :last
  AND t.status = #waiting
  AND t.paused = 0
  AND t.due_at >= :never
ORDER BY t.waiting_for, t.kind, t.id
LIMIT :count

-- name: waits_for_no_child
-- Tasks that wait for children of which none is open.
SELECT parked.id, parked.kind, parked.stage, parked.waiting_for,
    coalesce((SELECT max(a.at) FROM onceward_attempt a WHERE a.task = parked.id), parked.created_at)
FROM (
    SELECT id, kind, stage, waiting_for, created_at
    FROM onceward_task
    WHERE waiting_for = 'children'
      AND status = #waiting
    LIMIT :rows
) AS parked
WHERE NOT EXISTS (SELECT 1 FROM onceward_join j WHERE j.parent = parked.id)
LIMIT :count

-- name: open_batches
SELECT name
FROM onceward_batch
WHERE name IN TEXTS :names
  AND status = #batch_open

-- name: heads_of_lines
-- The first claimable task of every line. Goes from line to line by the index: a line may be very long.
WITH RECURSIVE line (lane) AS (
    SELECT min(lane) FROM onceward_ready
    UNION ALL
    SELECT (SELECT min(r.lane) FROM onceward_ready r WHERE r.lane > line.lane) FROM line WHERE line.lane IS NOT NULL
)
SELECT (
    SELECT r.task
    FROM onceward_ready r
    JOIN onceward_task t ON t.id = r.task
    WHERE r.lane = line.lane
      AND t.status IN #startable
      AND t.paused = 0
    ORDER BY r.band, r.rank, r.seq
    LIMIT 1
)
FROM line
WHERE line.lane IS NOT NULL
LIMIT :count

-- name: ready_since
-- Since when tasks that stand in line may run.
SELECT id, kind, stage, status, due_at
FROM onceward_task
WHERE id IN :ids
  AND status IN #startable
  AND due_at < :before

-- name: totals_of_spending
-- How many tokens of sources were taken so far, how much money was spent, and of how many budgets. What a lineage may
-- spend is spent of other budgets too.
SELECT calls, spent, budgets
FROM (
    SELECT CAST(coalesce(sum(calls), 0) AS bigint) AS calls
    FROM onceward_gate
    WHERE substr(name, 1, 1) NOT IN ('=', '#', '$')
) AS gate
CROSS JOIN (
    SELECT CAST(coalesce(sum(spent), 0) AS bigint) AS spent, count(*) AS budgets
    FROM onceward_budget
    WHERE unit = 'usd'
      AND name <> 'lineage'
) AS budget

-- name: samples_named
SELECT name, at, value
FROM onceward_sample
WHERE at >= :since
  AND name IN TEXTS :names
ORDER BY at
