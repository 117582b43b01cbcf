"""docs/reference/proof.md, written from what the fault tests have counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from tests.proof import aims
from tests.proof.runs import Ran, never_run, passed_since, without_repeats
from tests.proof.tally import Tally

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "model": "–"}
RUN_HEADER = ("run on", "at commit", "minutes", "on", "courses")
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
    verdict = _verdict(runs)
    if left := never_run(courses, runs):
        verdict += f"\n\nNo run has come to these yet: {'; '.join(left)}."
    hours = sum(run.minutes for run in runs) / 60
    return f"""# Proof

What was done to the engine, and what came of it. This page is written by `make torture`, from all its runs; the rows
are those of the fault matrix that [the guarantees](../explanation/guarantees.md) and
[how it is injected](../explanation/faults.md) speak of. A zero is followed by what it is worth: with 95 %
confidence the true share is below 3/N, where N is the number of accepted tasks (lost), of stage commits (double
effects) or of faults (stale commits).

{verdict}

{table([RUN_HEADER, *(_told(run, len(courses)) for run in runs)])}

That is {hours:.1f} hours in all, with {total.faults / max(hours, 0.1):,.0f} faults an hour. A run begins with what none
has come to, so the same command, given again, adds to these counts; `python -m tests.proof --fresh` begins anew.

What is wanted before a release, and what there is. An hour is one of the runs that had such faults, whatever else was
done in it:

{table([AIM_HEADER, *aims.lines(runs)])}

## Faults in real processes and real databases

{table([HEADER, *(row.cells() for row in real), total.cells()])}

## Histories, states and mistakes

{table([OTHER_HEADER, *others])}

## What this does not cover

- A disk that lies: one that says a write is durable when it is not, or gives back other bytes than it was given.
- Hands in the database: rows that somebody deletes or edits beside the engine. `onceward verify` finds such breaches;
  the engine does not mend them.
- Effects outside of the database. A stage is executed at least once; what it does to other people's systems is done
  once only as far as these heed its idempotency key.
"""


def _verdict(runs: Sequence[Ran]) -> str:
    failed = [
        f"- `{command}`, at commit {run.commit}; {_later(passed_since(command, runs[number + 1 :]))}"
        for number, run in enumerate(runs)
        for command in run.failed
    ]
    return "\n".join(["**Not everything passed:**", "", *failed]) if failed else "Everything passed."


def _later(commit: str | None) -> str:
    return "not since" if commit is None else f"passed since, at commit {commit}"


def _told(run: Ran, courses: int) -> list[str]:
    named = f"all {courses}" if len(run.courses) == courses else "; ".join(run.courses)
    return [run.date, run.commit, f"{run.minutes:,}", run.machine, named]


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
