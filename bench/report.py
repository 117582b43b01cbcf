"""Results for people: tables in the terminal, the same tables as Markdown, and JSON for programs."""

import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import apsw
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.loops import HAS_UVLOOP
from bench.measures import MEASURES, THEMES, Measure, of_theme
from bench.plan import SIDES, Plan, Store
from bench.samples import Results, Spread, spread
from bench.targets import missed, verdict

# How many times faster the disk may be at its best than at its worst before the speeds are in doubt.
UNSTEADY = 3
STORE_NAMES: dict[Store, str] = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table before it has a look."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def figure(value: Spread | None, decimals: int) -> str:
    """Median, and the range where there was more than one round."""
    if value is None:
        return "–"
    text = f"{value.median:,.{decimals}f}"
    if value.low == value.high:
        return text
    return f"{text} [{value.low:,.{decimals}f}–{value.high:,.{decimals}f}]"


def ratio(value: Spread | None, measure: Measure) -> str:
    """Engine / floor, with an arrow where less is better."""
    if value is None or measure.unit == "×":
        return "–"
    return figure(value, 2) + (" ↓" if measure.lower_is_better else "")


def speeds(results: Results, store: Store) -> Grid:
    """Every measure of one store: floor, engine, ratio, and what must be reached."""
    rows = []
    for theme in THEMES:
        for name, measure in of_theme(theme):
            if any(results.by_round(store, side, name) for side in SIDES):
                rows.append(
                    (
                        f"{theme.lower()}: {measure.label}",
                        measure.unit,
                        figure(results.spread(store, "floor", name), measure.decimals),
                        figure(results.spread(store, "engine", name), measure.decimals),
                        ratio(results.ratio(store, name), measure),
                        str(verdict(results, store, name) or ""),
                    )
                )
    title = f"{STORE_NAMES[store]}: median [min–max]; ↓ less is better"
    return Grid(title, ("", "unit", "floor", "engine", "engine / floor", "must reach"), tuple(rows))


def counts(results: Results) -> Grid:
    """How often the jobs of each side ran."""
    pairs = sorted({(count.store, count.side) for count in results.counts})
    rows = []
    for store, side in pairs:
        tally = results.tally(store, side)
        numbers = (tally.expected, tally.once, tally.twice, tally.never, tally.unknown)
        rows.append((STORE_NAMES[store], side, *(f"{number:,}" for number in numbers)))
    columns = ("store", "side", "asked for", "ran once", "more than once", "never", "unknown")
    return Grid("Every handler start, counted from the run logs", columns, tuple(rows))


def grids(results: Results) -> Iterator[Grid]:
    """All tables, in the order of the report."""
    for store in dict.fromkeys(sample.store for sample in results.samples):
        yield speeds(results, store)
    yield counts(results)


def remarks(results: Results, plan: Plan) -> Iterator[str]:
    """What the tables do not say by themselves."""
    yield sizes(plan)
    yield from disk(results)
    for store, name, found in missed(results):
        theme = next(theme for theme in THEMES if name in THEMES[theme]).lower()
        yield f"missed: {STORE_NAMES[store]}, {theme}: {MEASURES[name].label}: must be {found.bound}"
    for failure in results.failures:
        first_line = failure.reason.splitlines()[0]
        yield f"not measured: {failure.part}, {failure.store}, {failure.side}, round {failure.round}: {first_line}"
    if not results.failures and results.sound:
        yield "every job ran exactly once"
    elif not all(count.tally.clean for count in results.counts):
        yield "JOBS WERE LOST OR RAN TWICE: see the counts"


def sizes(plan: Plan) -> str:
    """What the measures mean by many, and by a while."""
    return (
        f"many pending: {plan.large_backlog:,}; many finished rows: {plan.finished:,}; steady load: "
        f"{plan.steady_per_second:,} tasks/s, {plan.before_seconds:g} s before and {plan.hold_seconds:g} s under a "
        f"held snapshot; large lineage: {plan.large_lineage:,} tasks; many sources: {plan.sources:,}"
    )


def disk(results: Results) -> Iterator[str]:
    """How fast the disk synced meanwhile, and a warning if that moved about."""
    syncs = spread([sample.syncs_per_second for sample in results.samples])
    if syncs is not None:
        yield f"fsync probe (4 KiB appends, before each measurement): {figure(syncs, 0)} syncs/s"
        if syncs.high > syncs.low * UNSTEADY:
            yield "the disk was unsteady: believe the counts and the ratios of rounds, take the speeds again"


def machine(filesystem: str, postgres: str | None) -> dict[str, str]:
    """What the figures were taken on; nothing that says whose machine it is."""
    facts = {
        "cores": str(os.cpu_count()),
        "processor": platform.machine(),
        "system": platform.system(),
        "file system": filesystem,
        "Python": platform.python_version(),
        "uvloop": installed("uvloop") if HAS_UVLOOP else "no",
        "SQLite": f"{apsw.sqlite_lib_version()} (apsw), WAL, synchronous=FULL",
        "onceward": installed("onceward"),
    }
    if postgres is not None:
        facts["PostgreSQL"] = f"{postgres}, defaults, unix socket"
    return facts


def installed(package: str) -> str:
    """The version of a package, or that there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def show(console: Console, results: Results, plan: Plan, facts: dict[str, str]) -> None:
    """Print the report for people."""
    console.print(" · ".join(f"{name} {fact}" for name, fact in facts.items()), style="dim", highlight=False)
    for grid in grids(results):
        table = Table(title=Text(grid.title), title_justify="left", title_style="bold")
        for number, column in enumerate(grid.columns):
            table.add_column(column, justify="left" if number < 2 else "right")
        for row in grid.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for remark in remarks(results, plan):
        console.print(remark, highlight=False, markup=False)


def table(grid: Grid) -> list[str]:
    """A table as Markdown."""
    return [
        "| " + " | ".join(grid.columns) + " |",
        "|" + "|".join("---" if number < 2 else "--:" for number in range(len(grid.columns))) + "|",
        *("| " + " | ".join(row) + " |" for row in grid.rows),
    ]


def markdown(results: Results, plan: Plan, facts: dict[str, str], date: str) -> str:
    """The report as a page."""
    lines = [f"# Benchmark of {date}", "", " · ".join(f"{name} {fact}" for name, fact in facts.items()), ""]
    for grid in grids(results):
        lines += [f"## {grid.title}", "", *table(grid), ""]
    lines += [f"- {remark}" for remark in remarks(results, plan)]
    return "\n".join(lines) + "\n"


def document(results: Results, plan: Plan, facts: dict[str, str], date: str, *, is_full: bool) -> dict[str, Any]:
    """The report for programs. A failure's output may name places on this machine, so only its first line is kept."""
    return {
        "date": date,
        "is_full": is_full,
        "machine": facts,
        "plan": asdict(plan),
        "sound": results.sound,
        "samples": [asdict(sample) for sample in results.samples],
        "counts": [asdict(count) for count in results.counts],
        "failures": [{**asdict(failure), "reason": failure.reason.splitlines()[0]} for failure in results.failures],
        "series": [asdict(series) for series in results.series],
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a report for programs."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
