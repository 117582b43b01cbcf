CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE docs_document (
    document   text PRIMARY KEY,
    path       text NOT NULL UNIQUE,
    generation bigint NOT NULL DEFAULT 0,
    added_at   bigint NOT NULL,
    same_as    text REFERENCES docs_document ON DELETE SET NULL,
    same_hash  text
);
CREATE INDEX docs_document_same ON docs_document (same_as);

CREATE TABLE docs_generation (
    document     text NOT NULL REFERENCES docs_document ON DELETE CASCADE,
    generation   bigint NOT NULL CHECK (generation > 0),
    content_hash text NOT NULL,
    state        text NOT NULL CHECK (state IN ('reading', 'ready', 'failed')),
    reason       text,
    detail       text,
    about        text,
    outline      text,
    words        bigint,
    extract_ms   bigint,
    chunks       bigint,
    connected_at bigint,
    started_at   bigint NOT NULL,
    ready_at     bigint,
    PRIMARY KEY (document, generation)
);
CREATE INDEX docs_generation_content ON docs_generation (content_hash);

CREATE TABLE docs_part (
    document   text NOT NULL,
    generation bigint NOT NULL,
    part       bigint NOT NULL,
    title      text,
    markdown   text NOT NULL,
    PRIMARY KEY (document, generation, part),
    FOREIGN KEY (document, generation) REFERENCES docs_generation ON DELETE CASCADE
);

CREATE TABLE docs_markdown (
    document   text NOT NULL,
    generation bigint NOT NULL,
    markdown   text NOT NULL,
    PRIMARY KEY (document, generation),
    FOREIGN KEY (document, generation) REFERENCES docs_generation ON DELETE CASCADE
);

CREATE TABLE docs_chunk (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chunk      text NOT NULL,
    document   text NOT NULL,
    generation bigint NOT NULL,
    position   bigint NOT NULL,
    start_at   bigint NOT NULL,
    end_at     bigint NOT NULL CHECK (end_at > start_at),
    heading    text NOT NULL,
    text       text NOT NULL,
    -- Without accents, as SQLite's index is: a search for Rostov finds Rostóv.
    words      tsvector GENERATED ALWAYS AS (
        to_tsvector('english', regexp_replace(normalize(heading || ' ' || text, NFKD), U&'[\0300-\036F]', '', 'g'))
    ) STORED,
    UNIQUE (chunk, generation),
    UNIQUE (document, generation, position),
    FOREIGN KEY (document, generation) REFERENCES docs_generation ON DELETE CASCADE
);

CREATE TABLE docs_vector (
    chunk      text NOT NULL,
    generation bigint NOT NULL,
    model      text NOT NULL,
    vector     vector NOT NULL,
    PRIMARY KEY (chunk, generation),
    FOREIGN KEY (chunk, generation) REFERENCES docs_chunk (chunk, generation) ON DELETE CASCADE
);

CREATE TABLE docs_connection (
    left_document    text NOT NULL,
    left_generation  bigint NOT NULL,
    left_chunk       text NOT NULL,
    right_document   text NOT NULL,
    right_generation bigint NOT NULL,
    right_chunk      text NOT NULL,
    score            double precision NOT NULL,
    why              text NOT NULL,
    PRIMARY KEY (left_chunk, left_generation, right_chunk, right_generation),
    CHECK (left_document <= right_document AND left_chunk <> right_chunk),
    FOREIGN KEY (left_chunk, left_generation) REFERENCES docs_chunk (chunk, generation) ON DELETE CASCADE,
    FOREIGN KEY (right_chunk, right_generation) REFERENCES docs_chunk (chunk, generation) ON DELETE CASCADE
);
CREATE INDEX docs_connection_right ON docs_connection (right_chunk, right_generation);
CREATE INDEX docs_connection_documents ON docs_connection (left_document, right_document);

CREATE TABLE docs_count (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);

CREATE INDEX docs_words ON docs_chunk USING gin (words);
