-- What people and programs ask about tasks, workers and the backlog; and what the schema says about itself.

-- name: schema_version
SELECT coalesce(max(version), 0)
FROM onceward_schema

-- name: record_schema_step
INSERT INTO onceward_schema (version, name, at)
VALUES (:version, :name, :now)

-- name: app_migrations
SELECT name, digest
FROM onceward_app_migration

-- name: record_app_migration
INSERT INTO onceward_app_migration (name, digest, at)
VALUES (:name, :digest, :now)

-- name: find_tasks
-- Ids of tasks, newest first. A filter that is NULL lets everything pass: its comparison is neither true nor false.
SELECT t.id
FROM onceward_task t
WHERE t.id < :before
  AND (t.status = :status) IS NOT FALSE
  AND (t.kind = :kind) IS NOT FALSE
  AND (t.depth >= :min_depth) IS NOT FALSE
  AND (coalesce(t.key, '') = :key) IS NOT FALSE
  AND (substr(coalesce(t.key, ''), 1, length(:prefix)) = :prefix) IS NOT FALSE
ORDER BY t.id DESC
LIMIT :limit

-- name: report_tasks
SELECT t.id, t.kind, t.key, t.status, t.stage, t.run, t.queue, t.band, t.failures, t.crashes, t.deferrals,
    t.worker, w.name, w.beat_at, t.lineage, t.parent, t.depth, t.due_at, t.created_at, t.started_at, t.ended_at,
    t.waiting_for, t.reason, coalesce(t.payload, b.data), t.paused,
    t.scheduled_at, t.cost, t.fence
FROM onceward_task t
LEFT JOIN onceward_worker w ON w.id = t.worker
LEFT JOIN onceward_blob b ON b.hash = t.payload_blob
WHERE t.id IN :ids
ORDER BY t.id DESC

-- name: secret_fields_of
-- The fields that viewers do not see, of some kinds. An empty one says that the kind is known.
SELECT kind, field
FROM onceward_secret_field
WHERE kind IN TEXTS :kinds
ORDER BY kind, field

-- name: all_secret_fields
SELECT kind, field
FROM onceward_secret_field
ORDER BY kind, field
LIMIT :limit

-- name: report_results
-- What is stored of the present run of a task, in the order in which it was stored.
SELECT c.stage, c.part, coalesce(c.value, b.data), c.at
FROM onceward_checkpoint c
JOIN onceward_task t ON t.id = c.task AND t.run = c.run
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE c.task = :task
ORDER BY c.at, c.stage, c.part

-- name: report_events
-- The log of a task, oldest first. By number, not by time: clocks of two machines may differ.
SELECT a.id, a.run, a.fence, a.event, a.status, a.stage, a.worker, w.name, a.at, a.note, a.trace
FROM onceward_attempt a
LEFT JOIN onceward_worker w ON w.id = a.worker
WHERE a.task = :task
ORDER BY a.id

-- name: count_parked
-- Counts tasks that wait for code that fits their stored data.
SELECT count(*)
FROM onceward_task
WHERE waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND status = #waiting

-- name: report_progress_of
SELECT stage, done, total, note, at
FROM onceward_progress
WHERE task = :task

-- name: count_by_status
SELECT status, count(*)
FROM onceward_task
GROUP BY status

-- name: count_ended_since
SELECT status, count(*)
FROM onceward_task
WHERE ended_at >= :at
GROUP BY status
ORDER BY status

-- name: report_ready
-- Counts the tasks in each line and dates the first. A cancelled task may still have a place, and one that was put back
-- may have two.
SELECT r.lane, r.band, count(DISTINCT r.task), min(r.at)
FROM onceward_ready r
JOIN onceward_task t ON t.id = r.task
WHERE t.status IN #startable
  AND t.paused = 0
GROUP BY r.lane, r.band
ORDER BY r.lane, r.band

-- name: report_due
-- Counts tasks that become due later, by lane; parked tasks do not count. From the places to their tasks, which CROSS
-- says to SQLite: it would read all tasks otherwise.
SELECT d.lane, count(DISTINCT d.task), min(d.due_at)
FROM onceward_due d
CROSS JOIN onceward_task t
WHERE t.id = d.task
  AND t.due_at = d.due_at
  AND t.status IN #startable
  AND t.paused = 0
GROUP BY d.lane
ORDER BY d.lane

-- name: verify_tasks
-- What verify reads of every task, in the order of ids; so are the four after it, so that one pass can join them.
SELECT t.id, t.kind || coalesce('@' || t.gates, ''), t.queue, t.status, t.run, t.fence, t.token, t.worker, w.id,
    w.stopped_at, t.failures, t.deferrals,
    t.signals, t.touched, t.created_at, t.started_at, t.ended_at, t.waiting_for, t.due_at,
    coalesce(length(t.reason), 0), t.paused
FROM onceward_task t
LEFT JOIN onceward_worker w ON w.id = t.worker
ORDER BY t.id

-- name: verify_log
SELECT task, run, fence, event, status, stage, note
FROM onceward_attempt
ORDER BY task, id

-- name: verify_checkpoints
SELECT task, run, stage, part
FROM onceward_checkpoint
ORDER BY task, run, stage, part

-- name: verify_places
-- Places in line, now and later.
SELECT task, lane
FROM (
    SELECT task, lane FROM onceward_ready
    UNION ALL
    SELECT task, lane FROM onceward_due
) AS place
ORDER BY task

-- name: dangling_payloads
-- Tasks that refer to a missing payload.
SELECT t.id
FROM onceward_task t
LEFT JOIN onceward_blob b ON b.hash = t.payload_blob
WHERE t.payload_blob IS NOT NULL
  AND b.hash IS NULL
ORDER BY t.id

-- name: dangling_values
-- Tasks that refer to a missing stored value.
SELECT DISTINCT c.task
FROM onceward_checkpoint c
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE c.value_blob IS NOT NULL
  AND b.hash IS NULL
ORDER BY c.task

-- name: hours_of_ticks
SELECT count(*), CAST(coalesce(sum(tasks), 0) AS bigint),
    CAST(coalesce(sum(coalesce(ended_at, started_at) - started_at), 0) AS bigint), min(started_at)
FROM onceward_tick
WHERE started_at > :after
