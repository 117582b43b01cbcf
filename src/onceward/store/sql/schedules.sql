-- What is enqueued at set times.

-- name: declare_schedule
-- Stores a schedule as declared in code. `next_at` stays, unless expression or time zone have changed.
INSERT INTO onceward_schedule (name, kind, expression, tz, missed, next_at, changed_at)
VALUES (:name, :kind, :expression, :tz, :missed, :next_at, :now)
ON CONFLICT (name) DO UPDATE
SET next_at = CASE
        WHEN onceward_schedule.expression = excluded.expression AND onceward_schedule.tz = excluded.tz
        THEN onceward_schedule.next_at
        ELSE excluded.next_at
    END,
    kind = excluded.kind, expression = excluded.expression, tz = excluded.tz, missed = excluded.missed,
    changed_at = excluded.changed_at

-- name: read_schedules
SELECT name, kind, expression, tz, missed, next_at, last_at, last_task, fired, paused
FROM onceward_schedule
ORDER BY name

-- name: advance_schedule
-- Advances `next_at` by compare-and-set, the fence of a schedule (decision 22): one worker gets a row. A worker with an
-- older declaration of the times gets none.
UPDATE onceward_schedule
SET next_at = :next_at, last_at = coalesce(:last_at, last_at), fired = fired + :fired
WHERE name = :name
  AND next_at = :seen
  AND expression = :expression
  AND tz = :tz
  AND paused = 0
RETURNING name

-- name: note_last_task
UPDATE onceward_schedule
SET last_task = :task
WHERE name = :name

-- name: pause_schedule
UPDATE onceward_schedule
SET paused = :paused, changed_at = :now
WHERE name = :name
RETURNING name
