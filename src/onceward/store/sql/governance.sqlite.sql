-- Queries of the room governance as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: lock_blobs
-- Nothing to lock: there is one writer.
SELECT hash
FROM onceward_blob
WHERE hash IN (ROWS (hash bytea))

-- name: due_turns
-- Read the lines with due turns. Rows 0 are all turns of these lines, rows 1 the heads of their bands with the number
-- of tasks there, counted up to a limit. A look whether there are that many comes first, because counting a subquery
-- with a limit is slow here. The heads are read whole: with one writer no other claim takes them meanwhile.
WITH due (lane) AS (
    SELECT DISTINCT lane
    FROM (
        SELECT t.lane
        FROM json_each(:lines) AS w
        JOIN onceward_turn t ON t.line = w.value AND t.next_at <= :now
        ORDER BY t.next_at
        LIMIT :count
    )
)
SELECT *
FROM (
    SELECT 0, every.lane, every.line, every.seq, every.next_at, NULL, NULL, NULL, NULL, NULL
    FROM due
    CROSS JOIN onceward_turn AS every ON every.lane = due.lane
    LIMIT :all_turns
)
UNION ALL
SELECT 1, due.lane, NULL, r.band, r.at,
    CASE
        WHEN EXISTS (
            SELECT 1 FROM onceward_ready WHERE lane = due.lane AND band = b.value LIMIT 1 OFFSET :most - 1
        ) THEN :most
        ELSE (SELECT count(*) FROM onceward_ready WHERE lane = due.lane AND band = b.value)
    END, r.task, r.rank, r.seq, NULL
FROM due
CROSS JOIN json_each('[0, 1, 2, 3, 4]') AS b
CROSS JOIN onceward_ready AS r ON r.lane = due.lane AND r.band = b.value
WHERE (r.rank, r.seq) = (
    SELECT rank, seq
    FROM onceward_ready
    WHERE lane = due.lane AND band = b.value
    ORDER BY rank, seq
    LIMIT 1
)

-- name: lock_gates
-- Nothing to lock: there is one writer.
SELECT name, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
FROM onceward_gate
WHERE name IN TEXTS :names
ORDER BY name

-- name: hold_gate
-- Nothing to lock: there is one writer.
SELECT name, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
FROM onceward_gate
WHERE name = :gate

-- name: hold_gates
-- Nothing to lock, likewise.

-- name: pop_governed
-- Line by line, because SQLite has no LATERAL join; `drop_popped` deletes them.
SELECT task, rank, seq, at
FROM onceward_ready
WHERE lane = :lane AND band = :band
ORDER BY rank, seq
LIMIT :count

-- name: drop_popped_heads
-- Delete the popped heads of lines.
DELETE FROM onceward_ready
WHERE (lane, band, rank, seq) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3
    FROM json_each(:places)
)

-- name: pop_and_lease
-- Nothing: one statement writes one table here.

-- name: take_from_gates
UPDATE onceward_gate
SET tat = taken.column3, calls = calls + taken.column4, taken_at = taken.column1
FROM (ROWS (same at bigint, name text, tat bigint, calls bigint)) AS taken
WHERE onceward_gate.name = taken.column2

-- name: settle_gates
-- Only end turns; take_from_gates and insert_turns follow, because one statement writes one table here.
DELETE FROM onceward_turn
WHERE seq IN :seqs

-- name: wake_turns
-- Set the turns that wait for these gates to now.
UPDATE onceward_turn
SET next_at = :now
WHERE gate IN TEXTS :gates
  AND next_at > :now

-- name: budget_needs
-- Nothing to lock: there is one writer.
SELECT id, kind, CASE WHEN expiry IS NULL THEN stage ELSE '!' END, gates, estimate, lineage, batch, scopes, queue, band,
    rank, company
FROM onceward_task
WHERE id IN :ids
  AND status IN #startable
  AND paused = 0
  AND due_at <= :due_by
  AND gates IS NOT NULL

-- name: hold_budget_limits
-- The limits that operators have set for budgets.
SELECT name, scope, ceiling
FROM onceward_budget_limit
WHERE name IN TEXTS :names

-- name: try_budget_limits
-- Nothing to lock: there is one writer.

-- name: lock_budget_limits
-- Nothing to lock, likewise.

-- name: hold_budgets
-- Nothing to lock: there is one writer.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))

-- name: hold_all_budgets
-- Those that exist; with one writer missing ones can be opened afterwards.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (
    SELECT column1, column2, column3
    FROM (ROWS (name text, scope text, window_at bigint, has_to_be bigint))
)

-- name: hold_free_budgets
-- As hold_budgets: there are no row locks.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))

-- name: change_budgets
-- Add to the amounts reserved, spent and overcharged; an overcharge closes the budget. Sums stop before they overflow.
UPDATE onceward_budget
SET reserved = reserved + c.column4,
    spent = min(spent + c.column5, 5000000000000000000),
    overcharged = min(overcharged + c.column6, 5000000000000000000),
    is_closed = CASE WHEN c.column6 > 0 THEN 1 ELSE is_closed END
FROM (ROWS (name text, scope text, window_at bigint, reserved bigint, spent bigint, overcharged bigint)) AS c
WHERE onceward_budget.name = c.column1
  AND onceward_budget.scope = c.column2
  AND onceward_budget.window_at = c.column3

-- name: newest_accounts
-- Budgets in their newest begun windows; a window that is not over comes before one that is.
SELECT b.name, b.scope, b.window_at, b.unit, b.ceiling, b.spent, b.reserved, b.ends_at, b.is_closed, b.fails
FROM (ROWS (name text, scope text, begun_by bigint)) AS w
JOIN onceward_budget b ON b.name = w.column1 AND b.scope = w.column2
WHERE b.window_at = (
    SELECT n.window_at
    FROM onceward_budget n
    WHERE n.name = w.column1 AND n.scope = w.column2 AND n.window_at <= w.column3
    ORDER BY CASE WHEN n.ends_at <= w.column3 THEN 1 ELSE 0 END, n.window_at DESC
    LIMIT 1
)

-- name: change_reservations
UPDATE onceward_reservation
SET amount = amount + c.column5
FROM (ROWS (task bigint, token bytea, budget text, scope text, change bigint)) AS c
WHERE onceward_reservation.task = c.column1
  AND onceward_reservation.token = c.column2
  AND onceward_reservation.budget = c.column3
  AND onceward_reservation.scope = c.column4

-- name: add_costs
-- A task counts a million USD at most, so that the costs of many can be summed.
UPDATE onceward_task
SET cost = min(cost + c.column2, 1000000000000000)
FROM (ROWS (task bigint, usd bigint)) AS c
WHERE onceward_task.id = c.column1

-- name: hold_answer
-- Nothing to lock: there is one writer.
SELECT value IS NOT NULL OR value_blob IS NOT NULL, value_blob, stored_at, expires_at, filler, filling_token
FROM onceward_cache
WHERE source = :source
  AND hash = :hash

-- name: use_answers
UPDATE onceward_cache
SET used_at = used.column1
FROM (ROWS (same at bigint, source text, hash bytea)) AS used
WHERE onceward_cache.source = used.column2
  AND onceward_cache.hash = used.column3
  AND onceward_cache.used_at < used.column1

-- name: evict_answers
-- Delete answers that were not used or replaced since they were chosen.
DELETE FROM onceward_cache
WHERE (source, hash, used_at) IN (ROWS (source text, hash bytea, used_at bigint))
RETURNING value_blob

-- name: clear_answers
-- Delete answers stored by a time, and those that were being fetched.
DELETE FROM onceward_cache
WHERE rowid IN (
    SELECT rowid
    FROM onceward_cache
    WHERE (:source IS NULL OR source = :source)
      AND (:hash IS NULL OR hash = :hash)
      AND stored_at <= :now
    LIMIT :count
)
RETURNING value_blob
