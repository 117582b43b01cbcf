-- Places in line.

-- name: wait_until_due
-- Put tasks into the waiting room until they are due.
INSERT INTO onceward_due (due_at, task, lane, band, rank)
ROWS (due_at bigint, task bigint, lane text, band smallint, rank bigint)
ON CONFLICT DO NOTHING

-- name: signal_waits
-- For tests: tasks that wait for a signal.
SELECT id, waiting_for, due_at
FROM onceward_task
WHERE status = #waiting
  AND substr(waiting_for, 1, 7) = 'signal:'
ORDER BY id

-- name: due_besides_signals
-- For tests: a task that is due later and waits for no signal, or a turn of a governed line.
SELECT 1
FROM onceward_due d
JOIN onceward_task t ON t.id = d.task
WHERE t.status <> #waiting
   OR substr(t.waiting_for, 1, 7) <> 'signal:'
UNION ALL
SELECT 1
FROM onceward_turn
LIMIT 1

-- name: lanes_due_later
-- The lines of tasks that time alone brings back in line. No join: the plan is made once for tables of any size, and
-- must look up each due task, not scan the tasks.
SELECT DISTINCT d.lane
FROM onceward_due d
WHERE (SELECT t.status IN #startable AND t.paused = 0 FROM onceward_task t WHERE t.id = d.task)

-- name: due_before
-- Whether anything in these lines is due before a time.
SELECT 1
FROM onceward_due
WHERE due_at < :before
  AND lane IN TEXTS :lanes
LIMIT 1

-- name: rows_behind
-- Whether a row stands behind a floor, where no row should be.
SELECT 1
FROM onceward_ready
WHERE lane = :lane
  AND band = :band
  AND (rank, seq) <= (:rank, :seq)
LIMIT 1

-- name: line_rank
-- The highest mark of a line: how far claims have come in it.
SELECT coalesce(max(rank), 0)
FROM onceward_mark
WHERE lane = :lane
  AND band = :band

-- name: insert_marks
INSERT INTO onceward_mark (lane, band, rank, at)
ROWS (lane text, band smallint, rank bigint, at bigint)
ON CONFLICT (lane, band, rank) DO NOTHING

-- name: forget_marks
-- Delete old marks, but never the last one of a line: new tasks must not stand further ahead than that.
DELETE FROM onceward_mark
WHERE at < :before
  AND rank < (SELECT max(n.rank) FROM onceward_mark n WHERE n.lane = onceward_mark.lane AND n.band = onceward_mark.band)

-- name: forget_lines
-- Delete all marks of governed lines that are empty and were not taken from for long. There may be a line for every
-- host, and no worker remembers a place there any more.
DELETE FROM onceward_mark
WHERE at < :before
  AND lane LIKE :governed
  AND NOT EXISTS (SELECT 1 FROM onceward_ready r WHERE r.lane = onceward_mark.lane AND r.band = onceward_mark.band)
