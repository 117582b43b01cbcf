-- Queries of the room lines as PostgreSQL spells them; each comment says why they differ from SQLite's.

-- name: snapshot
-- Which transactions have ended: `after` is the first that had not begun, `oldest` the oldest still open.
SELECT pg_snapshot_xmax(s)::text::bigint AS after, pg_snapshot_xmin(s)::text::bigint AS oldest
FROM pg_current_snapshot() AS s

-- name: insert_tasks
-- Insert tasks, numbered in the order of the rows, with their places in line or in the waiting room. In one statement,
-- because the round trip is most of the cost of an enqueue. Without a sort: arrays are read in order.
WITH new AS (
    INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage)
    SELECT :kind::text, :version::integer, :queue::text, :band::smallint, :due_at::bigint, :created_at::bigint, given.key,
        given.identity, CASE WHEN given.in_blob IS NULL THEN given.payload END,
        CASE WHEN given.in_blob = 1 THEN given.payload END, given.lineage
    FROM unnest(:keys::text[], :identities::bytea[], :payloads::bytea[], :in_blob::bigint[], :lineages::uuid[])
        AS given (key, identity, payload, in_blob, lineage)
    RETURNING id
), ready AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT :lane::text, :band::smallint, line.rank, :created_at::bigint, new.id
    FROM new, (
        SELECT coalesce(max(rank), 0) AS rank
        FROM onceward_mark
        WHERE lane = :lane::text AND band = :band::smallint
    ) AS line
    WHERE :due_at::bigint <= :created_at::bigint
), later AS (
    INSERT INTO onceward_due (due_at, task, lane, band, rank)
    SELECT :due_at::bigint, new.id, :lane::text, :band::smallint, 0
    FROM new
    WHERE :due_at::bigint > :created_at::bigint
), notified AS (
    SELECT pg_notify('onceward', :band::smallint || ' ' || :lane::text)
    WHERE :due_at::bigint <= :created_at::bigint
)
SELECT new.id
FROM new
LEFT JOIN notified ON true

-- name: place_of_new
-- Nothing: insert_tasks has put them in line.

-- name: put_new_in_line
-- Nothing, likewise.

-- name: enqueue_one
-- Insert one due task in a transaction of its own (decision 36).
WITH receipt AS (
    INSERT INTO onceward_receipt (token, at)
    VALUES (:receipt, :now)
), new AS (
    INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, lineage)
    VALUES (:kind, :version, :queue, :band, :now, :now, :key, :identity, :payload, :lineage)
    RETURNING id
), ready AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT :lane, :band, coalesce((SELECT max(rank) FROM onceward_mark WHERE lane = :lane AND band = :band), 0), :now, id
    FROM new
)
SELECT id, pg_notify('onceward', :notification)
FROM new

-- name: enqueued_one
-- Read again what enqueue_one has returned.
SELECT id
FROM onceward_task
WHERE lineage = :lineage AND parent IS NULL

-- name: insert_governed
-- Insert tasks, each with its own gates, with their places in line and their turns.
WITH new AS (
    INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage,
        gates, estimate)
    ROWS (same kind text, same version integer, same queue text, same band smallint, same due_at bigint,
          same created_at bigint, key text, identity bytea, payload bytea, payload_blob bytea, lineage uuid, gates text,
          estimate bigint)
    RETURNING id, queue || ':' || kind AS line, queue || ':' || kind || coalesce('@' || gates, '') AS lane, gates, band,
        due_at, created_at
), ready AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT lane, band, line_rank.rank, created_at, id
    FROM new
    JOIN (
        SELECT lane, coalesce((SELECT max(m.rank) FROM onceward_mark m WHERE m.lane = d.lane AND m.band = d.band), 0) AS rank
        FROM (SELECT DISTINCT lane, band FROM new WHERE due_at <= created_at) AS d
    ) AS line_rank USING (lane)
    WHERE due_at <= created_at
    ORDER BY id
), later AS (
    INSERT INTO onceward_due (due_at, task, lane, band, rank)
    SELECT due_at, id, lane, band, 0
    FROM new
    WHERE due_at > created_at
), turns AS (
    INSERT INTO onceward_turn (line, lane, gate, next_at)
    SELECT DISTINCT line, lane, split_part(split_part(gates, ' ', 1), '*', 1), created_at
    FROM new
    WHERE gates IS NOT NULL
      AND due_at <= created_at
), notified AS (
    SELECT pg_notify('onceward', line)
    FROM (
        SELECT DISTINCT band || ' ' || line || CASE WHEN gates IS NULL THEN '' ELSE '@' END AS line
        FROM new
        WHERE due_at <= created_at
    ) AS lines
)
SELECT new.id, 1
FROM new
LEFT JOIN notified ON true

-- name: put_in_line
-- The sequence numbers the places, because many transactions put tasks in line at once. The notification at commit
-- names the line in which an idle worker looks first.
WITH standing AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT :lane, :band, greatest(:rank, line_rank.rank), :at, t.task
    FROM unnest(:tasks::bigint[]) WITH ORDINALITY AS t (task, place), (
        SELECT coalesce(max(rank), 0) AS rank
        FROM onceward_mark
        WHERE lane = :lane AND band = :band
    ) AS line_rank
    ORDER BY t.place
    RETURNING band, lane
)
SELECT pg_notify('onceward', line)
FROM (SELECT DISTINCT band || ' ' || lane AS line FROM standing) AS lines

-- name: end_of_line
-- Nothing: the sequence numbers them.

-- name: put_apart_in_line
-- As put_in_line, each task at its own rank.
WITH standing AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT :lane, :band, greatest(t.rank, line_rank.rank), :at, t.task
    FROM unnest(:tasks::bigint[], :ranks::bigint[]) WITH ORDINALITY AS t (task, rank, place), (
        SELECT coalesce(max(rank), 0) AS rank
        FROM onceward_mark
        WHERE lane = :lane AND band = :band
    ) AS line_rank
    ORDER BY t.place
    RETURNING band, lane
)
SELECT pg_notify('onceward', line)
FROM (SELECT DISTINCT band || ' ' || lane AS line FROM standing) AS lines

-- name: look
-- The head of each line after the last place seen there, and the next due time after the last one seen. A held snapshot
-- keeps the dead rows before them (R13).
SELECT w.lane, w.band, head.rank, head.seq, head.at
FROM unnest(:line_lanes::text[], :line_bands::smallint[], :ranks::bigint[], :seqs::bigint[]) AS w (lane, band, rank, seq),
LATERAL (
    SELECT r.rank, r.seq, r.at
    FROM onceward_ready r
    WHERE r.lane = w.lane AND r.band = w.band AND (r.rank, r.seq) > (w.rank, w.seq)
    ORDER BY r.rank, r.seq
    LIMIT 1
) AS head
UNION ALL
SELECT NULL, NULL, NULL, NULL, min(due_at)
FROM onceward_due
WHERE due_at > :due_after

-- name: pop
-- By ctid, because the rows are locked here and never updated; skipping rows that another claim has locked.
DELETE FROM onceward_ready
WHERE ctid = ANY (ARRAY (
    SELECT ctid
    FROM onceward_ready
    WHERE lane = :lane AND band = :band AND (rank, seq) > (:rank, :seq) AND rank <= :rank_max
    ORDER BY rank, seq
    LIMIT :count
    FOR UPDATE SKIP LOCKED
))
RETURNING task, rank, seq, at

-- name: drop_dead
-- Delete dead places among the first of a line and count them; by ctid, as in pop.
WITH first AS (
    SELECT ctid AS place, task
    FROM onceward_ready
    WHERE lane = :lane AND band = :band AND (rank, seq) > (:rank, :seq)
    ORDER BY rank, seq
    LIMIT :count
    FOR UPDATE SKIP LOCKED
), dropped AS (
    DELETE FROM onceward_ready
    WHERE ctid = ANY (ARRAY (
        SELECT first.place
        FROM first
        WHERE NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = first.task AND t.status IN #startable AND t.paused = 0)
    ))
    RETURNING 1
)
SELECT count(*)
FROM dropped

-- name: pop_due
-- After the last due time seen, as in look; a sweep from the start finds rows that committed late.
DELETE FROM onceward_due
WHERE ctid = ANY (ARRAY (
    SELECT ctid
    FROM onceward_due
    WHERE due_at > :after AND due_at <= :now
    ORDER BY due_at, task
    LIMIT :count
    FOR UPDATE SKIP LOCKED
))
RETURNING task, lane, band, rank, due_at

-- name: drop_popped
-- Nothing: `pop` has deleted them.

-- name: kinds_running
-- The kinds of the tasks that living workers hold: by claim rows, because no index lists running tasks.
SELECT DISTINCT t.kind
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE w.stopped_at IS NULL

-- name: reserve_ids
-- Ids of the next tasks, each as a range of one, because other transactions draw from the sequence at the same time.
-- The sequence's name is looked up once, not for every id.
SELECT number, number
FROM (
    SELECT nextval(of_tasks.sequence) AS number
    FROM (SELECT pg_get_serial_sequence('onceward_task', 'id')::regclass AS sequence OFFSET 0) AS of_tasks,
        generate_series(1, :count)
    OFFSET 0
) AS drawn

-- name: wake_lines
-- After the clock was set back: set the turns of these lines to now, but skip turns that a claim is ending.
UPDATE onceward_turn
SET next_at = :now
WHERE seq = ANY (ARRAY (
    SELECT seq
    FROM onceward_turn
    WHERE line IN TEXTS :lines
      AND next_at > :now
      AND next_at < :never
    FOR UPDATE SKIP LOCKED
))

-- name: next_turn
SELECT min(oldest.next_at)
FROM unnest(:lines::text[]) AS w (line)
CROSS JOIN LATERAL (
    SELECT t.next_at
    FROM onceward_turn t
    WHERE t.line = w.line
    ORDER BY t.next_at
    LIMIT 1
) AS oldest

-- name: hold_pauses
-- Lock pauses, so that a resume waits for the turns that are written because of a pause.
SELECT scope
FROM onceward_pause
WHERE scope IN TEXTS :scopes
FOR SHARE

-- name: wake_source
-- Set the turns behind a source and its instances to now. Turns that a claim is ending are skipped: that claim has seen
-- that the source is open.
UPDATE onceward_turn
SET next_at = :now
WHERE seq = ANY (ARRAY (
    SELECT seq
    FROM onceward_turn
    WHERE (gate = :gate::text OR (gate >= :gate::text || '/' AND gate < :gate::text || '0'))
      AND next_at > :now
    FOR UPDATE SKIP LOCKED
))
