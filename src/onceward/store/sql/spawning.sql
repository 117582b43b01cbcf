-- The spawn guard: room, identities, links and refusals. Constraints and counters decide, never a read that came before.

-- name: spawning_tasks
-- Spawning tasks as they stand, whether they have spawned before, and whether their lineage has aliases.
SELECT id, identity, ancestry, limits, scopes, depth, children - members, refusals, batch, paused,
    CASE
        WHEN children > 0 OR refusals > 0 OR EXISTS (SELECT 1 FROM onceward_link l WHERE l.parent = onceward_task.id)
        THEN 1 ELSE 0
    END,
    CASE WHEN EXISTS (SELECT 1 FROM onceward_alias a WHERE a.lineage = onceward_task.lineage) THEN 1 ELSE 0 END
FROM onceward_task
WHERE id IN :ids

-- name: open_lineages
-- The row of a lineage, made when its root first spawns; the root itself is counted.
INSERT INTO onceward_lineage (id, root, max_depth, max_tasks, max_children, deadline_at, tasks, created_at)
ROWS (id uuid, root bigint, max_depth integer, max_tasks bigint, max_children bigint, deadline_at bigint, tasks bigint,
      created_at bigint)
ON CONFLICT (id) DO NOTHING

-- name: take_identities
-- Takes free identities and returns the holder of each, ours or another. A conflict locks the row, so that the state of
-- its holder cannot change under us.
INSERT INTO onceward_identity (scope, hash, task)
ROWS (scope bytea, hash bytea, task bigint)
ON CONFLICT (scope, hash) DO UPDATE SET task = onceward_identity.task
RETURNING scope, hash, task

-- name: take_over_identities
-- A holder that was cancelled, or is long over, gives way.
INSERT INTO onceward_identity (scope, hash, task)
ROWS (scope bytea, hash bytea, task bigint)
ON CONFLICT (scope, hash) DO UPDATE SET task = excluded.task

-- name: drop_identities
-- What was taken for a task that does not come to be.
DELETE FROM onceward_identity
WHERE (scope, hash, task) IN (ROWS (scope bytea, hash bytea, task bigint))

-- name: identities_of
-- All identities of a task; for an alias also the scopes in which it holds it.
SELECT lineage, identity, NULL, NULL
FROM onceward_task
WHERE id = :task
UNION ALL
SELECT t.lineage, a.identity, a.here, a.everywhere
FROM onceward_task t
JOIN onceward_alias a ON a.task = t.id
WHERE t.id = :task

-- name: insert_aliases
-- Stores aliases; a repeated alias updates the scopes in which it is held.
INSERT INTO onceward_alias (task, identity, key, lineage, here, everywhere)
ROWS (task bigint, identity bytea, key text, lineage uuid, here smallint, everywhere smallint)
ON CONFLICT (task, identity) DO UPDATE
SET key = excluded.key, here = excluded.here, everywhere = excluded.everywhere

-- name: aliases_of
SELECT task, identity, key
FROM onceward_alias
WHERE task IN :ids

-- name: hold_identities
-- Locks identities and returns the holders of those that exist.
UPDATE onceward_identity
SET task = task
WHERE (scope, hash) IN (ROWS (scope bytea, hash bytea))
RETURNING scope, hash, task

-- name: holders
SELECT id, parent, status, ended_at, identity
FROM onceward_task
WHERE id IN :ids

-- name: own_children
-- Children with an identity, unless they were cancelled: a repeated request means the same child. `parent IS NOT NULL`
-- is repeated because the index of parents holds no other rows.
SELECT parent, identity, id
FROM onceward_task
WHERE (parent, identity) IN (ROWS (parent bigint, identity bytea))
  AND parent IS NOT NULL
  AND status <> #cancelled
ORDER BY id

-- name: parked_children
-- Log notes of children that wait for approval since they were made. 6 is “parked”.
SELECT a.note
FROM onceward_task c
JOIN onceward_attempt a ON a.task = c.id
WHERE c.parent = :task
  AND a.fence = 0
  AND a.event = 6

-- name: insert_links
-- With the identity that was asked for, where it is an alias of the child.
INSERT INTO onceward_link (parent, child, stage, identity, at)
ROWS (parent bigint, child bigint, stage text, identity bytea, at bigint)
ON CONFLICT (parent, child) DO NOTHING

-- name: insert_refusals
INSERT INTO onceward_refusal (lineage, parent, stage, kind, key, identity, rule, reason, ancestor, existing, at)
ROWS (lineage uuid, parent bigint, stage text, kind text, key text, identity bytea, rule text, reason text,
      ancestor bigint, existing bigint, at bigint)

-- name: read_children
-- Children of tasks (1) and tasks linked instead of children, oldest first. A linked task comes once by the requested
-- key (0), and once by each of its other keys (2).
SELECT c.parent, c.id, c.identity, c.kind, c.key, c.status, c.reason, 1
FROM onceward_task c
WHERE c.parent IN :ids
UNION ALL
SELECT l.parent, c.id, c.identity, c.kind, c.key, c.status, c.reason, CASE WHEN l.identity IS NULL THEN 0 ELSE 2 END
FROM onceward_link l
JOIN onceward_task c ON c.id = l.child
WHERE l.parent IN :ids
UNION ALL
SELECT l.parent, c.id, a.identity, c.kind, a.key, c.status, c.reason, CASE WHEN a.identity = l.identity THEN 0 ELSE 2 END
FROM onceward_link l
JOIN onceward_alias a ON a.task = l.child
JOIN onceward_task c ON c.id = l.child
WHERE l.parent IN :ids
ORDER BY 2

-- name: read_refusals
SELECT parent, existing, identity, kind, key, rule, reason
FROM onceward_refusal
WHERE parent IN :ids
ORDER BY id

-- name: read_last_results
-- Results of succeeded tasks: of the stage in which each ended.
SELECT t.id, coalesce(c.value, b.data)
FROM onceward_task t
JOIN onceward_checkpoint c ON c.task = t.id AND c.run = t.run AND c.stage = t.stage AND c.part = ''
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE t.id IN :ids
  AND t.status = #succeeded

-- name: last_wait
-- The last event of a task among parked (6), woken (12) and reopened (15). `id + 0` keeps the planner from scanning the
-- log backwards from its end.
SELECT event, note
FROM onceward_attempt
WHERE id = (SELECT max(id + 0) FROM onceward_attempt WHERE task = :task AND event IN (6, 12, 15))

-- name: child_ids
-- Children and linked tasks of a joining task, open or ended.
SELECT id
FROM onceward_task
WHERE parent = :task
UNION
SELECT child
FROM onceward_link
WHERE parent = :task

-- name: await_children
-- Marks open children as awaited and returns them. The lock waits for a child that is ending, which is then left out.
UPDATE onceward_task
SET awaited = 1
WHERE id IN :ids
  AND status IN #open
RETURNING id

-- name: insert_joins
INSERT INTO onceward_join (child, parent)
ROWS (child bigint, parent bigint)
ON CONFLICT (child, parent) DO NOTHING

-- name: end_joins
DELETE FROM onceward_join
WHERE child IN :ids
RETURNING parent

-- name: still_joined
-- Parents that still wait for a child; read after their rows were locked.
SELECT DISTINCT parent
FROM onceward_join
WHERE parent IN :ids

-- name: forget_joins
DELETE FROM onceward_join
WHERE parent IN :ids
