-- Tasks. Every index here is on columns that a claim or a finish never changes, so that both are HOT updates (R13).
CREATE TABLE onceward_blob (
    hash bytea PRIMARY KEY,
    data bytea NOT NULL
);

CREATE TABLE onceward_task (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    version integer NOT NULL,
    queue text NOT NULL,
    band smallint NOT NULL,
    rank bigint NOT NULL DEFAULT 0,
    key text,
    identity bytea NOT NULL,
    payload bytea,
    payload_blob bytea REFERENCES onceward_blob (hash),
    lineage uuid NOT NULL,
    parent bigint,
    depth smallint NOT NULL DEFAULT 0,
    batch bigint,
    source text,
    budget text,
    status smallint NOT NULL DEFAULT 0,
    stage text,
    run integer NOT NULL DEFAULT 1,
    touched smallint NOT NULL DEFAULT 0,
    fence integer NOT NULL DEFAULT 0,
    token bytea,
    worker bigint,
    failures integer NOT NULL DEFAULT 0,
    crashes smallint NOT NULL DEFAULT 0,
    company smallint NOT NULL DEFAULT 0,
    deferrals integer NOT NULL DEFAULT 0,
    signals integer NOT NULL DEFAULT 0,
    due_at bigint NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    progressed_at bigint,
    ended_at bigint,
    waiting_for text COLLATE "C",
    reason text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX onceward_task_waiting ON onceward_task (waiting_for, kind) WHERE waiting_for IS NOT NULL;
CREATE INDEX onceward_task_payload_blob ON onceward_task (payload_blob) WHERE payload_blob IS NOT NULL;

-- Places in line: narrow, never updated; a claim deletes them, a retry or a due task makes a new one.
CREATE TABLE onceward_ready (
    lane text COLLATE "C" NOT NULL,
    band smallint NOT NULL,
    rank bigint NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    task bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (lane, band, rank, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE onceward_due (
    due_at bigint NOT NULL,
    task bigint NOT NULL,
    lane text COLLATE "C" NOT NULL,
    band smallint NOT NULL,
    rank bigint NOT NULL,
    PRIMARY KEY (due_at, task)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Stored results, cursors and parts of stages.
CREATE TABLE onceward_checkpoint (
    task bigint NOT NULL,
    run integer NOT NULL,
    stage text NOT NULL,
    part text NOT NULL,
    value bytea,
    value_blob bytea REFERENCES onceward_blob (hash),
    at bigint NOT NULL,
    PRIMARY KEY (task, run, stage, part)
);
CREATE INDEX onceward_checkpoint_value_blob ON onceward_checkpoint (value_blob) WHERE value_blob IS NOT NULL;

CREATE TABLE onceward_signal (
    task bigint NOT NULL,
    name text NOT NULL,
    number integer NOT NULL,
    value bytea NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (task, name)
);

CREATE TABLE onceward_progress (
    task bigint PRIMARY KEY,
    stage text NOT NULL,
    done bigint NOT NULL,
    total bigint,
    note text,
    at bigint NOT NULL
);

-- Workers and what they hold.
CREATE TABLE onceward_worker (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    presence text,
    kinds text NOT NULL,
    queues text NOT NULL,
    lease_ms bigint NOT NULL,
    started_at bigint NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    beat_at bigint NOT NULL,
    low_claim bigint NOT NULL DEFAULT 0,
    stopped_at bigint,
    ended_how text
) WITH (fillfactor = 50);
CREATE INDEX onceward_worker_living ON onceward_worker (id) WHERE stopped_at IS NULL;

-- One row a claim batch: which tasks, by whom, under which token, with which fences.
CREATE TABLE onceward_claim (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token bytea NOT NULL,
    worker bigint NOT NULL,
    at bigint NOT NULL,
    tasks bigint[] NOT NULL,
    fences bigint[] NOT NULL
);
CREATE INDEX onceward_claim_worker ON onceward_claim (worker, seq);

-- The append-only log of what happened to every task.
CREATE TABLE onceward_attempt (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL,
    run integer NOT NULL,
    fence integer NOT NULL,
    event smallint NOT NULL,
    status smallint NOT NULL,
    stage text,
    worker bigint,
    at bigint NOT NULL,
    note text
);
CREATE INDEX onceward_attempt_task ON onceward_attempt (task);

-- One row a transaction of ours, kept for an hour: after a lost connection it tells whether the commit happened.
CREATE TABLE onceward_receipt (
    token bytea PRIMARY KEY,
    at bigint NOT NULL
);

CREATE TABLE onceward_setting (
    name text PRIMARY KEY,
    value text NOT NULL,
    at bigint NOT NULL,
    author text NOT NULL
);

CREATE TABLE onceward_app_migration (
    name text PRIMARY KEY,
    digest text NOT NULL,
    at bigint NOT NULL
)
