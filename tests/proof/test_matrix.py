"""The page about faults has every row of the matrix, and says where it is tried."""

from __future__ import annotations

import re

from tests.nursery import ROOT
from tests.proof.__main__ import PAGE
from tests.proof.runs import earlier_runs

FAULTS = (ROOT / "docs" / "explanation" / "faults.md").read_text(encoding="utf-8")
TRIED_IN = dict(re.findall(r"^\| (F\d\d) \| [^|]+ \| ([^|]+) \|$", FAULTS.partition("## The whole matrix")[2], re.M))
ROWS = {f"F{row:02}" for first, last in ((1, 14), (20, 27), (30, 42), (50, 63)) for row in range(first, last + 1)}


def test_every_row_is_tried_by_tests_that_are_there() -> None:
    assert TRIED_IN.keys() == ROWS
    for row, tests in TRIED_IN.items():
        named = re.findall(r"`([^`]+)`", tests)
        assert named, row
        assert [path for path in named if not (ROOT / path).exists()] == [], row


def test_every_row_that_was_counted_is_in_it() -> None:
    matrices = {tally.matrix for run in earlier_runs(PAGE.with_suffix(".jsonl")) for tally in run.tallies}
    counted = {row for matrix in matrices for row in re.findall(r"F\d\d", matrix)}
    assert counted
    assert counted <= ROWS
