-- How a lineage has grown: for tests that set it a bound.

-- name: narrow_lineage
-- Lowers the task limit of a lineage.
UPDATE onceward_lineage
SET max_tasks = :most
WHERE id = :lineage

-- name: growth_of_lineage
-- Counts children and their parents, by kinds of both.
SELECT p.kind, t.kind, count(*), count(DISTINCT t.parent)
FROM onceward_task t
LEFT JOIN onceward_task p ON p.id = t.parent
WHERE t.lineage = :lineage
GROUP BY p.kind, t.kind
ORDER BY count(*) DESC, t.kind

-- name: refusals_of_lineage
-- Counts refusals by rule and kind, most frequent first, with one reason as an example.
SELECT rule, kind, count(*), min(reason)
FROM onceward_refusal
WHERE lineage = :lineage
GROUP BY rule, kind
ORDER BY count(*) DESC, rule, kind
