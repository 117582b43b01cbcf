-- Queries of the room attempts as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: held_locks
-- The run of the server, its uptime, and a row for each worker that holds its lock (decision 48).
SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
    (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000)::bigint,
    l.objid::bigint
FROM (SELECT 1) one
LEFT JOIN pg_locks l ON l.locktype = 'advisory'
    AND l.objsubid = 2
    AND l.classid::bigint = mod('onceward_worker'::regclass::oid::bigint, 2147483648)
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.granted

-- name: write_leases
-- Nothing: lease_tasks has written them.

-- name: lease_tasks
-- Lease the popped tasks that may run, and write the claim row, in one round trip. Each gets a new fence and the token
-- of this claim (decision 2). Only for a living worker, whose row is locked so that it cannot be buried at the same
-- time. A governed task must have been popped from the line behind its gates and a suspect from a line of suspects: a
-- place left in another line leads past no gate and into no company.
WITH living AS (
    SELECT id
    FROM onceward_worker
    WHERE id = :worker AND stopped_at IS NULL
    FOR SHARE
), leased AS (
    UPDATE onceward_task t
    SET status = #running, fence = fence + 1, token = :token, worker = living.id,
        started_at = coalesce(started_at, :now),
        clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
    FROM living
    WHERE t.id IN :ids
      AND t.status IN #startable
      AND t.paused = 0
      AND t.due_at <= :due_by
      AND (:suspects::boolean OR t.company = 0)
      AND (:suspects::boolean OR t.gates IS NULL OR t.id || '@' || t.gates IN TEXTS :passed)
    RETURNING LEASE OF t
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id ORDER BY id), array_agg(fence ORDER BY id)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
)
SELECT claim.seq, leased.*
FROM leased, claim

-- name: quick_claim
-- Pop and lease the first tasks of a line in a transaction of one statement (decision 36). It takes fresh tasks only,
-- without gates, blobs or checkpoints; other tasks keep their places, and all do while anything is paused. On an empty
-- line it locks and writes nothing: other workers were notified too.
WITH first AS (
    SELECT ctid AS place, task, rank, seq, at
    FROM onceward_ready
    WHERE lane = :lane AND band = :band AND (rank, seq) > (:rank, :seq)
    ORDER BY rank, seq
    LIMIT :count
    FOR UPDATE SKIP LOCKED
), living AS (
    SELECT id
    FROM onceward_worker
    WHERE id = :worker
      AND stopped_at IS NULL
      AND EXISTS (SELECT 1 FROM first)
      AND NOT EXISTS (SELECT 1 FROM onceward_pause)
      AND (:before::bytea IS NULL OR EXISTS (SELECT 1 FROM onceward_receipt WHERE token = :before))
    FOR SHARE
), leased AS (
    UPDATE onceward_task t
    SET status = #running, fence = fence + 1, token = :token, worker = living.id,
        started_at = coalesce(started_at, :now),
        clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
    FROM living
    WHERE t.id = ANY (ARRAY (SELECT task FROM first))
      AND t.status IN #startable
      AND t.paused = 0
      AND t.due_at <= greatest(:now, (SELECT max(at) FROM first))
      AND t.gates IS NULL
      AND t.company = 0
      AND t.touched = 0
      AND t.signals = 0
      AND t.payload_blob IS NULL
    RETURNING LEASE OF t
), popped AS (
    DELETE FROM onceward_ready
    WHERE ctid = ANY (ARRAY (SELECT place FROM first WHERE task IN (SELECT id FROM leased)))
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id), array_agg(fence)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
), receipt AS (
    INSERT INTO onceward_receipt (token, at)
    SELECT :receipt, :now
    FROM claim
)
SELECT claim.seq, leased.*, first.rank, first.seq, (SELECT count(*) FROM first)
FROM first
JOIN leased ON leased.id = first.task
CROSS JOIN claim

-- name: read_quick_claim
-- Read again what quick_claim has returned, without the places.
SELECT c.seq, LEASE OF t, 0, 0, 0
FROM onceward_claim c
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE c.worker = :worker AND c.token = :token

-- name: insert_claim
-- Nothing: lease_tasks has written it.

-- name: finish_group
-- End tasks that have ended in the same way, and log it, in one round trip. Only under their lease: their fence and one
-- of this worker's tokens (decision 2).
WITH ended AS (
    UPDATE onceward_task
    SET status = :status, stage = :stage, reason = :reason, ended_at = :now, touched = 1, token = NULL
    WHERE id IN :ids
      AND fence = :fence
      AND token = ANY (:tokens::bytea[])
      AND status = #running
    RETURNING id, run, fence, worker, awaited, batch
), logged AS (
    INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
    SELECT id, run, fence, :event, :status, :stage, worker, :now, :reason
    FROM ended
)
SELECT id, awaited, batch
FROM ended

-- name: end_group
-- Nothing: finish_group has ended them.

-- name: log_finish_group
-- Nothing: finish_group has logged it.

-- name: advance_group
-- Advance tasks to their next stages under the same leases, and log it. The stage of each is looked up by its id: where
-- the planner takes the list for short, a join with it is a nested loop.
WITH advanced AS (
    UPDATE onceward_task
    SET stage = :next::jsonb ->> id::text, queue = coalesce(:queue, queue), gates = :gates, touched = 1, failures = 0,
        crashes = 0, company = 0, same_errors = 0, progressed_at = :now, clock_at = NULL
    WHERE id IN :ids
      AND fence = :fence
      AND token = ANY (:tokens::bytea[])
      AND status = #running
    RETURNING id, paused, run, fence, worker
), logged AS (
    INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
    SELECT id, run, fence, :event, #running, :done::jsonb ->> id::text, worker, :now, NULL
    FROM advanced
)
SELECT id, paused
FROM advanced

-- name: go_on_group
-- Nothing: advance_group has advanced them.

-- name: log_advance_group
-- Nothing: advance_group has logged it.

-- name: held_by_claim
-- The tasks that a dead worker's claim still holds; locked, because the worker may only seem dead and be committing.
SELECT id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage, crashes, company
FROM onceward_task
WHERE id IN :ids
  AND token = :token
  AND status = #running
ORDER BY id
FOR UPDATE

-- name: leave_waiting_room
-- Take tasks that were to run again later out of the waiting room. Rows that another transaction is moving into line
-- are skipped: it may be waiting for these tasks.
DELETE FROM onceward_due
WHERE (due_at, task) IN (
    SELECT d.due_at, d.task
    FROM onceward_task t
    JOIN onceward_due d ON d.due_at = t.due_at AND d.task = t.id
    WHERE t.id IN :ids
    FOR UPDATE OF d SKIP LOCKED
)

-- name: read_checkpoints
-- The checkpoints of resumed tasks in their present run, and their holds of budgets, whose amounts are digits as bytes.
SELECT c.task, c.stage, c.part, coalesce(c.value, b.data), c.at AS at
FROM onceward_checkpoint c
JOIN onceward_task t ON t.id = c.task AND t.run = c.run
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE c.task IN :ids
UNION ALL
SELECT r.task, '$' || r.budget, r.hold, convert_to(sum(r.amount)::text, 'UTF8'), min(r.at)
FROM onceward_reservation r
JOIN onceward_task t ON t.id = r.task AND t.run = r.run
WHERE r.task IN :ids
  AND r.hold <> ''
  AND r.budget = r.held_of
  AND r.state <> 1
GROUP BY r.task, r.budget, r.hold
ORDER BY 1, 5
