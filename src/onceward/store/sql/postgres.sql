-- What PostgreSQL spells in another way than SQLite, each with its because.

-- name: begin
BEGIN

-- name: begin_reading
-- One snapshot for all that follows.
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: store_now
-- The database's clock, in milliseconds: the only query that asks for it (R4).
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: notify
-- One for a transaction, at commit: something has changed. It carries nothing that a poll would not find.
SELECT pg_notify('onceward', '')

-- name: snapshot
-- Which transactions are over: `after` is the first that had not begun, `oldest` the oldest still open.
SELECT pg_snapshot_xmax(s)::text::bigint AS after, pg_snapshot_xmin(s)::text::bigint AS oldest
FROM pg_current_snapshot() AS s

-- name: insert_tasks
-- New tasks, numbered in the order of the rows, and their places in line or in the waiting room: in one statement,
-- because the way to the server and back is most of what an enqueue costs.
WITH new AS (
    INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage)
    ROWS (same kind text, same version integer, same queue text, same band smallint, same due_at bigint,
          same created_at bigint, key text, identity bytea, payload bytea, payload_blob bytea, lineage uuid)
    RETURNING id, kind, queue, band, due_at, created_at
), ready AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT queue || ':' || kind, band, 0, created_at, id
    FROM new
    WHERE due_at <= created_at
    ORDER BY id
), later AS (
    INSERT INTO onceward_due (due_at, task, lane, band, rank)
    SELECT due_at, id, queue || ':' || kind, band, 0
    FROM new
    WHERE due_at > created_at
), told AS (
    SELECT pg_notify('onceward', line)
    FROM (SELECT DISTINCT band || ' ' || queue || ':' || kind AS line FROM new WHERE due_at <= created_at) AS lines
)
SELECT new.id, 1
FROM new
LEFT JOIN told ON true

-- name: stand_in_line
-- The numbers are the sequence's, because many transactions stand in line at once. Whoever waits is told at commit, and
-- in which line to look first.
WITH standing AS (
    INSERT INTO onceward_ready (lane, band, rank, at, task)
    SELECT :lane, :band, :rank, :at, t.task
    FROM unnest(:tasks::bigint[]) WITH ORDINALITY AS t (task, place)
    ORDER BY t.place
    RETURNING band, lane
)
SELECT pg_notify('onceward', line)
FROM (SELECT DISTINCT band || ' ' || lane AS line FROM standing) AS lines

-- name: look
-- The first in each line after the last place seen there, because a held snapshot keeps the dead rows before it (R13);
-- then, for the same reason, when the next one is due after the last due time seen.
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
-- By ctid, because the rows are locked here and never updated; skipping what another claim has locked.
DELETE FROM onceward_ready
WHERE ctid = ANY (ARRAY (
    SELECT ctid
    FROM onceward_ready
    WHERE lane = :lane AND band = :band AND (rank, seq) > (:rank, :seq) AND rank <= :rank_max
    ORDER BY rank, seq
    LIMIT :count
    FOR UPDATE SKIP LOCKED
))
RETURNING task, rank, seq

-- name: pop_due
-- After the last due time seen, as in heads; a sweep from the start finds what committed late.
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

-- name: lease_tasks
-- The claim: whatever was popped from a line and may still run gets a new fence and the token of this claim; and its claim
-- row, in one statement, as in insert_tasks. Only for a living worker, whose row is locked so that it cannot be buried
-- at the same time.
WITH living AS (
    SELECT id
    FROM onceward_worker
    WHERE id = :worker AND stopped_at IS NULL
    FOR SHARE
), leased AS (
    UPDATE onceward_task t
    SET status = 1, fence = fence + 1, token = :token, worker = living.id,
        started_at = coalesce(started_at, :now)
    FROM living
    WHERE t.id IN :ids
      AND t.status IN (0, 2)
      AND t.paused = 0
      AND t.due_at <= :now
    RETURNING t.id, t.fence, t.run, t.kind, t.version, t.queue, t.band, t.rank, t.stage, t.payload, t.payload_blob,
        t.failures, t.crashes, t.company, t.deferrals, t.signals, t.touched, t.lineage, t.parent, t.depth,
        t.created_at, t.started_at
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id ORDER BY id), array_agg(fence ORDER BY id)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
)
SELECT leased.*, claim.seq
FROM leased, claim

-- name: insert_claim
-- Nothing: lease_tasks has done it.

-- name: kinds_running
-- The kinds of what living workers hold: by claim rows, because no index knows what is running.
SELECT DISTINCT t.kind
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE w.stopped_at IS NULL

-- name: held_by_claim
-- What a dead worker's claim still holds; locked, because its worker may only seem dead and be committing.
SELECT id, run, fence, kind, queue, band, rank, stage, crashes, company
FROM onceward_task
WHERE id IN :ids
  AND token = :token
  AND status = 1
ORDER BY id
FOR UPDATE

-- name: wait_briefly
-- For the rest of this transaction: what another one has locked is not worth a longer wait.
SET LOCAL lock_timeout = 500

-- name: has_schema
-- Whether Onceward has ever been here: by the search path, as all other names are found.
SELECT 1
WHERE to_regclass('onceward_schema') IS NOT NULL

-- name: lock_schema
-- For this transaction alone, so that it works through a pooler too. The number is "onceward" in ASCII.
SELECT pg_advisory_xact_lock(8029464473093894756)

-- name: create_schema_table
CREATE TABLE IF NOT EXISTS onceward_schema (
    version integer PRIMARY KEY,
    name text NOT NULL,
    at bigint NOT NULL
)

-- name: find_stuck
-- Running tasks whose worker is silent for longer than its lease: by claim rows, as in kinds_running.
SELECT t.id
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE w.stopped_at IS NULL
  AND w.beat_at + w.lease_ms < :now
ORDER BY t.id DESC

-- name: report_workers
-- The living, and how many tasks each of them holds.
SELECT w.id, w.name, w.host, w.pid, w.kinds, w.queues, w.lease_ms, w.started_at, w.beat_at, (
    SELECT count(*)
    FROM onceward_claim c
    CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
    JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
    WHERE c.worker = w.id AND c.seq >= w.low_claim
)
FROM onceward_worker w
WHERE w.stopped_at IS NULL
ORDER BY w.id

-- name: verify_claims
SELECT claimed.task, claimed.fence, c.token, c.worker
FROM onceward_claim c
CROSS JOIN LATERAL unnest(c.tasks, c.fences) AS claimed (task, fence)
ORDER BY 1, 2

-- name: open_twice
-- Work that is open twice in a lineage that knows it by its identity.
SELECT min(t.id), max(t.id)
FROM onceward_task t
WHERE t.status IN (0, 1, 2, 3)
  AND EXISTS (SELECT 1 FROM onceward_identity i WHERE i.scope = uuid_send(t.lineage) AND i.hash = t.identity)
GROUP BY t.lineage, t.identity
HAVING count(*) > 1

-- name: check_pages
-- Nothing: the server looks after its files.

-- name: check_foreign_keys
-- Nothing: they cannot be switched off here.

-- name: lock_blobs
-- In a statement of its own, because the look for references must begin after the lock; whoever has it needs the blob.
SELECT hash
FROM onceward_blob
WHERE hash IN (ROWS (hash bytea))
ORDER BY hash
FOR UPDATE SKIP LOCKED

-- name: prune_claims
-- Claims of which every task is gone, and which no living worker looks through; what is left proves every fence.
DELETE FROM onceward_claim
WHERE seq > :after
  AND seq <= :upto
  AND at < :before
  AND NOT EXISTS (
    SELECT 1
    FROM unnest(onceward_claim.tasks) AS claimed (task)
    JOIN onceward_task t ON t.id = claimed.task
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
-- Room for so many more tasks, or for as many as there is. Locked in order first, because many ask at once.
WITH asked (id, wanted) AS (
    ROWS (id uuid, wanted bigint)
), locked AS (
    SELECT l.id, asked.wanted
    FROM onceward_lineage l
    JOIN asked ON asked.id = l.id
    ORDER BY l.id
    FOR UPDATE OF l
)
UPDATE onceward_lineage l
SET granted = least(locked.wanted, greatest(0, l.max_tasks - l.tasks)),
    tasks = l.tasks + least(locked.wanted, greatest(0, l.max_tasks - l.tasks))
FROM locked
WHERE l.id = locked.id
RETURNING l.id, l.granted, l.max_depth, l.max_children, l.max_tasks, l.deadline_at, l.created_at

-- name: return_room
WITH asked (id, unused) AS (
    ROWS (id uuid, unused bigint)
)
UPDATE onceward_lineage l
SET tasks = l.tasks - asked.unused
FROM asked
WHERE l.id = asked.id

-- name: count_pruned
-- How many of the tasks of a lineage are gone. Its counter goes on counting them: a limit is about all there ever were.
WITH gone (id, count) AS (
    ROWS (id uuid, count bigint)
)
UPDATE onceward_lineage l
SET pruned = l.pruned + gone.count
FROM gone
WHERE l.id = gone.id

-- name: reserve_ids
-- Numbers that the next tasks will have, from the sequence, because identities are taken before tasks are made. Its name
-- is looked up once, and not for every number.
SELECT nextval(of_tasks.sequence)
FROM (SELECT pg_get_serial_sequence('onceward_task', 'id')::regclass AS sequence OFFSET 0) AS of_tasks,
    generate_series(1, :count)

-- name: insert_children
INSERT INTO onceward_task (created_at, id, kind, version, queue, band, key, identity, payload, payload_blob, lineage, parent,
    depth, batch, due_at, ancestry, limits, scopes, touched)
OVERRIDING SYSTEM VALUE
ROWS (same created_at bigint, id bigint, kind text, version integer, queue text, band smallint, key text, identity bytea,
      payload bytea, payload_blob bytea, lineage uuid, parent bigint, depth smallint, batch bigint, due_at bigint,
      ancestry bytea, limits bytea, scopes bytea, touched smallint)

-- name: insert_alike
-- Children that differ in little: what they have in common is sent once.
INSERT INTO onceward_task (created_at, kind, version, queue, band, due_at, lineage, parent, depth, batch, ancestry, limits,
    scopes, id, key, identity, payload, payload_blob)
OVERRIDING SYSTEM VALUE
ROWS (same created_at bigint, same kind text, same version integer, same queue text, same band smallint,
      same due_at bigint, same lineage uuid, same parent bigint, same depth smallint, same batch bigint,
      same ancestry bytea, same limits bytea, same scopes bytea, id bigint, key text, identity bytea, payload bytea,
      payload_blob bytea)

-- name: count_family
WITH asked (task, children, refusals) AS (
    ROWS (task bigint, children bigint, refusals bigint)
)
UPDATE onceward_task t
SET children = t.children + asked.children, refusals = t.refusals + asked.refusals
FROM asked
WHERE t.id = asked.task

-- name: lock_links
-- One at a time, because two links may close a circle that neither closes alone. The number is "links" in ASCII.
SELECT pg_advisory_xact_lock(465658373991)

-- name: who_waits_for
-- Everybody who waits, or may come to wait, for a task: its ancestors, those who were linked to it, and so on up. For
-- each of them on its own, because a join with the union of both tables would read them from end to end.
WITH RECURSIVE waiting (id) AS (
    SELECT id
    FROM onceward_task
    WHERE id = :task
    UNION
    SELECT edge.parent
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT t.parent
        FROM onceward_task t
        WHERE t.id = waiting.id
          AND t.parent IS NOT NULL
        UNION ALL
        SELECT l.parent
        FROM onceward_link l
        WHERE l.child = waiting.id
    ) AS edge
)
SELECT id
FROM waiting

-- name: lock_parents
-- In a statement of its own: what is read of them afterwards is read after everybody else who ends a child of theirs.
SELECT id
FROM onceward_task
WHERE id IN :ids
ORDER BY id
FOR UPDATE

-- name: count_batches
-- Tasks of batches were added, have ended, or are open again (a negative end). Locked in order first, because many end
-- at once. Only of open batches: one that has ended stays as it ended.
WITH changed (id, added, succeeded, filtered, skipped, failed, cancelled) AS (
    ROWS (id bigint, added bigint, succeeded bigint, filtered bigint, skipped bigint, failed bigint, cancelled bigint)
), locked AS (
    SELECT b.id, c.added, c.succeeded, c.filtered, c.skipped, c.failed, c.cancelled
    FROM onceward_batch b
    JOIN changed c ON c.id = b.id
    ORDER BY b.id
    FOR UPDATE OF b
)
UPDATE onceward_batch b
SET total = b.total + c.added,
    open = b.open + c.added - c.succeeded - c.filtered - c.skipped - c.failed - c.cancelled,
    succeeded = b.succeeded + c.succeeded,
    filtered = b.filtered + c.filtered,
    skipped = b.skipped + c.skipped,
    failed = b.failed + c.failed,
    cancelled = b.cancelled + c.cancelled
FROM locked c
WHERE b.id = c.id
  AND b.status = 0
RETURNING b.id, b.open

-- name: lock_standing
-- Locked, because what a task was before it is opened again is counted.
SELECT batch, status
FROM onceward_task
WHERE id = :task
FOR UPDATE

-- name: park_new
-- Children that wait for an operator from the start.
WITH asked (waiting_for, due_at, task, reason) AS (
    ROWS (same waiting_for text, same due_at bigint, task bigint, reason text)
)
UPDATE onceward_task t
SET status = 3, waiting_for = asked.waiting_for, due_at = asked.due_at, reason = asked.reason
FROM asked
WHERE t.id = asked.task
