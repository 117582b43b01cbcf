-- What SQLite spells in another way than PostgreSQL, each with its because.

-- name: begin
-- IMMEDIATE, because a transaction that reads first and writes later fails when another has written in between.
-- The comment in the text keeps it apart from a BEGIN of the application's, which ctx.write denies.
BEGIN IMMEDIATE /* onceward */

-- name: begin_reading
-- DEFERRED, because it must not keep anybody from writing.
BEGIN DEFERRED /* onceward */

-- name: commit
COMMIT /* onceward */

-- name: rollback
ROLLBACK /* onceward */

-- name: store_now
-- Nothing: one machine, one clock.

-- name: old_transactions
-- Nothing: SQLite does not tell who reads. What piles up meanwhile is its log, a file.

-- name: notify
-- Nothing: other processes see a commit by PRAGMA data_version.

-- name: hold_lock
-- Nothing: the lock on a presence file tells as much, because all processes are on one machine.

-- name: held_locks
-- Nothing, as above.

-- name: insert_tasks
-- New tasks, numbered in the order of the rows, in one statement: binding values row by row takes longer than the insert.
-- Byte strings come one after the other in one blob, and a row says where its payload is to be cut (`Cuts` in op.py); the
-- key of a task is the name of its row. They do not stand in line yet: one statement fills one table here.
INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage)
SELECT :kind, :version, :queue, :band, :due_at, :created_at, CASE WHEN :keys IS NOT NULL THEN given.key END,
    substr(:identities, 16 * given.rowid + 1, 16),
    CASE WHEN :in_blob IS NULL OR given.value & 1 = 0
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END,
    CASE WHEN :in_blob IS NOT NULL AND given.value & 1 = 1
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END,
    substr(:lineages, 16 * given.rowid + 1, 16)
FROM json_each(:rows) AS given

-- name: where_new_ones_stand
-- The number of the last task, and where the next one goes in its line: because one writer at a time makes that safe.
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'onceward_task'), line.rank, (
        SELECT coalesce(max(seq), 0) FROM onceward_ready WHERE lane = :lane AND band = :band AND rank = line.rank
    )
FROM (SELECT coalesce(max(rank), 0) AS rank FROM onceward_mark WHERE lane = :lane AND band = :band) AS line

-- name: stand_new
-- Tasks from the first number to the last, in the line and after the place that were just looked up. Their numbers are
-- read from their rows, which are at hand: that is faster than to count.
INSERT INTO onceward_ready (lane, band, rank, at, seq, task)
SELECT :lane, :band, :rank, :at, :seq + 1 + id - :first, id
FROM onceward_task
WHERE id BETWEEN :first AND :last

-- name: enqueue_one
-- Nothing: where no message goes to a server, none is saved.

-- name: enqueued_one
-- Nothing, likewise.

-- name: claim_at_once
-- Nothing, likewise.

-- name: claimed_at_once
-- Nothing, likewise.

-- name: insert_governed
-- New tasks that have gates to pass, each its own. They do not stand in line yet.
INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage,
    gates, estimate)
ROWS (same kind text, same version integer, same queue text, same band smallint, same due_at bigint,
      same created_at bigint, key text, identity bytea, payload bytea, payload_blob bytea, lineage uuid, gates text,
      estimate bigint)
RETURNING id, 0

-- name: stand_in_line
-- Numbered here, in the order given, because one writer at a time makes that safe and no reader starts behind the head.
WITH place (rank) AS (
    SELECT max(:rank, coalesce((SELECT max(rank) FROM onceward_mark WHERE lane = :lane AND band = :band), 0))
)
INSERT INTO onceward_ready (lane, band, rank, at, seq, task)
SELECT :lane, :band, place.rank, :at, t.key + 1 + (
        SELECT coalesce(max(seq), 0) FROM onceward_ready WHERE lane = :lane AND band = :band AND rank = place.rank
    ), t.value
FROM place
CROSS JOIN json_each(:tasks) AS t

-- name: end_of_line
-- The rank from which on new ones stand in a line, and a number beyond all who stand at some ranks there. Asked before:
-- an insert that reads its own table keeps what it has read elsewhere first.
WITH line (rank) AS (
    SELECT coalesce(max(rank), 0) FROM onceward_mark WHERE lane = :lane AND band = :band
)
SELECT line.rank, max((
        SELECT coalesce(max(seq), 0)
        FROM onceward_ready
        WHERE lane = :lane AND band = :band AND rank = max(given.value, line.rank)
    ))
FROM line
CROSS JOIN json_each(:ranks) AS given

-- name: stand_apart
-- As stand_in_line, each at a rank of its own: by the numbers of the tasks, in the order of their ranks.
INSERT INTO onceward_ready (lane, band, rank, at, seq, task)
SELECT :lane, :band, max(given.value, :rank), :at, :seq + 1 + given.rowid, given.key
FROM json_each(:apart) AS given

-- name: look
-- The first in each line, then when the next one is due. No lower bounds, because SQLite has no dead rows to step over.
SELECT r.lane, r.band, r.rank, r.seq, r.at
FROM json_each(:lanes) AS l
CROSS JOIN json_each(:bands) AS b
CROSS JOIN onceward_ready AS r ON r.lane = l.value AND r.band = b.value
WHERE (r.rank, r.seq) = (
    SELECT rank, seq
    FROM onceward_ready
    WHERE lane = l.value AND band = b.value
    ORDER BY rank, seq
    LIMIT 1
)
UNION ALL
SELECT NULL, NULL, NULL, NULL, min(due_at)
FROM onceward_due

-- name: pop
-- Read first and deleted then, as one range: there is one writer, and rows that a delete returns are stored on the way.
SELECT task, rank, seq, at
FROM onceward_ready
WHERE lane = :lane AND band = :band AND rank <= :rank_max
ORDER BY rank, seq
LIMIT :count

-- name: popped
-- Whoever stood up to here has been popped.
DELETE FROM onceward_ready
WHERE lane = :lane AND band = :band AND (rank, seq) <= (:rank, :seq)

-- name: drop_dead
-- A row for each dead place among the first of a line.
DELETE FROM onceward_ready
WHERE (lane, band, rank, seq) IN (
    SELECT first.lane, first.band, first.rank, first.seq
    FROM (
        SELECT lane, band, rank, seq, task
        FROM onceward_ready
        WHERE lane = :lane AND band = :band
        ORDER BY rank, seq
        LIMIT :count
    ) AS first
    WHERE NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = first.task AND t.status IN (0, 2) AND t.paused = 0)
  )
RETURNING 1

-- name: pop_due
DELETE FROM onceward_due
WHERE (due_at, task) IN (
    SELECT due_at, task
    FROM onceward_due
    WHERE due_at <= :now
    ORDER BY due_at, task
    LIMIT :count
  )
RETURNING task, lane, band, rank, due_at

-- name: lease_tasks
-- The claim: whatever was popped from a line and may still run gets a new fence and the token of this claim. Only for a
-- living worker. Here as it will be, and then written by lease_these: there is one writer, and rows that an update returns
-- are stored on the way. The claim row comes after it: one statement fills one table here. One that has gates to pass
-- only if it was popped from the line behind these, and a suspect only from that of suspects: a place that it has left in
-- another line takes it past no gate, and into no company.
SELECT id, fence + 1, run, kind, version, queue, band, rank, stage, payload, payload_blob, failures, crashes, company,
    deferrals, signals, touched, lineage, parent, depth, created_at, coalesce(started_at, :now), gates, scheduled_at,
    coalesce(CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END, progressed_at, started_at, :now), expiry,
    ancestry, limits, children - members, NULL
FROM onceward_task
WHERE id IN :ids
  AND status IN (0, 2)
  AND paused = 0
  AND due_at <= :due_by
  AND (:suspects OR company = 0)
  AND (:suspects OR gates IS NULL OR id || '@' || gates IN TEXTS :passed)
  AND EXISTS (SELECT 1 FROM onceward_worker w WHERE w.id = :worker AND w.stopped_at IS NULL)

-- name: lease_these
UPDATE onceward_task
SET status = 1, fence = fence + 1, token = :token, worker = :worker,
    started_at = coalesce(started_at, :now),
    clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
WHERE id IN :ids

-- name: finish_group
-- Tasks have ended in the same way. Their fence and one of our tokens are their lease, whichever claim it was of. Nobody
-- else writes meanwhile, and to look first and change then costs less than to return what was changed.
SELECT id, awaited, batch
FROM onceward_task
WHERE id IN :ids
  AND fence = :fence
  AND instr(:tokens, token)
  AND status = 1

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
-- Stages are done and their worker goes on with the next ones, under the same leases. Looked at first, as above.
SELECT id, paused
FROM onceward_task
WHERE id IN :ids
  AND fence = :fence
  AND instr(:tokens, token)
  AND status = 1

-- name: go_on_group
-- Each with the name of its own stage.
UPDATE onceward_task
SET stage = given.atom, queue = coalesce(:queue, queue), gates = :gates, touched = 1, failures = 0, crashes = 0,
    company = 0, same_errors = 0, progressed_at = :now, clock_at = NULL
FROM json_each(:next) AS given
WHERE onceward_task.id = CAST(given.key AS integer)

-- name: log_advance_group
-- One statement fills one table here.
INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
SELECT t.id, t.run, t.fence, :event, 1, given.atom, t.worker, :now, NULL
FROM json_each(:done) AS given
CROSS JOIN onceward_task AS t ON t.id = CAST(given.key AS integer)

-- name: insert_claim
INSERT INTO onceward_claim (token, worker, at, tasks, fences)
VALUES (:token, :worker, :now, :tasks, :fences)
RETURNING seq

-- name: kinds_running
-- The kinds of what living workers hold: by claim rows, because no index knows what is running.
SELECT DISTINCT t.kind
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
JOIN json_each(c.tasks) AS claimed
JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
WHERE w.stopped_at IS NULL

-- name: held_by_claim
-- What a dead worker's claim still holds. Nobody else can write while we look.
SELECT id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage, crashes, company
FROM onceward_task
WHERE id IN :ids
  AND token = :token
  AND status = 1
ORDER BY id

-- name: wait_briefly
-- Nothing: the transaction already is the only writer.

-- name: wait_as_ever
-- Nothing, likewise.

-- name: has_schema
-- Whether Onceward has ever been here.
SELECT 1
FROM sqlite_schema
WHERE type = 'table' AND name = 'onceward_schema'

-- name: lock_schema
-- Nothing: the transaction already is the only writer.

-- name: create_schema_table
CREATE TABLE IF NOT EXISTS onceward_schema (
    version integer PRIMARY KEY,
    name text NOT NULL,
    at integer NOT NULL
)

-- name: find_stuck
-- Running tasks whose worker is silent for longer than its lease: by claim rows, as in kinds_running.
SELECT t.id
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
JOIN json_each(c.tasks) AS claimed
JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
WHERE w.stopped_at IS NULL
  AND w.beat_at + w.lease_ms < :now
ORDER BY t.id DESC

-- name: report_workers
-- The living, and how many tasks each of them holds.
SELECT w.id, w.name, w.host, w.pid, w.kinds, w.queues, w.lease_ms, w.started_at, w.beat_at, (
    SELECT count(*)
    FROM onceward_claim c
    JOIN json_each(c.tasks) AS claimed
    JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
    WHERE c.worker = w.id AND c.seq >= w.low_claim
), w.presence
FROM onceward_worker w
WHERE w.stopped_at IS NULL
ORDER BY w.id

-- name: verify_claims
SELECT claimed.value, json_extract(c.fences, '$[' || claimed.key || ']'), c.token, c.worker
FROM onceward_claim c
JOIN json_each(CASE WHEN json_valid(c.tasks) AND json_valid(c.fences) THEN c.tasks ELSE '[]' END) AS claimed
ORDER BY 1, 2

-- name: unreadable_claims
-- Only here: PostgreSQL has arrays, which cannot be malformed.
SELECT seq
FROM onceward_claim
WHERE NOT (json_valid(tasks) AND json_valid(fences))

-- name: open_twice
-- Tasks whose work is open twice or more often in a lineage that knows it by its identity, each with the first of them.
SELECT first, id
FROM (
    SELECT t.id, min(t.id) OVER same AS first, count(*) OVER same AS times
    FROM onceward_task t
    WHERE t.status IN (0, 1, 2, 3)
      AND EXISTS (SELECT 1 FROM onceward_identity i WHERE i.scope = t.lineage AND i.hash = t.identity)
    WINDOW same AS (PARTITION BY t.lineage, t.identity)
) AS open
WHERE times > 1
ORDER BY id

-- name: misheld_aliases
-- Open tasks that have not got an identity which they had got with an alias, and who has it.
SELECT a.task, i.task
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
LEFT JOIN onceward_identity i ON i.scope = a.lineage AND i.hash = a.identity
WHERE a.here = 1
  AND t.status IN (0, 1, 2, 3)
  AND (i.task = a.task) IS NOT TRUE
UNION ALL
SELECT a.task, i.task
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
LEFT JOIN onceward_identity i ON i.scope = :everywhere AND i.hash = a.identity
WHERE a.everywhere = 1
  AND t.status IN (0, 1, 2, 3)
  AND (i.task = a.task) IS NOT TRUE
ORDER BY 1

-- name: check_pages
-- Only here: PostgreSQL has no such question.
PRAGMA quick_check

-- name: check_foreign_keys
-- Only here, because SQLite lets a connection switch them off.
PRAGMA foreign_key_check

-- name: lock_blobs
-- Nothing to lock: there is one writer.
SELECT hash
FROM onceward_blob
WHERE hash IN (ROWS (hash bytea))

-- name: prune_claims
-- Claims of which every task is gone, and which no living worker looks through; what is left proves every fence.
DELETE FROM onceward_claim
WHERE seq > :after
  AND seq <= :upto
  AND at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM json_each(onceward_claim.tasks) AS claimed
    JOIN onceward_task t ON t.id = claimed.value
  )
  AND NOT EXISTS (
    SELECT 1
    FROM onceward_worker w
    WHERE w.id = onceward_claim.worker
      AND w.stopped_at IS NULL
      AND w.low_claim <= onceward_claim.seq
  )
RETURNING seq

-- name: reserve_room
-- Room for so many more tasks, or for as many as there is.
UPDATE onceward_lineage
SET granted = min(asked.column2, max(0, max_tasks - tasks)),
    tasks = tasks + min(asked.column2, max(0, max_tasks - tasks))
FROM (ROWS (id uuid, wanted bigint)) AS asked
WHERE onceward_lineage.id = asked.column1
RETURNING id, root, granted, max_depth, max_children, max_tasks, deadline_at, created_at, overdue

-- name: return_room
UPDATE onceward_lineage
SET tasks = tasks - asked.column2
FROM (ROWS (id uuid, unused bigint)) AS asked
WHERE onceward_lineage.id = asked.column1

-- name: count_pruned
-- How many of the tasks of a lineage are gone. Its counter goes on counting them: a limit is about all there ever were.
UPDATE onceward_lineage
SET pruned = pruned + gone.column2
FROM (ROWS (id uuid, count bigint)) AS gone
WHERE onceward_lineage.id = gone.column1

-- name: take_in_order
-- Nothing: one writer at a time needs no order.

-- name: reserve_ids
-- The first and the last of the numbers that the next tasks will have. One writer at a time makes that safe.
SELECT last.id + 1, last.id + :count
FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'onceward_task'), 0) AS id) AS last

-- name: changes_so_far
-- How many rows this connection has written: here it tells whether somebody was met, because rows that an insert returns
-- are stored on the way.
SELECT total_changes()

-- name: take_free_identities
-- Whoever has an identity keeps it.
INSERT INTO onceward_identity (scope, hash, task)
ROWS (scope bytea, hash bytea, task bigint)
ON CONFLICT (scope, hash) DO NOTHING

-- name: identities_met
-- Who has those of these identities that we have not got. Byte strings come one after the other in one blob.
SELECT i.scope, i.hash, i.task
FROM json_each(:tasks) AS given
CROSS JOIN onceward_identity AS i
    ON i.scope = substr(:scopes, 16 * given.key + 1, 16) AND i.hash = substr(:hashes, 16 * given.key + 1, 16)
WHERE i.task <> given.value

-- name: insert_children
INSERT INTO onceward_task (created_at, id, kind, version, queue, band, key, identity, payload, payload_blob, lineage, parent,
    depth, batch, due_at, ancestry, limits, scopes, touched, gates, estimate)
ROWS (same created_at bigint, id bigint, kind text, version integer, queue text, band smallint, key text, identity bytea,
      payload bytea, payload_blob bytea, lineage uuid, parent bigint, depth smallint, batch bigint, due_at bigint,
      ancestry bytea, limits bytea, scopes bytea, touched smallint, gates text, estimate bigint)

-- name: insert_alike
-- Children that differ in little: what they have in common is sent once. Byte strings and rows come as in insert_tasks.
INSERT INTO onceward_task (created_at, kind, version, queue, band, due_at, gates, estimate, lineage, parent, depth, batch,
    ancestry, limits, scopes, id, key, identity, payload, payload_blob)
SELECT :created_at, :kind, :version, :queue, :band, :due_at, :gates, :estimate, :lineage, :parent, :depth, :batch,
    :ancestry, :limits, :scopes, :first + (given.value >> 38), CASE WHEN :keys IS NOT NULL THEN given.key END,
    substr(:identities, 16 * given.rowid + 1, 16),
    CASE WHEN :in_blob IS NULL OR given.value & 1 = 0
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END,
    CASE WHEN :in_blob IS NOT NULL AND given.value & 1 = 1
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END
FROM json_each(:rows) AS given

-- name: count_family
UPDATE onceward_task
SET children = children + asked.column2, members = members + asked.column3, refusals = refusals + asked.column4
FROM (ROWS (task bigint, children bigint, members bigint, refusals bigint)) AS asked
WHERE onceward_task.id = asked.column1

-- name: set_scheduled
UPDATE onceward_task
SET scheduled_at = fired.column2
FROM (ROWS (task bigint, at bigint)) AS fired
WHERE onceward_task.id = fired.column1

-- name: lock_links
-- Nothing: the transaction already is the only writer.

-- name: lock_settings
-- Nothing: the transaction already is the only writer.

-- name: lock_limits
-- Nothing: the transaction already is the only writer.

-- name: who_waits_for
-- Everybody who waits, or may come to wait, for a task: its ancestors, those who were linked to it, what follows the
-- batches that it belongs to (also if that has failed: opened again, it waits again), and so on up. A batch is met on the way as the negative of its number. A step up for each,
-- because a join with the union of the tables would read them from end to end.
WITH RECURSIVE waiting (id) AS (
    SELECT id
    FROM onceward_task
    WHERE id = :task
    UNION
    SELECT t.parent
    FROM waiting
    JOIN onceward_task t ON t.id = waiting.id
    WHERE t.parent IS NOT NULL
    UNION
    SELECT l.parent
    FROM waiting
    JOIN onceward_link l ON l.child = waiting.id
    UNION
    SELECT -t.batch
    FROM waiting
    JOIN onceward_task t ON t.id = waiting.id
    WHERE t.batch IS NOT NULL
    UNION
    SELECT -b.inside
    FROM waiting
    JOIN onceward_batch b ON b.id = -waiting.id
    WHERE b.inside IS NOT NULL
    UNION
    SELECT b.then_task
    FROM waiting
    JOIN onceward_batch b ON b.id = -waiting.id
    JOIN onceward_task t ON t.id = b.then_task
    WHERE t.waiting_for = 'batch:' || b.name
       OR (t.status = 7 AND b.status = 0)
)
SELECT id
FROM waiting

-- name: open_holders
-- Read to be locked, and there is nothing to lock.

-- name: lock_tasks
-- Nothing to lock: there is one writer.

-- name: lock_parents
-- Nothing to lock, likewise.

-- name: count_batches
-- Tasks of batches were added, have ended, or are open again (a negative end). Only of open batches: one that has ended
-- stays as it ended.
UPDATE onceward_batch
SET total = total + c.column2,
    open = open + c.column2 - c.column3 - c.column4 - c.column5 - c.column6 - c.column7,
    succeeded = succeeded + c.column3,
    filtered = filtered + c.column4,
    skipped = skipped + c.column5,
    failed = failed + c.column6,
    cancelled = cancelled + c.column7
FROM (ROWS (id bigint, added bigint, succeeded bigint, filtered bigint, skipped bigint, failed bigint,
            cancelled bigint)) AS c
WHERE onceward_batch.id = c.column1
  AND status = 0
RETURNING id, open

-- name: lock_standing
-- Nothing to lock: there is one writer.
SELECT batch, status
FROM onceward_task
WHERE id = :task

-- name: park_new
-- Children that wait for an operator from the start.
UPDATE onceward_task
SET status = 3, waiting_for = asked.column1, due_at = asked.column2, reason = asked.column4
FROM (ROWS (same waiting_for text, same due_at bigint, task bigint, reason text)) AS asked
WHERE onceward_task.id = asked.column3

-- name: due_turns
-- The lines whose turn it is, with all their turns (0); who stands first in each band of them, and how many stand there,
-- counted no further than to a number (1): by a look whether there are as many, because to count the rows of a subquery
-- with a limit is slow here. And who that is: there is one writer, so nobody else takes it.
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
-- Line by line, because SQLite has no join with a limit for each row. Deleted then, as in pop.
SELECT task, rank, seq, at
FROM onceward_ready
WHERE lane = :lane AND band = :band
ORDER BY rank, seq
LIMIT :count

-- name: popped_first
-- Those who stood first in some lines have been popped.
DELETE FROM onceward_ready
WHERE (lane, band, rank, seq) IN (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3
    FROM json_each(:places)
)

-- name: pop_and_lease
-- Nothing: here one statement changes one table.

-- name: take_from_gates
UPDATE onceward_gate
SET tat = taken.column3, calls = calls + taken.column4, taken_at = taken.column1,
    last_success_at = coalesce(taken.column5, last_success_at)
FROM (ROWS (same at bigint, name text, tat bigint, calls bigint, healthy bigint)) AS taken
WHERE onceward_gate.name = taken.column2

-- name: settle_gates
-- Only the turns that are over: one statement changes one table here. The rest follows.
DELETE FROM onceward_turn
WHERE seq IN :seqs

-- name: wake_turns
-- There is room: whoever waits for it is looked at now.
UPDATE onceward_turn
SET next_at = :now
WHERE gate IN TEXTS :gates
  AND next_at > :now

-- name: wake_lines
-- The clock was set back: what was to be looked at soon is looked at now.
UPDATE onceward_turn
SET next_at = :now
WHERE line IN TEXTS :lines
  AND next_at > :now
  AND next_at < :never

-- name: next_turn
SELECT min(t.next_at)
FROM json_each(:lines) AS w
JOIN onceward_turn t ON t.line = w.value

-- name: hold_pauses
-- Nothing to lock: there is one writer.
SELECT scope
FROM onceward_pause
WHERE scope IN TEXTS :scopes

-- name: wake_source
-- A source is open again: whoever waits behind it, or behind one of its instances, is looked at now.
UPDATE onceward_turn
SET next_at = :now
WHERE (gate = :gate OR (gate >= :gate || '/' AND gate < :gate || '0'))
  AND next_at > :now

-- name: budget_needs
-- Nothing to lock: there is one writer.
SELECT id, kind, CASE WHEN expiry IS NULL THEN stage ELSE '!' END, gates, estimate, lineage, batch, scopes, queue, band,
    rank, company
FROM onceward_task
WHERE id IN :ids
  AND status IN (0, 2)
  AND paused = 0
  AND due_at <= :due_by
  AND gates IS NOT NULL

-- name: hold_budget_limits
-- What operators have made of budgets.
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
-- Those that there are: nobody minds if one is opened afterwards.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (
    SELECT column1, column2, column3
    FROM (ROWS (name text, scope text, window_at bigint, has_to_be bigint))
)

-- name: hold_free_budgets
-- As hold_budgets: nobody else can have locked one.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))

-- name: change_budgets
-- What was set aside, spent, or spent beyond what was set aside. The last closes a budget. Where a sum would not fit into a
-- number, it is counted no further.
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
-- Budgets as they stand in their newest windows that have begun: those that are not over, if there are such.
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
-- Of a task a million is counted, so that the costs of many can be added up.
UPDATE onceward_task
SET cost = min(cost + c.column2, 1000000000000000)
FROM (ROWS (task bigint, usd bigint)) AS c
WHERE onceward_task.id = c.column1

-- name: advance_ranks
-- The next ranks of lineages: no further ahead than where the claims have come to in the line of most of their tasks.
UPDATE onceward_lineage
SET next_rank = asked.column4 + max(
    next_rank, coalesce((SELECT max(rank) FROM onceward_mark WHERE lane = asked.column2 AND band = asked.column3), 0)
)
FROM (ROWS (id uuid, lane text, band smallint, count bigint)) AS asked
WHERE onceward_lineage.id = asked.column1
RETURNING id, next_rank

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
-- If nobody has used or replaced them since.
DELETE FROM onceward_cache
WHERE (source, hash, used_at) IN (ROWS (source text, hash bytea, used_at bigint))
RETURNING value_blob

-- name: clear_answers
-- Those that were there at a time, and those that were being asked for.
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

-- name: leave_waiting_room
-- Of tasks that were to run again later: they have no other place there. Nothing to skip: there is one writer.
DELETE FROM onceward_due
WHERE (due_at, task) IN (SELECT due_at, id FROM onceward_task WHERE id IN :ids)

-- name: read_checkpoints
-- The stored results and parts of tasks that are resumed, of their present run, and what they hold of budgets: digits,
-- made to bytes as this database does it.
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
