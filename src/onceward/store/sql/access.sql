-- Tokens of the dashboard and of the HTTP API, and the audit log of what was done with them.

-- name: add_token
INSERT INTO onceward_token (name, hash, role, created_at, expires_at, author)
VALUES (:name, :hash, :role, :now, :expires_at, :author)
ON CONFLICT (name) DO NOTHING
RETURNING name

-- name: list_tokens
SELECT name, role, created_at, expires_at, author
FROM onceward_token
ORDER BY name

-- name: find_token
SELECT name, role
FROM onceward_token
WHERE hash = :hash
  AND (expires_at IS NULL OR expires_at > :now)

-- name: any_token
SELECT 1
FROM onceward_token
LIMIT 1

-- name: revoke_token
DELETE FROM onceward_token
WHERE name = :name
RETURNING name

-- name: record_audit
INSERT INTO onceward_audit (at, author, role, action, target, concerned, outcome, note)
VALUES (:now, :author, :role, :action, :target, :concerned, :outcome, :note)

-- name: list_audit
SELECT id, at, author, role, action, target, concerned, outcome, note
FROM onceward_audit
WHERE id < :before
ORDER BY id DESC
LIMIT :limit

-- name: prune_audit
DELETE FROM onceward_audit
WHERE at < :before

-- name: add_secret_fields
INSERT INTO onceward_secret_field (kind, field)
ROWS (kind text, field text)
ON CONFLICT (kind, field) DO NOTHING
