-- Lineages as a whole: reading them, and what an operator does to one or to a part of it.
--
-- A part of a lineage is a task, its head, and all that descend from it. Ancestry is packed in records of one length,
-- root first, so that a descendant carries the number of the head (:mark) at the place of its depth (:offset). The id
-- of a descendant is larger than that of its ancestors.

-- name: head_by_task
SELECT lineage, id, depth
FROM onceward_task
WHERE id = :task

-- name: head_by_lineage
-- The root of a lineage, or the oldest task that is left of it.
SELECT lineage, id, depth
FROM onceward_task
WHERE lineage = :lineage
ORDER BY id
LIMIT 1

-- name: report_subtree
-- Oldest first: a parent is read before its children.
SELECT t.id, t.parent, t.depth, t.kind, t.key, CASE WHEN t.key IS NULL THEN substr(t.payload, 1, 1000) END, t.status,
    t.stage, t.fence, t.failures, t.reason, t.waiting_for, t.paused, t.refusals, t.due_at, t.created_at, t.ended_at,
    t.cost
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id >= :task
  AND (:whole = 1 OR t.id = :task OR substr(t.ancestry, :offset, 8) = :mark)
ORDER BY t.id
LIMIT :limit

-- name: count_subtree
SELECT t.status, count(*), max(t.depth), sum(t.refusals), sum(t.paused), sum(t.cost)
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id >= :task
  AND (:whole = 1 OR t.id = :task OR substr(t.ancestry, :offset, 8) = :mark)
GROUP BY t.status

-- name: in_subtree
-- Tasks of a part between two statuses, filtered by pause where :paused is not NULL.
SELECT t.id
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id >= :task
  AND (:whole = 1 OR t.id = :task OR substr(t.ancestry, :offset, 8) = :mark)
  AND t.status >= :least
  AND t.status <= :most
  AND (t.paused = :paused) IS NOT FALSE
ORDER BY t.id

-- name: read_lineage
SELECT max_depth, max_children, max_tasks, deadline_at, tasks, created_at
FROM onceward_lineage
WHERE id = :lineage

-- name: refusals_of_tasks
SELECT lineage, parent, stage, kind, key, rule, reason, ancestor, existing, at
FROM onceward_refusal
WHERE parent IN :ids
ORDER BY id
LIMIT :limit

-- name: links_of_tasks
SELECT l.parent, l.child, l.stage, c.lineage, c.kind, c.key, c.status
FROM onceward_link l
JOIN onceward_task c ON c.id = l.child
WHERE l.parent IN :ids
ORDER BY l.parent, l.child

-- name: newest_lineages
-- A narrower scope inside a lineage has a row too; its root belongs to another lineage.
SELECT l.id, l.root, t.kind, t.key, CASE WHEN t.key IS NULL THEN substr(t.payload, 1, 1000) END, t.status, t.paused,
    l.tasks, l.max_tasks, l.deadline_at, l.created_at
FROM onceward_lineage l
JOIN onceward_task t ON t.id = l.root AND t.lineage = l.id
ORDER BY l.created_at DESC
LIMIT :limit

-- name: largest_lineages
SELECT l.id, l.root, t.kind, t.key, CASE WHEN t.key IS NULL THEN substr(t.payload, 1, 1000) END, t.status, t.paused,
    l.tasks, l.max_tasks, l.deadline_at, l.created_at
FROM onceward_lineage l
JOIN onceward_task t ON t.id = l.root AND t.lineage = l.id
ORDER BY l.tasks DESC, l.created_at DESC
LIMIT :limit

-- name: count_lineages
SELECT r.id, t.status, count(*), max(t.depth), sum(t.refusals), 0, sum(t.cost)
FROM onceward_task r
JOIN onceward_task t ON t.lineage = r.lineage
WHERE r.id IN :ids
GROUP BY r.id, t.status

-- name: find_in_lineage
-- As find_tasks, for one lineage: by (lineage, id), however many tasks there are besides.
SELECT t.id
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id < :before
  AND (t.status = :status) IS NOT FALSE
  AND (t.kind = :kind) IS NOT FALSE
  AND (t.depth >= :min_depth) IS NOT FALSE
  AND (coalesce(t.key, '') = :key) IS NOT FALSE
  AND (substr(coalesce(t.key, ''), 1, length(:prefix)) = :prefix) IS NOT FALSE
ORDER BY t.id DESC
LIMIT :limit

-- name: find_by_identity
-- As find_tasks, for one kind and a key of its own.
SELECT t.id
FROM onceward_task t
WHERE t.identity = :identity
  AND t.key IS NOT NULL
  AND t.id < :before
  AND (t.status = :status) IS NOT FALSE
  AND (t.lineage = :lineage) IS NOT FALSE
  AND (t.depth >= :min_depth) IS NOT FALSE
ORDER BY t.id DESC
LIMIT :limit

-- name: find_by_fields
-- As find_by_identity, for payloads that are known by all their fields. They have no index: see docs/decisions/0032.
SELECT t.id
FROM onceward_task t
WHERE t.identity = :identity
  AND t.key IS NULL
  AND t.id < :before
  AND (t.status = :status) IS NOT FALSE
  AND (t.depth >= :min_depth) IS NOT FALSE
ORDER BY t.id DESC
LIMIT :limit

-- name: find_by_fields_in_lineage
-- As find_by_fields, by (lineage, id).
SELECT t.id
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.identity = :identity
  AND t.key IS NULL
  AND t.id < :before
  AND (t.status = :status) IS NOT FALSE
  AND (t.depth >= :min_depth) IS NOT FALSE
ORDER BY t.id DESC
LIMIT :limit

-- name: find_by_alias
-- As find_by_identity, for aliases. An alias may outlive its task.
SELECT t.id
FROM onceward_alias a
JOIN onceward_task t ON t.id = a.task
WHERE a.identity = :identity
  AND (a.lineage = :lineage) IS NOT FALSE
ORDER BY t.id DESC
LIMIT :limit

-- name: refusals_of_identity
SELECT lineage, parent, stage, kind, key, rule, reason, ancestor, existing, at
FROM onceward_refusal
WHERE identity = :identity
  AND (lineage = :lineage) IS NOT FALSE
ORDER BY id DESC
LIMIT :limit

-- name: why_task
SELECT t.id, t.kind, t.queue, t.band, t.company, t.status, t.stage, t.due_at, t.waiting_for, t.reason, t.paused,
    t.ancestry, t.failures, t.ended_at, t.gates, w.name, t.estimate, t.created_at, w.host, w.presence, w.beat_at,
    w.lease_ms
FROM onceward_task t
LEFT JOIN onceward_worker w ON w.id = t.worker
WHERE t.id = :task

-- name: open_joins
SELECT child
FROM onceward_join
WHERE parent = :task
ORDER BY child

-- name: still_open_in_batch
-- Some tasks of a batch that have not ended; the one that follows it is not among them.
SELECT t.id
FROM onceward_batch b
JOIN onceward_task t ON t.batch = b.id
WHERE b.name = :name
  AND t.status IN #open
ORDER BY t.id
LIMIT 20

-- name: put_off_before
-- What put a task off, the last few times: retries, polls, waits, pauses, and workers that died.
SELECT at, event, note
FROM onceward_attempt
WHERE task = :task
  AND event IN (4, 5, 6, 9, 10, 11, 20)
ORDER BY id DESC
LIMIT 5

-- name: serving_workers
SELECT name, kinds, queues, beat_at, lease_ms, host, pid, presence
FROM onceward_worker
WHERE stopped_at IS NULL
ORDER BY id

-- name: ahead_in_line
-- Counts the claimable tasks before a task in its line. A cancelled or paused task may still have a place, and another
-- task two.
SELECT count(DISTINCT r.task)
FROM onceward_ready r
JOIN onceward_task t ON t.id = r.task
WHERE r.lane = :lane
  AND r.band = :band
  AND t.status IN #startable
  AND t.paused = 0
  AND (r.rank, r.seq) < (
    SELECT own.rank, own.seq
    FROM onceward_ready own
    WHERE own.lane = :lane
      AND own.band = :band
      AND own.task = :task
    ORDER BY own.rank, own.seq
    LIMIT 1
  )

-- name: cancel_many
-- As cancel.
UPDATE onceward_task
SET status = #cancelled, ended_at = :now, token = NULL, waiting_for = NULL, reason = :reason
WHERE id IN :ids
  AND status IN #open
RETURNING id, run, fence, stage, awaited, batch

-- name: pause_head
-- Marks the head in any status: a descendant that is reopened reads the mark there.
UPDATE onceward_task
SET paused = 1
WHERE id = :task
RETURNING run, fence, status, stage

-- name: pause_tasks
UPDATE onceward_task
SET paused = 1
WHERE id IN :ids
  AND paused = 0
  AND status IN #open
RETURNING id

-- name: resume_tasks
-- Takes the pause mark away. The time under the pause does not count.
UPDATE onceward_task
SET paused = 0, clock_at = CASE WHEN status = #running THEN clock_at ELSE -1 END
WHERE id IN :ids
  AND paused = 1
RETURNING id, status, kind || coalesce('@' || gates, ''), queue, band, rank, company, due_at

-- name: paused_among
SELECT id
FROM onceward_task
WHERE id IN :ids
  AND paused = 1
ORDER BY id

-- name: read_to_log
-- The present facts of a task that a log row repeats.
SELECT run, fence, status, stage
FROM onceward_task
WHERE id = :task

-- name: limits_in_subtree
-- The different limits that tasks have, which are few.
SELECT DISTINCT t.limits
FROM onceward_task t
WHERE t.lineage = :lineage
  AND t.id >= :task
  AND (:whole = 1 OR t.id = :task OR substr(t.ancestry, :offset, 8) = :mark)

-- name: limits_of_head
SELECT limits, scopes, created_at
FROM onceward_task
WHERE id = :task

-- name: change_limits
-- Changes stored limits. `touched` marks a root, so that its claim reads them.
UPDATE onceward_task
SET limits = :new_limits,
    touched = CASE WHEN parent IS NULL THEN 1 ELSE touched END
WHERE lineage = :lineage
  AND id >= :task
  AND (:whole = 1 OR id = :task OR substr(ancestry, :offset, 8) = :mark)
  AND (limits = :old_limits OR (:had_none = 1 AND limits IS NULL))

-- name: begins_with
SELECT root
FROM onceward_lineage
WHERE id = :lineage

-- name: change_lineage
UPDATE onceward_lineage
SET max_depth = :max_depth, max_tasks = :max_tasks, max_children = :max_children,
    overdue = CASE WHEN :deadline_at > deadline_at THEN 0 ELSE overdue END, deadline_at = :deadline_at
WHERE id = :lineage
