-- Further keys of tasks (ctx.alias). A row stays as long as its lineage: what descends from the task must not repeat it.
CREATE TABLE onceward_alias (
    task bigint NOT NULL,
    identity bytea NOT NULL,
    -- NULL for those from before this table, of which only the identity is known.
    key text,
    lineage uuid NOT NULL,
    -- Whether the task has got that identity in its lineage, and whether everywhere: somebody else may have had it.
    here smallint NOT NULL,
    everywhere smallint NOT NULL,
    PRIMARY KEY (task, identity)
);
CREATE INDEX onceward_alias_lineage ON onceward_alias (lineage);
CREATE INDEX onceward_alias_identity ON onceward_alias (identity);
INSERT INTO onceward_alias (task, identity, lineage, here, everywhere)
SELECT t.id, i.hash, t.lineage, 1, 0
FROM onceward_identity i
JOIN onceward_task t ON t.id = i.task
WHERE i.hash <> t.identity
  AND i.scope = uuid_send(t.lineage);

-- The identity by which a linked task was asked for, where that is an alias of it.
ALTER TABLE onceward_link ADD COLUMN identity bytea;
