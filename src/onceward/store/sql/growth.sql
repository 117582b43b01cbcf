-- How a lineage has grown: for tests that set it a bound.

-- name: narrow_lineage
-- The lineage has room for no more than so many tasks.
UPDATE onceward_lineage
SET max_tasks = :most
WHERE id = :lineage

-- name: growth_of_lineage
-- How many tasks of each kind came from tasks of each kind, and how many tasks asked for them.
SELECT p.kind, t.kind, count(*), count(DISTINCT t.parent)
FROM onceward_task t
LEFT JOIN onceward_task p ON p.id = t.parent
WHERE t.lineage = :lineage
GROUP BY p.kind, t.kind
ORDER BY count(*) DESC, t.kind

-- name: refusals_of_lineage
-- What was refused, the most frequent first, with one reason of each for an example.
SELECT rule, kind, count(*), min(reason)
FROM onceward_refusal
WHERE lineage = :lineage
GROUP BY rule, kind
ORDER BY count(*) DESC, rule, kind
