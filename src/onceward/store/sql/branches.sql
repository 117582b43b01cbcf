-- Lineages as the pages draw them: all tasks in a few columns each, and more of the ones that are drawn.

-- name: branches_of_lineage
-- Oldest first: a parent is read before its children. A part of a lineage is given as in lineages.sql.
SELECT t.id, t.parent, t.depth, t.kind, t.status, t.refusals, t.paused, t.cost, t.created_at, t.started_at, t.ended_at,
    CASE WHEN t.status = #waiting AND t.waiting_for = 'signal:approved' THEN 1 ELSE 0 END
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id >= :task
  AND (:whole = 1 OR t.id = :task OR substr(t.ancestry, :offset, 8) = :mark)
ORDER BY t.id
LIMIT :limit

-- name: drawn_branches
SELECT t.id, substr(t.key, 1, 1000), CASE WHEN t.key IS NULL THEN substr(t.payload, 1, 400) END, t.stage, t.fence, t.failures,
    substr(t.reason, 1, 400), t.waiting_for
FROM onceward_task t
WHERE t.id IN :ids

-- name: refused_spawns
-- Counts the kept refusals of tasks by task, rule and kind, each with the first key and one of the reasons.
SELECT parent, rule, kind, count(*), substr(min(key), 1, 1000), substr(min(reason), 1, 1000)
FROM onceward_refusal
WHERE parent IN :ids
GROUP BY parent, rule, kind
ORDER BY parent, rule, kind

-- name: first_refusals
-- The first refusals of each of some tasks.
SELECT r.lineage, r.parent, r.stage, r.kind, substr(r.key, 1, 1000), r.rule, substr(r.reason, 1, 1000), r.ancestor, r.existing, r.at
FROM (
    SELECT lineage, parent, stage, kind, key, rule, reason, ancestor, existing, at, id,
        row_number() OVER (PARTITION BY parent ORDER BY id) AS place
    FROM onceward_refusal
    WHERE parent IN :ids
) AS r
WHERE r.place <= :each
ORDER BY r.parent, r.id

-- name: accounts_of_scope
-- The budgets of one lineage, branch or batch.
SELECT b.name, b.scope, b.window_at, b.unit, b.ceiling, b.spent, b.reserved, b.ends_at, b.is_closed, b.fails
FROM onceward_budget b
WHERE b.scope = :scope
  AND (b.ends_at IS NULL OR b.ends_at > :now)
ORDER BY b.name
LIMIT 20

-- name: page_of_lineages
-- A narrower scope inside a lineage has a row too; its root belongs to another lineage.
SELECT l.id, l.root, t.kind, substr(t.key, 1, 1000), CASE WHEN t.key IS NULL THEN substr(t.payload, 1, 400) END, t.status, t.paused,
    l.tasks, l.max_tasks, l.deadline_at, l.created_at
FROM onceward_lineage l
JOIN onceward_task t ON t.id = l.root AND t.lineage = l.id
WHERE l.created_at < :before
ORDER BY l.created_at DESC
LIMIT :limit

-- name: large_lineages
-- The largest of the newest lineages, of which so many are looked at.
SELECT l.id, l.root, t.kind, substr(t.key, 1, 1000), CASE WHEN t.key IS NULL THEN substr(t.payload, 1, 400) END, t.status, t.paused,
    l.tasks, l.max_tasks, l.deadline_at, l.created_at
FROM (
    SELECT id, root, tasks, max_tasks, deadline_at, created_at
    FROM onceward_lineage
    ORDER BY created_at DESC
    LIMIT :looked_at
) AS l
JOIN onceward_task t ON t.id = l.root AND t.lineage = l.id
ORDER BY l.tasks DESC, l.created_at DESC
LIMIT :limit
