-- Budgets: amounts reserved, spent and left. Their rows are locked last of all, in order (decision 46).

-- name: open_budgets
-- Open a budget's window for a scope, when it is first drawn from.
INSERT INTO onceward_budget (name, scope, window_at, unit, ceiling, highest, ends_at, fails)
ROWS (name text, scope text, window_at bigint, unit text, ceiling bigint, highest bigint, ends_at bigint,
      fails smallint)
ON CONFLICT (name, scope, window_at) DO NOTHING

-- name: known_budgets
SELECT name, scope, window_at
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))

-- name: budget_limits
-- The limits that operators have set for budgets.
SELECT name, scope, ceiling
FROM onceward_budget_limit
WHERE name IN TEXTS :names

-- name: budget_limit_changes
SELECT scope, ceiling, at, author
FROM onceward_budget_limit
WHERE name = :name
ORDER BY at DESC, scope
LIMIT :limit

-- name: reservations_of_budget
-- What is set aside of a budget for attempts, the largest first.
SELECT r.task, t.kind, substr(coalesce(t.key, ''), 1, 400), t.stage, r.amount, t.started_at
FROM onceward_reservation r
JOIN onceward_task t ON t.id = r.task AND t.token = r.token
WHERE r.budget = :name
  AND r.scope = :scope
  AND r.hold = ''
  AND r.state = 0
ORDER BY r.amount DESC, r.task
LIMIT :limit

-- name: insert_reservations
INSERT INTO onceward_reservation (task, token, budget, scope, window_at, amount)
ROWS (task bigint, token bytea, budget text, scope text, window_at bigint, amount bigint)

-- name: end_reservations
-- Delete the reservations of all attempts of these tasks, present and past.
DELETE FROM onceward_reservation
WHERE task IN :ids
  AND hold = ''
RETURNING task, token, budget, scope, window_at, amount

-- name: reservations_of
SELECT budget, scope, window_at, amount
FROM onceward_reservation
WHERE task = :task
  AND token = :token
ORDER BY budget, scope

-- name: orphaned_reservations
-- Reservations of lost attempts, whose tasks no longer carry their tokens, and holds that no stage will settle. The
-- task of such a hold has ended, is gone or has begun a new run.
SELECT r.task, r.token, r.hold
FROM onceward_reservation r
LEFT JOIN onceward_task t ON t.id = r.task
WHERE CASE
    WHEN t.id IS NULL THEN 1
    WHEN r.hold = '' THEN CASE WHEN t.token = r.token THEN 0 ELSE 1 END
    WHEN t.run <> r.run OR (t.status >= #ended AND r.state <> 2) THEN 1
    ELSE 0
END = 1
ORDER BY r.task
LIMIT 500

-- name: drop_reservations
DELETE FROM onceward_reservation
WHERE (task, token) IN (ROWS (task bigint, token bytea))
RETURNING task, token, budget, scope, window_at, amount

-- name: park_for_budget
-- Park unclaimed tasks for which a budget has not enough left; their clock stands still meanwhile (decision 27).
UPDATE onceward_task
SET status = #waiting, waiting_for = :waiting_for, due_at = :never, reason = :reason,
    clock_at = CASE
        WHEN clock_at < 0
        THEN clock_at
        WHEN coalesce(clock_at, progressed_at, started_at) < :now
        THEN coalesce(clock_at, progressed_at, started_at) - :now
        ELSE -1
    END
WHERE id IN :ids
  AND status IN #startable
RETURNING id, run, fence, stage

-- name: budget_waits
-- The budgets that tasks wait for.
SELECT DISTINCT waiting_for
FROM onceward_task
WHERE waiting_for >= 'budget:'
  AND waiting_for < 'budget;'

-- name: oldest_waiting
SELECT id
FROM onceward_task
WHERE waiting_for = :waiting_for
ORDER BY id
LIMIT :count

-- name: oldest_that_may_fit
-- The oldest waiting tasks whose estimate, or refused hold, is at most what is left. For calls there is no limit here:
-- a task's gates say how many it needs.
SELECT t.id, t.estimate, t.gates, coalesce(r.amount, 0)
FROM onceward_task t
LEFT JOIN onceward_reservation r ON r.task = t.id AND r.budget = :name AND r.scope = :scope AND r.state = 1
WHERE t.waiting_for = :waiting_for
  AND t.id > :after
  AND (coalesce(r.amount, t.estimate, 0) <= :most) IS NOT FALSE
ORDER BY t.id
LIMIT :count

-- name: budget_waits_of_kinds
-- The budgets that tasks of these kinds wait for, by stage.
SELECT DISTINCT kind, CASE WHEN expiry IS NULL THEN stage ELSE '!' END, waiting_for
FROM onceward_task
WHERE waiting_for >= 'budget:'
  AND waiting_for < 'budget;'
  AND kind IN TEXTS :kinds

-- name: waiting_at_stage
SELECT id
FROM onceward_task
WHERE waiting_for = :waiting_for
  AND kind = :kind
  AND coalesce(CASE WHEN expiry IS NULL THEN stage ELSE '!' END, '') = coalesce(CAST(:stage AS text), '')
ORDER BY id
LIMIT :count

-- name: wake_for_budget
UPDATE onceward_task
SET status = #pending, waiting_for = NULL, due_at = :now, clock_at = CASE WHEN clock_at < 0 THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND status = #waiting
  AND waiting_for = :waiting_for
RETURNING id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage, company

-- name: set_budget_limit
INSERT INTO onceward_budget_limit (name, scope, ceiling, at, author)
VALUES (:name, :scope, :ceiling, :now, :author)
ON CONFLICT (name, scope) DO UPDATE SET ceiling = excluded.ceiling, at = excluded.at, author = excluded.author

-- name: drop_budget_limits_of_app
DELETE FROM onceward_budget_limit
WHERE name = :name
  AND scope = ''

-- name: change_ceilings
-- Set the ceiling of windows that are not over, and reopen them; a limit for all scopes skips scopes with their own.
UPDATE onceward_budget
SET ceiling = :ceiling,
    highest = CASE WHEN highest < :ceiling THEN :ceiling ELSE highest END,
    is_closed = 0
WHERE name = :name
  AND (scope = :scope OR (:scope = '*' AND scope NOT IN (
    SELECT l.scope FROM onceward_budget_limit l WHERE l.name = :name AND l.scope <> '*'
  )))
  AND (ends_at IS NULL OR ends_at > :now)

-- name: other_ceilings
-- Windows that are not over and differ from the ceiling in the code.
SELECT name, scope, window_at
FROM onceward_budget
WHERE name = :name
  AND ceiling <> :ceiling
  AND (ends_at IS NULL OR ends_at > :now)

-- name: declare_ceiling
-- Set the ceiling of the code where no operator has set a limit. The caller holds the locks of the rows, else it could
-- overlook a limit that an operator sets meanwhile.
UPDATE onceward_budget
SET ceiling = :ceiling,
    highest = CASE WHEN highest < :ceiling THEN :ceiling ELSE highest END
WHERE name = :name
  AND ceiling <> :ceiling
  AND (ends_at IS NULL OR ends_at > :now)
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_budget_limit l
    WHERE l.name = onceward_budget.name
      AND l.scope IN (onceward_budget.scope, '*')
  )

-- name: other_windows
-- Windows that are not over and not as long as in the code, and the present one if it does not end as declared.
SELECT name, scope, window_at
FROM onceward_budget
WHERE name = :name
  AND CASE
      WHEN window_at = :window_at
      THEN coalesce(ends_at, 0) <> :until
      ELSE (ends_at IS NULL OR ends_at > :now) AND coalesce(ends_at - window_at, 0) <> :length_ms
  END

-- name: declare_windows
-- End windows of another length; the caller holds the locks of the rows.
UPDATE onceward_budget
SET ends_at = CASE WHEN window_at <> :window_at THEN :now WHEN :until > 0 THEN :until END
WHERE name = :name
  AND CASE
      WHEN window_at = :window_at
      THEN coalesce(ends_at, 0) <> :until
      ELSE (ends_at IS NULL OR ends_at > :now) AND coalesce(ends_at - window_at, 0) <> :length_ms
  END

-- name: read_budgets
-- For reports: windows that are not over, each with the amount held by tasks and how many tasks wait.
SELECT b.name, b.scope, b.window_at, b.unit, b.ceiling, b.spent, b.reserved, b.ends_at, b.is_closed, b.fails, (
    SELECT CAST(coalesce(sum(r.amount), 0) AS bigint)
    FROM onceward_reservation r
    WHERE r.budget = b.name AND r.scope = b.scope AND r.window_at = b.window_at AND r.hold <> '' AND r.state = 0
), (
    SELECT count(*)
    FROM onceward_task t
    WHERE t.waiting_for = 'budget:' || b.name || CASE WHEN b.scope = '' THEN '' ELSE '/' || b.scope END
)
FROM onceward_budget b
WHERE (b.ends_at IS NULL OR b.ends_at > :now)
  AND (b.name = :name) IS NOT FALSE
ORDER BY b.name, b.scope
LIMIT :limit

-- name: units_of_budget
SELECT unit
FROM onceward_budget
WHERE name = :name
LIMIT 1

-- name: drop_budgets
-- Delete budgets of lineages, branches and batches that are pruned.
DELETE FROM onceward_budget
WHERE scope IN TEXTS :scopes
  AND reserved = 0

-- name: drop_budget_limits
DELETE FROM onceward_budget_limit
WHERE scope IN TEXTS :scopes

-- name: prune_budgets
-- Delete windows that ended long ago; one with reservations stays until these are settled.
DELETE FROM onceward_budget
WHERE ends_at < :before
  AND reserved = 0

-- name: verify_budgets
-- Every budget, with the sum of its reservations.
SELECT b.name, b.scope, b.window_at, b.spent, b.reserved, b.overcharged, b.highest, coalesce((
    SELECT CAST(sum(r.amount) AS bigint)
    FROM onceward_reservation r
    WHERE r.budget = b.name AND r.scope = b.scope AND r.window_at = b.window_at AND r.state = 0
), 0)
FROM onceward_budget b

-- name: stray_reservations
-- Reservations without a budget.
SELECT r.task, r.budget
FROM onceward_reservation r
LEFT JOIN onceward_budget b ON b.name = r.budget AND b.scope = r.scope AND b.window_at = r.window_at
WHERE b.name IS NULL
  AND r.state = 0

-- name: hold_needs
-- The scopes of the budgets that a hold draws from.
SELECT id, lineage, batch, scopes
FROM onceward_task
WHERE id IN :ids

-- name: holds_of
-- Holds of tasks in their present runs, also those that count as spent because the task had ended.
SELECT r.task, r.hold, r.held_of, r.budget, r.scope, r.window_at, r.amount, r.state
FROM onceward_reservation r
JOIN onceward_task t ON t.id = r.task AND t.run = r.run
WHERE r.task IN :ids
  AND r.hold <> ''
  AND r.state <> 1
ORDER BY r.task, r.hold, r.held_of, r.budget, r.scope, r.window_at

-- name: insert_holds
INSERT INTO onceward_reservation (token, at, task, run, hold, held_of, budget, scope, window_at, amount, state)
ROWS (same token bytea, same at bigint, task bigint, run integer, hold text, held_of text, budget text, scope text,
      window_at bigint, amount bigint, state smallint)
ON CONFLICT (task, token, budget, scope, hold, held_of, run, window_at, state)
DO UPDATE SET amount = onceward_reservation.amount + excluded.amount

-- name: drop_refused_holds
-- Delete the refused holds of tasks that ask again or go on without.
DELETE FROM onceward_reservation
WHERE task IN :ids
  AND state = 1

-- name: take_holds
-- Delete rows of holds, to settle them or set them aside again. The transaction that deletes a row decides over it.
DELETE FROM onceward_reservation
WHERE hold <> ''
  AND state <> 1
  AND (task, hold, held_of, run) IN (ROWS (task bigint, hold text, held_of text, run integer))
RETURNING task, hold, held_of, budget, scope, window_at, amount, state

-- name: drop_lost_holds
-- Delete holds of runs that will not go on, and refused holds of ended tasks.
DELETE FROM onceward_reservation
WHERE task IN :ids
  AND hold <> ''
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_task t
    WHERE t.id = onceward_reservation.task
      AND t.run = onceward_reservation.run
      AND (t.status < #ended OR onceward_reservation.state <> 1)
  )
RETURNING budget, scope, window_at, amount, state

-- name: lose_holds
-- Count holds of ended tasks as spent; after an operator has opened the task again they can be settled.
UPDATE onceward_reservation
SET state = 2
WHERE task IN :ids
  AND hold <> ''
  AND state = 0
  AND EXISTS (
    SELECT 1
    FROM onceward_task t
    WHERE t.id = onceward_reservation.task
      AND t.run = onceward_reservation.run
      AND t.status >= #ended
  )
RETURNING budget, scope, window_at, amount

-- name: read_holds
-- For reports: holds, oldest first.
SELECT r.task, r.hold, r.held_of, r.scope, r.amount, r.state, r.at, t.kind
FROM onceward_reservation r
LEFT JOIN onceward_task t ON t.id = r.task
WHERE r.hold <> ''
  AND r.budget = r.held_of
  AND (r.budget = :name) IS NOT FALSE
ORDER BY r.at, r.task, r.hold, r.budget
LIMIT :limit
