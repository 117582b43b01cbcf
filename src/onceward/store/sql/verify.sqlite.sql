-- Queries of the room verify as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: verify_claims
SELECT claimed.value, json_extract(c.fences, '$[' || claimed.key || ']'), c.token, c.worker
FROM onceward_claim c
JOIN json_each(CASE WHEN json_valid(c.tasks) AND json_valid(c.fences) THEN c.tasks ELSE '[]' END) AS claimed
ORDER BY 1, 2

-- name: unreadable_claims
-- Only here: PostgreSQL has arrays, which cannot be malformed.
SELECT seq
FROM onceward_claim
WHERE NOT (json_valid(tasks) AND json_valid(fences))

-- name: open_twice
-- Open tasks with the same identity in one lineage that has registered it, each with the first of them.
SELECT first, id
FROM (
    SELECT t.id, min(t.id) OVER same AS first, count(*) OVER same AS times
    FROM onceward_task t
    WHERE t.status IN #open
      AND EXISTS (SELECT 1 FROM onceward_identity i WHERE i.scope = t.lineage AND i.hash = t.identity)
    WINDOW same AS (PARTITION BY t.lineage, t.identity)
) AS open
WHERE times > 1
ORDER BY id

-- name: misheld_aliases
-- Open tasks that have lost an identity registered with an alias, and the task that has it.
SELECT a.task, i.task
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
LEFT JOIN onceward_identity i ON i.scope = a.lineage AND i.hash = a.identity
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

-- name: check_pages
-- Only here: PostgreSQL has no such check.
PRAGMA quick_check

-- name: check_foreign_keys
-- Only here, because SQLite lets a connection switch them off.
PRAGMA foreign_key_check
