-- Places in line.

-- name: wait_until_due
-- A task that may run later.
INSERT INTO onceward_due (due_at, task, lane, band, rank)
ROWS (due_at bigint, task bigint, lane text, band smallint, rank bigint)
ON CONFLICT DO NOTHING

-- name: signal_waits
-- For tests: tasks that wait for a signal.
SELECT id, waiting_for, due_at
FROM onceward_task
WHERE status = 3
  AND substr(waiting_for, 1, 7) = 'signal:'
ORDER BY id

-- name: due_besides_signals
-- For tests: a task that is due later without waiting for a signal, or a turn of a governed line.
SELECT 1
FROM onceward_due d
JOIN onceward_task t ON t.id = d.task
WHERE t.status <> 3
   OR substr(t.waiting_for, 1, 7) <> 'signal:'
UNION ALL
SELECT 1
FROM onceward_turn
LIMIT 1

-- name: lanes_due_later
-- The lines of tasks that may run when their time comes; those that wait for something else do not count. No join: it is
-- planned once for tables of any size, and must look up each task of the few, not read the many.
SELECT DISTINCT d.lane
FROM onceward_due d
WHERE (SELECT t.status IN (0, 2) AND t.paused = 0 FROM onceward_task t WHERE t.id = d.task)

-- name: due_before
-- Whether anything in these lines is due before a time.
SELECT 1
FROM onceward_due
WHERE due_at < :before
  AND lane IN TEXTS :lanes
LIMIT 1

-- name: behind
-- Whether anybody stands behind a place that was thought to have nobody behind it.
SELECT 1
FROM onceward_ready
WHERE lane = :lane
  AND band = :band
  AND (rank, seq) <= (:rank, :seq)
LIMIT 1

-- name: line_rank
-- Where in a line the claims have come to.
SELECT coalesce(max(rank), 0)
FROM onceward_mark
WHERE lane = :lane
  AND band = :band

-- name: insert_marks
INSERT INTO onceward_mark (lane, band, rank, at)
ROWS (lane text, band smallint, rank bigint, at bigint)
ON CONFLICT (lane, band, rank) DO NOTHING

-- name: forget_marks
-- The last mark of a line stays: whoever stands in it must not fall behind it.
DELETE FROM onceward_mark
WHERE at < :before
  AND rank < (SELECT max(n.rank) FROM onceward_mark n WHERE n.lane = onceward_mark.lane AND n.band = onceward_mark.band)

-- name: forget_lines
-- All marks of a governed line in which nobody stands and from which nothing was taken for long: there may be one for
-- every host of the world, and no reader remembers a place there any more.
DELETE FROM onceward_mark
WHERE at < :before
  AND lane LIKE :governed
  AND NOT EXISTS (SELECT 1 FROM onceward_ready r WHERE r.lane = onceward_mark.lane AND r.band = onceward_mark.band)
