-- Whether tasks fail when the budget of their lineage is spent (Limits(when_spent="fail")); otherwise they wait.
ALTER TABLE onceward_budget ADD COLUMN fails integer NOT NULL DEFAULT 0;
