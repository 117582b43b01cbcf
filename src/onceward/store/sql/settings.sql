-- Settings that were changed while workers run.

-- name: read_settings
SELECT name, value, at, author
FROM onceward_setting
ORDER BY at, name

-- name: set_setting
INSERT INTO onceward_setting (name, value, at, author)
VALUES (:name, :value, :at, :author)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at, author = excluded.author

-- name: describe_setting
UPDATE onceward_setting
SET type = :type, about = :about
WHERE name = :name

-- name: unset_setting
DELETE FROM onceward_setting
WHERE name = :name
RETURNING name
