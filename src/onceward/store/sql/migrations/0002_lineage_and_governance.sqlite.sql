-- What lineages, batches, sources, budgets, schedules and alerts are kept in.
CREATE TABLE onceward_lineage (
    id blob PRIMARY KEY,
    root integer NOT NULL,
    max_depth integer NOT NULL,
    max_tasks integer NOT NULL,
    max_children integer NOT NULL,
    deadline_at integer NOT NULL,
    tasks integer NOT NULL,
    next_rank integer NOT NULL DEFAULT 0,
    paused integer NOT NULL DEFAULT 0,
    created_at integer NOT NULL
);

-- Who has an identity: the rule of uniqueness is this primary key.
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
    ended_at integer
);

CREATE TABLE onceward_source (
    name text PRIMARY KEY,
    enabled integer NOT NULL DEFAULT 1,
    streak integer NOT NULL DEFAULT 0,
    tokens real NOT NULL DEFAULT 0,
    tokens_at integer NOT NULL DEFAULT 0,
    next_at integer NOT NULL DEFAULT 0,
    paused_until integer,
    last_success_at integer,
    last_failure_at integer,
    hits integer NOT NULL DEFAULT 0,
    misses integer NOT NULL DEFAULT 0
);

CREATE TABLE onceward_slot (
    lane text NOT NULL,
    number integer NOT NULL,
    token blob NOT NULL,
    task integer NOT NULL,
    PRIMARY KEY (lane, number)
) WITHOUT ROWID;

CREATE TABLE onceward_budget (
    name text NOT NULL,
    scope text NOT NULL,
    window_at integer NOT NULL,
    unit text NOT NULL,
    ceiling integer NOT NULL,
    spent integer NOT NULL DEFAULT 0,
    reserved integer NOT NULL DEFAULT 0,
    PRIMARY KEY (name, scope, window_at)
) WITHOUT ROWID;

CREATE TABLE onceward_reservation (
    task integer NOT NULL,
    fence integer NOT NULL,
    budget text NOT NULL,
    scope text NOT NULL,
    window_at integer NOT NULL,
    amount integer NOT NULL,
    token blob NOT NULL,
    PRIMARY KEY (task, fence, budget, scope)
) WITHOUT ROWID;

CREATE TABLE onceward_cache (
    source text NOT NULL,
    hash blob NOT NULL,
    value blob,
    value_blob blob REFERENCES onceward_blob (hash),
    filling_token blob,
    expires_at integer NOT NULL,
    used_at integer NOT NULL,
    PRIMARY KEY (source, hash)
) WITHOUT ROWID;

CREATE INDEX onceward_cache_value_blob ON onceward_cache (value_blob) WHERE value_blob IS NOT NULL;

CREATE TABLE onceward_schedule (
    name text PRIMARY KEY,
    next_at integer NOT NULL,
    last_at integer,
    paused integer NOT NULL DEFAULT 0
);

CREATE TABLE onceward_alert (
    id integer PRIMARY KEY AUTOINCREMENT,
    rule text NOT NULL,
    subject text NOT NULL,
    count integer NOT NULL,
    threshold integer NOT NULL,
    tasks text NOT NULL,
    advice text NOT NULL,
    raised_at integer NOT NULL,
    resolved_at integer
);
CREATE UNIQUE INDEX onceward_alert_open ON onceward_alert (rule, subject) WHERE resolved_at IS NULL
