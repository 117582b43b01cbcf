-- Queries of the room verify as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: verify_claims
SELECT claimed.task, claimed.fence, c.token, c.worker
FROM onceward_claim c
CROSS JOIN LATERAL unnest(c.tasks, c.fences) AS claimed (task, fence)
ORDER BY 1, 2

-- name: open_twice
-- Open tasks with the same identity in one lineage that has registered it, each with the first of them.
SELECT first, id
FROM (
    SELECT t.id, min(t.id) OVER same AS first, count(*) OVER same AS times
    FROM onceward_task t
    WHERE t.status IN #open
      AND EXISTS (SELECT 1 FROM onceward_identity i WHERE i.scope = uuid_send(t.lineage) AND i.hash = t.identity)
    WINDOW same AS (PARTITION BY t.lineage, t.identity)
) AS open
WHERE times > 1
ORDER BY id

-- name: misheld_aliases
-- Open tasks that have lost an identity registered with an alias, and the task that has it.
SELECT a.task, i.task
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
LEFT JOIN onceward_identity i ON i.scope = uuid_send(a.lineage) AND i.hash = a.identity
WHERE a.here = 1
  AND t.status IN #open
  AND (i.task = a.task) IS NOT TRUE
UNION ALL
SELECT a.task, i.task
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
LEFT JOIN onceward_identity i ON i.scope = :everywhere AND i.hash = a.identity
WHERE a.everywhere = 1
  AND t.status IN #open
  AND (i.task = a.task) IS NOT TRUE
ORDER BY 1

-- name: unreadable_claims
-- Nothing: an array cannot be malformed.

-- name: check_pages
-- Nothing: the server checks its own files.

-- name: check_foreign_keys
-- Nothing: they cannot be switched off here.
