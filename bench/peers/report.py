"""What a run has found, for people: tables in the terminal and the same as Markdown; and JSON for programs."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.peers.catalogue import BACKENDS, BY_NAME, OURS, Backend, System
from bench.peers.environments import pinned
from bench.peers.findings import MEASURES, Findings
from bench.peers.plan import Plan
from bench.samples import Spread, spread

SPEEDS = ("enqueue-one", "enqueue-bulk", "drain-1", "drain-2", "workflows", "latency-p50", "latency-p99")
COSTS = ("cpu", "memory")
CAPPED = " c"
NOT_OFFERED = "none"
NOT_TAKEN = "–"
# How many times faster the disk may be at its best than at its worst before the speeds are in doubt.
UNSTEADY = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table: the figure, and its range where there was more than one round."""

    text: str
    range: str = ""

    def joined(self, by: str) -> str:
        """Both as one text."""
        return self.text + (by + self.range if self.range else "")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table before it has a look; the first columns hold words, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: int = 1


def figure(value: Spread, decimals: int, mark: str = "") -> Cell:
    """A median, a mark, and the range."""
    text = f"{value.median:,.{decimals}f}{mark}"
    if value.low == value.high:
        return Cell(text)
    return Cell(text, f"[{value.low:,.{decimals}f}–{value.high:,.{decimals}f}]")


def offers(system: System, measure: str) -> bool:
    """Whether the system has what is measured."""
    return {"enqueue-bulk": system.bulk, "workflows": system.workflows}.get(measure, True)


def speed(findings: Findings, system: System, measure: str) -> Cell:
    """One figure of one system."""
    value = findings.spread(system.name, measure)
    if value is None:
        return Cell(NOT_TAKEN if offers(system, measure) else NOT_OFFERED)
    return figure(value, MEASURES[measure].decimals, CAPPED if findings.capped(system.name, measure) else "")


def times(findings: Findings, system: System, measure: str) -> Cell:
    """How many times as fast ours is."""
    value = findings.times_as_fast(system.name, measure)
    if value is None:
        return Cell(NOT_TAKEN if offers(system, measure) else NOT_OFFERED)
    return figure(value, 0 if value.median >= 100 else 1 if value.median >= 10 else 2)


def header(measure: str) -> str:
    """A measure as the head of a column."""
    return f"{MEASURES[measure].label}, {MEASURES[measure].unit}"


def taken(findings: Findings, measures: tuple[str, ...], systems: list[System]) -> tuple[str, ...]:
    """Those of the measures for which there is a figure."""
    return tuple(measure for measure in measures if any(findings.spread(system.name, measure) for system in systems))


def speeds(findings: Findings, backend: Backend, systems: list[System]) -> Grid:
    """Every figure of the systems of one backend."""
    measures = taken(findings, SPEEDS, systems)
    rows = tuple(
        (Cell(system.label), *(speed(findings, system, measure) for measure in measures)) for system in systems
    )
    title = f"{BACKENDS[backend]}: median [min–max] over the rounds"
    return Grid(title, ("system", *map(header, measures)), rows)


def comparison(findings: Findings, backend: Backend, systems: list[System]) -> Grid | None:
    """Ours against each of the others, where ours was measured too."""
    ours = BY_NAME[OURS[backend]]
    others = [system for system in systems if system.name != ours.name]
    if ours not in findings.systems or not others:
        return None
    measures = taken(findings, SPEEDS, others)
    rows = tuple((Cell(system.label), *(times(findings, system, measure) for measure in measures)) for system in others)
    title = f"{BACKENDS[backend]}: Onceward on {BACKENDS[ours.backend]} is so many times as fast, each round by itself"
    return Grid(title, ("as", *(MEASURES[measure].label for measure in measures)), rows)


def costs(findings: Findings) -> Grid | None:
    """What a worker process used while it drained; the database server is not in it."""
    measures = taken(findings, COSTS, list(findings.systems))
    if not measures:
        return None
    rows = tuple(
        (
            Cell(BACKENDS[system.backend]),
            Cell(system.label),
            *(speed(findings, system, measure) for measure in measures),
        )
        for system in findings.systems
    )
    return Grid(
        "What one worker process used (the server apart)", ("on", "system", *map(header, measures)), rows, words=2
    )


def counts(findings: Findings) -> Grid:
    """How often the jobs of each system ran."""
    rows = []
    for system in findings.systems:
        counted = findings.counted(system)
        numbers = (counted.expected, counted.once, counted.twice, counted.never, counted.left_at_cap, counted.unknown)
        rows.append((Cell(BACKENDS[system.backend]), Cell(system.label), *(Cell(f"{number:,}") for number in numbers)))
    columns = ("on", "system", "asked for", "ran once", "more than once", "never", "left at the cap", "unknown")
    return Grid("Every handler start, counted from the run logs", columns, tuple(rows), words=2)


def settings(findings: Findings) -> Grid:
    """What each system is and how it was set."""
    rows = tuple(
        (
            Cell(BACKENDS[system.backend]),
            Cell(system.label),
            Cell(version(system)),
            Cell(system.configuration),
        )
        for system in findings.systems
    )
    return Grid("Versions and settings", ("on", "system", "version", "setting"), rows, words=4)


def version(system: System) -> str:
    """The version that the system's requirements file names."""
    if system.requirements is None or system.package is None:
        return "this tree"
    return pinned(system.requirements)[system.package]


def grids(findings: Findings) -> Iterator[Grid]:
    """All tables, in the order of the report."""
    for backend in BACKENDS:
        systems = [system for system in findings.systems if system.backend == backend]
        if systems:
            yield speeds(findings, backend, systems)
            compared = comparison(findings, backend, systems)
            if compared is not None:
                yield compared
    used = costs(findings)
    if used is not None:
        yield used
    yield counts(findings)
    yield settings(findings)


def remarks(findings: Findings, plan: Plan) -> Iterator[str]:
    """What the tables do not say by themselves."""
    if any(sample.value.capped for sample in findings.samples):
        yield (
            f"c: cut off {plan.cap_seconds:g} s after the first start, before all jobs had run; the rate counts the "
            "jobs started by then"
        )
    yield (
        f"backlogs: at most {plan.singles:,} enqueued one by one and {plan.jobs:,} in bulk, for at most "
        f"{plan.fill_seconds:g} s each; {NOT_OFFERED}: the system does not offer it"
    )
    if any(system.backend == "redis" for system in findings.systems):
        yield (
            "Redis syncs its log once a second (appendfsync everysec): up to a second of acknowledged work is lost "
            "when the power fails, so this group is not durable in the sense of the others"
        )
    syncs = spread([sample.syncs_per_second for sample in findings.samples])
    if syncs is not None:
        probe = figure(syncs, 0).joined(" ")
        yield f"fsync probe (4 KiB appends, before each measurement): {probe} syncs/s"
        if syncs.high > syncs.low * UNSTEADY:
            yield "the disk was unsteady: believe the counts, take the speeds again"
    for name, reason in findings.skipped.items():
        yield f"skipped: {name} {reason}"
    for failure in findings.failures:
        first_line = failure.reason.splitlines()[0]
        yield f"not measured: {failure.system}, {failure.part}, round {failure.round}: {first_line}"
    yield from losses(findings)


def losses(findings: Findings) -> Iterator[str]:
    """Which systems lost jobs or ran them twice."""
    faulty = False
    for system in findings.systems:
        counted = findings.counted(system)
        if counted.twice or counted.never or counted.unknown:
            faulty = True
            yield (
                f"{system.label} on {BACKENDS[system.backend]}: {counted.twice:,} jobs ran more than once, "
                f"{counted.never:,} never, {counted.unknown:,} were not asked for"
            )
    if not faulty:
        yield "no job ran twice, and every job ran that was not cut off"


def show(console: Console, findings: Findings, plan: Plan, facts: dict[str, str]) -> None:
    """Print the report for people."""
    console.print(" · ".join(f"{name} {fact}" for name, fact in facts.items()), style="dim", highlight=False)
    for grid in grids(findings):
        table = Table(title=Text(grid.title), title_justify="left", title_style="bold")
        for number, column in enumerate(grid.columns):
            table.add_column(column, justify="left" if number < grid.words else "right")
        for row in grid.rows:
            table.add_row(*(Text(cell.joined("\n")) for cell in row))
        console.print(table)
    for remark in remarks(findings, plan):
        console.print(remark, highlight=False, markup=False)


def markdown(findings: Findings, plan: Plan, facts: dict[str, str], date: str, chart: str) -> str:
    """The report as a page, with the chart that lies beside it."""
    lines = [f"# Onceward beside other task queues, {date}", ""]
    lines += [" · ".join(f"{name} {fact}" for name, fact in facts.items()), "", f"![Rates by system]({chart})", ""]
    for grid in grids(findings):
        lines += [f"## {grid.title}", "", "| " + " | ".join(grid.columns) + " |"]
        lines += ["|" + "|".join("---" if place < grid.words else "--:" for place in range(len(grid.columns))) + "|"]
        lines += ["| " + " | ".join(cell.joined(" ") for cell in row) + " |" for row in grid.rows]
        lines.append("")
    lines += [f"- {remark}" for remark in remarks(findings, plan)]
    return "\n".join(lines) + "\n"


def document(findings: Findings, plan: Plan, facts: dict[str, str], date: str) -> dict[str, Any]:
    """The report for programs. A failure's output may name places on this machine, so only its first line is kept."""
    return {
        "date": date,
        "machine": facts,
        "plan": asdict(plan),
        "sound": findings.sound,
        "systems": [
            {**asdict(system), "python": ".".join(map(str, system.python)), "version": version(system)}
            for system in findings.systems
        ],
        "skipped": findings.skipped,
        "samples": [asdict(sample) for sample in findings.samples],
        "counts": [asdict(count) for count in findings.counts],
        "failures": [{**asdict(failure), "reason": failure.reason.splitlines()[0]} for failure in findings.failures],
    }
