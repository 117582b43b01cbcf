-- Places in line.

-- name: wait_until_due
-- A task that may run later.
INSERT INTO onceward_due (due_at, task, lane, band, rank)
ROWS (due_at bigint, task bigint, lane text, band smallint, rank bigint)
ON CONFLICT DO NOTHING

-- name: lanes_due_later
-- The lines of tasks that may run when their time comes; those that wait for something else do not count.
SELECT DISTINCT d.lane
FROM onceward_due d
JOIN onceward_task t ON t.id = d.task
WHERE t.status IN (0, 2)
  AND t.paused = 0

-- name: behind
-- Whether anybody stands behind a place that was thought to have nobody behind it.
SELECT 1
FROM onceward_ready
WHERE lane = :lane
  AND band = :band
  AND (rank, seq) <= (:rank, :seq)
LIMIT 1
