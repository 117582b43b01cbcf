"""What a run of the benchmark writes: figures with what they must reach, plots, and a page without holes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import pages, report, runlog
from bench.measures import MEASURES
from bench.plan import FULL, LONG, QUICK, SIDES, STORES, WORKS, Plan, Side, Store
from bench.runlog import Run, Tally
from bench.samples import Count, Results, Sample, Series, read_results
from bench.targets import MUST, missed, verdict
from bench.workloads import PARTS

CLEAN = Tally(expected=9, once=9, twice=0, never=0, unknown=0)


def test_a_job_that_ran_twice_or_never_is_not_overlooked() -> None:
    runs = [Run(0, 1), Run(1, 2), Run(1, 3), Run(7, 4)]
    assert runlog.tally(runs, 3) == Tally(expected=3, once=1, twice=1, never=1, unknown=1)
    assert not runlog.tally_of_some(runs).clean
    assert runlog.tally_of_some([Run(5, 1), Run(9, 2)]).clean
    assert runlog.total([CLEAN, runlog.tally(runs, 3)]).never == 1


def test_everything_that_must_be_reached_is_measured() -> None:
    assert set(MUST) <= set(MEASURES)
    assert {part.work for part in PARTS} == set(WORKS)


def test_a_bound_on_the_floor_compares_rounds_with_each_other() -> None:
    results = _results({("floor", 1): 100.0, ("floor", 2): 10.0, ("engine", 1): 60.0, ("engine", 2): 6.0}, "drain-1")
    found = verdict(results, "sqlite", "drain-1")
    assert found is not None
    assert found.kept
    assert not missed(results)


def test_a_miss_is_said_and_is_no_error() -> None:
    results = _results({("engine", 1): 7_999.0}, "workflows")
    assert [(store, name, str(found)) for store, name, found in missed(results)] == [
        ("sqlite", "workflows", "≥ 8,000 ✗")
    ]
    assert any("missed: SQLite" in remark for remark in report.remarks(results, FULL))
    assert results.sound


def test_a_full_run_writes_table_plots_and_page(tmp_path: Path) -> None:
    written = pages.save(_document(FULL, is_full=True), tmp_path, tmp_path / "performance.md")
    assert [path.name for path in written] == [
        "2026-01-02.json",
        "2026-01-02.md",
        "2026-01-02-rates.svg",
        "2026-01-02-latency.svg",
        "2026-01-02-itself.svg",
        "2026-01-02-snapshot.svg",
        "performance.md",
    ]
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert all(measure.label in page for measure in MEASURES.values())
    assert "| – |" not in page.split("## What it must reach")[1].split("Size and time: held")[0]
    assert "make bench-long` of" not in page


@pytest.mark.parametrize("plan", [FULL, QUICK, LONG], ids=lambda plan: plan.name)
def test_a_part_of_a_run_does_not_touch_the_page(tmp_path: Path, plan: Plan) -> None:
    pages.save(_document(FULL, is_full=True), tmp_path, tmp_path / "performance.md")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    pages.save(_document(plan, is_full=False), tmp_path, tmp_path / "performance.md")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.items() <= after.items()
    assert len(after) > len(before)


def test_a_long_run_adds_to_the_page_what_only_it_tells(tmp_path: Path) -> None:
    for plan in (FULL, LONG):
        pages.save(_document(plan, is_full=True), tmp_path, tmp_path / "performance.md")
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "many finished rows: 200,000" in page.lower()
    assert "many finished rows: 5,000,000" in page.lower()
    assert "2026-01-02-long-snapshot.svg" in page


def test_plots_are_svg_with_colours_for_light_and_dark(tmp_path: Path) -> None:
    written = pages.save(_document(FULL, is_full=True), tmp_path, tmp_path / "performance.md")
    plots = [path for path in written if path.suffix == ".svg"]
    assert plots
    for plot in plots:
        root = ElementTree.fromstring(plot.read_text(encoding="utf-8"))
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        assert "prefers-color-scheme: dark" in "".join(root.itertext())
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(text.attrib["x"]) <= width
            assert 0 <= float(text.attrib["y"]) <= height


def test_what_is_saved_can_be_read_again() -> None:
    document = _document(FULL, is_full=True)
    again = read_results(document)
    assert report.document(again, FULL, document["machine"], "2026-01-02", is_full=True) == document


def _results(values: dict[tuple[Side, int], float], measure: str, store: Store = "sqlite") -> Results:
    samples = [Sample(store, side, measure, round, value, 5_000.0) for (side, round), value in values.items()]
    return Results(tuple(samples), (Count(store, "engine", measure, 1, CLEAN),), ())


def _document(plan: Plan, *, is_full: bool) -> dict[str, Any]:
    """A run in which everything was measured."""
    samples = [
        Sample(store, side, name, round, 3.0 + round + len(name), 5_000.0)
        for store in STORES
        for side in SIDES
        for name in MEASURES
        for round in (1, 2)
    ]
    series = (
        Series("postgres", "engine", "snapshot-p50", (1.0, 2.0, 1.5)),
        Series("postgres", "engine", "snapshot-p99", (4.0, 7.0, 5.0)),
        Series("postgres", "engine", "snapshot-held-at", (1.5,)),
    )
    counts = tuple(Count(store, side, "all", 1, CLEAN) for store in STORES for side in SIDES)
    results = Results(tuple(samples), counts, (), series)
    facts = {"cores": "2", "system": "Linux"}
    return report.document(results, plan, facts, "2026-01-02", is_full=is_full)
