-- How many of the children of a task were added to batches that it has opened: max_children does not count these.
ALTER TABLE onceward_task ADD COLUMN members bigint NOT NULL DEFAULT 0;

-- How many tasks were to be added to a batch and were not, because a limit refused them.
ALTER TABLE onceward_batch ADD COLUMN refused bigint NOT NULL DEFAULT 0;
