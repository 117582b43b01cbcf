-- What a setting is, for those who read the table: its type, and what it is for. Empty where it was set before.
ALTER TABLE onceward_setting ADD COLUMN type text NOT NULL DEFAULT '';
ALTER TABLE onceward_setting ADD COLUMN about text NOT NULL DEFAULT '';
