-- Tasks. Every index here is on columns that a claim or a finish never changes.
CREATE TABLE onceward_blob (
    hash blob PRIMARY KEY,
    data blob NOT NULL
);

CREATE TABLE onceward_task (
    id integer PRIMARY KEY AUTOINCREMENT,
    kind text NOT NULL,
    version integer NOT NULL,
    queue text NOT NULL,
    band integer NOT NULL,
    rank integer NOT NULL DEFAULT 0,
    key text,
    identity blob NOT NULL,
    payload blob,
    payload_blob blob REFERENCES onceward_blob (hash),
    lineage blob NOT NULL,
    parent integer,
    depth integer NOT NULL DEFAULT 0,
    batch integer,
    source text,
    budget text,
    status integer NOT NULL DEFAULT 0,
    stage text,
    run integer NOT NULL DEFAULT 1,
    touched integer NOT NULL DEFAULT 0,
    fence integer NOT NULL DEFAULT 0,
    token blob,
    worker integer,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    company integer NOT NULL DEFAULT 0,
    deferrals integer NOT NULL DEFAULT 0,
    signals integer NOT NULL DEFAULT 0,
    due_at integer NOT NULL,
    created_at integer NOT NULL,
    started_at integer,
    progressed_at integer,
    ended_at integer,
    waiting_for text,
    reason text
);

CREATE INDEX onceward_task_waiting ON onceward_task (waiting_for, kind) WHERE waiting_for IS NOT NULL;
CREATE INDEX onceward_task_payload_blob ON onceward_task (payload_blob) WHERE payload_blob IS NOT NULL;

-- Places in line: narrow, never updated; a claim deletes them, a retry or a due task makes a new one.
CREATE TABLE onceward_ready (
    lane text NOT NULL,
    band integer NOT NULL,
    rank integer NOT NULL,
    seq integer NOT NULL,
    task integer NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (lane, band, rank, seq)
) WITHOUT ROWID;

CREATE TABLE onceward_due (
    due_at integer NOT NULL,
    task integer NOT NULL,
    lane text NOT NULL,
    band integer NOT NULL,
    rank integer NOT NULL,
    PRIMARY KEY (due_at, task)
) WITHOUT ROWID;

-- Stored results, cursors and parts of stages.
CREATE TABLE onceward_checkpoint (
    task integer NOT NULL,
    run integer NOT NULL,
    stage text NOT NULL,
    part text NOT NULL,
    value blob,
    value_blob blob REFERENCES onceward_blob (hash),
    at integer NOT NULL,
    PRIMARY KEY (task, run, stage, part)
) WITHOUT ROWID;
CREATE INDEX onceward_checkpoint_value_blob ON onceward_checkpoint (value_blob) WHERE value_blob IS NOT NULL;

CREATE TABLE onceward_signal (
    task integer NOT NULL,
    name text NOT NULL,
    number integer NOT NULL,
    value blob NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (task, name)
) WITHOUT ROWID;

CREATE TABLE onceward_progress (
    task integer PRIMARY KEY,
    stage text NOT NULL,
    done integer NOT NULL,
    total integer,
    note text,
    at integer NOT NULL
);

-- Workers and what they hold.
CREATE TABLE onceward_worker (
    id integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    presence text,
    kinds text NOT NULL,
    queues text NOT NULL,
    lease_ms integer NOT NULL,
    started_at integer NOT NULL,
    beat integer NOT NULL DEFAULT 0,
    beat_at integer NOT NULL,
    low_claim integer NOT NULL DEFAULT 0,
    stopped_at integer,
    ended_how text
);
CREATE INDEX onceward_worker_living ON onceward_worker (id) WHERE stopped_at IS NULL;

-- One row a claim batch: which tasks, by whom, under which token, with which fences.
CREATE TABLE onceward_claim (
    seq integer PRIMARY KEY AUTOINCREMENT,
    token blob NOT NULL,
    worker integer NOT NULL,
    at integer NOT NULL,
    tasks text NOT NULL,
    fences text NOT NULL
);
CREATE INDEX onceward_claim_worker ON onceward_claim (worker, seq);

-- The append-only log of what happened to every task.
CREATE TABLE onceward_attempt (
    id integer PRIMARY KEY AUTOINCREMENT,
    task integer NOT NULL,
    run integer NOT NULL,
    fence integer NOT NULL,
    event integer NOT NULL,
    status integer NOT NULL,
    stage text,
    worker integer,
    at integer NOT NULL,
    note text
);
CREATE INDEX onceward_attempt_task ON onceward_attempt (task);

-- One row a transaction of ours, kept for an hour: after a lost connection it tells whether the commit happened.
CREATE TABLE onceward_receipt (
    token blob PRIMARY KEY,
    at integer NOT NULL
) WITHOUT ROWID;

CREATE TABLE onceward_setting (
    name text PRIMARY KEY,
    value text NOT NULL,
    at integer NOT NULL,
    author text NOT NULL
);

CREATE TABLE onceward_app_migration (
    name text PRIMARY KEY,
    digest text NOT NULL,
    at integer NOT NULL
)
