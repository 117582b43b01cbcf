"""Filtered lists, bulk actions and the last hour are read by indexes and stretches of ids: no table from end to end."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from onceward.model.task_filter import parse_filter
from onceward.model.task_match import Known, Matcher
from tests.pooler import IS_BETWEEN
from tests.store import test_queries
from tests.store.conftest import NOON, Hands
from tests.store.test_queries import fill, postgres_plan, read_through, sqlite_plan

IDS = {"ids": [5, 500, 5_000]}
BELOW = {"before": 1 << 62, "count": 500}
SCAN = Matcher(parse_filter("status:failed kind:page -queue:slow cost>1 created<1h"), NOON, Known()).scan.params
READ: dict[str, dict[str, Any]] = {
    "search_stretch": {"before": 1 << 62, "rows": 10_000},
    "search_range": {"before": 15_000, "floor": 14_000, "count": 50, **SCAN},
    "search_among": {**IDS, **SCAN},
    "search_facts": {**IDS, "with_payload": 1, "largest": 65_536},
    "search_in_lineage": {**BELOW, "lineage": uuid.UUID(int=1)},
    "search_in_batch": {**BELOW, "batch": 1},
    "search_children": {**BELOW, "parent": 1},
    "search_identity": {**BELOW, "identity": b"i" * 16},
    "search_ended": {**BELOW, "status": 7},
    "search_running": {"count": 500},
    "batches_named": {"names": ["nightly"]},
    "lineages_of": IDS,
    "edges_of_log": {"most": 5_000, "oldest": 100},
    "ended_between": {"after": 15_000, "upto": 20_000, "back": 10_000, "oldest": 12_000},
    "claims_after": {"after": 5, "count": 500},
    "heads_of_lines_since": {"count": 500},
    "newest_task": {},
    "made_at": {"id": 5},
    "read_bulk": {"id": 1},
}
BY_INDEX = {
    "search_waiting": ({"count": 500}, "onceward_task_waiting"),
    "search_paused": ({"count": 500}, "onceward_task_paused"),
    "untaken_bulk": ({"now": NOON}, "onceward_bulk_open"),
}
"""Queries that read an index from its beginning: it holds nothing but what is sought."""
FOUND_BEFORE = (
    "SCAN CONSTANT ROW",
    "SCAN w USING INDEX onceward_worker_living",
    "SCAN line",
    "SCAN a",
    "SCAN (subquery-1)",
    "SCAN top",
    "SCAN (join-2)",
)
"""Steps that read what another step of the same plan has found."""


def plan_of(hands: Hands, monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, Any]) -> list[str]:
    monkeypatch.setitem(test_queries.HOT, name, given)
    if hands.session.dialect == "sqlite":
        return sqlite_plan(hands, name)
    hands.sql("SET enable_seqscan = off")
    return postgres_plan(hands, name, "force_generic_plan")


@pytest.mark.skipif(IS_BETWEEN, reason="behind a pooler there are no settings of a session, by which plans are made")
@pytest.mark.parametrize("rows", [0, 20_000])
def test_no_list_reads_a_table_from_end_to_end(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests, rows: int
) -> None:
    hands.enqueue()
    if rows:
        fill(hands, rows)
    for name, given in READ.items():
        with subtests.test(name):
            plan = plan_of(hands, monkeypatch, name, given)
            assert [step for step in read_through(plan) if step not in FOUND_BEFORE] == [], "\n".join(plan)
    for name, (given, index) in BY_INDEX.items():
        with subtests.test(name):
            assert index in "\n".join(plan_of(hands, monkeypatch, name, given))
