"""How the database itself does: how large its tables are, what is dead in them, and what holds its log back."""

from __future__ import annotations

from typing import Literal, NamedTuple

from onceward.store.op import Op, Query

MOST_COUNTED = 10_000
"""So many rows of a table of SQLite are counted; of a larger one only a bound is known."""
MOST_SUMMED_BYTES = 64 << 20
"""Up to this size of a SQLite file the bytes of each table are read, which reads all of it."""
OLD_SNAPSHOT_MS = 10_000
MOST_SNAPSHOTS = 20


class TableHealth(NamedTuple):
    """A table of the engine."""

    name: str
    rows: int
    sign: Literal["", "≈", "≤", "≥"]
    """Empty where the rows were counted; else whether they are an estimate (PostgreSQL) or a bound (SQLite)."""
    size: int | None = None
    """Bytes with its indexes."""
    dead: int | None = None
    """Rows that are dead and not yet vacuumed, on PostgreSQL."""
    vacuumed_at: int | None = None


class OldSnapshot(NamedTuple):
    """A transaction that has held a snapshot for long: nothing that died since can be vacuumed."""

    program: str
    process: int
    since: int


class StoreFacts(NamedTuple):
    """The database at one moment."""

    size: int
    free: int | None
    """Bytes of free pages, on SQLite."""
    transactions_old: int | None
    """How many transactions ago the oldest rows were frozen, on PostgreSQL; at two billion it stops."""
    tables: list[TableHealth]
    oldest_lease_at: int | None
    leases: int
    snapshots: list[OldSnapshot]


def read_store(now: int) -> Op[StoreFacts]:
    """Read how large the tables are, the oldest lease, and old snapshots; bounded, however large they are."""
    [(size, free, age)] = yield Query("store_size")
    rows = yield Query("store_tables", {"most": MOST_COUNTED + 1})
    known: dict[str, tuple[int, int | None, int | None]] = {}
    if free is None or size <= MOST_SUMMED_BYTES:
        known = {name: tuple(more) for name, *more in (yield Query("store_table_bytes"))}
    tables = [
        TableHealth(name, *_counted(count, span, is_counted=free is not None), *known.get(name, (None, None, None)))
        for name, count, span in rows
    ]
    [(lease_at, leases)] = yield Query("oldest_lease")
    held = yield Query("old_transactions", {"before": now - OLD_SNAPSHOT_MS, "limit": MOST_SNAPSHOTS})
    tables.sort(key=lambda one: (-(one.size or 0), -one.rows, one.name))
    return StoreFacts(size, free, age, tables, lease_at, leases, [OldSnapshot(*row) for row in held])


def _counted(count: int, span: int | None, *, is_counted: bool) -> tuple[int, Literal["", "≈", "≤", "≥"]]:
    if not is_counted:
        return count, "≈"
    if count <= MOST_COUNTED:
        return count, ""
    return (MOST_COUNTED, "≥") if span is None else (span, "≤")
