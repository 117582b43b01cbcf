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

-- name: old_transactions
-- Transactions of this database that have seen, or may have written, something, and began before a time. Those of other
-- users show only to whoever may read all statistics.
SELECT coalesce(nullif(application_name, ''), 'unnamed'), pid, (extract(epoch FROM xact_start) * 1000)::bigint AS since
FROM pg_stat_activity
WHERE datname = current_database()
  AND backend_type = 'client backend'
  AND pid <> pg_backend_pid()
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
  AND xact_start < to_timestamp(:before / 1000.0)
ORDER BY since, pid
LIMIT :limit

-- name: notify
-- One for a transaction, at commit: something has changed. It carries nothing that a poll would not find.
SELECT pg_notify('onceward', '')

-- name: hold_lock
-- Held for as long as the connection lives, and on this run of the server: by its timeline, which a failover changes, and
-- its start. Shared: the server may not have noticed yet that an older connection of this worker is gone.
SELECT CASE WHEN pg_try_advisory_lock_shared(
    mod('onceward_worker'::regclass::oid::bigint, 2147483648)::integer, mod(:worker::bigint, 2147483648)::integer
) THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint END

-- name: held_locks
-- The run of the server, for how long it is up, and a row for each worker that holds its lock.
SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
    (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000)::bigint,
    l.objid::bigint
FROM (SELECT 1) one
LEFT JOIN pg_locks l ON l.locktype = 'advisory'
    AND l.objsubid = 2
    AND l.classid::bigint = mod('onceward_worker'::regclass::oid::bigint, 2147483648)
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.granted

-- name: snapshot
-- Which transactions are over: `after` is the first that had not begun, `oldest` the oldest still open.
SELECT pg_snapshot_xmax(s)::text::bigint AS after, pg_snapshot_xmin(s)::text::bigint AS oldest
FROM pg_current_snapshot() AS s

-- name: insert_tasks
-- New tasks, numbered in the order of the rows, and their places in line or in the waiting room: in one statement,
-- because the way to the server and back is most of what an enqueue costs. Nothing is sorted: arrays are read in order.
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
), told AS (
    SELECT pg_notify('onceward', :band::smallint || ' ' || :lane::text)
    WHERE :due_at::bigint <= :created_at::bigint
)
SELECT new.id
FROM new
LEFT JOIN told ON true

-- name: where_new_ones_stand
-- Nothing: they stand in line already.

-- name: stand_new
-- Nothing, likewise.

-- name: enqueue_one
-- insert_tasks for one that is due now, as a transaction of its own.
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
SELECT id, pg_notify('onceward', :told)
FROM new

-- name: enqueued_one
-- What enqueue_one has returned.
SELECT id
FROM onceward_task
WHERE lineage = :lineage AND parent IS NULL

-- name: insert_governed
-- New tasks that have gates to pass, each its own.
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
), told AS (
    SELECT pg_notify('onceward', line)
    FROM (
        SELECT DISTINCT band || ' ' || line || CASE WHEN gates IS NULL THEN '' ELSE '@' END AS line
        FROM new
        WHERE due_at <= created_at
    ) AS lines
)
SELECT new.id, 1
FROM new
LEFT JOIN told ON true

-- name: stand_in_line
-- The numbers are the sequence's, because many transactions stand in line at once. Whoever waits is told at commit, and
-- in which line to look first.
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

-- name: stand_apart
-- As stand_in_line, each at a rank of its own.
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
RETURNING task, rank, seq, at

-- name: drop_dead
-- How many dead places there were among the first of a line; by ctid, as in pop.
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
        WHERE NOT EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = first.task AND t.status IN (0, 2) AND t.paused = 0)
    ))
    RETURNING 1
)
SELECT count(*)
FROM dropped

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

-- name: popped
-- They were deleted when they were popped.

-- name: lease_these
-- The statement that reads them has done that.

-- name: lease_tasks
-- The claim: whatever was popped from a line and may still run gets a new fence and the token of this claim; and its claim
-- row, in one statement, as in insert_tasks. Only for a living worker, whose row is locked so that it cannot be buried
-- at the same time. One that has gates to pass only if it was popped from the line behind these, and a suspect only from
-- that of suspects: a place that it has left in another line takes it past no gate, and into no company.
WITH living AS (
    SELECT id
    FROM onceward_worker
    WHERE id = :worker AND stopped_at IS NULL
    FOR SHARE
), leased AS (
    UPDATE onceward_task t
    SET status = 1, fence = fence + 1, token = :token, worker = living.id,
        started_at = coalesce(started_at, :now),
        clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
    FROM living
    WHERE t.id IN :ids
      AND t.status IN (0, 2)
      AND t.paused = 0
      AND t.due_at <= :due_by
      AND (:suspects::boolean OR t.company = 0)
      AND (:suspects::boolean OR t.gates IS NULL OR t.id || '@' || t.gates IN TEXTS :passed)
    RETURNING t.id, t.fence, t.run, t.kind, t.version, t.queue, t.band, t.rank, t.stage, t.payload, t.payload_blob,
        t.failures, t.crashes, t.company, t.deferrals, t.signals, t.touched, uuid_send(t.lineage), t.parent,
        t.depth, t.created_at, t.started_at, t.gates, t.scheduled_at,
        coalesce(t.clock_at, t.progressed_at, t.started_at) AS clock_at, t.expiry, t.ancestry, t.limits,
        t.children - t.members AS children
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id ORDER BY id), array_agg(fence ORDER BY id)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
)
SELECT leased.*, claim.seq
FROM leased, claim

-- name: claim_at_once
-- pop and lease_tasks in one, as a transaction of its own: the first of a line, as far as they are fresh and nothing has to
-- be asked or read. Who is not stays where it stands, and so does everybody as long as anything is paused. Where nobody
-- stands nothing is locked or written: others were told, too.
WITH first AS (
    SELECT ctid AS place, task, rank, seq, at
    FROM onceward_ready
    WHERE lane = :lane AND band = :band AND (rank, seq) > (:rank, :seq)
    ORDER BY rank, seq
    LIMIT :count
    FOR UPDATE SKIP LOCKED
), living AS (
    SELECT id
    FROM onceward_worker
    WHERE id = :worker
      AND stopped_at IS NULL
      AND EXISTS (SELECT 1 FROM first)
      AND NOT EXISTS (SELECT 1 FROM onceward_pause)
      AND (:before::bytea IS NULL OR EXISTS (SELECT 1 FROM onceward_receipt WHERE token = :before))
    FOR SHARE
), leased AS (
    UPDATE onceward_task t
    SET status = 1, fence = fence + 1, token = :token, worker = living.id,
        started_at = coalesce(started_at, :now),
        clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
    FROM living
    WHERE t.id = ANY (ARRAY (SELECT task FROM first))
      AND t.status IN (0, 2)
      AND t.paused = 0
      AND t.due_at <= greatest(:now, (SELECT max(at) FROM first))
      AND t.gates IS NULL
      AND t.company = 0
      AND t.touched = 0
      AND t.signals = 0
      AND t.payload_blob IS NULL
    RETURNING t.id, t.fence, t.run, t.kind, t.version, t.queue, t.band, t.rank, t.stage, t.payload, t.payload_blob,
        t.failures, t.crashes, t.company, t.deferrals, t.signals, t.touched, uuid_send(t.lineage), t.parent,
        t.depth, t.created_at, t.started_at, t.gates, t.scheduled_at,
        coalesce(t.clock_at, t.progressed_at, t.started_at) AS clock_at, t.expiry, t.ancestry, t.limits,
        t.children - t.members AS children
), popped AS (
    DELETE FROM onceward_ready
    WHERE ctid = ANY (ARRAY (SELECT place FROM first WHERE task IN (SELECT id FROM leased)))
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id), array_agg(fence)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
), receipt AS (
    INSERT INTO onceward_receipt (token, at)
    SELECT :receipt, :now
    FROM claim
)
SELECT leased.*, claim.seq, first.rank, first.seq, (SELECT count(*) FROM first)
FROM first
JOIN leased ON leased.id = first.task
CROSS JOIN claim

-- name: claimed_at_once
-- What claim_at_once has returned, without the places.
SELECT t.id, t.fence, t.run, t.kind, t.version, t.queue, t.band, t.rank, t.stage, t.payload, t.payload_blob,
    t.failures, t.crashes, t.company, t.deferrals, t.signals, t.touched, uuid_send(t.lineage), t.parent,
    t.depth, t.created_at, t.started_at, t.gates, t.scheduled_at,
    coalesce(t.clock_at, t.progressed_at, t.started_at), t.expiry, t.ancestry, t.limits,
    t.children - t.members, c.seq, 0, 0, 0
FROM onceward_claim c
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE c.worker = :worker AND c.token = :token

-- name: insert_claim
-- Nothing: lease_tasks has done it.

-- name: finish_group
-- Tasks have ended in the same way; with what the log says of it, because the way to the server and back costs more. Their
-- fence and one of our tokens are their lease, whichever claim it was of.
WITH ended AS (
    UPDATE onceward_task
    SET status = :status, stage = :stage, reason = :reason, ended_at = :now, touched = 1, token = NULL
    WHERE id IN :ids
      AND fence = :fence
      AND token = ANY (:tokens::bytea[])
      AND status = 1
    RETURNING id, run, fence, worker, awaited, batch
), logged AS (
    INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
    SELECT id, run, fence, :event, :status, :stage, worker, :now, :reason
    FROM ended
)
SELECT id, awaited, batch
FROM ended

-- name: end_group
-- They have ended.

-- name: log_finish_group
-- The statement that ends them has done that.

-- name: advance_group
-- Stages are done and their worker goes on with the next ones, under the same leases; with what the log says of it. What
-- is different for each is looked up by its id: a join with the list of them is a loop in a loop where the planner takes
-- it for short.
WITH advanced AS (
    UPDATE onceward_task
    SET stage = :next::jsonb ->> id::text, queue = coalesce(:queue, queue), gates = :gates, touched = 1, failures = 0,
        crashes = 0, company = 0, same_errors = 0, progressed_at = :now, clock_at = NULL
    WHERE id IN :ids
      AND fence = :fence
      AND token = ANY (:tokens::bytea[])
      AND status = 1
    RETURNING id, paused, run, fence, worker
), logged AS (
    INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at, note)
    SELECT id, run, fence, :event, 1, :done::jsonb ->> id::text, worker, :now, NULL
    FROM advanced
)
SELECT id, paused
FROM advanced

-- name: go_on_group
-- They have gone on.

-- name: log_advance_group
-- The statement that has them go on has done that.

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
SELECT id, run, fence, kind || coalesce('@' || gates, ''), queue, band, rank, stage, crashes, company
FROM onceward_task
WHERE id IN :ids
  AND token = :token
  AND status = 1
ORDER BY id
FOR UPDATE

-- name: wait_briefly
-- For the rest of this transaction: what another one has locked is not worth a longer wait.
SET LOCAL lock_timeout = 500

-- name: wait_as_ever
-- For the rest of this transaction, as if nobody had said that.
SET LOCAL lock_timeout = DEFAULT

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
), w.presence
FROM onceward_worker w
WHERE w.stopped_at IS NULL
ORDER BY w.id

-- name: verify_claims
SELECT claimed.task, claimed.fence, c.token, c.worker
FROM onceward_claim c
CROSS JOIN LATERAL unnest(c.tasks, c.fences) AS claimed (task, fence)
ORDER BY 1, 2

-- name: open_twice
-- Tasks whose work is open twice or more often in a lineage that knows it by its identity, each with the first of them.
SELECT first, id
FROM (
    SELECT t.id, min(t.id) OVER same AS first, count(*) OVER same AS times
    FROM onceward_task t
    WHERE t.status IN (0, 1, 2, 3)
      AND EXISTS (SELECT 1 FROM onceward_identity i WHERE i.scope = uuid_send(t.lineage) AND i.hash = t.identity)
    WINDOW same AS (PARTITION BY t.lineage, t.identity)
) AS open
WHERE times > 1
ORDER BY id

-- name: misheld_aliases
-- Open tasks that have not got an identity which they had got with an alias, and who has it.
SELECT a.task, i.task
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
LEFT JOIN onceward_identity i ON i.scope = uuid_send(a.lineage) AND i.hash = a.identity
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

-- name: unreadable_claims
-- Nothing: an array cannot be malformed.

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
RETURNING l.id, l.root, l.granted, l.max_depth, l.max_children, l.max_tasks, l.deadline_at, l.created_at, l.overdue

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

-- name: take_in_order
-- As take_identities, of one scope.
INSERT INTO onceward_identity (scope, hash, task)
SELECT :scope, t.hash, t.task
FROM unnest(:hashes::bytea[], :tasks::bigint[]) AS t (hash, task)
ON CONFLICT (scope, hash) DO UPDATE SET task = onceward_identity.task
RETURNING hash, task

-- name: reserve_ids
-- Numbers that the next tasks will have, each the first and the last of its own, because others draw from the sequence at
-- the same time. Its name is looked up once, and not for every number.
SELECT number, number
FROM (
    SELECT nextval(of_tasks.sequence) AS number
    FROM (SELECT pg_get_serial_sequence('onceward_task', 'id')::regclass AS sequence OFFSET 0) AS of_tasks,
        generate_series(1, :count)
    OFFSET 0
) AS drawn

-- name: changes_so_far
-- Nothing: take_free_identities says who was met.

-- name: take_free_identities
-- Whoever has an identity keeps it: a holder other than ours comes back. A conflict locks the row, so that what is then
-- read of its holder stays true for us.
WITH given (scope, hash, task) AS (
    ROWS (scope bytea, hash bytea, task bigint)
), held AS (
    INSERT INTO onceward_identity (scope, hash, task)
    SELECT scope, hash, task
    FROM given
    ON CONFLICT (scope, hash) DO UPDATE SET task = onceward_identity.task
    RETURNING scope, hash, task
)
SELECT held.scope, held.hash, held.task
FROM held
JOIN given ON given.scope = held.scope AND given.hash = held.hash
WHERE held.task <> given.task

-- name: identities_met
-- Nothing, likewise.

-- name: insert_children
INSERT INTO onceward_task (created_at, id, kind, version, queue, band, key, identity, payload, payload_blob, lineage, parent,
    depth, batch, due_at, ancestry, limits, scopes, touched, gates, estimate)
OVERRIDING SYSTEM VALUE
ROWS (same created_at bigint, id bigint, kind text, version integer, queue text, band smallint, key text, identity bytea,
      payload bytea, payload_blob bytea, lineage uuid, parent bigint, depth smallint, batch bigint, due_at bigint,
      ancestry bytea, limits bytea, scopes bytea, touched smallint, gates text, estimate bigint)

-- name: insert_alike
-- Children that differ in little: what they have in common is sent once.
INSERT INTO onceward_task (created_at, kind, version, queue, band, due_at, gates, estimate, lineage, parent, depth, batch,
    ancestry, limits, scopes, id, key, identity, payload, payload_blob)
OVERRIDING SYSTEM VALUE
SELECT :created_at::bigint, :kind::text, :version::integer, :queue::text, :band::smallint, :due_at::bigint, :gates::text,
    :estimate::bigint, :lineage::uuid, :parent::bigint, :depth::smallint, :batch::bigint, :ancestry::bytea, :limits::bytea,
    :scopes::bytea, given.id, given.key, given.identity, CASE WHEN given.in_blob IS NULL THEN given.payload END,
    CASE WHEN given.in_blob = 1 THEN given.payload END
FROM unnest(:ids::bigint[], :keys::text[], :identities::bytea[], :payloads::bytea[], :in_blob::bigint[])
    AS given (id, key, identity, payload, in_blob)

-- name: count_family
WITH asked (task, children, members, refusals) AS (
    ROWS (task bigint, children bigint, members bigint, refusals bigint)
)
UPDATE onceward_task t
SET children = t.children + asked.children, members = t.members + asked.members,
    refusals = t.refusals + asked.refusals
FROM asked
WHERE t.id = asked.task

-- name: set_scheduled
WITH fired (task, at) AS (
    ROWS (task bigint, at bigint)
)
UPDATE onceward_task t
SET scheduled_at = fired.at
FROM fired
WHERE t.id = fired.task

-- name: lock_links
-- One at a time, because two links may close a circle that neither closes alone. The number is "links" in ASCII.
SELECT pg_advisory_xact_lock(465658373991)

-- name: lock_settings
-- One at a time, because two values may contradict each other of which neither does alone; SQLite has one writer anyway.
-- The number is "settings" in ASCII.
SELECT pg_advisory_xact_lock(8315180330343360371)

-- name: lock_limits
-- One at a time, because whoever raises one limit of a lineage writes down the others as it has read them. The number is
-- "limits" in ASCII.
SELECT pg_advisory_xact_lock(119200062993523)

-- name: who_waits_for
-- Everybody who waits, or may come to wait, for a task: its ancestors, those who were linked to it, what follows the
-- batches that it belongs to (also if that has failed: opened again, it waits again), and so on up. A batch is met on the way as the negative of its number. For each of them on
-- its own, because a join with the union of the tables would read them from end to end.
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
        UNION ALL
        SELECT -t.batch
        FROM onceward_task t
        WHERE t.id = waiting.id
          AND t.batch IS NOT NULL
        UNION ALL
        SELECT -b.inside
        FROM onceward_batch b
        WHERE b.id = -waiting.id
          AND b.inside IS NOT NULL
        UNION ALL
        SELECT b.then_task
        FROM onceward_batch b
        JOIN onceward_task t ON t.id = b.then_task
        WHERE b.id = -waiting.id
          AND (t.waiting_for = 'batch:' || b.name OR (t.status = 7 AND b.status = 0))
    ) AS edge
)
SELECT id
FROM waiting

-- name: open_holders
-- The open tasks that have one of these identities.
SELECT DISTINCT t.id
FROM unnest(:scopes::bytea[], :hashes::bytea[]) AS given (scope, hash)
JOIN onceward_identity AS i ON i.scope = given.scope AND i.hash = given.hash
JOIN onceward_task AS t ON t.id = i.task
WHERE t.status < 4

-- name: lock_tasks
-- In the order of all locks: those that wait come last, and of them whoever came to be last is first, because who ends a
-- task locks those who wait for it.
SELECT id
FROM onceward_task
WHERE id IN :ids
ORDER BY status = 3, CASE WHEN status = 3 THEN -id ELSE id END
FOR UPDATE

-- name: lock_parents
-- Of tasks that have ended, whoever waits for them. In a statement of its own: what is read of them afterwards is read
-- after everybody else who ends a child of theirs.
SELECT id
FROM onceward_task
WHERE id IN (SELECT parent FROM onceward_join WHERE child IN :ids)
ORDER BY id DESC
FOR UPDATE

-- name: count_batches
-- Tasks of batches were added, have ended, or are open again (a negative end). Locked in order first, the newest before
-- the others, because many end at once. Only of open batches: one that has ended stays as it ended.
WITH changed (id, added, succeeded, filtered, skipped, failed, cancelled) AS (
    ROWS (id bigint, added bigint, succeeded bigint, filtered bigint, skipped bigint, failed bigint, cancelled bigint)
), locked AS (
    SELECT b.id, c.added, c.succeeded, c.filtered, c.skipped, c.failed, c.cancelled
    FROM onceward_batch b
    JOIN changed c ON c.id = b.id
    ORDER BY b.id DESC
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

-- name: due_turns
-- The lines whose turn it is, with all their turns (0); who stands first in each band of them, and how many stand there,
-- counted no further than to a number (1); and their gates, locked, but for those that another claim has locked: it
-- serves the lines behind them (2). In one statement, because the way to the server and back costs more than what it
-- does. For each line of ours by itself, because an index gives the oldest turn of one only. After the last place seen in
-- a line, as in look. Who does not want them locked reads them as they are.
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
-- Skipping what another claim has locked: it serves the lines behind that gate.
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
-- Nothing: pop_and_lease has done it.

-- name: popped_first
-- Likewise.

-- name: pop_and_lease
-- Whoever passes; the tokens of those, and the word for gates that all is well; and their leases with their claim row, as
-- in lease_tasks: in one statement, because the way to the server and back costs more than what it does. Only if all the
-- gates are as we know them; they are locked here if they were not, and whoever holds them is the only one who pops from
-- these lines. By ctid, as in pop. Without a worker nothing is leased. A row for each lease, and one that tells of the
-- lines who was popped and how far that goes, in one value: a column for each of that would be one of every lease, too.
WITH same AS (
    SELECT g.name
    FROM unnest(:names::text[], :known::text[]) AS k (name, state)
    JOIN onceward_gate g ON g.name = k.name
    WHERE concat_ws(' ', g.tat, g.enabled, g.streak, g.paused_until, g.is_half_open, g.opened) = k.state
    FOR UPDATE OF g SKIP LOCKED
), are AS (
    SELECT count(*) = cardinality(:names::text[]) AS same
    FROM same
), taken AS (
    UPDATE onceward_gate g
    SET tat = t.tat, calls = g.calls + t.calls, taken_at = :now,
        last_success_at = CASE WHEN g.name IN TEXTS :healthy THEN :now ELSE g.last_success_at END
    FROM are
    CROSS JOIN unnest(:names::text[], :tats::bigint[], :calls::bigint[]) AS t (name, tat, calls)
    WHERE are.same
      AND g.name = t.name
), popped AS (
    DELETE FROM onceward_ready
    WHERE ctid = ANY (ARRAY (
        SELECT first.ctid
        FROM are
        CROSS JOIN unnest(:lanes::text[], :bands::bigint[], :counts::bigint[], :ranks::bigint[], :seqs::bigint[])
            AS w (lane, band, count, rank, seq)
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM onceward_ready r
            WHERE r.lane = w.lane
              AND r.band = w.band
              AND (r.rank, r.seq) > (w.rank, w.seq)
            ORDER BY r.rank, r.seq
            LIMIT CASE WHEN are.same THEN w.count ELSE 0 END
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
    SET status = 1, fence = fence + 1, token = :token, worker = living.id,
        started_at = coalesce(started_at, :now),
        clock_at = CASE WHEN clock_at < 0 THEN :now + clock_at ELSE clock_at END
    FROM living
    WHERE t.id = ANY (ARRAY (SELECT task FROM popped))
      AND t.status IN (0, 2)
      AND t.paused = 0
      AND t.due_at <= greatest(:now, (SELECT max(at) FROM popped))
      AND t.company = 0
      AND t.id || '@' || t.gates = ANY (ARRAY (SELECT task || substr(lane, strpos(lane, '@')) FROM popped))
    RETURNING t.id, t.fence, t.run, t.kind, t.version, t.queue, t.band, t.rank, t.stage, t.payload, t.payload_blob,
        t.failures, t.crashes, t.company, t.deferrals, t.signals, t.touched, uuid_send(t.lineage), t.parent,
        t.depth, t.created_at, t.started_at, t.gates, t.scheduled_at,
        coalesce(t.clock_at, t.progressed_at, t.started_at) AS clock_at, t.expiry, t.ancestry, t.limits,
        t.children - t.members AS children
), claim AS (
    INSERT INTO onceward_claim (token, worker, at, tasks, fences)
    SELECT :token, :worker, :now, array_agg(id ORDER BY id), array_agg(fence ORDER BY id)
    FROM leased
    HAVING count(*) > 0
    RETURNING seq
)
SELECT leased.*, claim.seq, NULL::text
FROM leased, claim
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, (
    SELECT coalesce(json_agg(json_build_array(lane, tasks, rank, seqs[cardinality(seqs)], at)), '[]')::text
    FROM (
        SELECT lane, array_agg(task ORDER BY rank, seq) AS tasks, max(rank) AS rank,
            array_agg(seq ORDER BY rank, seq) AS seqs, max(at) AS at
        FROM popped
        GROUP BY lane
    ) AS lines
)
FROM are
WHERE same

-- name: take_from_gates
WITH taken (at, name, tat, calls, healthy) AS (
    ROWS (same at bigint, name text, tat bigint, calls bigint, healthy bigint)
)
UPDATE onceward_gate g
SET tat = taken.tat, calls = g.calls + taken.calls, taken_at = taken.at,
    last_success_at = coalesce(taken.healthy, g.last_success_at)
FROM taken
WHERE g.name = taken.name

-- name: settle_gates
-- Takes tokens from gates, ends turns and leaves others, all in one: the way to the server and back costs more than what
-- it does.
WITH taken AS (
    UPDATE onceward_gate g
    SET tat = t.tat, calls = g.calls + t.calls, taken_at = :now, last_success_at = coalesce(t.healthy, g.last_success_at)
    FROM unnest(:names::text[], :tats::bigint[], :calls::bigint[], :healthy::bigint[]) AS t (name, tat, calls, healthy)
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
-- There is room: whoever waits for it is looked at now. Turns that a claim is taking away are none of ours.
UPDATE onceward_turn
SET next_at = :now
WHERE seq = ANY (ARRAY (
    SELECT seq
    FROM onceward_turn
    WHERE gate IN TEXTS :gates
      AND next_at > :now
    FOR UPDATE SKIP LOCKED
))

-- name: wake_lines
-- The clock was set back: what was to be looked at soon is looked at now.
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
-- Locked, so that who resumes waits for the turns that are being written because of a pause.
SELECT scope
FROM onceward_pause
WHERE scope IN TEXTS :scopes
FOR SHARE

-- name: wake_source
-- A source is open again: whoever waits behind it, or behind one of its instances, is looked at now. Turns that a claim
-- is taking away are none of ours: it has seen that the source is open.
UPDATE onceward_turn
SET next_at = :now
WHERE seq = ANY (ARRAY (
    SELECT seq
    FROM onceward_turn
    WHERE (gate = :gate::text OR (gate >= :gate::text || '/' AND gate < :gate::text || '0'))
      AND next_at > :now
    FOR UPDATE SKIP LOCKED
))

-- name: budget_needs
-- Locked as they are read, because what is set aside for a task is for the claim that follows.
SELECT id, kind, CASE WHEN expiry IS NULL THEN stage ELSE '!' END, gates, estimate, lineage, batch, scopes, queue, band,
    rank, company
FROM onceward_task
WHERE id IN :ids
  AND status IN (0, 2)
  AND paused = 0
  AND due_at <= :due_by
  AND gates IS NOT NULL
ORDER BY id
FOR UPDATE

-- name: hold_budget_limits
-- What operators have made of budgets; they can say nothing else until our transaction ends.
SELECT name, scope, ceiling
FROM onceward_budget_limit
WHERE name IN TEXTS :names
FOR SHARE

-- name: try_budget_limits
-- An error, instead of a wait for an operator who is just saying something.
LOCK TABLE onceward_budget_limit IN ROW SHARE MODE NOWAIT

-- name: lock_budget_limits
-- Waits for those who are about to open a budget with a limit that they have read, and lets nobody else read one to do so.
LOCK TABLE onceward_budget_limit IN EXCLUSIVE MODE

-- name: hold_budgets
-- In order, because many draw from them at once.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))
ORDER BY name, scope, window_at
FOR UPDATE

-- name: hold_all_budgets
-- As hold_budgets, but none of them if one is missing that has to be there: whoever opens that asks first what operators
-- have made of it, and these lock that before they lock budgets.
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
-- Skipping what others have locked, because whoever has locked one already must not wait for another.
SELECT name, scope, window_at, unit, ceiling, spent, reserved, ends_at, is_closed, fails
FROM onceward_budget
WHERE (name, scope, window_at) IN (ROWS (name text, scope text, window_at bigint))
ORDER BY name, scope, window_at
FOR UPDATE SKIP LOCKED

-- name: change_budgets
-- What was set aside, spent, or spent beyond what was set aside. The last closes a budget. Where a sum would not fit into a
-- number, it is counted no further. Locked in order first, because
-- many draw from them at once.
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
-- Budgets as they stand in their newest windows that have begun: those that are not over, if there are such.
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
-- Of a task a million is counted, so that the costs of many can be added up.
WITH changed (task, usd) AS (
    ROWS (task bigint, usd bigint)
)
UPDATE onceward_task t
SET cost = least(t.cost + c.usd, 1000000000000000)
FROM changed c
WHERE t.id = c.task

-- name: advance_ranks
-- The next ranks of lineages: no further ahead than where the claims have come to in the line of most of their tasks.
WITH asked (id, lane, band, count) AS (
    ROWS (id uuid, lane text, band smallint, count bigint)
)
UPDATE onceward_lineage l
SET next_rank = asked.count + greatest(
    l.next_rank,
    coalesce((SELECT max(m.rank) FROM onceward_mark m WHERE m.lane = asked.lane AND m.band = asked.band), 0)
)
FROM asked
WHERE l.id = asked.id
RETURNING l.id, l.next_rank

-- name: hold_answer
SELECT value IS NOT NULL OR value_blob IS NOT NULL, value_blob, stored_at, expires_at, filler, filling_token
FROM onceward_cache
WHERE source = :source
  AND hash = :hash
FOR UPDATE

-- name: use_answers
-- Skipping what somebody else has locked: whoever that is uses it, or takes it away.
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
-- If nobody has used or replaced them since. Skipping what somebody has locked, who uses it.
DELETE FROM onceward_cache
WHERE (source, hash) IN (
    SELECT source, hash
    FROM onceward_cache
    WHERE (source, hash, used_at) IN (ROWS (source text, hash bytea, used_at bigint))
    FOR UPDATE SKIP LOCKED
)
RETURNING value_blob

-- name: clear_answers
-- Those that were there at a time, and those that were being asked for.
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

-- name: leave_waiting_room
-- Of tasks that were to run again later: they have no other place there. What somebody is just putting in line is left
-- to them, because they may be waiting for these tasks.
DELETE FROM onceward_due
WHERE (due_at, task) IN (
    SELECT d.due_at, d.task
    FROM onceward_task t
    JOIN onceward_due d ON d.due_at = t.due_at AND d.task = t.id
    WHERE t.id IN :ids
    FOR UPDATE OF d SKIP LOCKED
)

-- name: read_checkpoints
-- The stored results and parts of tasks that are resumed, of their present run, and what they hold of budgets: digits,
-- made to bytes as this database does it.
SELECT c.task, c.stage, c.part, coalesce(c.value, b.data), c.at AS at
FROM onceward_checkpoint c
JOIN onceward_task t ON t.id = c.task AND t.run = c.run
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE c.task IN :ids
UNION ALL
SELECT r.task, '$' || r.budget, r.hold, convert_to(sum(r.amount)::text, 'UTF8'), min(r.at)
FROM onceward_reservation r
JOIN onceward_task t ON t.id = r.task AND t.run = r.run
WHERE r.task IN :ids
  AND r.hold <> ''
  AND r.budget = r.held_of
  AND r.state <> 1
GROUP BY r.task, r.budget, r.hold
ORDER BY 1, 5
