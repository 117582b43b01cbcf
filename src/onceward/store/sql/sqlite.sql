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

-- name: notify
-- Nothing: other processes see a commit by PRAGMA data_version.

-- name: insert_tasks
-- New tasks, numbered in the order of the rows. They do not stand in line yet: one statement fills one table here.
INSERT INTO onceward_task (kind, version, queue, band, due_at, created_at, key, identity, payload, payload_blob, lineage)
ROWS (same kind text, same version integer, same queue text, same band smallint, same due_at bigint,
      same created_at bigint, key text, identity bytea, payload bytea, payload_blob bytea, lineage uuid)
RETURNING id, 0

-- name: stand_in_line
-- Numbered here, in the order given, because one writer at a time makes that safe and no reader starts behind the head.
INSERT INTO onceward_ready (lane, band, rank, at, seq, task)
SELECT :lane, :band, :rank, :at,
    (SELECT coalesce(max(seq), 0) FROM onceward_ready WHERE lane = :lane AND band = :band AND rank = :rank) + t.key + 1,
    t.value
FROM json_each(:tasks) AS t

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
-- No locking clause, because there is one writer.
DELETE FROM onceward_ready
WHERE lane = :lane
  AND band = :band
  AND (rank, seq) IN (
    SELECT rank, seq
    FROM onceward_ready
    WHERE lane = :lane AND band = :band AND rank <= :rank_max
    ORDER BY rank, seq
    LIMIT :count
  )
RETURNING task, rank, seq

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
-- living worker. The claim row comes after it: one statement fills one table here.
UPDATE onceward_task
SET status = 1, fence = fence + 1, token = :token, worker = :worker,
    started_at = coalesce(started_at, :now)
WHERE id IN :ids
  AND status IN (0, 2)
  AND paused = 0
  AND due_at <= :now
  AND EXISTS (SELECT 1 FROM onceward_worker w WHERE w.id = :worker AND w.stopped_at IS NULL)
RETURNING id, fence, run, kind, version, queue, band, rank, stage, payload, payload_blob, failures, crashes, company,
    deferrals, signals, touched, lineage, parent, depth, created_at, started_at, NULL

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
SELECT id, run, fence, kind, queue, band, rank, stage, crashes, company
FROM onceward_task
WHERE id IN :ids
  AND token = :token
  AND status = 1
ORDER BY id

-- name: wait_briefly
-- Nothing: the transaction already is the only writer.

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
)
FROM onceward_worker w
WHERE w.stopped_at IS NULL
ORDER BY w.id

-- name: verify_claims
SELECT claimed.value, json_extract(c.fences, '$[' || claimed.key || ']'), c.token, c.worker
FROM onceward_claim c
JOIN json_each(c.tasks) AS claimed
ORDER BY 1, 2

-- name: open_twice
-- Work that is open twice in a lineage that knows it by its identity.
SELECT min(t.id), max(t.id)
FROM onceward_task t
WHERE t.status IN (0, 1, 2, 3)
  AND EXISTS (SELECT 1 FROM onceward_identity i WHERE i.scope = t.lineage AND i.hash = t.identity)
GROUP BY t.lineage, t.identity
HAVING count(*) > 1

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
RETURNING id, granted, max_depth, max_children, max_tasks, deadline_at, created_at

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

-- name: reserve_ids
-- Numbers that the next tasks will have. One writer at a time makes that safe.
WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < :count)
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'onceward_task'), 0) + n.value
FROM n

-- name: insert_children
INSERT INTO onceward_task (created_at, id, kind, version, queue, band, key, identity, payload, payload_blob, lineage, parent,
    depth, batch, due_at, ancestry, limits, scopes, touched)
ROWS (same created_at bigint, id bigint, kind text, version integer, queue text, band smallint, key text, identity bytea,
      payload bytea, payload_blob bytea, lineage uuid, parent bigint, depth smallint, batch bigint, due_at bigint,
      ancestry bytea, limits bytea, scopes bytea, touched smallint)

-- name: insert_alike
-- Children that differ in little: what they have in common is sent once.
INSERT INTO onceward_task (created_at, kind, version, queue, band, due_at, lineage, parent, depth, batch, ancestry, limits,
    scopes, id, key, identity, payload, payload_blob)
ROWS (same created_at bigint, same kind text, same version integer, same queue text, same band smallint,
      same due_at bigint, same lineage uuid, same parent bigint, same depth smallint, same batch bigint,
      same ancestry bytea, same limits bytea, same scopes bytea, id bigint, key text, identity bytea, payload bytea,
      payload_blob bytea)

-- name: count_family
UPDATE onceward_task
SET children = children + asked.column2, refusals = refusals + asked.column3
FROM (ROWS (task bigint, children bigint, refusals bigint)) AS asked
WHERE onceward_task.id = asked.column1

-- name: lock_links
-- Nothing: the transaction already is the only writer.

-- name: who_waits_for
-- Everybody who waits, or may come to wait, for a task: its ancestors, those who were linked to it, and so on up. Two
-- steps up, because a join with the union of both tables would read them from end to end.
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
)
SELECT id
FROM waiting

-- name: lock_parents
-- Nothing to lock: there is one writer.
SELECT id
FROM onceward_task
WHERE id IN :ids

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
