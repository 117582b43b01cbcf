-- How tasks stand now, as the overview shows it. All of it is bounded: what is held, what waits, what was refused last.

-- name: count_places
-- Counts places in line, up to a number.
SELECT (SELECT count(*) FROM (SELECT 1 FROM onceward_ready LIMIT :rows) AS ready)
    + (SELECT count(*) FROM (SELECT 1 FROM onceward_due LIMIT :rows) AS due)

-- name: places_in_line
-- Counts the places in each line without a look at their tasks: those of cancelled and paused ones are among them.
SELECT lane, band, count(*), min(at)
FROM onceward_ready
GROUP BY lane, band
ORDER BY lane, band

-- name: places_later
SELECT lane, count(*), min(due_at)
FROM onceward_due
GROUP BY lane
ORDER BY lane

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
