-- Amounts that tasks hold beyond a stage, under a name (ctx.hold): rows of reservations with an empty token.
ALTER TABLE onceward_reservation
    ADD COLUMN hold text NOT NULL DEFAULT '',
    -- The budget that the stage named; the row may be that of its lineage.
    ADD COLUMN held_of text NOT NULL DEFAULT '',
    ADD COLUMN run integer NOT NULL DEFAULT 0,
    -- 0 set aside, 1 asked for and refused, 2 counted as spent because the task has ended.
    ADD COLUMN state smallint NOT NULL DEFAULT 0,
    ADD COLUMN at bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT onceward_reservation_pkey,
    ADD PRIMARY KEY (task, token, budget, scope, hold, held_of, run, window_at, state);
