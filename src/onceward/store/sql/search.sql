-- Filtered lists of tasks, newest first. A source names tasks by an index or by a stretch of ids, the two queries that
-- follow it leave out what does not fit. A list that holds NULL alone is no condition: nothing is known to be in it.

-- name: search_stretch
-- The newest id below one, when the last task of a stretch that begins there was made, and the oldest id of all.
SELECT top.id, (
    SELECT t.created_at
    FROM onceward_task t
    WHERE t.id > top.id - :rows
    ORDER BY t.id
    LIMIT 1
), (SELECT min(id) FROM onceward_task)
FROM (
    SELECT max(id) AS id
    FROM onceward_task
    WHERE id < :before
) AS top

-- name: made_at
SELECT created_at
FROM onceward_task
WHERE id >= :id
ORDER BY id
LIMIT 1

-- name: search_range
SELECT t.id
FROM onceward_task t
WHERE t.id < :before
  AND t.id >= :floor
  AND t.status IN :statuses
  AND (t.kind IN TEXTS :kinds) IS NOT FALSE
  AND NOT (t.kind IN TEXTS :not_kinds)
  AND (t.queue IN TEXTS :queues) IS NOT FALSE
  AND NOT (t.queue IN TEXTS :not_queues)
  AND (coalesce(t.stage, '') IN TEXTS :stages) IS NOT FALSE
  AND NOT (coalesce(t.stage, '') IN TEXTS :not_stages)
  AND t.depth BETWEEN CAST(:depth_least AS bigint) AND CAST(:depth_most AS bigint)
  AND t.fence BETWEEN CAST(:attempts_least AS bigint) AND CAST(:attempts_most AS bigint)
  AND t.cost BETWEEN :cost_least AND :cost_most
  AND t.created_at BETWEEN :created_least AND :created_most
  AND coalesce(t.ended_at, -1) BETWEEN :ended_least AND :ended_most
  AND t.paused BETWEEN CAST(:paused_least AS bigint) AND CAST(:paused_most AS bigint)
ORDER BY t.id DESC
LIMIT :count

-- name: search_among
SELECT t.id
FROM onceward_task t
WHERE t.id IN :ids
  AND t.status IN :statuses
  AND (t.kind IN TEXTS :kinds) IS NOT FALSE
  AND NOT (t.kind IN TEXTS :not_kinds)
  AND (t.queue IN TEXTS :queues) IS NOT FALSE
  AND NOT (t.queue IN TEXTS :not_queues)
  AND (coalesce(t.stage, '') IN TEXTS :stages) IS NOT FALSE
  AND NOT (coalesce(t.stage, '') IN TEXTS :not_stages)
  AND t.depth BETWEEN CAST(:depth_least AS bigint) AND CAST(:depth_most AS bigint)
  AND t.fence BETWEEN CAST(:attempts_least AS bigint) AND CAST(:attempts_most AS bigint)
  AND t.cost BETWEEN :cost_least AND :cost_most
  AND t.created_at BETWEEN :created_least AND :created_most
  AND coalesce(t.ended_at, -1) BETWEEN :ended_least AND :ended_most
  AND t.paused BETWEEN CAST(:paused_least AS bigint) AND CAST(:paused_most AS bigint)
ORDER BY t.id DESC

-- name: search_facts
-- What is compared in Python; a large payload is left out.
SELECT t.id, t.kind, t.key, t.status, t.stage, t.queue, t.lineage, t.parent, t.batch, t.depth, t.fence, t.cost,
    t.created_at, t.ended_at, t.reason, t.waiting_for, t.paused,
    CASE WHEN :with_payload = 1 THEN coalesce(t.payload, (
        SELECT b.data
        FROM onceward_blob b
        WHERE b.hash = t.payload_blob
          AND length(b.data) <= :largest
    )) END
FROM onceward_task t
WHERE t.id IN :ids
ORDER BY t.id DESC

-- name: search_in_lineage
SELECT id
FROM onceward_task
WHERE lineage = :lineage
  AND id < :before
ORDER BY id DESC
LIMIT :count

-- name: search_in_batch
SELECT id
FROM onceward_task
WHERE batch = :batch
  AND id < :before
ORDER BY id DESC
LIMIT :count

-- name: search_children
SELECT id
FROM onceward_task
WHERE parent = :parent
  AND id < :before
ORDER BY id DESC
LIMIT :count

-- name: search_identity
-- Tasks with a key of their own.
SELECT id
FROM onceward_task
WHERE identity = :identity
  AND key IS NOT NULL
  AND id < :before
ORDER BY id DESC
LIMIT :count

-- name: search_ended
-- Tasks that have come to an end other than success, by their log; some were opened again since.
SELECT DISTINCT task
FROM onceward_attempt
WHERE status = :status
  AND status > #succeeded
  AND task < :before
ORDER BY task DESC
LIMIT :count

-- name: search_waiting
SELECT id
FROM onceward_task
WHERE waiting_for IS NOT NULL
ORDER BY waiting_for, kind
LIMIT :count

-- name: search_ready
-- Tasks that have a place in line.
SELECT task
FROM onceward_ready
LIMIT :count

-- name: search_due
-- Tasks that may run later.
SELECT task
FROM onceward_due
LIMIT :count

-- name: search_paused
-- Tasks that were paused with their lineage: a claim may have taken their places away.
SELECT id
FROM onceward_task
WHERE paused > 0
ORDER BY id DESC
LIMIT :count

-- name: batches_named
SELECT name, id
FROM onceward_batch
WHERE name IN TEXTS :names

-- name: lineages_of
SELECT id, lineage
FROM onceward_task
WHERE id IN :ids

-- name: kinds_of_workers
-- Every kind that a worker has known.
SELECT DISTINCT kinds
FROM onceward_worker

-- name: kinds_of_tasks
-- The kinds of the newest tasks, and of the oldest.
SELECT kind
FROM (SELECT kind FROM onceward_task ORDER BY id DESC LIMIT 1000) AS newest
UNION
SELECT kind
FROM (SELECT kind FROM onceward_task ORDER BY id LIMIT 1000) AS oldest
