"""docs/reference/proof.md, written from what the fault tests have counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from tests.proof import aims
from tests.proof.courses import courses_of
from tests.proof.runs import Ran, never_run, passed_since, without_repeats
from tests.proof.tally import Tally

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "model": "–"}
COURSE_HEADER = ("course", "runs", "last run on", "at commit", "had failed at")
AIM_HEADER = ("what", "wanted", "reached", "an hour")
OTHER_HEADER = ("what", "store", "how many", "what came of it")
PASSED = {"orders": "every order ends well", "model": "every step is what the model says"}
HEADER = (
    "row", "fault", "store", "faults", "tasks accepted", "stage commits", "lost", "double effects", "stale commits",
    "refused writes", "in doubt, reconciled", "recovery p50 / p99",
)  # fmt: skip


@dataclass
class Row:
    """All counts of one fault on one store."""

    matrix: str
    fault: str
    store: str
    faults: int = 0
    accepted: int = 0
    commits: int = 0
    lost: int = 0
    double: int = 0
    stale: int = 0
    refused: int = 0
    reconciled: int = 0
    seeds: int = 0
    states: int = 0
    caught: int = 0
    recovery_s: list[float] = field(default_factory=list)

    def add(self, tally: Tally) -> None:
        """Count a further run."""
        for name in (
            "faults", "accepted", "commits", "lost", "double", "stale", "refused", "reconciled", "seeds", "states",
            "caught",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(tally, name))
        self.recovery_s += tally.recovery_s

    def cells(self) -> list[str]:
        """The line of the table."""
        return [
            self.matrix,
            self.fault,
            STORES[self.store],
            number(self.faults),
            number(self.accepted),
            number(self.commits),
            with_bound(self.lost, self.accepted),
            with_bound(self.double, self.commits),
            with_bound(self.stale, self.faults),
            number(self.refused),
            number(self.reconciled),
            spread(self.recovery_s),
        ]


def rows(tallies: Iterable[Tally]) -> list[Row]:
    """The counts, added up by fault and store, in the order of the matrix."""
    found: dict[tuple[str, str, str], Row] = {}
    for tally in tallies:
        key = (tally.matrix, tally.fault, tally.store)
        found.setdefault(key, Row(*key)).add(tally)
    return [found[key] for key in sorted(found)]


def number(count: int) -> str:
    """A count, or a dash where there is nothing to count."""
    return f"{count:,}" if count else "–"


def with_bound(count: int, chances: int) -> str:
    """A count; beside a zero what it says: the share is below 3/N, at 95 %, where N chances have passed without one."""
    if not chances:
        return "–"
    return f"{count:,}" if count else f"0 (< {3 / chances:.1g})"


def spread(seconds: Sequence[float]) -> str:
    """The median and the 99th percentile."""
    if len(seconds) < 2:
        return "–"
    cuts = quantiles(seconds, n=100, method="inclusive")
    return f"{cuts[49]:.2f} / {cuts[98]:.2f} s"


def table(lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    head, *body = list(lines)
    return "\n".join(["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]])


def page(runs: Sequence[Ran], courses: Sequence[str]) -> str:
    """The whole page: all runs, added up. `courses` are the names of all there are."""
    runs = without_repeats(runs)
    tallies = [tally for run in runs for tally in run.tallies]
    real = [row for row in rows(tallies) if not (row.seeds or row.states or row.caught)]
    total = Row("", "**all**", "model")
    for tally in tallies:
        if not (tally.seeds or tally.states or tally.caught):
            total.add(tally)
    others = [[row.fault, STORES[row.store], *said] for row in rows(tallies) for said in _exhausted(row)]
    machines = "; ".join(sorted({run.machine for run in runs}))
    hours = sum(run.minutes for run in runs) / 60
    return f"""# Proof

What was done to the engine, and what came of it. This page is written by `make torture`, from all its runs; the rows
are those of the fault matrix that [the guarantees](../explanation/guarantees.md) and
[how it is injected](../explanation/faults.md) speak of. A zero is followed by what it is worth: with 95 %
confidence the true share is below 3/N, where N is the number of accepted tasks (lost), of stage commits (double
effects) or of faults (stale commits).

{_verdict(runs, never_run(courses, runs))}

What is wanted before a release, and what there is. An hour is one of the runs that had such faults, whatever else was
done in it:

{table([AIM_HEADER, *aims.lines(runs)])}

## Faults in real processes and real databases

{table([HEADER, *(row.cells() for row in real), total.cells()])}

## Histories, states and mistakes

{table([OTHER_HEADER, *others])}

## What this does not cover

- A disk that lies: one that says a write is durable when it is not, or gives back other bytes than it was given.
- Hands in the database: rows that are deleted or edited beside the engine. `onceward verify` finds such breaches;
  the engine does not mend them.
- Effects outside of the database. A stage is executed at least once; what it does to other people's systems is done
  once only as far as these heed its idempotency key.

## The runs

{len(runs):,} runs ({machines}) took {hours:.1f} hours in all, with {total.faults / max(hours, 0.1):,.0f} faults an
hour. A run begins with courses that none has come to, so the same command, given again, adds to these counts;
`python -m tests.proof --fresh` begins anew. What had failed was mended before the course passed; mistakes of the engine
that it had found are on the page of [bugs found](bugs-found.md).

{table([COURSE_HEADER, *_courses(runs, courses)])}
"""


def _verdict(runs: Sequence[Ran], left: Sequence[str]) -> str:
    """Whether everything has passed where it was run last, and what has not been run."""
    open_ones = [
        f"- `{command}`, at commit {run.commit}"
        for number, run in enumerate(runs)
        for command in run.failed
        if passed_since(command, runs[number + 1 :]) is None
    ]
    said = ["Every course passed when it was run last." if not open_ones else "**Not everything has passed:**"]
    said += ["\n".join(open_ones)] if open_ones else []
    said += [f"No run has come to these yet: {'; '.join(left)}."] if left else []
    return "\n\n".join(said)


def _courses(runs: Sequence[Ran], courses: Sequence[str]) -> Iterable[list[str]]:
    """For each course how often it was run, and when last; and where it had failed."""
    for course in courses:
        ran = [run for run in runs if course in run.courses]
        if not ran:
            continue
        failed = dict.fromkeys(run.commit for run in ran if any(course in courses_of(one) for one in run.failed))
        yield [course, f"{len(ran):,}", ran[-1].date, ran[-1].commit, ", ".join(failed) or "–"]


def _exhausted(row: Row) -> list[list[str]]:
    said = []
    if row.seeds and row.faults:
        met = f"{row.faults:,} faults, {row.accepted:,} tasks, {row.commits:,} stage commits"
        decided = f"{row.refused:,} writes refused, {row.reconciled:,} commits in doubt reconciled"
        broken = f"lost {row.lost}, double {row.double}, stale {row.stale}"
        said.append([f"{row.seeds:,} seeds", f"{met}; {decided}; {broken}"])
    elif row.seeds:
        said.append([f"{row.seeds:,}", PASSED[row.matrix]])
    if row.states:
        said.append([f"{row.states:,} states", "every state looked at; every broken twin breaks"])
    if row.caught:
        said.append([f"{row.faults:,} mistakes put in", f"{row.caught:,} caught"])
    return said
