-- Work that other programs have asked for by SQL. `onceward_enqueue` of PostgreSQL inserts a row; so may any program.

-- name: any_intake
SELECT 1
FROM onceward_intake
WHERE done_at IS NULL
  AND kind IN TEXTS :kinds
LIMIT 1

-- name: end_intake
WITH taken (done_at, id, task, refused) AS (
    ROWS (same done_at bigint, id bigint, task bigint, refused text)
)
UPDATE onceward_intake
SET done_at = taken.done_at, task = taken.task, refused = taken.refused
FROM taken
WHERE onceward_intake.id = taken.id

-- name: prune_intake
DELETE FROM onceward_intake
WHERE done_at < :before
