"""The panels of the live view: each makes rows of what was read, the columns that matter first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from onceward.harmless import one_line
from onceward.model.status import Status
from onceward.operations.sources import SourceState
from onceward.top.facts import Facts

LONGEST_CELL = 200
LEAST_WIDTH = 12
"""How far a column that gives way is cut."""
PADDING = 2
UNKNOWN = "–"

_STATUS_STYLE = {
    Status.RUNNING: "cyan",
    Status.RETRYABLE: "yellow",
    Status.WAITING: "magenta",
    Status.SUCCEEDED: "green",
    Status.FAILED: "bold red",
}
_SOURCE_STYLE = {
    SourceState.OPEN: "green",
    SourceState.DISABLED: "bold red",
    SourceState.HELD: "magenta",
    SourceState.PAUSED: "yellow",
    SourceState.HALF_OPEN: "yellow",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a panel."""

    key: str
    """What it is about, the same in every refresh: the cursor stays with it."""
    cells: tuple[Text, ...]
    task: int | None = None
    """The task that it shows, if it shows one."""

    @property
    def plain(self) -> str:
        """Its words, for the filter."""
        return " ".join(cell.plain for cell in self.cells).lower()


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its name, its columns, what fills them."""

    name: str
    columns: tuple[str, ...]
    right: frozenset[str]
    """The columns with numbers."""
    rows: Callable[[Facts], Iterator[Row]]
    gives_way: tuple[str, ...] = ()
    """The columns that are cut where the screen is narrow, the first ones first; the last columns are left out."""
    filter: str | None = None
    """For panels of tasks: the filter that finds them, to which what is typed is added."""
    nothing: str = "nothing"
    """What is said where there are no rows."""


def fitted(panel: Panel, rows: Sequence[Row], room: int) -> list[tuple[int, int]]:
    """Return which columns fit into a width, and how wide each is; some are cut first, then the last are left out."""
    widths = [
        max(len(name), *(row.cells[place].cell_len for row in rows), 0) for place, name in enumerate(panel.columns)
    ]
    for name in panel.gives_way:
        place = panel.columns.index(name)
        over = sum(widths) + PADDING * len(widths) - room
        if over > 0:
            widths[place] = max(min(widths[place], LEAST_WIDTH), widths[place] - over)
    while len(widths) > 1 and sum(widths) + PADDING * len(widths) > room:
        widths.pop()
    return list(enumerate(widths))


def text(value: object, style: str = "", most: int = LONGEST_CELL) -> Text:
    """Return a cell: one line, nothing that a terminal would obey, no markup."""
    line = one_line(str(value))
    return Text(line if len(line) <= most else f"{line[: most - 1]}…", style)


def number(value: int | None, style: str = "") -> Text:
    """Return a count as a cell; nothing known is a dash, and nought is dim."""
    return Text(UNKNOWN, "dim") if value is None else Text(f"{value:,}", style if value else "dim")


def span(ms: float | None) -> str:
    """Return a length of time in few letters: 173ms, 4.2s, 1m20s, 7h01m, 3d."""
    if ms is None:
        return UNKNOWN
    ms = max(ms, 0)
    if ms < 1_000:
        return f"{ms:.0f}ms"
    if ms < 10_000:
        return f"{ms / 1_000:.1f}s"
    seconds = int(ms / 1_000)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3_600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 48 * 3_600:
        return f"{seconds // 3_600}h{seconds % 3_600 // 60:02}m"
    return f"{seconds // 86_400}d"


def _ago(at: datetime | None, now: datetime) -> str:
    return UNKNOWN if at is None else span((now - at).total_seconds() * 1_000)


def _until(at: datetime | None, now: datetime) -> str:
    return "" if at is None else span((at - now).total_seconds() * 1_000)


def _seconds(value: float | None) -> Text:
    return text(span(None if value is None else value * 1_000))


def _pipelines(facts: Facts) -> Iterator[Row]:
    lines: dict[str, list[int]] = {}
    for line in facts.backlog.ready:
        kind = line.lane.partition("@")[0].removeprefix("!").partition(":")[2]
        here = lines.setdefault(kind, [0, 0, facts.now_ms])
        here[0], here[2] = here[0] + line.tasks, min(here[2], line.since)
    for lane in facts.backlog.later:
        kind = lane.lane.partition("@")[0].removeprefix("!").partition(":")[2]
        lines.setdefault(kind, [0, 0, facts.now_ms])[1] += lane.tasks
    done = {one.pipeline: one for one in facts.hour.pipelines}
    for kind in sorted({*lines, *done}, key=lambda kind: (-lines.get(kind, [0])[0], kind)):
        ready, later, since = lines.get(kind, [0, 0, facts.now_ms])
        one = done.get(kind)
        failed = 0 if one is None else one.failed
        yield Row(
            kind,
            (
                text(kind, "bold", 24),
                number(ready),
                text(span(facts.now_ms - since) if ready else UNKNOWN),
                number(later),
                number(0 if one is None else one.ended),
                number(failed, "bold red"),
                _seconds(None if one is None else one.p50_s),
                _seconds(None if one is None else one.p95_s),
                text(UNKNOWN if one is None else f"{one.cost:.2f}"),
            ),
        )


def _workers(facts: Facts) -> Iterator[Row]:
    for one in facts.workers:
        silent = one.is_silent(facts.now_ms)
        state, style = ("dead", "bold red") if one.is_dead else ("silent", "yellow") if silent else ("alive", "green")
        yield Row(
            str(one.id),
            (
                text(one.name, "bold", 28),
                Text(state, style),
                number(one.holds),
                number(one.running),
                number(one.threads),
                text(span(facts.now_ms - one.beat_at)),
                text(span(facts.now_ms - one.started_at)),
                text(f"{one.host} {one.pid}", most=30),
                text(one.queues, "dim", 40),
            ),
        )


def _sources(facts: Facts) -> Iterator[Row]:
    ordered = sorted(facts.sources, key=lambda one: (one.is_healthy, -one.waiting, one.name))
    for one in ordered:
        until = _until(one.paused_until, facts.now)
        places = UNKNOWN if one.concurrency is None else f"{one.inside}/{one.concurrency}"
        tokens = UNKNOWN if one.tokens is None else f"{one.tokens}/{one.burst}"
        yield Row(
            one.name,
            (
                text(one.name, "bold", 32),
                Text(f"{one.state.value} {until}".strip(), _SOURCE_STYLE[one.state]),
                number(one.waiting, "yellow"),
                number(one.streak, "red"),
                number(one.calls),
                number(one.failures, "red"),
                text(places),
                text(tokens),
                text(one.why or one.last_error or "", "dim"),
            ),
        )


def _budgets(facts: Facts) -> Iterator[Row]:
    for one in facts.budgets:
        used = float((one.spent + one.reserved) / one.limit) if one.limit else 1.0
        style = "bold red" if one.is_closed or one.waiting else "yellow" if used > 0.8 else "green"
        filled = min(10, round(used * 10))
        yield Row(
            f"{one.name} {one.scope}",
            (
                text(one.name, "bold", 24),
                text(one.scope or "the app", "dim", 24),
                Text("█" * filled + "░" * (10 - filled), style),
                text(f"{one.left:,}", style),
                text(f"{one.limit:,} {one.unit}"),
                text(f"{one.spent:,}"),
                text(f"{one.reserved:,}"),
                number(one.waiting, "bold red"),
                text(_until(one.resets_at, facts.now) or UNKNOWN),
            ),
        )


def _tasks(facts: Facts) -> Iterator[Row]:
    for one in facts.tasks:
        at = one.ended_at or one.started_at or one.created_at
        yield Row(
            str(one.id),
            (
                Text(str(one.id)),
                Text(one.status.word, _STATUS_STYLE.get(one.status, "")),
                text(one.kind, "bold", 30),
                text(one.key.removeprefix("https://"), most=100),
                text(_ago(at, facts.now)),
                text(one.reason or "", "dim"),
            ),
            task=one.id,
        )


_TASK_COLUMNS = ("id", "status", "kind", "key", "since", "why")
_TASK_NUMBERS, _TASK_GIVES_WAY = frozenset({"id", "since"}), ("why", "key", "kind")

PANELS = (
    Panel(
        "pipelines",
        ("pipeline", "ready", "oldest", "later", "ended", "failed", "p50", "p95", "usd"),
        frozenset({"ready", "oldest", "later", "ended", "failed", "p50", "p95", "usd"}),
        _pipelines,
        ("pipeline",),
        nothing="no work is there, and none has ended in the last hour",
    ),
    Panel(
        "workers",
        ("worker", "state", "holds", "runs", "threads", "heard", "up", "process", "queues"),
        frozenset({"holds", "runs", "threads", "heard", "up"}),
        _workers,
        ("queues", "process", "worker"),
        nothing="no worker is alive; onceward run APP starts one",
    ),
    Panel(
        "sources",
        ("source", "state", "waiting", "streak", "calls", "failures", "places", "tokens", "why"),
        frozenset({"waiting", "streak", "calls", "failures", "places", "tokens"}),
        _sources,
        ("why", "source"),
        nothing="no source was used yet",
    ),
    Panel(
        "budgets",
        ("budget", "for", "used", "left", "limit", "spent", "aside", "waiting", "anew in"),
        frozenset({"left", "limit", "spent", "aside", "waiting"}),
        _budgets,
        ("for", "budget"),
        nothing="there is no budget",
    ),
    Panel(
        "failures",
        _TASK_COLUMNS,
        frozenset({"id", "since"}),
        _tasks,
        ("why", "key", "kind"),
        "status:failed",
        "no task has failed",
    ),
    Panel(
        "open",
        _TASK_COLUMNS,
        frozenset({"id", "since"}),
        _tasks,
        ("why", "key", "kind"),
        "status:open",
        "no task is open",
    ),
)
