-- How the store itself does, as SQLite tells it; PostgreSQL counts and measures otherwise.

-- name: store_size
-- Bytes of the file, and those of its free pages.
SELECT (SELECT page_count FROM pragma_page_count()) * (SELECT page_size FROM pragma_page_size()),
    (SELECT freelist_count FROM pragma_freelist_count()) * (SELECT page_size FROM pragma_page_size()), NULL

-- name: store_tables
-- Counts the rows of tables as far as the most; for larger ones the distance between the first and the last id,
-- each of which SQLite finds by itself, but not both at once.
SELECT 'onceward_task', (SELECT count(*) FROM (SELECT 1 FROM onceward_task LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_task) - (SELECT min(id) FROM onceward_task) + 1
UNION ALL SELECT 'onceward_attempt', (SELECT count(*) FROM (SELECT 1 FROM onceward_attempt LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_attempt) - (SELECT min(id) FROM onceward_attempt) + 1
UNION ALL SELECT 'onceward_claim', (SELECT count(*) FROM (SELECT 1 FROM onceward_claim LIMIT :most) AS few),
    (SELECT max(seq) FROM onceward_claim) - (SELECT min(seq) FROM onceward_claim) + 1
UNION ALL SELECT 'onceward_refusal', (SELECT count(*) FROM (SELECT 1 FROM onceward_refusal LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_refusal) - (SELECT min(id) FROM onceward_refusal) + 1
UNION ALL SELECT 'onceward_worker', (SELECT count(*) FROM (SELECT 1 FROM onceward_worker LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_worker) - (SELECT min(id) FROM onceward_worker) + 1
UNION ALL SELECT 'onceward_batch', (SELECT count(*) FROM (SELECT 1 FROM onceward_batch LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_batch) - (SELECT min(id) FROM onceward_batch) + 1
UNION ALL SELECT 'onceward_alert', (SELECT count(*) FROM (SELECT 1 FROM onceward_alert LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_alert) - (SELECT min(id) FROM onceward_alert) + 1
UNION ALL SELECT 'onceward_audit', (SELECT count(*) FROM (SELECT 1 FROM onceward_audit LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_audit) - (SELECT min(id) FROM onceward_audit) + 1
UNION ALL SELECT 'onceward_tick', (SELECT count(*) FROM (SELECT 1 FROM onceward_tick LIMIT :most) AS few),
    (SELECT max(id) FROM onceward_tick) - (SELECT min(id) FROM onceward_tick) + 1
UNION ALL SELECT 'onceward_turn', (SELECT count(*) FROM (SELECT 1 FROM onceward_turn LIMIT :most) AS few),
    (SELECT max(seq) FROM onceward_turn) - (SELECT min(seq) FROM onceward_turn) + 1
UNION ALL SELECT 'onceward_ready', (SELECT count(*) FROM (SELECT 1 FROM onceward_ready LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_due', (SELECT count(*) FROM (SELECT 1 FROM onceward_due LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_checkpoint', (SELECT count(*) FROM (SELECT 1 FROM onceward_checkpoint LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_signal', (SELECT count(*) FROM (SELECT 1 FROM onceward_signal LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_progress', (SELECT count(*) FROM (SELECT 1 FROM onceward_progress LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_blob', (SELECT count(*) FROM (SELECT 1 FROM onceward_blob LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_receipt', (SELECT count(*) FROM (SELECT 1 FROM onceward_receipt LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_lineage', (SELECT count(*) FROM (SELECT 1 FROM onceward_lineage LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_identity', (SELECT count(*) FROM (SELECT 1 FROM onceward_identity LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_alias', (SELECT count(*) FROM (SELECT 1 FROM onceward_alias LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_link', (SELECT count(*) FROM (SELECT 1 FROM onceward_link LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_join', (SELECT count(*) FROM (SELECT 1 FROM onceward_join LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_failure', (SELECT count(*) FROM (SELECT 1 FROM onceward_failure LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_reservation', (SELECT count(*) FROM (SELECT 1 FROM onceward_reservation LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_budget', (SELECT count(*) FROM (SELECT 1 FROM onceward_budget LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_cache', (SELECT count(*) FROM (SELECT 1 FROM onceward_cache LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_gate', (SELECT count(*) FROM (SELECT 1 FROM onceward_gate LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_slot', (SELECT count(*) FROM (SELECT 1 FROM onceward_slot LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_schedule', (SELECT count(*) FROM (SELECT 1 FROM onceward_schedule LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_sample', (SELECT count(*) FROM (SELECT 1 FROM onceward_sample LIMIT :most) AS few), NULL
UNION ALL SELECT 'onceward_time_limit', (SELECT count(*) FROM (SELECT 1 FROM onceward_time_limit LIMIT :most) AS few), NULL

-- name: store_table_bytes
-- Bytes of tables with their indexes. It reads the whole file, so it is asked of small ones alone.
SELECT m.tbl_name, sum(s.pgsize), NULL, NULL
FROM dbstat s
JOIN sqlite_master m ON m.name = s.name
WHERE s.aggregate = 1
  AND substr(m.tbl_name, 1, 9) = 'onceward_'
GROUP BY m.tbl_name

-- name: oldest_lease
-- The earliest claim of living workers of which a task is still held.
SELECT min(c.at), count(*)
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN json_each(c.tasks) AS claimed
CROSS JOIN onceward_task t
WHERE t.id = claimed.value
  AND t.token = c.token
  AND w.stopped_at IS NULL

-- name: held_tasks
-- The tasks that living workers hold, by worker, the oldest claims first.
SELECT w.id, t.id, t.kind, substr(coalesce(t.key, ''), 1, 400), t.stage, c.at
FROM onceward_worker w
JOIN onceward_claim c ON c.worker = w.id AND c.seq >= w.low_claim
CROSS JOIN json_each(c.tasks) AS claimed
CROSS JOIN onceward_task t
WHERE t.id = claimed.value
  AND t.token = c.token
  AND w.stopped_at IS NULL
ORDER BY w.id, c.seq, t.id
LIMIT :limit
