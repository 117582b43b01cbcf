-- What the page of one task shows besides the task: its ancestors and children, and when its attempts began.

-- name: ancestors_of
-- The ancestors of a task, root first, as far as they are there.
WITH RECURSIVE up (id, parent) AS (
    SELECT id, parent FROM onceward_task WHERE id = :task
    UNION
    SELECT t.id, t.parent FROM up JOIN onceward_task t ON t.id = up.parent
)
SELECT t.id, t.kind
FROM up
JOIN onceward_task t ON t.id = up.id
WHERE t.id <> :task
ORDER BY t.depth
LIMIT :limit

-- name: children_of
-- The first children of a task.
SELECT id, kind, substr(coalesce(key, ''), 1, 1000), status, cost, reason
FROM onceward_task
WHERE parent = :task
ORDER BY id
LIMIT :limit

-- name: standing_of
-- What a task is in the middle of.
SELECT fence, worker, children, refusals, estimate
FROM onceward_task
WHERE id = :task

-- name: newest_events
-- The end of the log of a task, newest first.
SELECT a.id, a.run, a.fence, a.event, a.status, a.stage, a.worker, w.name, a.at, a.note, a.trace
FROM onceward_attempt a
LEFT JOIN onceward_worker w ON w.id = a.worker
WHERE a.task = :task
ORDER BY a.id DESC
LIMIT :limit

-- name: first_claim_since
-- The number of the first claim from a time on, searched for by halves: claims are numbered in the order of time.
WITH RECURSIVE halves (low, high) AS (
    SELECT (SELECT min(seq) FROM onceward_claim), (SELECT max(seq) FROM onceward_claim) + 1
    UNION ALL
    SELECT
        CASE
            WHEN (SELECT c.at FROM onceward_claim c WHERE c.seq >= (low + high) / 2 ORDER BY c.seq LIMIT 1) < :at
            THEN (low + high) / 2 + 1
            ELSE low
        END,
        CASE
            WHEN (SELECT c.at FROM onceward_claim c WHERE c.seq >= (low + high) / 2 ORDER BY c.seq LIMIT 1) < :at
            THEN high
            ELSE (low + high) / 2
        END
    FROM halves
    WHERE low < high
)
SELECT low
FROM halves
WHERE low >= high

-- name: claims_from
-- What a worker claimed from a number on.
SELECT at, tasks, fences
FROM onceward_claim
WHERE worker = :worker
  AND seq >= :seq
ORDER BY seq
LIMIT :limit
