"""Tasks that are the same work: of one kind, and about the same."""

from __future__ import annotations

import uuid

from onceward.store.op import Op, Query


def find_same_work(
    identity: bytes,
    lineage: uuid.UUID | None,
    *,
    own_key: bool,
    fields: bool,
    before: int,
    limit: int,
    status: int | None = None,
    min_depth: int | None = None,
) -> Op[list[int]]:
    """Find the ids of tasks with an identity, newest first, in a lineage or anywhere.

    An index finds tasks with a key of their own; tasks known by all fields need a scan of the lineage or of all tasks.
    """
    asked = {"identity": identity, "before": before, "status": status, "min_depth": min_depth, "limit": limit}
    found: set[int] = set()
    if own_key:
        found.update(row[0] for row in (yield Query("find_by_identity", {**asked, "lineage": lineage})))
    if fields and lineage is not None:
        found.update(row[0] for row in (yield Query("find_by_fields_in_lineage", {**asked, "lineage": lineage})))
    elif fields:
        found.update(row[0] for row in (yield Query("find_by_fields", asked)))
    return sorted(found, reverse=True)[:limit]
