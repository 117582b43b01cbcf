-- Queries of the room attempts as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: held_locks
-- Nothing, as above.

-- name: quick_claim
-- Nothing, likewise.

-- name: read_quick_claim
-- Nothing, likewise.

-- name: lease_tasks
-- Read the popped tasks that may run as their leases will be, with a new fence; only for a living worker. write_leases
-- then writes them (RETURNING would store the rows on the way), and insert_claim the claim row. A governed task must
-- have been popped from the line behind its gates and a suspect from a line of suspects: a place left in another line
-- leads past no gate and into no company.
SELECT NULL, LEASE OF onceward_task
FROM onceward_task
WHERE id IN :ids
  AND status IN #startable
  AND paused = 0
  AND due_at <= :due_by
  AND (:suspects OR company = 0)
  AND (:suspects OR gates IS NULL OR id || '@' || gates IN TEXTS :passed)
  AND EXISTS (SELECT 1 FROM onceward_worker w WHERE w.id = :worker AND w.stopped_at IS NULL)

-- name: write_leases
UPDATE onceward_task
SET status = #running, fence = fence + 1, token = :token, worker = :worker,
    started_at = coalesce(started_at, :now),
    clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
WHERE id IN :ids

-- name: finish_group
-- Read which of these tasks still have their lease, that is, their fence and one of this worker's tokens; end_group
-- then ends them. With one writer that is safe, and it costs less than RETURNING.
SELECT id, awaited, batch
FROM onceward_task
WHERE id IN :ids
  AND fence = :fence
  AND instr(:tokens, token)
  AND status = #running

-- name: end_group
UPDATE onceward_task
SET status = :status, stage = :stage, reason = :reason, ended_at = :now, touched = 1, token = NULL
WHERE id IN :ids

-- name: log_finish_group
-- One statement fills one table here.
INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
SELECT id, run, fence, :event, :status, :stage, worker, :now, :reason
FROM onceward_task
WHERE id IN :ids

-- name: advance_group
-- Read which of these tasks still have their lease; go_on_group then advances them to their next stages.
SELECT id, paused
FROM onceward_task
WHERE id IN :ids
  AND fence = :fence
  AND instr(:tokens, token)
  AND status = #running

-- name: go_on_group
-- Advance tasks, each to its own next stage, under the same lease.
UPDATE onceward_task
SET stage = given.atom, queue = coalesce(:queue, queue), gates = :gates, touched = 1, failures = 0, crashes = 0,
    company = 0, same_errors = 0, progressed_at = :now, clock_at = NULL
FROM json_each(:next) AS given
WHERE onceward_task.id = CAST(given.key AS integer)

-- name: log_advance_group
-- One statement fills one table here.
INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
SELECT t.id, t.run, t.fence, :event, #running, given.atom, t.worker, :now, NULL
FROM json_each(:done) AS given
CROSS JOIN onceward_task AS t ON t.id = CAST(given.key AS integer)

-- name: insert_claim
INSERT INTO onceward_claim (token, worker, at, tasks, fences)
VALUES (:token, :worker, :now, :tasks, :fences)
RETURNING seq

-- name: held_by_claim
-- The tasks that a dead worker's claim still holds.
SELECT id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage, crashes, company
FROM onceward_task
WHERE id IN :ids
  AND token = :token
  AND status = #running
ORDER BY id

-- name: leave_waiting_room
-- Take tasks that were to run again later out of the waiting room.
DELETE FROM onceward_due
WHERE (due_at, task) IN (SELECT due_at, id FROM onceward_task WHERE id IN :ids)

-- name: read_checkpoints
-- The checkpoints of resumed tasks in their present run, and their holds of budgets, whose amounts are digits as bytes.
SELECT c.task, c.stage, c.part, coalesce(c.value, b.data), c.at AS at
FROM onceward_checkpoint c
JOIN onceward_task t ON t.id = c.task AND t.run = c.run
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE c.task IN :ids
UNION ALL
SELECT r.task, '$' || r.budget, r.hold, CAST(sum(r.amount) AS blob), min(r.at)
FROM onceward_reservation r
JOIN onceward_task t ON t.id = r.task AND t.run = r.run
WHERE r.task IN :ids
  AND r.hold <> ''
  AND r.budget = r.held_of
  AND r.state <> 1
GROUP BY r.task, r.budget, r.hold
ORDER BY 1, 5
