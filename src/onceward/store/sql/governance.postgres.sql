-- Queries of the room governance as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: lock_blobs
-- In a statement of its own, because references must be read after the lock. A blob locked by another transaction is in
-- use, and skipped.
SELECT hash
FROM onceward_blob
WHERE hash IN (ROWS (hash bytea))
ORDER BY hash
FOR UPDATE SKIP LOCKED

-- name: due_turns
-- Read the lines with due turns, in one round trip. Rows 0 are all turns of these lines, rows 1 the heads of their
-- bands with the number of tasks there, counted up to a limit. Rows 2 are their gates, locked if `locks`; gates that
-- another claim has locked are left out, because it serves the lines behind them. Line by line, because the index gives
-- the oldest turn of one line only; after the last place seen in a line, as in look.
WITH due AS (
    SELECT oldest.lane
    FROM unnest(:lines::text[]) AS w (line)
    CROSS JOIN LATERAL (
        SELECT t.lane
        FROM onceward_turn t
        WHERE t.line = w.line
          AND t.next_at <= :now
        ORDER BY t.next_at
        LIMIT :count
    ) AS oldest
), turns AS (
    SELECT seq, line, lane, next_at
    FROM onceward_turn
    WHERE lane = ANY (ARRAY (SELECT lane FROM due))
    LIMIT :all_turns
), lanes AS (
    SELECT DISTINCT line, lane
    FROM turns
), names AS (
    SELECT array_agg(split_part(word, '*', 1)) AS names
    FROM lanes
    CROSS JOIN LATERAL unnest(string_to_array(substr(lane, length(line) + 2), ' ')) AS word
), gates AS (
    SELECT name, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
    FROM onceward_gate
    WHERE name = ANY ((SELECT names FROM names)::text[])
      AND :locks::boolean
    ORDER BY name
    FOR UPDATE SKIP LOCKED
)
SELECT 0, lane, line, seq, next_at, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
FROM turns
UNION ALL
SELECT 1, l.lane, NULL, b.band, head.at, (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM onceward_ready c
        WHERE c.lane = l.lane
          AND c.band = b.band
          AND (c.rank, c.seq) >= (head.rank, head.seq)
        LIMIT :most
    ) AS counted
), NULL, NULL, NULL, NULL
FROM lanes l
CROSS JOIN generate_series(0, 4) AS b (band)
LEFT JOIN unnest(:seen_lanes::text[], :seen_bands::bigint[], :seen_ranks::bigint[], :seen_seqs::bigint[])
    AS s (lane, band, rank, seq) ON s.lane = l.lane AND s.band = b.band
CROSS JOIN LATERAL (
    SELECT r.at, r.rank, r.seq
    FROM onceward_ready r
    WHERE r.lane = l.lane
      AND r.band = b.band
      AND (r.rank, r.seq) > (coalesce(s.rank, -1), coalesce(s.seq, -1))
    ORDER BY r.rank, r.seq
    LIMIT 1
) AS head
UNION ALL
SELECT 2, name, NULL, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
FROM gates
UNION ALL
SELECT 2, name, NULL, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
FROM onceward_gate
WHERE name = ANY ((SELECT names FROM names)::text[])
  AND NOT :locks::boolean

-- name: lock_gates
-- Skipping gates that another claim has locked: it serves the lines behind them.
SELECT name, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
FROM onceward_gate
WHERE name IN TEXTS :names
ORDER BY name
FOR UPDATE SKIP LOCKED

-- name: hold_gate
SELECT name, tat, enabled, streak, paused_until, is_half_open, opened, taken_at
FROM onceward_gate
WHERE name = :gate
FOR UPDATE

-- name: hold_gates
SELECT name
FROM onceward_gate
WHERE name IN TEXTS :names
ORDER BY name
FOR UPDATE

-- name: pop_governed
-- Nothing: pop_and_lease pops.

-- name: drop_popped_heads
-- Nothing, likewise.

-- name: pop_and_lease
-- Pop tasks, take their tokens and lease the tasks with their claim row as in lease_tasks, in one round trip. The claim
-- holds the locks of the gates, and only the transaction that holds them pops from these lines. By ctid, as in pop.
-- Without a worker it leases nothing. Returns a row per lease, and one more whose single value says for each line which
-- tasks were popped and how far: as columns every lease would carry them.
WITH taken AS (
    UPDATE onceward_gate g
    SET tat = t.tat, calls = g.calls + t.calls, taken_at = :now
    FROM unnest(:names::text[], :tats::bigint[], :calls::bigint[]) AS t (name, tat, calls)
    WHERE g.name = t.name
), popped AS (
    DELETE FROM onceward_ready
    WHERE ctid = ANY (ARRAY (
        SELECT first.ctid
        FROM unnest(:lanes::text[], :bands::bigint[], :counts::bigint[], :ranks::bigint[], :seqs::bigint[])
            AS w (lane, band, count, rank, seq)
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM onceward_ready r
            WHERE r.lane = w.lane
              AND r.band = w.band
              AND (r.rank, r.seq) > (w.rank, w.seq)
            ORDER BY r.rank, r.seq
            LIMIT w.count
            FOR UPDATE SKIP LOCKED
        ) AS first
    ))
    RETURNING rank, seq, task, lane, at
), living AS (
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
    WHERE t.id = ANY (ARRAY (SELECT task FROM popped))
      AND t.status IN #startable
      AND t.paused = 0
      AND t.due_at <= greatest(:now, (SELECT max(at) FROM popped))
      AND t.company = 0
      AND t.id || '@' || t.gates = ANY (ARRAY (SELECT task || substr(lane, strpos(lane, '@')) FROM popped))
    RETURNING LEASE OF t
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id ORDER BY id), array_agg(fence ORDER BY id)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
)
SELECT claim.seq, leased.*, NULL::text
FROM leased, claim
UNION ALL
SELECT NULL, NO LEASE, (
    SELECT coalesce(json_agg(json_build_array(lane, tasks, rank, seqs[cardinality(seqs)], at)), '[]')::text
    FROM (
        SELECT lane, array_agg(task ORDER BY rank, seq) AS tasks, max(rank) AS rank,
            array_agg(seq ORDER BY rank, seq) AS seqs, max(at) AS at
        FROM popped
        GROUP BY lane
    ) AS lines
)

-- name: take_from_gates
WITH taken (at, name, tat, calls) AS (
    ROWS (same at bigint, name text, tat bigint, calls bigint)
)
UPDATE onceward_gate g
SET tat = taken.tat, calls = g.calls + taken.calls, taken_at = taken.at
FROM taken
WHERE g.name = taken.name

-- name: settle_gates
-- Take tokens from gates, end turns and insert new ones, in one round trip.
WITH taken AS (
    UPDATE onceward_gate g
    SET tat = t.tat, calls = g.calls + t.calls, taken_at = :now
    FROM unnest(:names::text[], :tats::bigint[], :calls::bigint[]) AS t (name, tat, calls)
    WHERE g.name = t.name
      AND g.name = ANY (:names::text[])
), gone AS (
    DELETE FROM onceward_turn
    WHERE seq IN :seqs
), come AS (
    INSERT INTO onceward_turn (line, lane, gate, next_at)
    SELECT line, lane, gate, next_at
    FROM unnest(:lines::text[], :lanes::text[], :gates::text[], :times::bigint[]) AS n (line, lane, gate, next_at)
)
SELECT 1

-- name: wake_turns
-- Set the turns that wait for these gates to now, but skip turns that a claim is ending.
UPDATE onceward_turn
SET next_at = :now
WHERE seq = ANY (ARRAY (
    SELECT seq
    FROM onceward_turn
    WHERE gate IN TEXTS :gates
      AND next_at > :now
    FOR UPDATE SKIP LOCKED
))

-- name: budget_needs
-- Locked as they are read, because the claim that follows takes the tasks for which amounts are set aside.
SELECT id, kind, CASE WHEN expiry IS NULL THEN stage ELSE '!' END, gates, estimate, lineage, batch, scopes, queue, band,
    rank, company
FROM onceward_task
WHERE id IN :ids
  AND status IN #startable
  AND paused = 0
  AND due_at <= :due_by
  AND gates IS NOT NULL
ORDER BY id
FOR UPDATE

-- name: hold_budget_limits
-- The limits that operators have set for budgets, locked until this transaction ends.
SELECT name, scope, ceiling
FROM onceward_budget_limit
WHERE name IN TEXTS :names
FOR SHARE

-- name: try_budget_limits
-- Raise an error instead of waiting for an operator's change of a limit.
LOCK TABLE onceward_budget_limit IN ROW SHARE MODE NOWAIT

-- name: lock_budget_limits
-- Wait for transactions that open a budget with a limit they have read, and let no other read one to do so.
LOCK TABLE onceward_budget_limit IN EXCLUSIVE MODE

-- name: hold_budgets
-- In order, because many transactions draw from them at once (decision 46).
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))
ORDER BY name, scope, window_at
FOR UPDATE

-- name: hold_all_budgets
-- As hold_budgets, but none if one with `has_to_be` is missing: opening it must first lock the limits of operators,
-- which are locked before budgets.
WITH wanted (name, scope, window_at, has_to_be) AS (
    ROWS (name text, scope text, window_at bigint, has_to_be bigint)
)
SELECT b.name, b.scope, b.window_at, b.unit, b.ceiling, b.spent, b.reserved, b.ends_at, b.is_closed, b.fails
FROM onceward_budget b
WHERE (b.name, b.scope, b.window_at) IN (SELECT name, scope, window_at FROM wanted)
  AND NOT EXISTS (
    SELECT 1
    FROM wanted w
    LEFT JOIN onceward_budget k ON k.name = w.name AND k.scope = w.scope AND k.window_at = w.window_at
    WHERE w.has_to_be = 1
      AND k.name IS NULL
  )
ORDER BY b.name, b.scope, b.window_at
FOR UPDATE OF b

-- name: hold_free_budgets
-- Skipping locked budgets, because a transaction that holds one already must not wait for another.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))
ORDER BY name, scope, window_at
FOR UPDATE SKIP LOCKED

-- name: change_budgets
-- Add to the amounts reserved, spent and overcharged; an overcharge closes the budget. Sums stop before they overflow.
-- Rows are locked in order first (decision 46).
WITH changed (name, scope, window_at, reserved, spent, overcharged) AS (
    ROWS (name text, scope text, window_at bigint, reserved bigint, spent bigint, overcharged bigint)
), locked AS (
    SELECT b.name, b.scope, b.window_at, c.reserved, c.spent, c.overcharged
    FROM onceward_budget b
    JOIN changed c ON c.name = b.name AND c.scope = b.scope AND c.window_at = b.window_at
    ORDER BY b.name, b.scope, b.window_at
    FOR UPDATE OF b
)
UPDATE onceward_budget b
SET reserved = b.reserved + c.reserved,
    spent = least(b.spent + c.spent, 5000000000000000000),
    overcharged = least(b.overcharged + c.overcharged, 5000000000000000000),
    is_closed = CASE WHEN c.overcharged > 0 THEN 1 ELSE b.is_closed END
FROM locked c
WHERE b.name = c.name
  AND b.scope = c.scope
  AND b.window_at = c.window_at

-- name: newest_accounts
-- Budgets in their newest begun windows; a window that is not over comes before one that is.
WITH wanted (name, scope, begun_by) AS (
    ROWS (name text, scope text, begun_by bigint)
)
SELECT b.name, b.scope, b.window_at, b.unit, b.ceiling, b.spent, b.reserved, b.ends_at, b.is_closed, b.fails
FROM wanted w
JOIN onceward_budget b ON b.name = w.name AND b.scope = w.scope
WHERE b.window_at = (
    SELECT n.window_at
    FROM onceward_budget n
    WHERE n.name = w.name AND n.scope = w.scope AND n.window_at <= w.begun_by
    ORDER BY CASE WHEN n.ends_at <= w.begun_by THEN 1 ELSE 0 END, n.window_at DESC
    LIMIT 1
)

-- name: change_reservations
WITH changed (task, token, budget, scope, change) AS (
    ROWS (task bigint, token bytea, budget text, scope text, change bigint)
)
UPDATE onceward_reservation r
SET amount = r.amount + c.change
FROM changed c
WHERE r.task = c.task
  AND r.token = c.token
  AND r.budget = c.budget
  AND r.scope = c.scope

-- name: add_costs
-- A task counts a million USD at most, so that the costs of many can be summed.
WITH changed (task, usd) AS (
    ROWS (task bigint, usd bigint)
)
UPDATE onceward_task t
SET cost = least(t.cost + c.usd, 1000000000000000)
FROM changed c
WHERE t.id = c.task

-- name: hold_answer
SELECT value IS NOT NULL OR value_blob IS NOT NULL, value_blob, stored_at, expires_at, filler, filling_token
FROM onceward_cache
WHERE source = :source
  AND hash = :hash
FOR UPDATE

-- name: use_answers
-- Skipping answers that another transaction has locked: it uses or deletes them.
WITH used (at, source, hash) AS (
    ROWS (same at bigint, source text, hash bytea)
), free AS (
    SELECT c.source, c.hash, used.at
    FROM onceward_cache c
    JOIN used ON used.source = c.source AND used.hash = c.hash
    WHERE c.used_at < used.at
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE onceward_cache
SET used_at = free.at
FROM free
WHERE onceward_cache.source = free.source
  AND onceward_cache.hash = free.hash

-- name: evict_answers
-- Delete answers that were not used or replaced since they were chosen, skipping locked ones, which are in use.
DELETE FROM onceward_cache
WHERE (source, hash) IN (
    SELECT source, hash
    FROM onceward_cache
    WHERE (source, hash, used_at) IN (ROWS (source text, hash bytea, used_at bigint))
    FOR UPDATE SKIP LOCKED
)
RETURNING value_blob

-- name: clear_answers
-- Delete answers stored by a time, and those that were being fetched.
DELETE FROM onceward_cache
WHERE (source, hash) IN (
    SELECT source, hash
    FROM onceward_cache
    WHERE (:source::text IS NULL OR source = :source::text)
      AND (:hash::bytea IS NULL OR hash = :hash::bytea)
      AND stored_at <= :now
    ORDER BY source, hash
    LIMIT :count
    FOR UPDATE
)
RETURNING value_blob
