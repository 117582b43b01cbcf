-- What a spawn needs: where a task comes from, its own limits, and who waits for whom.
ALTER TABLE onceward_task ADD COLUMN ancestry bytea;
ALTER TABLE onceward_task ADD COLUMN limits bytea;
ALTER TABLE onceward_task ADD COLUMN scopes bytea;
ALTER TABLE onceward_task ADD COLUMN children bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN refusals bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN awaited bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN error bytea;
ALTER TABLE onceward_task ADD COLUMN same_errors bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN paused smallint NOT NULL DEFAULT 0;

CREATE INDEX onceward_task_lineage ON onceward_task (lineage, id);
CREATE INDEX onceward_task_parent ON onceward_task (parent) WHERE parent IS NOT NULL;
CREATE INDEX onceward_task_batch ON onceward_task (batch, id) WHERE batch IS NOT NULL;
CREATE INDEX onceward_task_identity ON onceward_task (identity);
CREATE INDEX onceward_lineage_created ON onceward_lineage (created_at);
CREATE INDEX onceward_refusal_identity ON onceward_refusal (identity);

-- How many tasks the last request for room was granted.
ALTER TABLE onceward_lineage ADD COLUMN granted bigint NOT NULL DEFAULT 0;
-- How many of its tasks are gone: it goes on counting them.
ALTER TABLE onceward_lineage ADD COLUMN pruned bigint NOT NULL DEFAULT 0;

-- Who waits for whom: a row for every open child of a parent whose next stage is a join.
CREATE TABLE onceward_join (
    child bigint NOT NULL,
    parent bigint NOT NULL,
    PRIMARY KEY (child, parent)
);
CREATE INDEX onceward_join_parent ON onceward_join (parent);

-- How work of a lineage has failed for good.
CREATE TABLE onceward_failure (
    lineage uuid NOT NULL,
    identity bytea NOT NULL,
    fingerprint bytea NOT NULL,
    kind text NOT NULL,
    task bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (lineage, identity, fingerprint)
);
CREATE INDEX onceward_failure_kind ON onceward_failure (lineage, kind, fingerprint);

ALTER TABLE onceward_batch ADD COLUMN filtered bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_batch ADD COLUMN skipped bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_batch ADD COLUMN cancelled bigint NOT NULL DEFAULT 0;
ALTER TABLE onceward_batch ADD COLUMN then_data bytea;
ALTER TABLE onceward_batch ADD COLUMN scope uuid;
ALTER TABLE onceward_batch ADD COLUMN reason text;
-- The task whose stage has opened it, and the batch to which that task belongs.
ALTER TABLE onceward_batch ADD COLUMN opener bigint;
ALTER TABLE onceward_batch ADD COLUMN inside bigint;
CREATE INDEX onceward_batch_inside ON onceward_batch (inside) WHERE inside IS NOT NULL;
CREATE INDEX onceward_batch_deadline ON onceward_batch (deadline_at) WHERE status = 0 AND deadline_at IS NOT NULL
