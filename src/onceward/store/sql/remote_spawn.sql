-- Work that arrives from another process for a task of this database.

-- name: far_task
-- Reads the parent of a remote spawn. Its row is locked before.
SELECT t.lineage, t.kind, t.version, t.queue, t.band, t.key, coalesce(t.payload, b.data), t.run, t.fence, t.status,
    t.waiting_for, t.depth, t.parent, t.created_at, t.ancestry, t.limits, t.children - t.members
FROM onceward_task t
LEFT JOIN onceward_blob b ON b.hash = t.payload_blob
WHERE t.id = :task

-- name: touch_task
-- Marks a task, so that its next claim reads its children.
UPDATE onceward_task
SET touched = 1
WHERE id = :task
