-- The spawn guard: room, identities, links and refusals. Constraints and counters decide, never a read that came before.

-- name: spawning_tasks
-- Those who ask for children, as they stand, whether they have asked for any before, and whether anybody of their lineage
-- has aliases.
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
-- Whoever has an identity keeps it: the holder comes back, ours or another. A conflict locks the row, so that what is
-- then read of its holder stays true for us.
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
-- All that a task goes by; for an alias also where it has got that identity.
SELECT lineage, identity, NULL, NULL
FROM onceward_task
WHERE id = :task
UNION ALL
SELECT t.lineage, a.identity, a.here, a.everywhere
FROM onceward_task t
JOIN onceward_alias a ON a.task = t.id
WHERE t.id = :task

-- name: insert_aliases
-- Given again it may have been got since.
INSERT INTO onceward_alias (task, identity, key, lineage, here, everywhere)
ROWS (task bigint, identity bytea, key text, lineage uuid, here smallint, everywhere smallint)
ON CONFLICT (task, identity) DO UPDATE
SET key = excluded.key, here = excluded.here, everywhere = excluded.everywhere

-- name: aliases_of
SELECT task, identity, key
FROM onceward_alias
WHERE task IN :ids

-- name: hold_identities
-- Who has these identities, where somebody has; nobody can take them over while we look.
UPDATE onceward_identity
SET task = task
WHERE (scope, hash) IN (ROWS (scope bytea, hash bytea))
RETURNING scope, hash, task

-- name: holders
SELECT id, parent, status, ended_at, identity
FROM onceward_task
WHERE id IN :ids

-- name: own_children
-- Children of tasks that are this work, unless they were cancelled: asked for again, they are the same children. That they
-- have a parent is said once more, because the index of parents has no others.
SELECT parent, identity, id
FROM onceward_task
WHERE (parent, identity) IN (ROWS (parent bigint, identity bytea))
  AND parent IS NOT NULL
  AND status <> #cancelled
ORDER BY id

-- name: parked_children
-- What the log says of the children of a task that were made to wait for approval. 6 is “parked”.
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
-- What has become of the children of tasks, and of those they were linked to, the oldest first. Whoever was linked to is
-- found by all its keys: as it was asked for (0), and once more by every other one (2).
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
-- What succeeded tasks have returned: the result of the stage at which each of them ended.
SELECT t.id, coalesce(c.value, b.data)
FROM onceward_task t
JOIN onceward_checkpoint c ON c.task = t.id AND c.run = t.run AND c.stage = t.stage AND c.part = ''
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE t.id IN :ids
  AND t.status = #succeeded

-- name: last_wait
-- Whether a task waited when it was heard of last (6, parked), or had been woken (12) or opened again (15) since. By a
-- sum, so that nobody looks for the largest id from the end of the log on.
SELECT event, note
FROM onceward_attempt
WHERE id = (SELECT max(id + 0) FROM onceward_attempt WHERE task = :task AND event IN (6, 12, 15))

-- name: child_ids
-- Whom a task that joins has to wait for, whether they have ended or not.
SELECT id
FROM onceward_task
WHERE parent = :task
UNION
SELECT child
FROM onceward_link
WHERE parent = :task

-- name: await_children
-- A task is about to wait for these. Whoever of them is ending just now is waited for here, and then not among them.
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
-- Which of these still wait for somebody. Asked after their rows were locked.
SELECT DISTINCT parent
FROM onceward_join
WHERE parent IN :ids

-- name: forget_joins
DELETE FROM onceward_join
WHERE parent IN :ids
