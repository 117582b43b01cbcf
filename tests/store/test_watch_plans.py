"""What the watches read: on a large database it is found by an index or by ids, never by reading a table through."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.pooler import IS_BETWEEN
from tests.store import test_queries
from tests.store.conftest import NOON, Hands
from tests.store.test_queries import fill, postgres_plan, read_through, sqlite_plan

WINDOW = {"since": NOON, "limit": 20}
READ: dict[str, dict[str, Any]] = {
    "watch_repeats": {**WINDOW, "task": 19_000, "refusal": 5, "most": 3},
    "watch_key_repeats": {**WINDOW, "task": 19_000, "refusal": 5, "most": 3},
    "watch_depth": {**WINDOW, "task": 19_000, "most": 8, "rows": 1_000},
    "deepest_tasks": {"lineage": b"l" * 16, "most": 8, "limit": 20},
    "requesters_of_identity": {"identity": b"i" * 16, "lineage": b"l" * 16, "limit": 20},
    "requesters_of_key": {"key": "home", "lineage": b"l" * 16, "refusal": 5, "limit": 20},
    "count_timeouts": WINDOW,
    "newest_timeouts": WINDOW,
    "watch_reclaims": {**WINDOW, "most": 2},
    "watch_ticks": WINDOW,
    "count_ended_batches": WINDOW,
    "failures_in_batches": WINDOW,
    "count_ended_workers": WINDOW,
    "disabled_gates": WINDOW,
    "behind_gate": {"gate": "web", "limit": 20},
    "parked_by_kind": WINDOW,
    "oldest_parked": {"kind": "page", "limit": 20},
    "due_deliveries": {"now": NOON, "limit": 20},
}


@pytest.mark.skipif(IS_BETWEEN, reason="behind a pooler there are no settings of a session, by which plans are made")
def test_what_the_watches_read_is_found(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    hands.enqueue()
    fill(hands, 20_000)
    for name, given in READ.items():
        if hands.session.dialect == "postgres" and "lineage" in given:
            given = {**given, "lineage": "00000000-0000-0000-0000-000000000007"}
        monkeypatch.setitem(test_queries.HOT, name, given)
        with subtests.test(name):
            if hands.session.dialect == "sqlite":
                plan = sqlite_plan(hands, name)
            else:
                hands.sql("SET enable_seqscan = off")
                plan = postgres_plan(hands, name, "force_generic_plan")
            # A whole index of the few rows that are meant, and what was just found, may be read through.
            tables = [step for step in read_through(plan) if not re.search("disabled|asked|deep", step)]
            assert tables == [], "\n".join(plan)
