"""What can go wrong with a connection or a transaction, as the engine tells it apart on both databases."""

from __future__ import annotations

from onceward.errors import StoreError

GONE = "the database has lost transactions that it had confirmed: an older copy of it is in its place"


class ConnectionLost(Exception):
    """The connection is gone, and with it all that was not committed; raised and caught in this layer only."""


class WriteLost(ConnectionLost):
    """A function given to `ctx.write` has lost the transaction that it ran in."""


class WentBack(StoreError):
    """The database has lost a transaction that it had confirmed; work that rests on it must stop."""


class TryAgainLater(Exception):
    """The transaction must run again from its start: after a deadlock, or a lock that was not free in time."""


class NoTimeLeft(Exception):
    """The functions of this transaction have used up its time; the next one needs another transaction."""
