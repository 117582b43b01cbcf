-- Places in line.

-- name: wait_until_due
-- A task that may run later.
INSERT INTO onceward_due (due_at, task, lane, band, rank)
ROWS (due_at bigint, task bigint, lane text, band smallint, rank bigint)
ON CONFLICT DO NOTHING

-- name: lanes_due_later
-- The lines of tasks that may run when their time comes; those that wait for something else do not count. No join: it is
-- planned once for tables of any size, and must look up each task of the few, not read the many.
SELECT DISTINCT d.lane
FROM onceward_due d
WHERE (SELECT t.status IN (0, 2) AND t.paused = 0 FROM onceward_task t WHERE t.id = d.task)

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
-- The last mark of a line stays for ever: whoever stands in it must not fall behind it.
DELETE FROM onceward_mark
WHERE at < :before
  AND rank < (SELECT max(n.rank) FROM onceward_mark n WHERE n.lane = onceward_mark.lane AND n.band = onceward_mark.band)
