CREATE TABLE docs_document (
    document   text PRIMARY KEY,
    path       text NOT NULL UNIQUE,
    generation integer NOT NULL DEFAULT 0,
    added_at   integer NOT NULL,
    same_as    text REFERENCES docs_document ON DELETE SET NULL,
    same_hash  text
);
CREATE INDEX docs_document_same ON docs_document (same_as);

CREATE TABLE docs_generation (
    document     text NOT NULL REFERENCES docs_document ON DELETE CASCADE,
    generation   integer NOT NULL CHECK (generation > 0),
    content_hash text NOT NULL,
    state        text NOT NULL CHECK (state IN ('reading', 'ready', 'failed')),
    reason       text,
    detail       text,
    about        text,
    outline      text,
    words        integer,
    extract_ms   integer,
    chunks       integer,
    connected_at integer,
    started_at   integer NOT NULL,
    ready_at     integer,
    PRIMARY KEY (document, generation)
);
CREATE INDEX docs_generation_content ON docs_generation (content_hash);

CREATE TABLE docs_part (
    document   text NOT NULL,
    generation integer NOT NULL,
    part       integer NOT NULL,
    title      text,
    markdown   text NOT NULL,
    PRIMARY KEY (document, generation, part),
    FOREIGN KEY (document, generation) REFERENCES docs_generation ON DELETE CASCADE
);

CREATE TABLE docs_markdown (
    document   text NOT NULL,
    generation integer NOT NULL,
    markdown   text NOT NULL,
    PRIMARY KEY (document, generation),
    FOREIGN KEY (document, generation) REFERENCES docs_generation ON DELETE CASCADE
);

CREATE TABLE docs_chunk (
    number     integer PRIMARY KEY,
    chunk      text NOT NULL,
    document   text NOT NULL,
    generation integer NOT NULL,
    position   integer NOT NULL,
    start_at   integer NOT NULL,
    end_at     integer NOT NULL CHECK (end_at > start_at),
    heading    text NOT NULL,
    text       text NOT NULL,
    UNIQUE (chunk, generation),
    UNIQUE (document, generation, position),
    FOREIGN KEY (document, generation) REFERENCES docs_generation ON DELETE CASCADE
);

CREATE TABLE docs_vector (
    chunk      text NOT NULL,
    generation integer NOT NULL,
    model      text NOT NULL,
    vector     blob NOT NULL,
    PRIMARY KEY (chunk, generation),
    FOREIGN KEY (chunk, generation) REFERENCES docs_chunk (chunk, generation) ON DELETE CASCADE
);

CREATE TABLE docs_connection (
    left_document    text NOT NULL,
    left_generation  integer NOT NULL,
    left_chunk       text NOT NULL,
    right_document   text NOT NULL,
    right_generation integer NOT NULL,
    right_chunk      text NOT NULL,
    score            real NOT NULL,
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
    value integer NOT NULL
);

CREATE VIRTUAL TABLE docs_words USING fts5 (
    heading, text, content = 'docs_chunk', content_rowid = 'number', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER docs_words_added AFTER INSERT ON docs_chunk BEGIN
    INSERT INTO docs_words (rowid, heading, text) VALUES (new.number, new.heading, new.text);
END;
CREATE TRIGGER docs_words_removed AFTER DELETE ON docs_chunk BEGIN
    INSERT INTO docs_words (docs_words, rowid, heading, text) VALUES ('delete', old.number, old.heading, old.text);
END;
