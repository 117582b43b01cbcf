-- The frame around our own transactions.

-- name: savepoint
SAVEPOINT onceward_part

-- name: release_savepoint
RELEASE SAVEPOINT onceward_part

-- name: rollback_to_savepoint
ROLLBACK TO SAVEPOINT onceward_part

-- name: write_receipt
-- Proof that this transaction committed; see docs/decisions. The same insert, made later, decides a lost reply.
INSERT INTO onceward_receipt (token, at)
VALUES (:token, :now)

-- name: write_next_receipt
-- The same, and the receipt of the transaction before it: which is there already, unless the database has gone back
-- behind it. So one row comes back, or two.
INSERT INTO onceward_receipt (token, at)
VALUES (:token, :now), (:before, - CAST(:now AS bigint))
ON CONFLICT (token) DO NOTHING
RETURNING at

-- name: bar_receipt
-- After a commit without a reply: waits for that transaction, takes its key if it did not commit, and returns the time on
-- the receipt that is there now. It writes in both cases, because a commit that has written nothing waits for no standby:
-- it would confirm what only this server knows.
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
