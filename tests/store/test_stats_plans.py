"""What the figures are made of is found by an index or by ids: no table is read from end to end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pooler import IS_BETWEEN
from tests.store import test_queries
from tests.store.conftest import NOON, Hands
from tests.store.test_queries import fill, postgres_plan, read_through, sqlite_plan

IDS = {"ids": [5, 500, 5_000]}
READ: dict[str, dict[str, Any]] = {
    "log_before": {"before": 1 << 62, "count": 5_000},
    "claims_before": {"before": 1 << 62, "count": 5_000},
    "sizes_of_tasks": IDS,
    "stages_committed_before": {**IDS, "before": 10_000},
    "old_claims_of_worker": {"worker": 1, "low_claim": 1, "before": NOON, "count": 100},
    "signs_of_life": IDS,
    "waits_without_end": {"first": "signal:", "last": "signal;", "never": 1 << 62, "count": 100},
    "waits_for_no_child": {"rows": 1_000, "count": 100},
    "open_batches": {"names": ["night"]},
    "heads_of_lines": {"count": 100},
    "ready_since": {**IDS, "before": NOON},
    "samples_named": {"since": NOON, "names": ["calls of sources"]},
}
FOUND_BEFORE = ("SCAN parked", "SCAN line")
"""Steps that read what another step of the same plan has found."""


@pytest.mark.skipif(IS_BETWEEN, reason="behind a pooler there are no settings of a session, by which plans are made")
@pytest.mark.parametrize("rows", [0, 20_000])
def test_what_the_figures_are_made_of_is_found(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests, rows: int
) -> None:
    hands.enqueue()
    if rows:
        fill(hands, rows)
    for name, given in READ.items():
        monkeypatch.setitem(test_queries.HOT, name, given)
        with subtests.test(name):
            if hands.session.dialect == "sqlite":
                plan = sqlite_plan(hands, name)
            else:
                hands.sql("SET enable_seqscan = off")
                plan = postgres_plan(hands, name, "force_generic_plan")
            assert [step for step in read_through(plan) if step not in FOUND_BEFORE] == [], "\n".join(plan)
