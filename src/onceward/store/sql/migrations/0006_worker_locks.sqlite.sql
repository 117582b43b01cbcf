-- The run of the PostgreSQL server on which a worker holds the lock that shows that it lives; NULL if it holds none.
ALTER TABLE onceward_worker ADD COLUMN server_run text;
