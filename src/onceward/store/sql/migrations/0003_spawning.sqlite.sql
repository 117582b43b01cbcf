-- What a spawn needs: where a task comes from, its own limits, and who waits for whom.
ALTER TABLE onceward_task ADD COLUMN ancestry blob;
ALTER TABLE onceward_task ADD COLUMN limits blob;
ALTER TABLE onceward_task ADD COLUMN scopes blob;
ALTER TABLE onceward_task ADD COLUMN children integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN refusals integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN awaited integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN error blob;
ALTER TABLE onceward_task ADD COLUMN same_errors integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_task ADD COLUMN paused integer NOT NULL DEFAULT 0;

CREATE INDEX onceward_task_lineage ON onceward_task (lineage, id);
CREATE INDEX onceward_task_parent ON onceward_task (parent) WHERE parent IS NOT NULL;
CREATE INDEX onceward_task_batch ON onceward_task (batch, id) WHERE batch IS NOT NULL;
CREATE INDEX onceward_task_identity ON onceward_task (identity);
CREATE INDEX onceward_lineage_created ON onceward_lineage (created_at);
CREATE INDEX onceward_refusal_identity ON onceward_refusal (identity);

-- How many tasks the last request for room was granted.
ALTER TABLE onceward_lineage ADD COLUMN granted integer NOT NULL DEFAULT 0;
-- How many of its tasks are gone: it goes on counting them.
ALTER TABLE onceward_lineage ADD COLUMN pruned integer NOT NULL DEFAULT 0;

-- Who waits for whom: a row for every open child of a parent whose next stage is a join.
CREATE TABLE onceward_join (
    child integer NOT NULL,
    parent integer NOT NULL,
    PRIMARY KEY (child, parent)
) WITHOUT ROWID;
CREATE INDEX onceward_join_parent ON onceward_join (parent);

-- How work of a lineage has failed for good.
CREATE TABLE onceward_failure (
    lineage blob NOT NULL,
    identity blob NOT NULL,
    fingerprint blob NOT NULL,
    kind text NOT NULL,
    task integer NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (lineage, identity, fingerprint)
) WITHOUT ROWID;
CREATE INDEX onceward_failure_kind ON onceward_failure (lineage, kind, fingerprint);

ALTER TABLE onceward_batch ADD COLUMN filtered integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_batch ADD COLUMN skipped integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_batch ADD COLUMN cancelled integer NOT NULL DEFAULT 0;
ALTER TABLE onceward_batch ADD COLUMN then_data blob;
ALTER TABLE onceward_batch ADD COLUMN scope blob;
ALTER TABLE onceward_batch ADD COLUMN reason text;
-- The task whose stage has opened it, and the batch to which that task belongs.
ALTER TABLE onceward_batch ADD COLUMN opener integer;
ALTER TABLE onceward_batch ADD COLUMN inside integer;
CREATE INDEX onceward_batch_inside ON onceward_batch (inside) WHERE inside IS NOT NULL;
CREATE INDEX onceward_batch_deadline ON onceward_batch (deadline_at) WHERE status = 0 AND deadline_at IS NOT NULL
