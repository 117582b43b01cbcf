-- Queries of the room lines as SQLite spells them; each comment says why they differ from PostgreSQL's.

-- name: insert_tasks
-- Insert tasks in one statement, numbered in the order of the rows: binding values row by row takes longer than the
-- insert. Byte strings come joined in one blob, and each row says where to cut it (`PackedBytes` in op.py); the key of
-- a task is the name of its row. Their places in line follow: one statement writes one table here.
INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage)
SELECT :kind, :version, :queue, :band, :due_at, :created_at, CASE WHEN :keys IS NOT NULL THEN given.key END,
    substr(:identities, 16 * given.rowid + 1, 16),
    CASE WHEN :in_blob IS NULL OR given.value & 1 = 0
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END,
    CASE WHEN :in_blob IS NOT NULL AND given.value & 1 = 1
        THEN substr(:payloads, given.value >> 14 & 16777215, given.value >> 1 & 8191) END,
    substr(:lineages, 16 * given.rowid + 1, 16)
FROM json_each(:rows) AS given

-- name: place_of_new
-- The id of the last task, and where the next one goes in its line. With one writer at a time that is safe.
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'onceward_task'), line.rank, (
        SELECT coalesce(max(seq), 0) FROM onceward_ready WHERE lane = :lane AND band = :band AND rank = line.rank
    )
FROM (SELECT coalesce(max(rank), 0) AS rank FROM onceward_mark WHERE lane = :lane AND band = :band) AS line

-- name: put_new_in_line
-- Put tasks from the first id to the last in line, after the place just read. The ids come from their rows, which are
-- in memory: that is faster than counting.
INSERT INTO onceward_ready (lane, band, rank, at, seq, task)
SELECT :lane, :band, :rank, :at, :seq + 1 + id - :first, id
FROM onceward_task
WHERE id BETWEEN :first AND :last

-- name: enqueue_one
-- Nothing: there is no server, so one statement saves no round trip.

-- name: enqueued_one
-- Nothing, likewise.

-- name: insert_governed
-- Insert tasks, each with its own gates. Their places in line follow.
INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage,
    gates, estimate)
ROWS (same kind text, same version integer, same queue text, same band smallint, same due_at bigint,
      same created_at bigint, key text, identity bytea, payload bytea, payload_blob bytea, lineage uuid, gates text,
      estimate bigint)
RETURNING id, 0

-- name: put_in_line
-- Number the places in the order given: with one writer at a time that is safe, and claims begin at the head.
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
-- The rank at which new tasks stand in a line, and a number above all places of some ranks. Read before the insert,
-- because an INSERT that reads its own table copies the rows first.
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

-- name: put_apart_in_line
-- As put_in_line, each task at its own rank.
INSERT INTO onceward_ready (lane, band, rank, at, seq, task)
SELECT :lane, :band, max(given.value, :rank), :at, :seq + 1 + given.rowid, given.key
FROM json_each(:apart) AS given

-- name: look
-- The head of each line, then the next due time. Without lower bounds, because SQLite has no dead rows to step over.
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
-- Read the first tasks; `drop_popped` deletes them as one range. RETURNING would store the rows on the way.
SELECT task, rank, seq, at
FROM onceward_ready
WHERE lane = :lane AND band = :band AND rank <= :rank_max
ORDER BY rank, seq
LIMIT :count

-- name: drop_popped
-- Delete the places that `pop` has read.
DELETE FROM onceward_ready
WHERE lane = :lane AND band = :band AND (rank, seq) <= (:rank, :seq)

-- name: drop_dead
-- Delete dead places among the first of a line; returns a row for each.
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
    WHERE NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = first.task AND t.status IN #startable AND t.paused = 0)
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
-- The kinds of the tasks that living workers hold: by claim rows, because no index lists running tasks.
SELECT DISTINCT t.kind
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
JOIN json_each(c.tasks) AS claimed
JOIN onceward_task t ON t.id = claimed.value AND t.token = c.token
WHERE w.stopped_at IS NULL

-- name: reserve_ids
-- The first and last id of the next tasks. With one writer at a time that is safe.
SELECT last.id + 1, last.id + :count
FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'onceward_task'), 0) AS id) AS last

-- name: wake_lines
-- After the clock was set back: set the turns of these lines to now.
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
-- Set the turns behind a source and its instances to now.
UPDATE onceward_turn
SET next_at = :now
WHERE (gate = :gate OR (gate >= :gate || '/' AND gate < :gate || '0'))
  AND next_at > :now
