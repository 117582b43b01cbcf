-- Queries of the room reports as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: find_stuck
-- Running tasks whose worker has been silent for longer than its lease: by claim rows, as in kinds_running.
SELECT t.id
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
JOIN json_each(c.tasks) AS claimed
JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
WHERE w.stopped_at IS NULL
  AND w.beat_at + w.lease_ms < :now
ORDER BY t.id DESC

-- name: report_workers
-- The living workers, and how many tasks each holds.
SELECT w.id, w.name, w.host, w.pid, w.kinds, w.queues, w.lease_ms, w.started_at, w.beat_at, (
    SELECT count(*)
    FROM onceward_claim c
    JOIN json_each(c.tasks) AS claimed
    JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
    WHERE c.worker = w.id AND c.seq >= w.low_claim
), w.presence
FROM onceward_worker w
WHERE w.stopped_at IS NULL
ORDER BY w.id

-- name: search_running
-- What the claims of living workers hold: by claim rows, as in report_workers. CROSS JOIN keeps SQLite from making an
-- index of all tasks for it.
SELECT t.id
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN json_each(c.tasks) AS claimed
CROSS JOIN onceward_task t
WHERE t.id = claimed.value
  AND t.token = c.token
  AND w.stopped_at IS NULL
LIMIT :count

-- name: claims_after
-- How many tasks the newest claims have taken.
SELECT seq, at, json_array_length(tasks)
FROM onceward_claim
WHERE seq > :after
ORDER BY seq DESC
LIMIT :count
