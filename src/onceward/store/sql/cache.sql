-- The response cache: answers of sources, and the attempts that fetch missing ones (decision 28).

-- name: look_up
-- An answer, or whether an attempt that still holds its task is fetching it.
SELECT coalesce(c.value, b.data), c.stored_at, c.expires_at, c.used_at,
    EXISTS (SELECT 1 FROM onceward_task t WHERE t.id = c.filler AND t.token = c.filling_token AND t.status = #running)
FROM onceward_cache c
LEFT JOIN onceward_blob b ON b.hash = c.value_blob
WHERE c.source = :source
  AND c.hash = :hash

-- name: holds_task
-- Whether the attempt that fetches an answer still holds its task.
SELECT 1
FROM onceward_task
WHERE id = :task
  AND token = :token
  AND status = #running

-- name: begin_filling
INSERT INTO onceward_cache (source, hash, filler, filling_token, stored_at, expires_at, used_at)
VALUES (:source, :hash, :task, :token, :now, :until, :now)
ON CONFLICT (source, hash) DO NOTHING
RETURNING hash

-- name: refill
-- Replace a useless answer, or a lost attempt, by this attempt. The row is locked.
UPDATE onceward_cache
SET value = NULL, value_blob = NULL, size = 0, filler = :task, filling_token = :token, stored_at = :now,
    expires_at = :until, used_at = :now
WHERE source = :source
  AND hash = :hash

-- name: store_answer
-- Store an answer for the attempt that the others wait for; a late or cleared answer is not stored.
UPDATE onceward_cache
SET value = :value, value_blob = :value_blob, size = :size, filler = NULL, filling_token = NULL, stored_at = :now,
    expires_at = :until, used_at = :now
WHERE source = :source
  AND hash = :hash
  AND filler = :task
  AND filling_token = :token
RETURNING hash

-- name: end_filling
DELETE FROM onceward_cache
WHERE source = :source
  AND hash = :hash
  AND filler = :task
  AND filling_token = :token

-- name: count_lookups
INSERT INTO onceward_gate (name, hits, misses, retry_hits, retry_misses)
ROWS (name text, hits bigint, misses bigint, retry_hits bigint, retry_misses bigint)
ON CONFLICT (name) DO UPDATE
SET hits = onceward_gate.hits + excluded.hits, misses = onceward_gate.misses + excluded.misses,
    retry_hits = onceward_gate.retry_hits + excluded.retry_hits,
    retry_misses = onceward_gate.retry_misses + excluded.retry_misses

-- name: expired_answers
SELECT source, hash, used_at
FROM onceward_cache
WHERE expires_at <= :now
ORDER BY expires_at
LIMIT :count

-- name: cached_bytes
SELECT CAST(coalesce(sum(size), 0) AS bigint)
FROM onceward_cache

-- name: oldest_answers
-- The longest unused answers. One that is being fetched takes no room.
SELECT source, hash, used_at, size
FROM onceward_cache
WHERE size > 0
ORDER BY used_at
LIMIT :count

-- name: cached_sources
SELECT source, count(*), CAST(sum(size) AS bigint)
FROM onceward_cache
WHERE size > 0
GROUP BY source

-- name: lookups
SELECT name, hits, misses, retry_hits, retry_misses
FROM onceward_gate
WHERE hits > 0
   OR misses > 0
