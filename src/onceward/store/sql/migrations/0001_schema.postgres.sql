-- The schema of version 1. Until the first release it is edited in place; after that, the next change is 0002.

-- Large values, by the hash of their bytes.
CREATE TABLE onceward_blob (
    hash bytea PRIMARY KEY,
    data bytea NOT NULL
);

-- Tasks. Every index is on columns that a claim or a finish never changes, so that both are HOT updates (R13).
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
    reason text,
    -- What spawning needs: ancestors, own limits, and how many children it waits for.
    ancestry bytea,
    limits bytea,
    scopes bytea,
    children bigint NOT NULL DEFAULT 0,
    refusals bigint NOT NULL DEFAULT 0,
    awaited bigint NOT NULL DEFAULT 0,
    error bytea,
    same_errors bigint NOT NULL DEFAULT 0,
    paused smallint NOT NULL DEFAULT 0,
    -- The gates that the next stage of a task has to pass; NULL for most.
    gates text,
    -- What its next stage may cost at most, in 10^-9 of the unit of its budget.
    estimate bigint,
    -- What it has cost so far, in 10^-9 USD.
    cost bigint NOT NULL DEFAULT 0,
    -- Since when its time counts, if that is not since its last finished stage or its first claim. Below zero the clock stands
    -- still until the next claim, and that is how much had gone by.
    clock_at bigint,
    -- Why it fails, where its time was over and what its pipeline does at expiry is still to be done.
    expiry text,
    -- The time of its schedule for which it was enqueued, if one has.
    scheduled_at bigint,
    -- How many of the children of a task were added to batches that it has opened: max_children does not count these.
    members bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX onceward_task_waiting ON onceward_task (waiting_for, kind) WHERE waiting_for IS NOT NULL;
CREATE INDEX onceward_task_payload_blob ON onceward_task (payload_blob) WHERE payload_blob IS NOT NULL;
CREATE INDEX onceward_task_lineage ON onceward_task (lineage, id);
CREATE INDEX onceward_task_paused ON onceward_task (id) WHERE paused > 0;
CREATE INDEX onceward_task_parent ON onceward_task (parent) WHERE parent IS NOT NULL;
CREATE INDEX onceward_task_batch ON onceward_task (batch, id) WHERE batch IS NOT NULL;
-- Tasks with a key of their own are found by it. Those known by all their fields are not indexed: a hash is another
-- page of it for every task of a bulk enqueue, and that took longer than all the rest.
CREATE INDEX onceward_task_identity ON onceward_task (identity) WHERE key IS NOT NULL;

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
    ended_how text,
    -- The run of the PostgreSQL server on which a worker holds the lock that shows that it lives; NULL if it holds none.
    server_run text
) WITH (fillfactor = 50);
CREATE INDEX onceward_worker_living ON onceward_worker (id) WHERE stopped_at IS NULL;
CREATE INDEX onceward_worker_stopped ON onceward_worker (stopped_at) WHERE stopped_at IS NOT NULL;

-- One row for each claim: its tasks, worker, token and fences.
CREATE TABLE onceward_claim (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token bytea NOT NULL,
    worker bigint NOT NULL,
    at bigint NOT NULL,
    tasks bigint[] NOT NULL,
    fences bigint[] NOT NULL
);
CREATE INDEX onceward_claim_worker ON onceward_claim (worker, seq);
-- Lists of numbers: to press them together takes longer than to write them.
ALTER TABLE onceward_claim ALTER COLUMN tasks SET STORAGE EXTERNAL, ALTER COLUMN fences SET STORAGE EXTERNAL;

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
    note text,
    -- Where the error of an attempt was raised: bounded, and without secrets.
    trace text
);
CREATE INDEX onceward_attempt_task ON onceward_attempt (task);
-- What the watches read of the last hour. The log is not indexed by time: only its rare rows of trouble are. Not by an
-- IN, for which SQLite makes a table of its own with every row that is inserted.
CREATE INDEX onceward_attempt_trouble ON onceward_attempt (at) WHERE event BETWEEN 9 AND 11 OR event = 19;
-- Tasks that have failed, were cancelled, filtered or skipped: the status of a task stands in no index (R13).
CREATE INDEX onceward_attempt_ended ON onceward_attempt (status, task) WHERE status > 4;

-- One row a transaction of ours, kept for an hour: after a lost connection it tells whether the commit happened.
CREATE TABLE onceward_receipt (
    token bytea PRIMARY KEY,
    at bigint NOT NULL
);

CREATE TABLE onceward_setting (
    name text PRIMARY KEY,
    value text NOT NULL,
    at bigint NOT NULL,
    author text NOT NULL,
    -- Type and purpose, for people who read the table.
    type text NOT NULL DEFAULT '',
    about text NOT NULL DEFAULT ''
);

CREATE TABLE onceward_app_migration (
    name text PRIMARY KEY,
    digest text NOT NULL,
    at bigint NOT NULL
);

-- Lineages and the limits that their tasks inherit.
CREATE TABLE onceward_lineage (
    id uuid PRIMARY KEY,
    root bigint NOT NULL,
    max_depth integer NOT NULL,
    max_tasks bigint NOT NULL,
    max_children bigint NOT NULL,
    deadline_at bigint NOT NULL,
    tasks bigint NOT NULL,
    next_rank bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    -- How many tasks the last request for room was granted.
    granted bigint NOT NULL DEFAULT 0,
    -- How many of its tasks are gone: it goes on counting them.
    pruned bigint NOT NULL DEFAULT 0,
    -- 1 when its deadline is over and no task of it is open: it is not looked at again, and spawns are refused.
    overdue smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX onceward_lineage_created ON onceward_lineage (created_at);
CREATE INDEX onceward_lineage_deadline ON onceward_lineage (deadline_at) WHERE overdue = 0;

-- Identities of tasks: this primary key is the rule of uniqueness (R3).
CREATE TABLE onceward_identity (
    scope bytea NOT NULL,
    hash bytea NOT NULL,
    task bigint NOT NULL,
    PRIMARY KEY (scope, hash)
);

-- Children that a task was linked to instead of making them.
CREATE TABLE onceward_link (
    parent bigint NOT NULL,
    child bigint NOT NULL,
    stage text NOT NULL,
    at bigint NOT NULL,
    -- The identity by which a linked task was asked for, where that is an alias of it.
    identity bytea,
    PRIMARY KEY (parent, child)
);
CREATE INDEX onceward_link_child ON onceward_link (child);

CREATE TABLE onceward_refusal (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lineage uuid NOT NULL,
    parent bigint NOT NULL,
    stage text NOT NULL,
    kind text NOT NULL,
    key text,
    identity bytea NOT NULL,
    rule text NOT NULL,
    reason text NOT NULL,
    ancestor bigint,
    existing bigint,
    at bigint NOT NULL
);
CREATE INDEX onceward_refusal_parent ON onceward_refusal (parent);
CREATE INDEX onceward_refusal_identity ON onceward_refusal (identity);

CREATE TABLE onceward_batch (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    status smallint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    open bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    then_task bigint,
    deadline_at bigint,
    created_at bigint NOT NULL,
    ended_at bigint,
    filtered bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    then_data bytea,
    scope uuid,
    reason text,
    -- The task whose stage has opened it, and the batch to which that task belongs.
    opener bigint,
    inside bigint,
    -- How many tasks were to be added to a batch and were not, because a limit refused them.
    refused bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX onceward_batch_inside ON onceward_batch (inside) WHERE inside IS NOT NULL;
CREATE INDEX onceward_batch_deadline ON onceward_batch (deadline_at) WHERE status = 0 AND deadline_at IS NOT NULL;
CREATE INDEX onceward_batch_ended ON onceward_batch (ended_at) WHERE ended_at IS NOT NULL;

-- Places in a gate that only so many may pass at once. One counts as long as its task carries its token.
CREATE TABLE onceward_slot (
    gate text COLLATE "C" NOT NULL,
    task bigint NOT NULL,
    token bytea NOT NULL,
    is_probe smallint NOT NULL DEFAULT 0,
    at bigint NOT NULL,
    PRIMARY KEY (gate, task)
);
CREATE INDEX onceward_slot_task ON onceward_slot (task);

-- Money, tokens, calls and tasks: one row for each budget, scope and window.
CREATE TABLE onceward_budget (
    name text NOT NULL,
    scope text NOT NULL,
    window_at bigint NOT NULL,
    unit text NOT NULL,
    ceiling bigint NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,
    overcharged bigint NOT NULL DEFAULT 0,
    highest bigint NOT NULL,
    is_closed smallint NOT NULL DEFAULT 0,
    ends_at bigint,
    -- Whether tasks fail when the budget of their lineage is spent (Limits(when_spent="fail")); otherwise they wait.
    fails smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, scope, window_at)
) WITH (fillfactor = 50);
CREATE INDEX onceward_budget_ends ON onceward_budget (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX onceward_budget_scope ON onceward_budget (scope);

-- Amounts set aside: for an attempt, or beyond a stage under a name (ctx.hold: rows with an empty token).
-- A row of an attempt whose task no longer carries its token counts as spent.
CREATE TABLE onceward_reservation (
    task bigint NOT NULL,
    token bytea NOT NULL,
    budget text NOT NULL,
    scope text NOT NULL,
    window_at bigint NOT NULL,
    amount bigint NOT NULL,
    hold text NOT NULL DEFAULT '',
    -- The budget that the stage named; the row may be that of its lineage.
    held_of text NOT NULL DEFAULT '',
    run integer NOT NULL DEFAULT 0,
    -- 0 set aside, 1 asked for and refused, 2 counted as spent because the task has ended.
    state smallint NOT NULL DEFAULT 0,
    at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (task, token, budget, scope, hold, held_of, run, window_at, state)
);

-- Answers of sources, shared by all workers. One without a value is being asked for just now.
CREATE TABLE onceward_cache (
    source text NOT NULL,
    hash bytea NOT NULL,
    value bytea,
    value_blob bytea REFERENCES onceward_blob (hash),
    filler bigint,
    filling_token bytea,
    size bigint NOT NULL DEFAULT 0,
    stored_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (source, hash)
);
CREATE INDEX onceward_cache_value_blob ON onceward_cache (value_blob) WHERE value_blob IS NOT NULL;
CREATE INDEX onceward_cache_used ON onceward_cache (used_at, size);
CREATE INDEX onceward_cache_expires ON onceward_cache (expires_at);

-- Schedules. A worker that moves next_at on enqueues the task in the same transaction (decision 22).
CREATE TABLE onceward_schedule (
    name text PRIMARY KEY,
    kind text NOT NULL,
    expression text NOT NULL,
    tz text NOT NULL,
    missed text NOT NULL,
    next_at bigint NOT NULL,
    last_at bigint,
    last_task bigint,
    fired bigint NOT NULL DEFAULT 0,
    paused smallint NOT NULL DEFAULT 0,
    changed_at bigint NOT NULL
);

CREATE TABLE onceward_alert (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule text NOT NULL,
    subject text NOT NULL,
    lineage uuid,
    key text,
    count double precision NOT NULL,
    threshold double precision NOT NULL,
    tasks bigint[] NOT NULL,
    sentence text NOT NULL,
    advice text NOT NULL,
    raised_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    resolved_at bigint,
    tell_at bigint,
    told_at bigint,
    tries bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX onceward_alert_open ON onceward_alert (rule, subject) WHERE resolved_at IS NULL;
CREATE INDEX onceward_alert_tell ON onceward_alert (tell_at) WHERE tell_at IS NOT NULL;

-- Joins: one row for every open child of a parent whose next stage is a join (decision 20).
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

-- Gates: what work has to pass before it is claimed. One for each source instance, limited pipeline and limited key.
CREATE TABLE onceward_gate (
    name text COLLATE "C" PRIMARY KEY,
    tat bigint NOT NULL DEFAULT 0,
    taken_at bigint NOT NULL DEFAULT 0,
    enabled smallint NOT NULL DEFAULT 1,
    streak bigint NOT NULL DEFAULT 0,
    paused_until bigint NOT NULL DEFAULT 0,
    is_half_open smallint NOT NULL DEFAULT 0,
    opened bigint NOT NULL DEFAULT 0,
    why text,
    calls bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    hits bigint NOT NULL DEFAULT 0,
    misses bigint NOT NULL DEFAULT 0,
    retry_hits bigint NOT NULL DEFAULT 0,
    retry_misses bigint NOT NULL DEFAULT 0,
    last_success_at bigint,
    last_failure_at bigint,
    last_error text
) WITH (fillfactor = 50);
CREATE INDEX onceward_gate_disabled ON onceward_gate (name) WHERE enabled = 0;

-- When a claim looks at a governed line next: a task that joins the line appends a row, the claim deletes it.
CREATE TABLE onceward_turn (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    gate text COLLATE "C" NOT NULL,
    next_at bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX onceward_turn_line ON onceward_turn (line, next_at);
CREATE INDEX onceward_turn_lane ON onceward_turn (lane);
CREATE INDEX onceward_turn_gate ON onceward_turn (gate, next_at);

-- What operators have paused: everything, a queue, a pipeline, a source.
CREATE TABLE onceward_pause (
    scope text PRIMARY KEY,
    at bigint NOT NULL,
    author text NOT NULL
);

-- Limits that operators have given budgets; they hold until the next change.
CREATE TABLE onceward_budget_limit (
    name text NOT NULL,
    scope text NOT NULL,
    ceiling bigint NOT NULL,
    at bigint NOT NULL,
    author text NOT NULL,
    PRIMARY KEY (name, scope)
);

-- When each watch was last looked at.
CREATE TABLE onceward_watch (
    name text PRIMARY KEY,
    looked_at bigint NOT NULL
);

-- What every look has counted: the backlog of each line, and how far the ids had come.
CREATE TABLE onceward_sample (
    at bigint NOT NULL,
    name text NOT NULL,
    value bigint NOT NULL,
    PRIMARY KEY (at, name)
);

-- One row a tick: when it ran and what it did.
CREATE TABLE onceward_tick (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker bigint,
    chain bigint NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint,
    tasks bigint NOT NULL DEFAULT 0,
    how text,
    triggered smallint NOT NULL DEFAULT 0
);
CREATE INDEX onceward_tick_started ON onceward_tick (started_at);

-- When the time of a task that has begun and is back in line may be over: looked at then, and not before.
CREATE TABLE onceward_time_limit (
    at bigint NOT NULL,
    task bigint NOT NULL,
    PRIMARY KEY (at, task)
);

-- Kinds whose pipelines declare at_expiry: a worker that ends a task by time may not know its code.
CREATE TABLE onceward_at_expiry (
    kind text PRIMARY KEY
);

-- Where in a line the claims have come to: what is put in line later stands no further ahead.
CREATE TABLE onceward_mark (
    lane text COLLATE "C" NOT NULL,
    band smallint NOT NULL,
    rank bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (lane, band, rank)
);

-- Further keys of tasks (ctx.alias). A row stays as long as its lineage: what descends from the task must not repeat it.
CREATE TABLE onceward_alias (
    task bigint NOT NULL,
    identity bytea NOT NULL,
        key text,
    lineage uuid NOT NULL,
    -- Whether the task has that identity in its lineage, and everywhere; another task may have had it first.
    here smallint NOT NULL,
    everywhere smallint NOT NULL,
    PRIMARY KEY (task, identity)
);
CREATE INDEX onceward_alias_lineage ON onceward_alias (lineage);
CREATE INDEX onceward_alias_identity ON onceward_alias (identity);

-- Work that other programs have asked for by SQL, of which a worker makes tasks. `priority` and `due_at` may be left out.
CREATE TABLE onceward_intake (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind <> ''),
    payload text NOT NULL CHECK (octet_length(payload) <= 16777216 AND payload::json IS NOT NULL),
    priority integer CHECK (priority BETWEEN -2 AND 2),
    due_at bigint,
    at bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    author text NOT NULL DEFAULT session_user,
    -- What has become of it: the task, or why there is none.
    done_at bigint,
    task bigint,
    refused text
);
CREATE INDEX onceward_intake_waiting ON onceward_intake (id) WHERE done_at IS NULL;
CREATE INDEX onceward_intake_done ON onceward_intake (done_at) WHERE done_at IS NOT NULL;

-- Asks for a task, in the transaction of the caller; returns the number of the row in which its end can be read.
CREATE FUNCTION onceward_enqueue(
    kind text, payload text, priority integer DEFAULT NULL, after interval DEFAULT NULL
) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    WITH added AS (
        INSERT INTO onceward_intake (kind, payload, priority, due_at)
        VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp() + $4) * 1000)::bigint)
        RETURNING id
    )
    SELECT added.id FROM added, pg_notify('onceward', 'intake')
$$;
CREATE FUNCTION onceward_enqueue(
    kind text, payload jsonb, priority integer DEFAULT NULL, after interval DEFAULT NULL
) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT onceward_enqueue($1, $2::text, $3, $4)
$$;

-- Fields of payloads that viewers do not see, by kind. A row with an empty field says that the kind is known.
CREATE TABLE onceward_secret_field (
    kind text NOT NULL,
    field text NOT NULL,
    PRIMARY KEY (kind, field)
);

-- Who may use the dashboard and the HTTP API. Of a token only its hash is kept.
CREATE TABLE onceward_token (
    name text PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    role text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    author text NOT NULL
);

-- What callers of the dashboard and of the HTTP API have changed, or were not allowed to.
CREATE TABLE onceward_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    author text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    concerned bigint NOT NULL,
    outcome text NOT NULL,
    note text NOT NULL
);
CREATE INDEX onceward_audit_at ON onceward_audit (at);

-- Actions on all tasks that match a filter, carried on in portions by any process that takes one for a while.
CREATE TABLE onceward_bulk (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action text NOT NULL,
    filter text NOT NULL,
    reason text NOT NULL,
    author text NOT NULL,
    -- 0 open, 1 done, 2 stopped.
    state smallint NOT NULL DEFAULT 0,
    -- Tasks from `upto` on were not there when it began; those from `cursor` on were looked at.
    upto bigint NOT NULL,
    cursor bigint NOT NULL,
    expected bigint NOT NULL,
    is_exact smallint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    left_alone bigint NOT NULL DEFAULT 0,
    note text NOT NULL DEFAULT '',
    token bytea,
    taken_until bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    ended_at bigint
);
CREATE INDEX onceward_bulk_open ON onceward_bulk (id) WHERE state = 0;
