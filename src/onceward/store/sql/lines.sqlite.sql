-- Queries of the room lines as SQLite spells them; each comment says why they differ from PostgreSQL's.

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

-- name: kinds_running
-- The kinds of what living workers hold: by claim rows, because no index knows what is running.
SELECT DISTINCT t.kind
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
JOIN json_each(c.tasks) AS claimed
JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
WHERE w.stopped_at IS NULL

-- name: reserve_ids
-- The first and the last of the numbers that the next tasks will have. One writer at a time makes that safe.
SELECT last.id + 1, last.id + :count
FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'onceward_task'), 0) AS id) AS last

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
