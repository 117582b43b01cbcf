-- What lineages, batches, sources, budgets, schedules and alerts are kept in.
CREATE TABLE onceward_lineage (
    id uuid PRIMARY KEY,
    root bigint NOT NULL,
    max_depth integer NOT NULL,
    max_tasks bigint NOT NULL,
    max_children bigint NOT NULL,
    deadline_at bigint NOT NULL,
    tasks bigint NOT NULL,
    next_rank bigint NOT NULL DEFAULT 0,
    paused smallint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL
) WITH (fillfactor = 50);

-- Who has an identity: the rule of uniqueness is this primary key.
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
    ended_at bigint
) WITH (fillfactor = 50);

CREATE TABLE onceward_source (
    name text PRIMARY KEY,
    enabled smallint NOT NULL DEFAULT 1,
    streak integer NOT NULL DEFAULT 0,
    tokens double precision NOT NULL DEFAULT 0,
    tokens_at bigint NOT NULL DEFAULT 0,
    next_at bigint NOT NULL DEFAULT 0,
    paused_until bigint,
    last_success_at bigint,
    last_failure_at bigint,
    hits bigint NOT NULL DEFAULT 0,
    misses bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE onceward_slot (
    lane text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    token bytea NOT NULL,
    task bigint NOT NULL,
    PRIMARY KEY (lane, number)
);

CREATE TABLE onceward_budget (
    name text NOT NULL,
    scope text NOT NULL,
    window_at bigint NOT NULL,
    unit text NOT NULL,
    ceiling bigint NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, scope, window_at)
) WITH (fillfactor = 50);

CREATE TABLE onceward_reservation (
    task bigint NOT NULL,
    fence integer NOT NULL,
    budget text NOT NULL,
    scope text NOT NULL,
    window_at bigint NOT NULL,
    amount bigint NOT NULL,
    token bytea NOT NULL,
    PRIMARY KEY (task, fence, budget, scope)
);

CREATE TABLE onceward_cache (
    source text NOT NULL,
    hash bytea NOT NULL,
    value bytea,
    value_blob bytea REFERENCES onceward_blob (hash),
    filling_token bytea,
    expires_at bigint NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (source, hash)
);

CREATE INDEX onceward_cache_value_blob ON onceward_cache (value_blob) WHERE value_blob IS NOT NULL;

CREATE TABLE onceward_schedule (
    name text PRIMARY KEY,
    next_at bigint NOT NULL,
    last_at bigint,
    paused smallint NOT NULL DEFAULT 0
);

CREATE TABLE onceward_alert (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule text NOT NULL,
    subject text NOT NULL,
    count bigint NOT NULL,
    threshold bigint NOT NULL,
    tasks bigint[] NOT NULL,
    advice text NOT NULL,
    raised_at bigint NOT NULL,
    resolved_at bigint
);
CREATE UNIQUE INDEX onceward_alert_open ON onceward_alert (rule, subject) WHERE resolved_at IS NULL
