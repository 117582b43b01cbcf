-- Savepoints, and the receipts of the engine's transactions (decision 3).

-- name: savepoint
SAVEPOINT onceward_part

-- name: release_savepoint
RELEASE SAVEPOINT onceward_part

-- name: rollback_to_savepoint
ROLLBACK TO SAVEPOINT onceward_part

-- name: write_receipt
-- Write the receipt, the proof that this transaction committed. The same insert, made later, decides a lost reply.
INSERT INTO onceward_receipt (token, at)
VALUES (:token, :now)

-- name: write_next_receipt
-- Write the receipt, and again that of the transaction before it (decision 40). That one is there already unless the
-- database has gone back behind it, so one row comes back, or two.
INSERT INTO onceward_receipt (token, at)
VALUES (:token, :now), (:before, - CAST(:now AS bigint))
ON CONFLICT (token) DO NOTHING
RETURNING at

-- name: bar_receipt
-- After a commit without a reply, wait for that transaction and return the time on its receipt. If it did not commit,
-- take its key. It writes in both cases: a commit without writes waits for no standby, and would confirm what only this
-- server knows.
INSERT INTO onceward_receipt (token, at)
VALUES (:token, - CAST(:now AS bigint))
ON CONFLICT (token) DO UPDATE SET at = onceward_receipt.at
RETURNING at

-- name: read_receipt
SELECT at
FROM onceward_receipt
WHERE token = :token

-- name: prune_receipts
DELETE FROM onceward_receipt
WHERE abs(at) < :before
