-- The last hour, from the newest rows of the log, the claims and the lines: each by its numbers, and so many at most.

-- name: edges_of_log
-- The newest and the oldest row, when the last of the newest rows was written, and the row at which a look-back stands.
SELECT (SELECT max(id) FROM onceward_attempt), (SELECT min(id) FROM onceward_attempt), (
    SELECT a.at
    FROM onceward_attempt a
    WHERE a.id > (SELECT max(id) FROM onceward_attempt) - :most
    ORDER BY a.id
    LIMIT 1
), (
    SELECT a.at
    FROM onceward_attempt a
    WHERE a.id >= :oldest
    ORDER BY a.id
    LIMIT 1
)

-- name: ended_between
-- What has ended tasks, of two stretches of the log: its newest rows, and older ones.
SELECT a.id, a.task, a.status, a.at, t.kind, t.lineage, t.cost, t.created_at, t.due_at, t.started_at, t.fence
FROM (
    SELECT id, task, status, at
    FROM onceward_attempt
    WHERE id > :after
      AND id <= :upto
      AND status >= #ended
      AND event IN (3, 9, 10, 14, 19)
    UNION ALL
    SELECT id, task, status, at
    FROM onceward_attempt
    WHERE id >= :back
      AND id < :oldest
      AND status >= #ended
      AND event IN (3, 9, 10, 14, 19)
) AS a
JOIN onceward_task t ON t.id = a.task

-- name: heads_of_lines_since
-- Since when the first of every line has stood there. Goes from line to line by the index: a line may be very long.
WITH RECURSIVE line (lane) AS (
    SELECT min(lane) FROM onceward_ready
    UNION ALL
    SELECT (SELECT min(r.lane) FROM onceward_ready r WHERE r.lane > line.lane) FROM line WHERE line.lane IS NOT NULL
)
SELECT (
    SELECT r.at
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
