-- Queries of the room lineage as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: reserve_room
-- Reserve room for this many more tasks, or for as many as the limit allows.
UPDATE onceward_lineage
SET granted = min(asked.column2, max(0, max_tasks - tasks)),
    tasks = tasks + min(asked.column2, max(0, max_tasks - tasks))
FROM (ROWS (id uuid, wanted bigint)) AS asked
WHERE onceward_lineage.id = asked.column1
RETURNING id, root, granted, max_depth, max_children, max_tasks, deadline_at, created_at, overdue

-- name: return_room
UPDATE onceward_lineage
SET tasks = tasks - asked.column2
FROM (ROWS (id uuid, unused bigint)) AS asked
WHERE onceward_lineage.id = asked.column1

-- name: take_root_identities
-- Nothing: one writer at a time needs no order.

-- name: changes_so_far
-- How many rows this connection has written: it tells whether take_free_identities met a holder. RETURNING would store
-- the rows on the way.
SELECT total_changes()

-- name: take_free_identities
-- Take identities; a task that has one keeps it.
INSERT INTO onceward_identity (scope, hash, task)
ROWS (scope bytea, hash bytea, task bigint)
ON CONFLICT (scope, hash) DO NOTHING

-- name: identities_met
-- The tasks that have these identities instead. Byte strings come joined in one blob.
SELECT i.scope, i.hash, i.task
FROM json_each(:tasks) AS given
CROSS JOIN onceward_identity AS i
    ON i.scope = substr(:scopes, 16 * given.key + 1, 16) AND i.hash = substr(:hashes, 16 * given.key + 1, 16)
WHERE i.task <> given.value

-- name: insert_children
INSERT INTO onceward_task (created_at, id, kind, version, queue, band, key, identity, payload, payload_blob, lineage, parent,
    depth, batch, due_at, ancestry, limits, scopes, touched, gates, estimate)
ROWS (same created_at bigint, id bigint, kind text, version integer, queue text, band smallint, key text, identity bytea,
      payload bytea, payload_blob bytea, lineage uuid, parent bigint, depth smallint, batch bigint, due_at bigint,
      ancestry bytea, limits bytea, scopes bytea, touched smallint, gates text, estimate bigint)

-- name: insert_alike
-- Insert children that share most values, which are sent once. Byte strings and rows come as in insert_tasks.
INSERT INTO onceward_task (created_at, kind, version, queue, band, due_at, gates, estimate, lineage, parent, depth, batch,
    ancestry, limits, scopes, id, key, identity, payload, payload_blob)
SELECT :created_at, :kind, :version, :queue, :band, :due_at, :gates, :estimate, :lineage, :parent, :depth, :batch,
    :ancestry, :limits, :scopes, :first + (given.value >> 38), CASE WHEN :keys IS NOT NULL THEN given.key END,
    substr(:identities, 16 * given.rowid + 1, 16),
    CASE WHEN :in_blob IS NULL OR given.value & 1 = 0
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END,
    CASE WHEN :in_blob IS NOT NULL AND given.value & 1 = 1
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END
FROM json_each(:rows) AS given

-- name: count_family
UPDATE onceward_task
SET children = children + asked.column2, members = members + asked.column3, refusals = refusals + asked.column4
FROM (ROWS (task bigint, children bigint, members bigint, refusals bigint)) AS asked
WHERE onceward_task.id = asked.column1

-- name: lock_links
-- Nothing: the transaction already is the only writer.

-- name: lock_limits
-- Nothing: the transaction already is the only writer.

-- name: tasks_waiting_for
-- All tasks that wait, or may come to wait, for a task, directly or through others. They are its ancestors, the tasks
-- linked to it and the tasks that follow its batches (also failed ones: opened again, they wait again). A batch stands
-- as the negative of its number. One step per table, because a join with their union would scan them.
WITH RECURSIVE waiting (id) AS (
    SELECT id
    FROM onceward_task
    WHERE id = :task
    UNION
    SELECT t.parent
    FROM waiting
    JOIN onceward_task t ON t.id = waiting.id
    WHERE t.parent IS NOT NULL
    UNION
    SELECT l.parent
    FROM waiting
    JOIN onceward_link l ON l.child = waiting.id
    UNION
    SELECT -t.batch
    FROM waiting
    JOIN onceward_task t ON t.id = waiting.id
    WHERE t.batch IS NOT NULL
    UNION
    SELECT -b.inside
    FROM waiting
    JOIN onceward_batch b ON b.id = -waiting.id
    WHERE b.inside IS NOT NULL
    UNION
    SELECT b.then_task
    FROM waiting
    JOIN onceward_batch b ON b.id = -waiting.id
    JOIN onceward_task t ON t.id = b.then_task
    WHERE t.waiting_for = 'batch:' || b.name
       OR (t.status = #failed AND b.status = #batch_open)
)
SELECT id
FROM waiting

-- name: open_holders
-- Nothing to lock: there is one writer.

-- name: lock_tasks
-- Nothing to lock: there is one writer.

-- name: lock_parents
-- Nothing to lock, likewise.

-- name: count_batches
-- Count tasks of batches that were added, have ended or are open again (a negative end). An ended batch stays as it
-- ended.
UPDATE onceward_batch
SET total = total + c.column2,
    open = open + c.column2 - c.column3 - c.column4 - c.column5 - c.column6 - c.column7,
    succeeded = succeeded + c.column3,
    filtered = filtered + c.column4,
    skipped = skipped + c.column5,
    failed = failed + c.column6,
    cancelled = cancelled + c.column7
FROM (ROWS (id bigint, added bigint, succeeded bigint, filtered bigint, skipped bigint, failed bigint,
            cancelled bigint)) AS c
WHERE onceward_batch.id = c.column1
  AND status = #batch_open
RETURNING id, open

-- name: lock_standing
-- Nothing to lock: there is one writer.
SELECT batch, status
FROM onceward_task
WHERE id = :task

-- name: park_new
-- Park new children that wait for an operator from the start.
UPDATE onceward_task
SET status = #waiting, waiting_for = asked.column1, due_at = asked.column2, reason = asked.column4
FROM (ROWS (same waiting_for text, same due_at bigint, task bigint, reason text)) AS asked
WHERE onceward_task.id = asked.column3

-- name: advance_ranks
-- Advance the next ranks of lineages, from at least the mark in the line of most of their tasks (decision 29).
UPDATE onceward_lineage
SET next_rank = asked.column4 + max(
    next_rank, coalesce((SELECT max(rank) FROM onceward_mark WHERE lane = asked.column2 AND band = asked.column3), 0)
)
FROM (ROWS (id uuid, lane text, band smallint, count bigint)) AS asked
WHERE onceward_lineage.id = asked.column1
RETURNING id, next_rank
