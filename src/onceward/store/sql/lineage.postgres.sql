-- Queries of the room lineage as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: reserve_room
-- Reserve room for this many more tasks, or for as many as the limit allows. Rows are locked in order first.
WITH asked (id, wanted) AS (
    ROWS (id uuid, wanted bigint)
), locked AS (
    SELECT l.id, asked.wanted
    FROM onceward_lineage l
    JOIN asked ON asked.id = l.id
    ORDER BY l.id
    FOR UPDATE OF l
)
UPDATE onceward_lineage l
SET granted = least(locked.wanted, greatest(0, l.max_tasks - l.tasks)),
    tasks = l.tasks + least(locked.wanted, greatest(0, l.max_tasks - l.tasks))
FROM locked
WHERE l.id = locked.id
RETURNING l.id, l.root, l.granted, l.max_depth, l.max_children, l.max_tasks, l.deadline_at, l.created_at, l.overdue

-- name: return_room
WITH asked (id, unused) AS (
    ROWS (id uuid, unused bigint)
)
UPDATE onceward_lineage l
SET tasks = l.tasks - asked.unused
FROM asked
WHERE l.id = asked.id

-- name: take_root_identities
-- Take identities of one scope, in order, as take_identities.
INSERT INTO onceward_identity (scope, hash, task)
SELECT :scope, t.hash, t.task
FROM unnest(:hashes::bytea[], :tasks::bigint[]) AS t (hash, task)
ON CONFLICT (scope, hash) DO UPDATE SET task = onceward_identity.task
RETURNING hash, task

-- name: changes_so_far
-- Nothing: take_free_identities returns the holders that it met.

-- name: take_free_identities
-- Take identities; a task that has one keeps it and is returned. A conflict locks the row, so that its holder cannot
-- change until this transaction ends.
WITH given (scope, hash, task) AS (
    ROWS (scope bytea, hash bytea, task bigint)
), held AS (
    INSERT INTO onceward_identity (scope, hash, task)
    SELECT scope, hash, task
    FROM given
    ON CONFLICT (scope, hash) DO UPDATE SET task = onceward_identity.task
    RETURNING scope, hash, task
)
SELECT held.scope, held.hash, held.task
FROM held
JOIN given ON given.scope = held.scope AND given.hash = held.hash
WHERE held.task <> given.task

-- name: identities_met
-- Nothing, likewise.

-- name: insert_children
INSERT INTO onceward_task (created_at, id, kind, version, queue, band, key, identity, payload, payload_blob, lineage, parent,
    depth, batch, due_at, ancestry, limits, scopes, touched, gates, estimate)
OVERRIDING SYSTEM VALUE
ROWS (same created_at bigint, id bigint, kind text, version integer, queue text, band smallint, key text, identity bytea,
      payload bytea, payload_blob bytea, lineage uuid, parent bigint, depth smallint, batch bigint, due_at bigint,
      ancestry bytea, limits bytea, scopes bytea, touched smallint, gates text, estimate bigint)

-- name: insert_alike
-- Insert children that share most values, which are sent once.
INSERT INTO onceward_task (created_at, kind, version, queue, band, due_at, gates, estimate, lineage, parent, depth, batch,
    ancestry, limits, scopes, id, key, identity, payload, payload_blob)
OVERRIDING SYSTEM VALUE
SELECT :created_at::bigint, :kind::text, :version::integer, :queue::text, :band::smallint, :due_at::bigint, :gates::text,
    :estimate::bigint, :lineage::uuid, :parent::bigint, :depth::smallint, :batch::bigint, :ancestry::bytea, :limits::bytea,
    :scopes::bytea, given.id, given.key, given.identity, CASE WHEN given.in_blob IS NULL THEN given.payload END,
    CASE WHEN given.in_blob = 1 THEN given.payload END
FROM unnest(:ids::bigint[], :keys::text[], :identities::bytea[], :payloads::bytea[], :in_blob::bigint[])
    AS given (id, key, identity, payload, in_blob)

-- name: count_family
WITH asked (task, children, members, refusals) AS (
    ROWS (task bigint, children bigint, members bigint, refusals bigint)
)
UPDATE onceward_task t
SET children = t.children + asked.children, members = t.members + asked.members,
    refusals = t.refusals + asked.refusals
FROM asked
WHERE t.id = asked.task

-- name: lock_links
-- One transaction at a time, because two links may close a circle that neither closes alone. The number is "links" in
-- ASCII.
SELECT pg_advisory_xact_lock(465658373991)

-- name: lock_limits
-- One transaction at a time, because one that raises a limit of a lineage writes the other limits as it has read them.
-- The number is "limits" in ASCII.
SELECT pg_advisory_xact_lock(119200062993523)

-- name: tasks_waiting_for
-- All tasks that wait, or may come to wait, for a task, directly or through others. They are its ancestors, the tasks
-- linked to it and the tasks that follow its batches (also failed ones: opened again, they wait again). A batch stands
-- as the negative of its number. Row by row, because a join with the union of the tables would scan them.
WITH RECURSIVE waiting (id) AS (
    SELECT id
    FROM onceward_task
    WHERE id = :task
    UNION
    SELECT edge.parent
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT t.parent
        FROM onceward_task t
        WHERE t.id = waiting.id
          AND t.parent IS NOT NULL
        UNION ALL
        SELECT l.parent
        FROM onceward_link l
        WHERE l.child = waiting.id
        UNION ALL
        SELECT -t.batch
        FROM onceward_task t
        WHERE t.id = waiting.id
          AND t.batch IS NOT NULL
        UNION ALL
        SELECT -b.inside
        FROM onceward_batch b
        WHERE b.id = -waiting.id
          AND b.inside IS NOT NULL
        UNION ALL
        SELECT b.then_task
        FROM onceward_batch b
        JOIN onceward_task t ON t.id = b.then_task
        WHERE b.id = -waiting.id
          AND (t.waiting_for = 'batch:' || b.name OR (t.status = #failed AND b.status = #batch_open))
    ) AS edge
)
SELECT id
FROM waiting

-- name: open_holders
-- The open tasks that have one of these identities.
SELECT DISTINCT t.id
FROM unnest(:scopes::bytea[], :hashes::bytea[]) AS given (scope, hash)
JOIN onceward_identity AS i ON i.scope = given.scope AND i.hash = given.hash
JOIN onceward_task AS t ON t.id = i.task
WHERE t.status < #ended

-- name: lock_tasks
-- Lock tasks in the order of all locks (decision 46): waiting tasks last, and of these the newest first. A transaction
-- that ends a task then locks the tasks that wait for it.
SELECT id
FROM onceward_task
WHERE id IN :ids
ORDER BY status = #waiting, CASE WHEN status = #waiting THEN -id ELSE id END
FOR UPDATE

-- name: lock_parents
-- Lock the parents that wait for ended tasks. In a statement of its own: later reads then see all children that other
-- transactions have ended before.
SELECT id
FROM onceward_task
WHERE id IN (SELECT parent FROM onceward_join WHERE child IN :ids)
ORDER BY id DESC
FOR UPDATE

-- name: count_batches
-- Count tasks of batches that were added, have ended or are open again (a negative end). Rows are locked in order
-- first, the newest first. An ended batch stays as it ended.
WITH changed (id, added, succeeded, filtered, skipped, failed, cancelled) AS (
    ROWS (id bigint, added bigint, succeeded bigint, filtered bigint, skipped bigint, failed bigint, cancelled bigint)
), locked AS (
    SELECT b.id, c.added, c.succeeded, c.filtered, c.skipped, c.failed, c.cancelled
    FROM onceward_batch b
    JOIN changed c ON c.id = b.id
    ORDER BY b.id DESC
    FOR UPDATE OF b
)
UPDATE onceward_batch b
SET total = b.total + c.added,
    open = b.open + c.added - c.succeeded - c.filtered - c.skipped - c.failed - c.cancelled,
    succeeded = b.succeeded + c.succeeded,
    filtered = b.filtered + c.filtered,
    skipped = b.skipped + c.skipped,
    failed = b.failed + c.failed,
    cancelled = b.cancelled + c.cancelled
FROM locked c
WHERE b.id = c.id
  AND b.status = #batch_open
RETURNING b.id, b.open

-- name: lock_standing
-- Locked, because the status of a task before it is opened again is counted.
SELECT batch, status
FROM onceward_task
WHERE id = :task
FOR UPDATE

-- name: park_new
-- Park new children that wait for an operator from the start.
WITH asked (waiting_for, due_at, task, reason) AS (
    ROWS (same waiting_for text, same due_at bigint, task bigint, reason text)
)
UPDATE onceward_task t
SET status = #waiting, waiting_for = asked.waiting_for, due_at = asked.due_at, reason = asked.reason
FROM asked
WHERE t.id = asked.task

-- name: advance_ranks
-- Advance the next ranks of lineages, from at least the mark in the line of most of their tasks (decision 29).
WITH asked (id, lane, band, count) AS (
    ROWS (id uuid, lane text, band smallint, count bigint)
)
UPDATE onceward_lineage l
SET next_rank = asked.count + greatest(
    l.next_rank,
    coalesce((SELECT max(m.rank) FROM onceward_mark m WHERE m.lane = asked.lane AND m.band = asked.band), 0)
)
FROM asked
WHERE l.id = asked.id
RETURNING l.id, l.next_rank
