-- Amounts that tasks hold beyond a stage, under a name (ctx.hold): rows of reservations with an empty token.
ALTER TABLE onceward_reservation RENAME TO onceward_reservation_before;
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
INSERT INTO onceward_reservation (task, token, budget, scope, window_at, amount)
SELECT task, token, budget, scope, window_at, amount
FROM onceward_reservation_before;
DROP TABLE onceward_reservation_before;
