-- What happens to tasks. Every write of an attempt names its token: the fence (R1).

-- name: insert_blobs
-- Large values, once each by their hash.
-- A conflict writes nothing, but locks the row, so that nobody prunes it before we refer to it.
INSERT INTO onceward_blob (hash, data)
ROWS (hash bytea, data bytea)
ON CONFLICT (hash) DO UPDATE SET data = excluded.data WHERE false

-- name: not_due
-- What was popped too early, by a clock a little ahead of the one that made it due.
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
-- Stages are done and their worker goes on with the next one, under the same lease.
UPDATE onceward_task
SET stage = :stage, queue = coalesce(:queue, queue), gates = :gates, touched = 1, failures = 0, crashes = 0, company = 0,
    same_errors = 0, progressed_at = :now, clock_at = NULL
WHERE id IN :ids
  AND token = :token
  AND status = #running
RETURNING id, paused

-- name: finish
-- Tasks have ended.
UPDATE onceward_task
SET status = :status, stage = :stage, reason = :reason, ended_at = :now, touched = 1, token = NULL
WHERE id IN :ids
  AND token = :token
  AND status = #running
RETURNING id, awaited, batch

-- name: hand_over
-- A stage is done and the next one belongs to another queue, or has gates to pass. Its clock stands still until then.
UPDATE onceward_task
SET status = #pending, stage = :stage, queue = :queue, gates = :gates, estimate = :estimate, due_at = :now, token = NULL,
    touched = 1, failures = 0, crashes = 0, company = 0, same_errors = 0, progressed_at = :now, clock_at = -1
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: wait_for_children
-- A task that was handed over to a stage that joins, and whose children have not all ended.
UPDATE onceward_task
SET status = #waiting, waiting_for = 'children', due_at = :never
WHERE id = :task
  AND status = #pending

-- name: try_again
-- A stage has failed and will be tried again. An error that is known to pass does not count as one more in a row.
UPDATE onceward_task
SET status = #retryable, stage = :stage, company = 0, failures = failures + 1, due_at = :due_at, reason = :reason, token = NULL,
    same_errors = CASE WHEN error = :error THEN same_errors + :counted ELSE :counted END, error = :error
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: error_history
-- Whether this work of its lineage has failed for good with an error before, how often in a row it has failed with it
-- now, and how many tasks of its pipeline and lineage have failed for good with it.
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
-- Nothing has failed; the stage runs again later.
UPDATE onceward_task
SET status = #pending, stage = :stage, company = 0, deferrals = deferrals + 1, due_at = :due_at, reason = :reason, token = NULL
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: park
-- The task waits for something other than time. Meanwhile its clock stands still.
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
-- What a parked task waits for has already come.
UPDATE onceward_task
SET due_at = :now
WHERE id = :task
  AND status = #waiting

-- name: release
-- Leases are given back; nothing has happened. Until the next claim the clock of the tasks stands still.
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
-- A stage's own process died, or its worker died while it ran there alone.
UPDATE onceward_task
SET status = :status, crashes = crashes + 1, company = :company, reason = :reason, ended_at = :ended_at, token = NULL
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id, awaited, batch

-- name: crash_marks
-- How often the present stage of a task was running when its worker died, since something of the task was last committed.
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
-- A stage ignored its time limit and its worker was killed for it: one failure, judged when it is claimed again.
UPDATE onceward_task
SET status = #retryable, company = 0, failures = failures + 1, due_at = :due_at, reason = :reason, token = NULL
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: read_fallen
SELECT id, kind, lineage, stage, failures
FROM onceward_task
WHERE id IN :ids

-- name: suspect
-- A task that was running when its worker died in company: it runs with at most half as many beside it next time.
UPDATE onceward_task
SET company = :company
WHERE id IN :ids

-- name: touch
-- An attempt stores parts of a stage that goes on.
UPDATE onceward_task
SET touched = 1
WHERE id = :task
  AND token = :token
  AND status = #running
RETURNING id

-- name: still_held
-- Which of these leases still stand.
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
-- An operator starts a task again from a stage: that stage and what followed it is forgotten.
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
-- One log row each for tasks to which the same has happened, from their own rows: no arrays to send.
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
-- The task row first: whoever parks it and whoever signals it meet here, so that no signal slips between them.
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
-- Tasks that wait are put back in line. Their clock goes on with the next claim.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: wake_joined
-- Tasks whose children have all ended.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now
WHERE id IN :ids
  AND status = #waiting
  AND waiting_for = 'children'
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: wake_follower
-- A task that follows a batch, which has ended.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now
WHERE id = :task
  AND status = #waiting
  AND waiting_for = :waiting_for
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: wake_due
-- Tasks whose wait was ended by time.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
  AND due_at <= :now
RETURNING id, run, fence, stage

-- name: waiting_for_code
-- Tasks of a kind whose stored data did not fit some version of the code other than this one.
SELECT id
FROM onceward_task
WHERE waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND waiting_for <> :present
  AND kind = :kind
ORDER BY id
LIMIT 1000

-- name: wake_for_code
-- Asked again what they wait for: somebody else may have woken one of them since, and it may have come to wait for its
-- children.
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
  AND waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND waiting_for <> :present
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage

-- name: cancel
-- Nothing of a cancelled task is written any more: its token is gone.
UPDATE onceward_task
SET status = #cancelled, ended_at = :now, token = NULL, waiting_for = NULL, reason = :reason
WHERE id = :task
  AND status IN #open
RETURNING id, run, fence, stage, awaited, batch

-- name: reopen
-- An operator opens an ended or waiting task again: with a clock that begins anew.
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
