-- How tasks stand now, as the overview shows it. All of it is bounded: what is held, what waits, what was refused last.

-- name: kinds_of
SELECT kind, count(*)
FROM onceward_task
WHERE id IN :ids
GROUP BY kind

-- name: kinds_waiting
-- What parked tasks wait for, by kind.
SELECT waiting_for, kind, count(*)
FROM (
    SELECT waiting_for, kind
    FROM onceward_task
    WHERE waiting_for IS NOT NULL
      AND status = #waiting
    LIMIT :rows
) AS parked
GROUP BY waiting_for, kind

-- name: newest_refusals
SELECT lineage, parent, kind, rule, reason, at
FROM onceward_refusal
ORDER BY id DESC
LIMIT :limit
