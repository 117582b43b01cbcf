-- Where the error of an attempt was raised: bounded, and without secrets.
ALTER TABLE onceward_attempt ADD COLUMN trace text;
