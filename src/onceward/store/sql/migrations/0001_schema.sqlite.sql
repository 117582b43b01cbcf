-- The schema of version 1. Until the first release it is edited in place; after that, the next change is 0002.

-- Large values, by the hash of their bytes.
CREATE TABLE onceward_blob (
    hash blob PRIMARY KEY,
    data blob NOT NULL
);

-- Tasks. Every index is on columns that a claim or a finish never changes (R13).
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
    reason text,
    -- What spawning needs: ancestors, own limits, and how many children it waits for.
    ancestry blob,
    limits blob,
    scopes blob,
    children integer NOT NULL DEFAULT 0,
    refusals integer NOT NULL DEFAULT 0,
    awaited integer NOT NULL DEFAULT 0,
    error blob,
    same_errors integer NOT NULL DEFAULT 0,
    paused integer NOT NULL DEFAULT 0,
    -- The gates that the next stage of a task has to pass; NULL for most.
    gates text,
    -- What its next stage may cost at most, in 10^-9 of the unit of its budget.
    estimate integer,
    -- What it has cost so far, in 10^-9 USD.
    cost integer NOT NULL DEFAULT 0,
    -- Since when its time counts, if that is not since its last finished stage or its first claim. Below zero the clock stands
    -- still until the next claim, and that is how much had gone by.
    clock_at integer,
    -- Why it fails, where its time was over and what its pipeline does at expiry is still to be done.
    expiry text,
    -- The time of its schedule for which it was enqueued, if one has.
    scheduled_at integer,
    -- How many of the children of a task were added to batches that it has opened: max_children does not count these.
    members integer NOT NULL DEFAULT 0
);
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
    ended_how text,
    -- The run of the PostgreSQL server on which a worker holds the lock that shows that it lives; NULL if it holds none.
    server_run text
);
CREATE INDEX onceward_worker_living ON onceward_worker (id) WHERE stopped_at IS NULL;
CREATE INDEX onceward_worker_stopped ON onceward_worker (stopped_at) WHERE stopped_at IS NOT NULL;

-- One row for each claim: its tasks, worker, token and fences.
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
    token blob PRIMARY KEY,
    at integer NOT NULL
) WITHOUT ROWID;

CREATE TABLE onceward_setting (
    name text PRIMARY KEY,
    value text NOT NULL,
    at integer NOT NULL,
    author text NOT NULL,
    -- Type and purpose, for people who read the table.
    type text NOT NULL DEFAULT '',
    about text NOT NULL DEFAULT ''
);

CREATE TABLE onceward_app_migration (
    name text PRIMARY KEY,
    digest text NOT NULL,
    at integer NOT NULL
);

-- Lineages and the limits that their tasks inherit.
CREATE TABLE onceward_lineage (
    id blob PRIMARY KEY,
    root integer NOT NULL,
    max_depth integer NOT NULL,
    max_tasks integer NOT NULL,
    max_children integer NOT NULL,
    deadline_at integer NOT NULL,
    tasks integer NOT NULL,
    next_rank integer NOT NULL DEFAULT 0,
    created_at integer NOT NULL,
    -- How many tasks the last request for room was granted.
    granted integer NOT NULL DEFAULT 0,
    -- How many of its tasks are gone: it goes on counting them.
    pruned integer NOT NULL DEFAULT 0,
    -- 1 when its deadline is over and no task of it is open: it is not looked at again, and spawns are refused.
    overdue integer NOT NULL DEFAULT 0
);
CREATE INDEX onceward_lineage_created ON onceward_lineage (created_at);
CREATE INDEX onceward_lineage_deadline ON onceward_lineage (deadline_at) WHERE overdue = 0;

-- Identities of tasks: this primary key is the rule of uniqueness (R3).
CREATE TABLE onceward_identity (
    scope blob NOT NULL,
    hash blob NOT NULL,
    task integer NOT NULL,
    PRIMARY KEY (scope, hash)
) WITHOUT ROWID;

-- Children that a task was linked to instead of making them.
CREATE TABLE onceward_link (
    parent integer NOT NULL,
    child integer NOT NULL,
    stage text NOT NULL,
    at integer NOT NULL,
    -- The identity by which a linked task was asked for, where that is an alias of it.
    identity blob,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX onceward_link_child ON onceward_link (child);

CREATE TABLE onceward_refusal (
    id integer PRIMARY KEY AUTOINCREMENT,
    lineage blob NOT NULL,
    parent integer NOT NULL,
    stage text NOT NULL,
    kind text NOT NULL,
    key text,
    identity blob NOT NULL,
    rule text NOT NULL,
    reason text NOT NULL,
    ancestor integer,
    existing integer,
    at integer NOT NULL
);
CREATE INDEX onceward_refusal_parent ON onceward_refusal (parent);
CREATE INDEX onceward_refusal_identity ON onceward_refusal (identity);

CREATE TABLE onceward_batch (
    id integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL UNIQUE,
    status integer NOT NULL DEFAULT 0,
    total integer NOT NULL DEFAULT 0,
    open integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    then_task integer,
    deadline_at integer,
    created_at integer NOT NULL,
    ended_at integer,
    filtered integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    then_data blob,
    scope blob,
    reason text,
    -- The task whose stage has opened it, and the batch to which that task belongs.
    opener integer,
    inside integer,
    -- How many tasks were to be added to a batch and were not, because a limit refused them.
    refused integer NOT NULL DEFAULT 0
);
CREATE INDEX onceward_batch_inside ON onceward_batch (inside) WHERE inside IS NOT NULL;
CREATE INDEX onceward_batch_deadline ON onceward_batch (deadline_at) WHERE status = 0 AND deadline_at IS NOT NULL;
CREATE INDEX onceward_batch_ended ON onceward_batch (ended_at) WHERE ended_at IS NOT NULL;

-- Places in a gate that only so many may pass at once. One counts as long as its task carries its token.
CREATE TABLE onceward_slot (
    gate text NOT NULL,
    task integer NOT NULL,
    token blob NOT NULL,
    is_probe integer NOT NULL DEFAULT 0,
    at integer NOT NULL,
    PRIMARY KEY (gate, task)
);
CREATE INDEX onceward_slot_task ON onceward_slot (task);

-- Money, tokens, calls and tasks: one row for each budget, scope and window.
CREATE TABLE onceward_budget (
    name text NOT NULL,
    scope text NOT NULL,
    window_at integer NOT NULL,
    unit text NOT NULL,
    ceiling integer NOT NULL,
    spent integer NOT NULL DEFAULT 0,
    reserved integer NOT NULL DEFAULT 0,
    overcharged integer NOT NULL DEFAULT 0,
    highest integer NOT NULL,
    is_closed integer NOT NULL DEFAULT 0,
    ends_at integer,
    -- Whether tasks fail when the budget of their lineage is spent (Limits(when_spent="fail")); otherwise they wait.
    fails integer NOT NULL DEFAULT 0,
    PRIMARY KEY (name, scope, window_at)
);
CREATE INDEX onceward_budget_ends ON onceward_budget (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX onceward_budget_scope ON onceward_budget (scope);

-- Amounts set aside: for an attempt, or beyond a stage under a name (ctx.hold: rows with an empty token).
-- A row of an attempt whose task no longer carries its token counts as spent.
CREATE TABLE onceward_reservation (
    task integer NOT NULL,
    token blob NOT NULL,
    budget text NOT NULL,
    scope text NOT NULL,
    window_at integer NOT NULL,
    amount integer NOT NULL,
    hold text NOT NULL DEFAULT '',
    -- The budget that the stage named; the row may be that of its lineage.
    held_of text NOT NULL DEFAULT '',
    run integer NOT NULL DEFAULT 0,
    -- 0 set aside, 1 asked for and refused, 2 counted as spent because the task has ended.
    state integer NOT NULL DEFAULT 0,
    at integer NOT NULL DEFAULT 0,
    PRIMARY KEY (task, token, budget, scope, hold, held_of, run, window_at, state)
) WITHOUT ROWID;

-- Answers of sources, shared by all workers. One without a value is being asked for just now.
CREATE TABLE onceward_cache (
    source text NOT NULL,
    hash blob NOT NULL,
    value blob,
    value_blob blob REFERENCES onceward_blob (hash),
    filler integer,
    filling_token blob,
    size integer NOT NULL DEFAULT 0,
    stored_at integer NOT NULL,
    expires_at integer NOT NULL,
    used_at integer NOT NULL,
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
    next_at integer NOT NULL,
    last_at integer,
    last_task integer,
    fired integer NOT NULL DEFAULT 0,
    paused integer NOT NULL DEFAULT 0,
    changed_at integer NOT NULL
);

CREATE TABLE onceward_alert (
    id integer PRIMARY KEY AUTOINCREMENT,
    rule text NOT NULL,
    subject text NOT NULL,
    lineage blob,
    key text,
    count real NOT NULL,
    threshold real NOT NULL,
    tasks text NOT NULL,
    sentence text NOT NULL,
    advice text NOT NULL,
    raised_at integer NOT NULL,
    seen_at integer NOT NULL,
    resolved_at integer,
    tell_at integer,
    told_at integer,
    tries integer NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX onceward_alert_open ON onceward_alert (rule, subject) WHERE resolved_at IS NULL;
CREATE INDEX onceward_alert_tell ON onceward_alert (tell_at) WHERE tell_at IS NOT NULL;

-- Joins: one row for every open child of a parent whose next stage is a join (decision 20).
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

-- Gates: what work has to pass before it is claimed. One for each source instance, limited pipeline and limited key.
CREATE TABLE onceward_gate (
    name text PRIMARY KEY,
    tat integer NOT NULL DEFAULT 0,
    taken_at integer NOT NULL DEFAULT 0,
    enabled integer NOT NULL DEFAULT 1,
    streak integer NOT NULL DEFAULT 0,
    paused_until integer NOT NULL DEFAULT 0,
    is_half_open integer NOT NULL DEFAULT 0,
    opened integer NOT NULL DEFAULT 0,
    why text,
    calls integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    hits integer NOT NULL DEFAULT 0,
    misses integer NOT NULL DEFAULT 0,
    retry_hits integer NOT NULL DEFAULT 0,
    retry_misses integer NOT NULL DEFAULT 0,
    last_success_at integer,
    last_failure_at integer,
    last_error text
);
CREATE INDEX onceward_gate_disabled ON onceward_gate (name) WHERE enabled = 0;

-- When a claim looks at a governed line next: a task that joins the line appends a row, the claim deletes it.
CREATE TABLE onceward_turn (
    seq integer PRIMARY KEY AUTOINCREMENT,
    line text NOT NULL,
    lane text NOT NULL,
    gate text NOT NULL,
    next_at integer NOT NULL
);
CREATE INDEX onceward_turn_line ON onceward_turn (line, next_at);
CREATE INDEX onceward_turn_lane ON onceward_turn (lane);
CREATE INDEX onceward_turn_gate ON onceward_turn (gate, next_at);

-- What operators have paused: everything, a queue, a pipeline, a source.
CREATE TABLE onceward_pause (
    scope text PRIMARY KEY,
    at integer NOT NULL,
    author text NOT NULL
);

-- Limits that operators have given budgets; they hold until the next change.
CREATE TABLE onceward_budget_limit (
    name text NOT NULL,
    scope text NOT NULL,
    ceiling integer NOT NULL,
    at integer NOT NULL,
    author text NOT NULL,
    PRIMARY KEY (name, scope)
);

-- When each watch was last looked at.
CREATE TABLE onceward_watch (
    name text PRIMARY KEY,
    looked_at integer NOT NULL
);

-- What every look has counted: the backlog of each line, and how far the ids had come.
CREATE TABLE onceward_sample (
    at integer NOT NULL,
    name text NOT NULL,
    value integer NOT NULL,
    PRIMARY KEY (at, name)
);

-- One row a tick: when it ran and what it did.
CREATE TABLE onceward_tick (
    id integer PRIMARY KEY AUTOINCREMENT,
    worker integer,
    chain integer NOT NULL,
    started_at integer NOT NULL,
    ended_at integer,
    tasks integer NOT NULL DEFAULT 0,
    how text,
    triggered integer NOT NULL DEFAULT 0
);
CREATE INDEX onceward_tick_started ON onceward_tick (started_at);

-- When the time of a task that has begun and is back in line may be over: looked at then, and not before.
CREATE TABLE onceward_time_limit (
    at integer NOT NULL,
    task integer NOT NULL,
    PRIMARY KEY (at, task)
);

-- Kinds whose pipelines declare at_expiry: a worker that ends a task by time may not know its code.
CREATE TABLE onceward_at_expiry (
    kind text PRIMARY KEY
);

-- Where in a line the claims have come to: what is put in line later stands no further ahead.
CREATE TABLE onceward_mark (
    lane text NOT NULL,
    band integer NOT NULL,
    rank integer NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (lane, band, rank)
);

-- Further keys of tasks (ctx.alias). A row stays as long as its lineage: what descends from the task must not repeat it.
CREATE TABLE onceward_alias (
    task integer NOT NULL,
    identity blob NOT NULL,
        key text,
    lineage blob NOT NULL,
    -- Whether the task has that identity in its lineage, and everywhere; another task may have had it first.
    here integer NOT NULL,
    everywhere integer NOT NULL,
    PRIMARY KEY (task, identity)
) WITHOUT ROWID;
CREATE INDEX onceward_alias_lineage ON onceward_alias (lineage);
CREATE INDEX onceward_alias_identity ON onceward_alias (identity);

-- Work that other programs have asked for by SQL, of which a worker makes tasks. `priority` and `due_at` may be left out.
CREATE TABLE onceward_intake (
    id integer PRIMARY KEY AUTOINCREMENT,
    kind text NOT NULL CHECK (kind <> ''),
    payload text NOT NULL CHECK (length(payload) <= 16777216 AND json_valid(payload)),
    priority integer CHECK (priority BETWEEN -2 AND 2),
    due_at integer,
    at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    author text NOT NULL DEFAULT '',
    -- What has become of it: the task, or why there is none.
    done_at integer,
    task integer,
    refused text
);
CREATE INDEX onceward_intake_waiting ON onceward_intake (id) WHERE done_at IS NULL;
CREATE INDEX onceward_intake_done ON onceward_intake (done_at) WHERE done_at IS NOT NULL;

-- Fields of payloads that viewers do not see, by kind. A row with an empty field says that the kind is known.
CREATE TABLE onceward_secret_field (
    kind text NOT NULL,
    field text NOT NULL,
    PRIMARY KEY (kind, field)
);

-- Who may use the dashboard and the HTTP API. Of a token only its hash is kept.
CREATE TABLE onceward_token (
    name text PRIMARY KEY,
    hash blob NOT NULL UNIQUE,
    role text NOT NULL,
    created_at integer NOT NULL,
    expires_at integer,
    author text NOT NULL
);

-- What callers of the dashboard and of the HTTP API have changed, or were not allowed to.
CREATE TABLE onceward_audit (
    id integer PRIMARY KEY AUTOINCREMENT,
    at integer NOT NULL,
    author text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    concerned integer NOT NULL,
    outcome text NOT NULL,
    note text NOT NULL
);
CREATE INDEX onceward_audit_at ON onceward_audit (at);

-- Actions on all tasks that match a filter, carried on in portions by any process that takes one for a while.
CREATE TABLE onceward_bulk (
    id integer PRIMARY KEY AUTOINCREMENT,
    action text NOT NULL,
    filter text NOT NULL,
    reason text NOT NULL,
    author text NOT NULL,
    -- 0 open, 1 done, 2 stopped.
    state integer NOT NULL DEFAULT 0,
    -- Tasks from `upto` on were not there when it began; those from `cursor` on were looked at.
    upto integer NOT NULL,
    cursor integer NOT NULL,
    expected integer NOT NULL,
    is_exact integer NOT NULL,
    done integer NOT NULL DEFAULT 0,
    left_alone integer NOT NULL DEFAULT 0,
    note text NOT NULL DEFAULT '',
    token blob,
    taken_until integer NOT NULL DEFAULT 0,
    created_at integer NOT NULL,
    ended_at integer
);
CREATE INDEX onceward_bulk_open ON onceward_bulk (id) WHERE state = 0;
