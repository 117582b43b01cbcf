-- The tables of the job finder, the same on SQLite and PostgreSQL. Times are milliseconds since 1970; what ends in
-- _json is JSON. A row is there as soon as its work is asked for, with identifiers, references and a status; its details
-- stay empty until they are known.

-- A company, by its website without the scheme: acme.com
CREATE TABLE jobs_company (
    company text PRIMARY KEY,
    name text,
    website text NOT NULL,
    status text NOT NULL CHECK (status IN ('analyzing', 'active', 'skipped', 'unknown')),
    reason text,
    about text,
    culture text,
    mission text,
    size text,
    company_size_category text CHECK (company_size_category IN ('large', 'medium', 'small')),
    headquarters_location text,
    industry text,
    founded text,
    tech_stack_json text,
    has_office integer,
    tier text CHECK (tier IN ('S', 'A', 'B', 'C', 'D')),
    priority_score integer,
    why_json text,
    analysis_status text,
    job_board_url text,
    job_board_confidence text CHECK (job_board_confidence IN ('high', 'medium', 'low')),
    parent_task bigint,
    lineage text,
    depth integer,
    created_at bigint NOT NULL,
    analysed_at bigint
);

-- Companies by their names, as listings write them.
CREATE TABLE jobs_company_name (
    folded text PRIMARY KEY,
    company text NOT NULL REFERENCES jobs_company (company)
);

-- A job board, by its kind and token: greenhouse:acme. No task asks for one that awaits approval until a person approves it.
CREATE TABLE jobs_source (
    source text PRIMARY KEY,
    kind text NOT NULL,
    token text NOT NULL,
    url text NOT NULL,
    company text REFERENCES jobs_company (company),
    status text NOT NULL CHECK (status IN ('pending_validation', 'active', 'disabled', 'unknown')),
    reason text,
    awaits_approval integer NOT NULL DEFAULT 0,
    expected_confidence text NOT NULL CHECK (expected_confidence IN ('high', 'medium', 'low')),
    confidence text CHECK (confidence IN ('high', 'medium', 'low')),
    config_json text,
    tested_at bigint,
    streak integer NOT NULL DEFAULT 0,
    last_success_at bigint,
    last_failure_at bigint,
    last_error text,
    is_drifted integer NOT NULL DEFAULT 0,
    read_at bigint,
    listings integer,
    parent_task bigint,
    lineage text,
    depth integer,
    created_at bigint NOT NULL
);
CREATE INDEX jobs_source_by_company ON jobs_source (company);

-- A listing, by a hash of its address. judged_by is the profile that was last asked about it, as a hash.
CREATE TABLE jobs_listing (
    listing text PRIMARY KEY,
    url text NOT NULL,
    source text REFERENCES jobs_source (source),
    company text REFERENCES jobs_company (company),
    status text NOT NULL CHECK (status IN ('analyzing', 'active', 'filtered', 'skipped', 'unknown')),
    reason text,
    title text,
    company_name text,
    location text,
    remote integer,
    posted text,
    description text,
    requirements_json text,
    salary_min double precision,
    salary_max double precision,
    currency text,
    department text,
    apply_url text,
    valid_through text,
    completeness text,
    strikes_json text,
    score integer,
    why_json text,
    judged_by text,
    gone_at bigint,
    parent_task bigint,
    lineage text,
    depth integer,
    created_at bigint NOT NULL,
    decided_at bigint
);
CREATE INDEX jobs_listing_by_status ON jobs_listing (status, created_at);

-- The openings of a position, which is a company, a title and a place, as a hash. Each belongs to one listing; what other
-- sources show stands behind that one.
CREATE TABLE jobs_position (
    twin text NOT NULL,
    opening integer NOT NULL,
    listing text NOT NULL UNIQUE REFERENCES jobs_listing (listing) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (twin, opening)
);

-- Where a listing was seen, under which address (shown is the hash of that), what was said of it there, in which reading,
-- and since when it is no longer there.
CREATE TABLE jobs_sighting (
    source text NOT NULL REFERENCES jobs_source (source),
    listing text NOT NULL REFERENCES jobs_listing (listing),
    shown text NOT NULL,
    said_json text,
    reading bigint NOT NULL,
    first_seen_at bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    gone_at bigint,
    PRIMARY KEY (source, listing)
);
CREATE INDEX jobs_sighting_by_shown ON jobs_sighting (source, shown);
CREATE INDEX jobs_sighting_by_listing ON jobs_sighting (listing);

-- A listing that is worth a look.
CREATE TABLE jobs_match (
    listing text PRIMARY KEY REFERENCES jobs_listing (listing),
    score integer NOT NULL,
    needed integer NOT NULL,
    priority text NOT NULL CHECK (priority IN ('high', 'medium', 'low')),
    why_json text NOT NULL,
    has_office integer NOT NULL,
    model text,
    saved_at bigint NOT NULL
);
CREATE INDEX jobs_match_by_score ON jobs_match (score);

-- What a person has decided about a listing.
CREATE TABLE jobs_verdict (
    listing text PRIMARY KEY REFERENCES jobs_listing (listing),
    decision text NOT NULL CHECK (decision IN ('applied', 'hidden', 'not for me')),
    decided_at bigint NOT NULL
);
