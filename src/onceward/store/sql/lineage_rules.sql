-- Facts about lineages for verify: parents and children, counts, joins.

-- name: verify_families
-- Tasks that have a parent, have had children or wait for them, in the order of ids, each with what its parent's row says.
SELECT t.id, t.lineage, t.parent, t.depth, t.identity, t.ancestry, t.children, t.scopes,
    p.id, p.depth, p.identity, p.ancestry, p.lineage = t.lineage,
    l.pruned,
    (SELECT count(*) FROM onceward_task c WHERE c.parent = t.id)
FROM onceward_task t
LEFT JOIN onceward_task p ON p.id = t.parent
LEFT JOIN onceward_lineage l ON l.id = t.lineage
WHERE t.parent IS NOT NULL
   OR t.children > 0
   OR t.scopes IS NOT NULL
   OR t.id IN (SELECT parent FROM onceward_task WHERE parent IS NOT NULL)
ORDER BY t.id

-- name: verify_lineages
-- Every counter, with the number of tasks that there are: of a lineage by its index; a narrower scope is no task's lineage.
SELECT l.id, l.root, l.tasks, l.max_tasks, l.pruned, (SELECT count(*) FROM onceward_task t WHERE t.lineage = l.id)
FROM onceward_lineage l

-- name: verify_joins
-- Every join with the states of child and parent.
SELECT j.child, j.parent, c.status, c.awaited, p.status, p.waiting_for
FROM onceward_join j
LEFT JOIN onceward_task c ON c.id = j.child
LEFT JOIN onceward_task p ON p.id = j.parent
ORDER BY j.parent, j.child

-- name: waiting_without_join
-- Tasks that wait for children without an open one: no end would ever wake them.
SELECT t.id
FROM onceward_task t
WHERE t.status = #waiting
  AND t.waiting_for = 'children'
  AND NOT EXISTS (SELECT 1 FROM onceward_join j WHERE j.parent = t.id)
ORDER BY t.id
