-- What outside services, money and time allow. The tables of 0002 for these were never used; here they take their shape.
DROP TABLE onceward_source;
DROP TABLE onceward_slot;
DROP TABLE onceward_budget;
DROP TABLE onceward_reservation;
DROP TABLE onceward_cache;
DROP TABLE onceward_schedule;
DROP TABLE onceward_alert;
DROP TABLE onceward_setting;
ALTER TABLE onceward_task DROP COLUMN source;
ALTER TABLE onceward_task DROP COLUMN budget;
ALTER TABLE onceward_lineage DROP COLUMN paused;

-- The gates that the next stage of a task has to pass; NULL for most.
ALTER TABLE onceward_task ADD COLUMN gates text;
-- What its next stage may cost at most, in 10^-9 of the unit of its budget.
ALTER TABLE onceward_task ADD COLUMN estimate integer;
-- What it has cost so far, in 10^-9 USD.
ALTER TABLE onceward_task ADD COLUMN cost integer NOT NULL DEFAULT 0;
-- Since when its time counts, if that is not since its last finished stage or its first claim. Below zero the clock stands
-- still until the next claim, and that is how much had gone by.
ALTER TABLE onceward_task ADD COLUMN clock_at integer;
-- Why it fails, where its time was over and what its pipeline does at expiry is still to be done.
ALTER TABLE onceward_task ADD COLUMN expiry text;
-- The time of its schedule for which it was enqueued, if one has.
ALTER TABLE onceward_task ADD COLUMN scheduled_at integer;

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

-- When a governed line is to be looked at: appended by whoever stands in it, taken away by whoever looks.
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

-- What an operator has paused: everything, a queue, a pipeline, a source.
CREATE TABLE onceward_pause (
    scope text PRIMARY KEY,
    at integer NOT NULL,
    author text NOT NULL
);

-- Money, tokens, calls and tasks: a row for each budget, whom it is for, and its window.
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
    PRIMARY KEY (name, scope, window_at)
);
CREATE INDEX onceward_budget_ends ON onceward_budget (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX onceward_budget_scope ON onceward_budget (scope);

-- What an operator has made of a budget, until somebody says otherwise.
CREATE TABLE onceward_budget_limit (
    name text NOT NULL,
    scope text NOT NULL,
    ceiling integer NOT NULL,
    at integer NOT NULL,
    author text NOT NULL,
    PRIMARY KEY (name, scope)
);

-- What is set aside for an attempt. Where its task no longer carries its token it is spent.
CREATE TABLE onceward_reservation (
    task integer NOT NULL,
    token blob NOT NULL,
    budget text NOT NULL,
    scope text NOT NULL,
    window_at integer NOT NULL,
    amount integer NOT NULL,
    PRIMARY KEY (task, token, budget, scope)
);

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

-- What is enqueued at set times: by whoever first moves next_at on, in the same transaction.
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

-- When each watch was last looked at, by whoever was first.
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

-- What the watches read of the last hour. The log is not indexed by time: only its rare rows of trouble are. Not by an
-- IN, for which SQLite makes a table of its own with every row that is inserted.
CREATE INDEX onceward_attempt_trouble ON onceward_attempt (at) WHERE event BETWEEN 9 AND 11 OR event = 19;
CREATE INDEX onceward_batch_ended ON onceward_batch (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX onceward_worker_stopped ON onceward_worker (stopped_at) WHERE stopped_at IS NOT NULL;
CREATE INDEX onceward_gate_disabled ON onceward_gate (name) WHERE enabled = 0;

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

CREATE TABLE onceward_setting (
    name text PRIMARY KEY,
    value text NOT NULL,
    at integer NOT NULL,
    author text NOT NULL
);

-- When the time of a task that has begun and is back in line may be over: looked at then, and not before.
CREATE TABLE onceward_time_limit (
    at integer NOT NULL,
    task integer NOT NULL,
    PRIMARY KEY (at, task)
);

-- The kinds whose pipelines have something to do at expiry: whoever ends a task by time may not know them.
CREATE TABLE onceward_at_expiry (
    kind text PRIMARY KEY
);

-- Whether its deadline was over and nothing of it was open then: nobody looks at it again, and nobody may spawn in it.
ALTER TABLE onceward_lineage ADD COLUMN overdue integer NOT NULL DEFAULT 0;
CREATE INDEX onceward_lineage_deadline ON onceward_lineage (deadline_at) WHERE overdue = 0;

-- Where in a line the claims have come to: what is put in line later stands no further ahead.
CREATE TABLE onceward_mark (
    lane text NOT NULL,
    band integer NOT NULL,
    rank integer NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (lane, band, rank)
);

-- Who is known by a key of its own is found by it. What is known by all its fields has no place in the index: a hash is
-- another page of it for every task of a bulk enqueue, and that took longer than all the rest.
DROP INDEX onceward_task_identity;
CREATE INDEX onceward_task_identity ON onceward_task (identity) WHERE key IS NOT NULL
