-- Import of tasks from another system.

-- name: date_imported
-- Stores the past of imported tasks: status, times and reason.
WITH old (task, created_at, status, ended_at, reason) AS (
    ROWS (task bigint, created_at bigint, status smallint, ended_at bigint, reason text)
)
UPDATE onceward_task
SET created_at = old.created_at, status = old.status, ended_at = old.ended_at, reason = old.reason
FROM old
WHERE onceward_task.id = old.task
