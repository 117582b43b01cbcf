-- How the store itself does, as PostgreSQL tells it; SQLite counts and measures otherwise.

-- name: store_size
-- Bytes of the database, NULL, and how many transactions old its oldest rows are.
SELECT pg_database_size(current_database()), NULL::bigint, (
    SELECT age(datfrozenxid)::bigint FROM pg_database WHERE datname = current_database()
)

-- name: store_tables
-- Estimates of the rows of tables, as the statistics have them.
SELECT c.relname::text, s.n_live_tup, NULL::bigint
FROM pg_stat_user_tables s
JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = current_schema()
  AND substr(c.relname::text, 1, 9) = 'onceward_'
  AND :most > 0
ORDER BY c.relname

-- name: store_table_bytes
-- Bytes of tables with their indexes, their dead rows, and when they were last vacuumed.
SELECT c.relname::text, pg_total_relation_size(c.oid), s.n_dead_tup,
    (extract(epoch FROM greatest(s.last_autovacuum, s.last_vacuum)) * 1000)::bigint
FROM pg_stat_user_tables s
JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = current_schema()
  AND substr(c.relname::text, 1, 9) = 'onceward_'

-- name: oldest_lease
-- The earliest claim of living workers of which a task is still held.
SELECT min(c.at), count(*)
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE w.stopped_at IS NULL

-- name: held_tasks
-- The tasks that living workers hold, by worker, the oldest claims first.
SELECT w.id, t.id, t.kind, substr(coalesce(t.key, ''), 1, 400), t.stage, c.at
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN LATERAL unnest(c.tasks) AS claimed (task)
JOIN onceward_task t ON t.id = claimed.task AND t.token = c.token
WHERE w.stopped_at IS NULL
ORDER BY w.id, c.seq, t.id
LIMIT :limit
