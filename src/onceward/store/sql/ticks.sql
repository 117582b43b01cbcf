-- Ticks: one row each, made before anything else is done, so that one that dies has left a trace.

-- name: begin_tick
INSERT INTO onceward_tick (chain, started_at)
VALUES (:chain, :now)
RETURNING id

-- name: end_tick
UPDATE onceward_tick
SET worker = :worker, ended_at = :now, tasks = :tasks, how = :how, triggered = :triggered
WHERE id = :tick

-- name: prune_ticks
DELETE FROM onceward_tick
WHERE started_at < :before
