-- What the watches read, and the alerts they make. Everything here looks at the last hour, by an index or by ids.

-- name: watch_looks
SELECT name, looked_at
FROM onceward_watch

-- name: claim_look
-- Claims a look: the first process gets a row (decision 23). A time in the future dates from before a clock was set back.
INSERT INTO onceward_watch (name, looked_at)
VALUES (:name, :now)
ON CONFLICT (name) DO UPDATE
SET looked_at = excluded.looked_at
WHERE onceward_watch.looked_at <= :before
   OR onceward_watch.looked_at > :after
RETURNING name

-- name: newest_ids
SELECT coalesce((SELECT max(id) FROM onceward_task), 0), coalesce((SELECT max(id) FROM onceward_refusal), 0)

-- name: read_samples
SELECT name, at, value
FROM onceward_sample
WHERE at >= :since
  AND at <= :now
ORDER BY at, name

-- name: insert_samples
INSERT INTO onceward_sample (at, name, value)
ROWS (same at bigint, name text, value bigint)
ON CONFLICT (at, name) DO NOTHING

-- name: forget_samples
DELETE FROM onceward_sample
WHERE (at < :before AND NOT (name IN TEXTS :kept_long) AND substr(name, 1, 8) <> 'history ')
   OR (at < :day_before AND substr(name, 1, 8) = 'history ')
   OR at < :long_before
   OR at > :after

-- name: budgets_to_sample
SELECT name, spent, reserved, ceiling
FROM onceward_budget
WHERE scope = ''
  AND (ends_at IS NULL OR ends_at > :now)
ORDER BY name
LIMIT :limit

-- name: gates_to_sample
-- The gates that were used last, and of the others those that are shut.
SELECT name, calls, failures, opened, enabled, paused_until, is_half_open
FROM onceward_gate
WHERE substr(name, 1, 1) NOT IN ('=', '#', '$', '~')
ORDER BY CASE WHEN enabled = 0 OR paused_until > :now THEN 1 ELSE 0 END DESC, taken_at DESC, name
LIMIT :limit

-- name: history_samples
SELECT at, name, value
FROM onceward_sample
WHERE at >= :since
  AND substr(name, 1, length(:prefix)) = :prefix
ORDER BY at
LIMIT :limit

-- name: count_lines
SELECT lane, count(*)
FROM onceward_ready
GROUP BY lane

-- name: watch_repeats
-- Work asked for repeatedly in one lineage. A task without parent, children and refusals repeats nothing.
SELECT asked.lineage, min(asked.kind), min(asked.key), asked.identity, count(*)
FROM (
    SELECT lineage, kind, key, identity
    FROM onceward_task
    WHERE id > :task
      AND created_at >= :since
      AND (parent IS NOT NULL OR children > 0 OR refusals > 0)
    UNION ALL
    SELECT lineage, kind, key, identity
    FROM onceward_refusal
    WHERE id > :refusal
      AND at >= :since
) AS asked
GROUP BY asked.lineage, asked.identity
HAVING count(*) > :most
ORDER BY count(*) DESC
LIMIT :limit

-- name: watch_key_repeats
-- The same key in one lineage, whatever the pipeline. A payload without a key of its own has none to repeat.
SELECT asked.lineage, asked.key, count(*)
FROM (
    SELECT lineage, key
    FROM onceward_task
    WHERE id > :task
      AND created_at >= :since
      AND key IS NOT NULL
      AND (parent IS NOT NULL OR children > 0 OR refusals > 0)
    UNION ALL
    SELECT lineage, key
    FROM onceward_refusal
    WHERE id > :refusal
      AND at >= :since
      AND key IS NOT NULL
) AS asked
GROUP BY asked.lineage, asked.key
HAVING count(*) > :most
ORDER BY count(*) DESC
LIMIT :limit

-- name: requesters_of_identity
-- Tasks with an identity in a lineage, and tasks whose spawn of it was refused.
SELECT id
FROM onceward_task
WHERE identity = :identity
  AND lineage = :lineage
UNION
SELECT parent
FROM onceward_refusal
WHERE identity = :identity
  AND lineage = :lineage
ORDER BY 1
LIMIT :limit

-- name: requesters_of_key
SELECT DISTINCT asked.task
FROM (
    SELECT id AS task
    FROM onceward_task
    WHERE lineage = :lineage
      AND key = :key
    UNION ALL
    SELECT parent
    FROM onceward_refusal
    WHERE id > :refusal
      AND lineage = :lineage
      AND key = :key
) AS asked
ORDER BY asked.task
LIMIT :limit

-- name: watch_depth
-- In two steps, because the order of lineages would else be a reason to read all of them.
SELECT deep.lineage, max(deep.depth)
FROM (
    SELECT lineage, depth
    FROM onceward_task
    WHERE id > :task
      AND created_at >= :since
      AND depth > :most
    ORDER BY id
    LIMIT :rows
) AS deep
GROUP BY deep.lineage
ORDER BY max(deep.depth) DESC
LIMIT :limit

-- name: deepest_tasks
SELECT id, key
FROM onceward_task
WHERE lineage = :lineage
  AND depth > :most
ORDER BY depth DESC, id
LIMIT :limit

-- name: parked_by_kind
-- Counts tasks by kind that wait for code that fits their stored data.
SELECT kind, count(*)
FROM onceward_task
WHERE waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND status = #waiting
GROUP BY kind
ORDER BY kind
LIMIT :limit

-- name: oldest_parked
SELECT id
FROM onceward_task
WHERE waiting_for >= 'code:'
  AND waiting_for < 'code;'
  AND status = #waiting
  AND kind = :kind
ORDER BY id
LIMIT :limit

-- name: watch_ticks
SELECT chain, started_at, ended_at, how
FROM onceward_tick
WHERE started_at >= :since

-- name: count_timeouts
-- The first condition names the index; the second, which of its rows are meant. The plus keeps SQLite from reading all of
-- another index, in the order of tasks.
SELECT count(DISTINCT +task)
FROM onceward_attempt
WHERE (event BETWEEN 9 AND 11 OR event = 19)
  AND event IN (11, 19)
  AND at >= :since

-- name: newest_timeouts
SELECT task
FROM onceward_attempt
WHERE (event BETWEEN 9 AND 11 OR event = 19)
  AND event IN (11, 19)
  AND at >= :since
ORDER BY at DESC
LIMIT :limit

-- name: watch_reclaims
-- Tasks taken back within the window, with their number of reclaims in all.
SELECT a.task, t.kind, t.key, t.lineage, count(*)
FROM onceward_attempt a
JOIN onceward_task t ON t.id = a.task
WHERE a.event IN (9, 10)
  AND a.task IN (
    SELECT task
    FROM onceward_attempt
    WHERE (event BETWEEN 9 AND 11 OR event = 19)
      AND event IN (9, 10)
      AND at >= :since
  )
GROUP BY a.task, t.kind, t.key, t.lineage
HAVING count(*) >= :most
ORDER BY count(*) DESC, a.task
LIMIT :limit

-- name: count_ended_batches
SELECT status, count(*)
FROM onceward_batch
WHERE ended_at >= :since
GROUP BY status

-- name: failures_in_batches
-- Failed tasks of batches that have failed: from the batches to their tasks, which is what CROSS says to SQLite.
SELECT t.id
FROM onceward_batch b
CROSS JOIN onceward_task t
WHERE t.batch = b.id
  AND b.ended_at >= :since
  AND b.status = #batch_failed
  AND t.status = #failed
LIMIT :limit

-- name: count_ended_workers
SELECT coalesce(sum(CASE WHEN ended_how = 'stopped' THEN 0 ELSE 1 END), 0), count(*)
FROM onceward_worker
WHERE stopped_at >= :since

-- name: silent_workers
SELECT id, name, beat_at, lease_ms, low_claim
FROM onceward_worker
WHERE stopped_at IS NULL
  AND beat_at + lease_ms < :before
ORDER BY id

-- name: disabled_gates
-- Instances of sources come last, because there may be any number of them.
SELECT name, streak, why
FROM onceward_gate
WHERE enabled = 0
ORDER BY CASE WHEN replace(name, '/', '') = name THEN 0 ELSE 1 END, name
LIMIT :limit

-- name: behind_gate
-- Tasks that stand in line before a gate.
SELECT r.task
FROM onceward_turn t
JOIN onceward_ready r ON r.lane = t.lane
WHERE t.gate = :gate
LIMIT :limit

-- name: high_budgets
-- Budgets of which a share is spent or set aside in their present window, and those that are closed. First those of the
-- app, because there may be any number of others.
SELECT name, scope, unit, ceiling, spent + reserved, is_closed
FROM onceward_budget
WHERE (ends_at IS NULL OR ends_at > :now)
  AND spent + reserved > 0
  AND (is_closed = 1 OR spent + reserved >= ceiling * CAST(:share AS double precision))
ORDER BY CASE WHEN scope = '' THEN 0 ELSE 1 END, name, scope
LIMIT :limit

-- name: open_alerts
SELECT id, rule, subject, seen_at
FROM onceward_alert
WHERE resolved_at IS NULL
ORDER BY id

-- name: raise_alert
-- Raises an alert; if another look was faster, its alert stands.
INSERT INTO onceward_alert (rule, subject, lineage, key, count, threshold, tasks, sentence, advice, raised_at, seen_at, tell_at)
VALUES (:rule, :subject, :lineage, :key, :count, :threshold, :tasks, :sentence, :advice, :now, :now, :tell_at)
ON CONFLICT (rule, subject) WHERE resolved_at IS NULL DO NOTHING
RETURNING id

-- name: alert_goes_on
UPDATE onceward_alert
SET lineage = :lineage, key = :key, count = :count, threshold = :threshold, tasks = :tasks, sentence = :sentence,
    advice = :advice, seen_at = CASE WHEN seen_at < :now THEN :now ELSE seen_at END
WHERE id = :id
  AND resolved_at IS NULL

-- name: resolve_alerts
-- Resolves alerts that no look has seen since ours began. An alert that was delivered is delivered again as resolved.
UPDATE onceward_alert
SET resolved_at = :now, tell_at = CASE WHEN told_at IS NULL THEN tell_at ELSE :now END, tries = 0
WHERE id IN :ids
  AND resolved_at IS NULL
  AND seen_at <= :now
RETURNING id

-- name: forget_alerts
DELETE FROM onceward_alert
WHERE resolved_at < :before

-- name: read_alerts
SELECT id, rule, subject, lineage, key, count, threshold, tasks, sentence, advice, raised_at, seen_at, resolved_at,
    told_at, tries
FROM onceward_alert
WHERE id IN :ids
ORDER BY id

-- name: newest_alerts
-- The newest, open or all; a limit of the list, not of what is open.
SELECT id
FROM onceward_alert
WHERE resolved_at IS NULL OR CAST(:open_only AS integer) = 0
ORDER BY id DESC
LIMIT :limit

-- name: due_deliveries
SELECT id, tries
FROM onceward_alert
WHERE tell_at <= :now
ORDER BY tell_at, id
LIMIT :limit

-- name: claim_delivery
-- Claims the delivery of an alert: one process gets a row. If it dies, another delivers at :again_at.
UPDATE onceward_alert
SET tries = tries + 1, tell_at = :again_at
WHERE id = :id
  AND tell_at <= :now
RETURNING id

-- name: mark_delivered
-- Marks an alert as delivered. If it was resolved during the delivery, it is delivered once more.
UPDATE onceward_alert
SET told_at = :now, tries = 0,
    tell_at = CASE WHEN resolved_at IS NOT NULL AND CAST(:was_open AS integer) = 1 THEN CAST(:now AS bigint) END
WHERE id = :id
