-- Writes of attempts and operators to tasks. Every write of an attempt names its token: the fence (R1, decision 2).

-- name: insert_blobs
-- Large values, once each by their hash.
-- A conflict writes nothing, but locks the row: pruning cannot delete it before we refer to it.
INSERT INTO onceward_blob (hash, data)
ROWS (hash bytea, data bytea)
ON CONFLICT (hash) DO UPDATE SET data = excluded.data WHERE false

-- name: not_due
-- Popped tasks that are not due yet: the clock of the claim is a little ahead of the one that made them due.
SELECT id, queue, kind || coalesce('@' || gates, ''), band, rank, company, due_at
FROM onceward_task
WHERE id IN :ids
  AND status IN #startable
  AND paused = 0

-- name: read_blobs
SELECT hash, data
FROM onceward_blob
WHERE hash IN (SELECT payload_blob FROM onceward_task WHERE id IN :ids)

-- name: read_descent
SELECT id, ancestry, limits, children - members
FROM onceward_task
WHERE id IN :ids

-- name: read_signals
SELECT task, name, value
FROM onceward_signal
WHERE task IN :ids

-- name: advance
-- Commits stages; their worker goes on with the next stage under the same lease.
UPDATE onceward_task
SET stage = :stage, queue = coalesce(:queue, queue), gates = :gates, touched = 1, failures = 0, crashes = 0, company = 0,
    same_errors = 0, progressed_at = :now, clock_at = NULL
WHERE id IN :ids
  AND token = :token
  AND status = #running
RETURNING id, paused

-- name: finish
-- Ends tasks.
UPDATE onceward_task
SET status = :status, stage = :stage, reason = :reason, ended_at = :now, touched = 1, token = NULL
WHERE id IN :ids
  AND token = :token
  AND status = #running
RETURNING id, awaited, batch

-- name: hand_over
-- Commits a stage before one in another queue or behind gates. The clock of the task stands still until the next claim.
UPDATE onceward_task
SET status = #pending, stage = :stage, queue = :queue, gates = :gates, estimate = :estimate, due_at = :now, token = NULL,
    touched = 1, failures = 0, crashes = 0, company = 0, same_errors = 0, progressed_at = :now, clock_at = -1
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: wait_for_children
-- Parks a task that was handed over to a joining stage while children are open.
UPDATE onceward_task
SET status = #waiting, waiting_for = 'children', due_at = :never
WHERE id = :task
  AND status = #pending

-- name: try_again
-- Schedules a retry. An error that is known to pass does not count as one more in a row.
UPDATE onceward_task
SET status = #retryable, stage = :stage, company = 0, failures = failures + 1, due_at = :due_at, reason = :reason, token = NULL,
    same_errors = CASE WHEN error = :error THEN same_errors + :counted ELSE :counted END, error = :error
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: error_history
-- History of one error: the task of the same work that ended with it, how often in a row this task has met it, and
-- how many tasks of the pipeline in this lineage ended with it.
SELECT
    (
        SELECT f.task
        FROM onceward_failure f
        WHERE f.lineage = t.lineage AND f.identity = t.identity AND f.fingerprint = :fingerprint
    ),
    CASE WHEN t.error = :fingerprint THEN t.same_errors ELSE 0 END,
    (
        SELECT count(*)
        FROM onceward_failure f
        WHERE f.lineage = t.lineage AND f.kind = t.kind AND f.fingerprint = :fingerprint
    )
FROM onceward_task t
WHERE t.id = :task

-- name: record_failure
INSERT INTO onceward_failure (lineage, identity, fingerprint, kind, task, at)
SELECT lineage, identity, :fingerprint, kind, id, :now
FROM onceward_task
WHERE id = :task
ON CONFLICT (lineage, identity, fingerprint) DO NOTHING

-- name: defer
-- Defers a stage: nothing has failed, it runs again later.
UPDATE onceward_task
SET status = #pending, stage = :stage, company = 0, deferrals = deferrals + 1, due_at = :due_at, reason = :reason, token = NULL
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: park
-- Parks a task, which waits for something other than time; its clock stands still.
UPDATE onceward_task
SET status = #waiting, stage = :stage, touched = 1, company = 0, waiting_for = :waiting_for, due_at = :due_at, reason = :reason, token = NULL,
    clock_at = CASE
        WHEN coalesce(clock_at, progressed_at, started_at) < :now
        THEN coalesce(clock_at, progressed_at, started_at) - :now
        ELSE -1
    END
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: end_wait
-- Makes a parked task due now: its signal has already come.
UPDATE onceward_task
SET due_at = :now
WHERE id = :task
  AND status = #waiting

-- name: release
-- Gives leases back; nothing has happened. The clock of the tasks stands still until the next claim.
UPDATE onceward_task
SET status = #pending, queue = coalesce(:queue, queue), token = NULL,
    clock_at = CASE
        WHEN coalesce(clock_at, progressed_at, started_at) < :now
        THEN coalesce(clock_at, progressed_at, started_at) - :now
        ELSE -1
    END,
    gates = CASE WHEN :queue IS NULL THEN gates ELSE :gates END,
    estimate = CASE WHEN :queue IS NULL THEN estimate ELSE :estimate END
WHERE id IN :ids
  AND token = :token
  AND status = #running
RETURNING id

-- name: record_crash
-- Counts a crash: the process of a stage died, or a worker that ran it alone.
UPDATE onceward_task
SET status = :status, crashes = crashes + 1, company = :company, reason = :reason, ended_at = :ended_at, token = NULL
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id, awaited, batch

-- name: crash_marks
-- Counts the worker deaths of a task since its last commit.
SELECT count(*)
FROM onceward_attempt
WHERE task = :task
  AND event = 10
  AND id > (
    SELECT coalesce(max(id), 0)
    FROM onceward_attempt
    WHERE task = :task AND event IN (1, 8, 15)
  )

-- name: record_timeout
-- Counts one failure of a stage whose worker was killed at the time limit; the next claim decides on it.
UPDATE onceward_task
SET status = #retryable, company = 0, failures = failures + 1, due_at = :due_at, reason = :reason, token = NULL
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: read_failures
SELECT id, kind, lineage, stage, failures
FROM onceward_task
WHERE id IN :ids

-- name: suspect
-- Marks suspects: next time they run with at most half as many tasks beside them.
UPDATE onceward_task
SET company = :company
WHERE id IN :ids

-- name: touch
-- Checks the fence for an attempt that stores parts and goes on.
UPDATE onceward_task
SET touched = 1
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: still_held
-- Tasks that are still leased, with their tokens.
SELECT id, token
FROM onceward_task
WHERE id IN :ids
  AND status = #running

-- name: insert_checkpoints
-- Results of stages, cursors and parts; a cursor replaces the one before it.
INSERT INTO onceward_checkpoint (at, task, run, stage, part, value, value_blob)
ROWS (same at bigint, task bigint, run integer, stage text, part text, value bytea, value_blob bytea)
ON CONFLICT (task, run, stage, part)
DO UPDATE SET value = excluded.value, value_blob = excluded.value_blob, at = excluded.at

-- name: drop_checkpoints
-- Deletes the checkpoints of one stage, when an operator restarts a task from there.
DELETE FROM onceward_checkpoint
WHERE task = :task
  AND run = :run
  AND stage = :stage

-- name: drop_signals
DELETE FROM onceward_signal
WHERE task = :task

-- name: report_progress
INSERT INTO onceward_progress (task, stage, done, total, note, at)
VALUES (:task, :stage, :done, :total, :note, :now)
ON CONFLICT (task)
DO UPDATE SET stage = excluded.stage, done = excluded.done, total = excluded.total, note = excluded.note, at = excluded.at

-- name: log_events
-- The append-only log (R10).
INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note, trace)
ROWS (task bigint, run integer, fence integer, event smallint, status smallint, stage text, worker bigint, at bigint,
      note text, trace text)

-- name: log_group
-- Logs one event for many tasks, read from their own rows: no arrays to send.
INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
SELECT id, run, fence, :event, :status, coalesce(:stage, stage), worker, :now, :note
FROM onceward_task
WHERE id IN :ids

-- name: newer_signal
-- Whether a signal came after this attempt had looked.
SELECT 1
FROM onceward_signal
WHERE task = :task
  AND name = :name
  AND number > :seen

-- name: count_signal
-- Locks the task row first, as `park` does: so no signal is lost between the look of a stage and its parking.
UPDATE onceward_task
SET signals = signals + 1
WHERE id = :task
RETURNING id, status, waiting_for, signals, run, fence, kind, queue, band, rank, stage

-- name: store_signal
INSERT INTO onceward_signal (task, name, number, value, at)
VALUES (:task, :name, :number, :value, :now)
ON CONFLICT (task, name)
DO UPDATE SET number = excluded.number, value = excluded.value, at = excluded.at

-- name: wake
-- Wakes waiting tasks. Their clock goes on with the next claim.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: wake_joined
-- Wakes parents after their last open child has ended.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now
WHERE id IN :ids
  AND status = #waiting
  AND waiting_for = 'children'
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: wake_follower
-- Wakes the task that follows a batch, after the batch has ended.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now
WHERE id = :task
  AND status = #waiting
  AND waiting_for = :waiting_for
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: wake_due
-- Wakes tasks at the time limit of their wait.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
  AND due_at <= :now
RETURNING id, run, fence, stage

-- name: waiting_for_code
-- Tasks of a kind that wait for code other than this version.
SELECT id
FROM onceward_task
WHERE waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND waiting_for <> :present
  AND kind = :kind
ORDER BY id
LIMIT 1000

-- name: wake_for_code
-- Checks `waiting_for` again: a task may have been woken since it was read, and may wait for its children by now.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
  AND waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND waiting_for <> :present
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: cancel
-- Cancels a task. Its token is gone, so the fence refuses every later write of it (decision 2).
UPDATE onceward_task
SET status = #cancelled, ended_at = :now, token = NULL, waiting_for = NULL, reason = :reason
WHERE id = :task
  AND status IN #open
RETURNING id, run, fence, stage, awaited, batch

-- name: reopen
-- Reopens an ended or waiting task for an operator, with a new clock.
UPDATE onceward_task
SET status = #pending, ended_at = NULL, waiting_for = NULL, reason = NULL, due_at = :now, clock_at = -1, expiry = NULL,
    failures = 0, crashes = 0, company = 0, same_errors = 0,
    queue = coalesce(:queue, queue),
    run = run + :fresh,
    stage = CASE WHEN :fresh = 1 THEN NULL ELSE coalesce(:stage, stage) END,
    gates = CASE WHEN :fresh = 1 OR :stage IS NOT NULL THEN NULL ELSE gates END,
    touched = CASE WHEN :fresh = 1 AND limits IS NULL AND children = 0 THEN 0 ELSE touched END
WHERE id = :task
  AND status IN (#waiting, #succeeded, #filtered, #skipped, #failed, #cancelled)
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: status_of
SELECT status
FROM onceward_task
WHERE id = :task
