-- Gates of governed tasks: turns of lines, tokens, and slots of the tasks inside.

-- name: known_gates
SELECT name
FROM onceward_gate
WHERE name IN TEXTS :names

-- name: insert_gates
INSERT INTO onceward_gate (name)
ROWS (name text)
ON CONFLICT (name) DO NOTHING

-- name: inside_gates
-- Count the tasks inside each gate, and the probes among them. A slot counts as long as its task carries its token, so
-- slots of a dead worker need no cleaning up.
SELECT s.gate, count(*), sum(s.is_probe)
FROM onceward_slot s
JOIN onceward_task t ON t.id = s.task AND t.token = s.token
WHERE s.gate IN TEXTS :names
  AND t.status = #running
GROUP BY s.gate

-- name: is_inside
SELECT 1
FROM onceward_slot
WHERE gate = :gate
  AND task = :task
  AND token = :token

-- name: insert_slots
-- Give tasks slots; a task with a slot of an earlier lease gets it anew.
INSERT INTO onceward_slot (gate, task, token, is_probe, at)
ROWS (gate text, task bigint, token bytea, is_probe smallint, at bigint)
ON CONFLICT (gate, task) DO UPDATE SET token = excluded.token, is_probe = excluded.is_probe, at = excluded.at

-- name: leave_gates
-- Free the slots of tasks that leave their gates.
DELETE FROM onceward_slot
WHERE task IN :ids
RETURNING gate

-- name: report_success
-- Report a success: at once to gates that were not healthy, else now and then.
UPDATE onceward_gate
SET streak = 0, last_success_at = :now,
    is_half_open = CASE WHEN paused_until <= :now THEN 0 ELSE is_half_open END,
    why = CASE WHEN paused_until <= :now THEN NULL ELSE why END
WHERE name IN TEXTS :gates
  AND (streak > 0 OR is_half_open = 1 OR last_success_at IS NULL OR last_success_at < :before)

-- name: gates_of_tasks
-- The gates of these tasks, where they have any.
SELECT id, queue, kind, band, company, gates
FROM onceward_task
WHERE id IN :ids
  AND gates IS NOT NULL

-- name: insert_turns
INSERT INTO onceward_turn (line, lane, gate, next_at)
ROWS (line text, lane text, gate text, next_at bigint)

-- name: set_gate_back
-- Move the times of a gate back with the clock.
UPDATE onceward_gate
SET tat = :tat, paused_until = :paused_until, taken_at = :now
WHERE name = :gate

-- name: change_gate
UPDATE onceward_gate
SET tat = :tat, taken_at = :taken_at, enabled = :enabled, streak = :streak, paused_until = :paused_until, is_half_open = :is_half_open,
    opened = :opened, failures = failures + :failures,
    why = CASE WHEN :paused_until <= paused_until AND :enabled = enabled THEN why ELSE :why END,
    last_success_at = coalesce(:last_success_at, last_success_at),
    last_failure_at = coalesce(:last_failure_at, last_failure_at),
    last_error = coalesce(:last_error, last_error)
WHERE name = :gate

-- name: close_gate
-- Close a gate until the time that its source has asked for.
UPDATE onceward_gate
SET why = CASE WHEN paused_until < :until THEN :why ELSE why END,
    paused_until = CASE WHEN paused_until < :until THEN :until ELSE paused_until END
WHERE name = :gate
RETURNING name

-- name: turns_to_come
-- Whether a task stands in a governed line that will be served some time.
SELECT 1
FROM onceward_turn t
LEFT JOIN onceward_gate g ON g.name = t.gate
WHERE t.line IN TEXTS :lines
  AND t.next_at < 4611686018427387904
  AND coalesce(g.enabled, 1) = 1
LIMIT 1

-- name: read_pauses
SELECT scope, at, author
FROM onceward_pause
ORDER BY scope

-- name: insert_pause
INSERT INTO onceward_pause (scope, at, author)
VALUES (:scope, :now, :author)
ON CONFLICT (scope) DO NOTHING
RETURNING scope

-- name: delete_pause
DELETE FROM onceward_pause
WHERE scope = :scope
RETURNING scope

-- name: source_gates
-- The gates of all sources, or of one and its instances. Gates of pipelines, keys, budgets and weights begin with a
-- sign.
SELECT name
FROM onceward_gate
WHERE substr(name, 1, 1) NOT IN ('=', '#', '$', '~')
  AND (
    CAST(:source AS text) IS NULL
    OR name = :source
    OR (name >= CAST(:source AS text) || '/' AND name < CAST(:source AS text) || '0')
  )

-- name: emptier_gates
-- The gates of a source whose buckets are full again only after a time.
SELECT name
FROM onceward_gate
WHERE (
    name = :source
    OR (name >= CAST(:source AS text) || '/' AND name < CAST(:source AS text) || '0')
  )
  AND tat > :tat
ORDER BY name

-- name: fill_gate
UPDATE onceward_gate
SET tat = :tat
WHERE name = :gate
  AND tat > :tat

-- name: read_gates
SELECT name, tat, enabled, streak, paused_until, is_half_open, opened, taken_at, why, calls, failures, hits, misses,
    last_success_at, last_failure_at, last_error
FROM onceward_gate
WHERE name IN TEXTS :names

-- name: governed_lines
-- How many tasks stand in each governed line, and since when. A line that is not empty has a turn.
SELECT lane, count(*), min(at)
FROM onceward_ready
WHERE lane IN (SELECT lane FROM onceward_turn)
GROUP BY lane

-- name: enable_gates
UPDATE onceward_gate
SET enabled = 1, streak = 0, is_half_open = 0, paused_until = 0, why = NULL
WHERE name IN TEXTS :names

-- name: disable_gates
-- Disable gates, and insert missing ones in the same statement: an unused gate may be pruned at the same time.
INSERT INTO onceward_gate (enabled, why, name)
ROWS (same enabled smallint, same why text, name text)
ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled, why = excluded.why

-- name: verify_lines
-- Governed lines that are not empty, each with its first turn, and with the gate of a turn that never comes. An @ parts
-- a line from its gates.
SELECT r.lane, min(r.task), count(*),
    (SELECT min(t.next_at) FROM onceward_turn t WHERE t.lane = r.lane),
    (SELECT min(t.gate) FROM onceward_turn t WHERE t.lane = r.lane AND t.next_at >= 4611686018427387904)
FROM onceward_ready r
WHERE replace(r.lane, '@', '') <> r.lane
GROUP BY r.lane

-- name: verify_slots
-- Slots, and whether their task exists.
SELECT s.gate, s.task, EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = s.task)
FROM onceward_slot s

-- name: verify_gates
SELECT name, enabled, streak, is_half_open, calls, failures, hits, misses, why
FROM onceward_gate

-- name: prune_slots
-- Delete slots of lost attempts and cancelled tasks, which no longer carry their token. By token, because no task
-- carries one twice: a slot that is taken anew meanwhile stays.
DELETE FROM onceward_slot
WHERE (gate, task, token) IN (
    SELECT s.gate, s.task, s.token
    FROM onceward_slot s
    LEFT JOIN onceward_task t ON t.id = s.task AND t.token = s.token AND t.status = #running
    WHERE t.id IS NULL
)
RETURNING gate

-- name: prune_gates
-- Delete unused gates of keys and of source instances, without turns or slots. They are inserted again when needed; a
-- disabled gate stays.
DELETE FROM onceward_gate
WHERE (
    substr(name, 1, 1) = '#'
    OR (
        replace(name, '/', '') <> name
        AND enabled = 1
        AND coalesce(last_success_at, 0) < :before
        AND coalesce(last_failure_at, 0) < :before
        AND paused_until < :before
        AND tat / 1000 < :before
    )
  )
  AND NOT EXISTS (SELECT 1 FROM onceward_turn t WHERE t.gate = onceward_gate.name)
  AND NOT EXISTS (SELECT 1 FROM onceward_slot s WHERE s.gate = onceward_gate.name)
RETURNING name
