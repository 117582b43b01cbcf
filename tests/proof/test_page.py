"""The page of the proof adds up what tests have counted, and says what a zero is worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nursery import ROOT
from tests.proof import aims
from tests.proof.courses import COURSES, NAMES, SIMULATION, courses_of
from tests.proof.page import page, rows, spread, with_bound
from tests.proof.runs import Ran, earlier_runs, keep_runs, never_run, passed_since
from tests.proof.tally import KEPT_IN, Tally, kept

KILLS = Tally(matrix="F01", fault="killed", store="sqlite", faults=10, accepted=300, commits=1_500, recovery_s=[0.1])


def test_counts_of_one_fault_on_one_store_are_added_up() -> None:
    other = Tally(matrix="F01", fault="killed", store="sqlite", faults=5, accepted=100, refused=2, recovery_s=[0.3])
    elsewhere = Tally(matrix="F01", fault="killed", store="postgres", faults=1)

    postgres, sqlite = rows([KILLS, other, elsewhere])

    assert (sqlite.faults, sqlite.accepted, sqlite.commits, sqlite.refused) == (15, 400, 1_500, 2)
    assert sqlite.recovery_s == [0.1, 0.3]
    assert postgres.faults == 1


@pytest.mark.parametrize(
    ("count", "chances", "said"),
    [(0, 300, "0 (< 0.01)"), (0, 30_000, "0 (< 0.0001)"), (2, 300, "2"), (0, 0, "–")],
)
def test_a_zero_says_how_many_chances_it_had(count: int, chances: int, said: str) -> None:
    assert with_bound(count, chances) == said


def test_a_spread_is_a_median_and_a_percentile() -> None:
    assert spread([0.1] * 98 + [2.0, 2.0]) == "0.10 / 2.00 s"
    assert spread([1.0]) == "–"


def test_what_a_run_keeps_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "counts.jsonl"
    monkeypatch.setenv(KEPT_IN, str(file))
    KILLS.keep()
    KILLS.keep()

    assert kept(file) == [KILLS, KILLS]
    assert kept(tmp_path / "none.jsonl") == []


def test_the_page_has_a_line_for_each_fault_and_a_sum_and_names_what_failed() -> None:
    model = Tally(matrix="model", fault="model of lease", store="model", faults=3, states=70_000)
    worlds = Tally(matrix="F11", fault="worlds", store="sqlite", faults=9, accepted=5, commits=7, refused=1, seeds=4)
    mutants = Tally(matrix="mutants", fault="mistakes", store="model", faults=26, caught=26)

    first = Ran(
        date="2026-01-01", commit="abc", minutes=60, machine="2 cores", courses=("kills",),
        tallies=(KILLS, model, mutants),
    )  # fmt: skip
    second = Ran(
        date="2026-01-02", commit="def", minutes=30, machine="2 cores", courses=("kills", "models"),
        failed=("python -m tests.models",), tallies=(KILLS, worlds, mutants),
    )  # fmt: skip

    text = page([first, second], ["kills", "models", "clocks"])

    assert "| F01 | killed | SQLite | 20 | 600 | 3,000 | 0 (< 0.005) | 0 (< 0.001) | 0 (< 0.1) |" in text
    assert "|  | **all** | – | 20 | 600 | 3,000 |" in text
    assert "| model of lease | – | 70,000 states |" in text
    assert "| worlds | SQLite | 4 seeds | 9 faults, 5 tasks, 7 stage commits; 1 writes refused," in text
    assert "| mistakes | – | 26 mistakes put in | 26 caught |" in text
    assert "**Not everything has passed:**\n\n- `python -m tests.models`, at commit def\n" in text
    assert "No run has come to these yet: clocks." in text
    assert "| kills | 2 | 2026-01-02 | def | – |" in text
    assert "| models | 1 | 2026-01-02 | def | def |" in text
    assert "2 runs (2 cores) took 1.5 hours in all, with 13 faults an\nhour." in text
    assert "Every course passed when it was run last." in page([first], ["kills"])


def test_runs_are_kept_and_the_next_one_begins_with_what_none_has_come_to(tmp_path: Path) -> None:
    run = Ran(date="2026-01-01", commit="abc", minutes=60, machine="2 cores", courses=("kills",), tallies=(KILLS,))
    keep_runs(tmp_path / "proof.jsonl", [run, run])

    assert earlier_runs(tmp_path / "proof.jsonl") == [run, run]
    assert earlier_runs(tmp_path / "none.jsonl") == []
    assert never_run(["kills", "clocks"], [run]) == ["clocks"]
    assert never_run(["kills"], []) == ["kills"]


def test_what_has_failed_may_have_passed_since() -> None:
    failed = next(" ".join(("python", *course.command)) for course in COURSES if course.name == "clocks")
    assert courses_of(failed) == {"clocks"}
    assert courses_of("python -m tests.simulation") == {SIMULATION}

    def ran(commit: str, *failed: str) -> Ran:
        return Ran(date="2026-01-01", commit=commit, minutes=1, machine="", courses=("clocks",), failed=failed)

    others = Ran(date="2026-01-01", commit="d", minutes=1, machine="", courses=("models",))
    assert passed_since(failed, [ran("b", failed), ran("c"), others]) == "c"
    assert passed_since(failed, [ran("b", f"ONCEWARD_SEED=2 {failed}"), others]) is None
    text = page([ran("a", failed), ran("b", failed), ran("c")], NAMES)
    assert "Every course passed when it was run last." in text
    assert "| clocks | 3 | 2026-01-01 | c | a, b |" in text


def test_what_is_wanted_stands_beside_what_was_reached_and_how_fast() -> None:
    worlds = Tally(matrix="F11", fault="simulated worlds: all kinds", store="sqlite", faults=9, seeds=6_000)
    short = Ran(date="2026-01-01", commit="a", minutes=30, machine="", courses=(), tallies=(KILLS, KILLS, worlds))
    other = Ran(date="2026-01-01", commit="b", minutes=600, machine="", courses=())

    told = {what: said for what, *said in aims.lines([short, other])}

    assert told["processes killed"] == ["10,000", "20", "40"]
    assert told["simulated worlds"] == ["1,000,000", "6,000", "12,000"]
    assert told["servers crashed"] == ["200", "0", "–"]


def test_every_long_fault_test_is_part_of_a_long_run() -> None:
    """Who adds one in a file of its own adds that to a course."""
    named = {argument for course in COURSES for argument in course.command if argument.startswith("tests/")}
    for file in (ROOT / "tests").rglob("test_*.py"):
        if file != Path(__file__) and "mark.torture" in file.read_text(encoding="utf-8"):
            path = file.relative_to(ROOT)
            assert {str(path), *map(str, path.parents)} & named, f"{path} is in no course of tests/proof/courses.py"
    assert all((ROOT / one).exists() for one in named)
