-- Workers, their beats, and what is taken back from dead ones.

-- name: register_worker
INSERT INTO onceward_worker (name, host, pid, presence, kinds, queues, lease_ms, started_at, beat_at)
VALUES (:name, :host, :pid, :presence, :kinds, :queues, :lease_ms, :now, :now)
RETURNING id

-- name: introduce_worker
-- Completes the row of a child worker, which its supervisor has registered.
UPDATE onceward_worker
SET pid = :pid, kinds = :kinds, queues = :queues
WHERE id = :worker

-- name: renew
-- Renews all leases of a worker in one row; a worker that was declared dead does not come back.
UPDATE onceward_worker
SET beat = beat + 1, beat_at = :now
WHERE id IN :ids
  AND stopped_at IS NULL
RETURNING id

-- name: show_lock
-- Notes that a worker holds its lock, or no longer does. The beat moves too, so that older looks do not count.
UPDATE onceward_worker
SET server_run = :run, beat = beat + 1, beat_at = :now
WHERE id = :worker
  AND stopped_at IS NULL
RETURNING id

-- name: signed_off
-- Workers that have stopped in good order.
SELECT id
FROM onceward_worker
WHERE id IN :ids
  AND ended_how = 'stopped'

-- name: mark_low_claim
-- Claims before this one hold nothing any more.
UPDATE onceward_worker
SET low_claim = :low_claim
WHERE id = :worker
  AND stopped_at IS NULL

-- name: stop_worker
UPDATE onceward_worker
SET stopped_at = :now, ended_how = :how
WHERE id = :worker
  AND stopped_at IS NULL
RETURNING id, low_claim

-- name: living_workers
SELECT id, name, host, pid, presence, server_run, beat, beat_at, lease_ms, low_claim
FROM onceward_worker
WHERE stopped_at IS NULL
ORDER BY id

-- name: is_living
SELECT 1
FROM onceward_worker
WHERE id = :worker
  AND stopped_at IS NULL

-- name: bury_worker
-- Declares a worker dead, unless it has renewed since we looked: then its beat has moved.
UPDATE onceward_worker
SET stopped_at = :now, ended_how = :how
WHERE id = :worker
  AND beat = :beat
  AND stopped_at IS NULL
RETURNING id, name, low_claim

-- name: claims_of_worker
SELECT token, tasks
FROM onceward_claim
WHERE worker = :worker
  AND seq >= :low_claim
ORDER BY seq

-- name: take_back
-- Takes tasks from a worker: pending again, whether they had started or not.
UPDATE onceward_task
SET status = #pending, token = NULL, due_at = :now
WHERE id IN :ids
  AND token = :token
  AND status = #running
RETURNING id

-- name: any_suspects
-- Whether tasks stand in a line of suspects; those lines begin with an exclamation mark.
SELECT 1
FROM onceward_ready
WHERE lane >= '!'
  AND lane < '"'
LIMIT 1
