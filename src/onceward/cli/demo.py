"""The demo: 300 tasks on three worker processes, one of which is killed in the middle; then everything is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onceward import terminal
from onceward.app import App
from onceward.cli import demo_app, documents, screens, tables, target_app
from onceward.cli.exits import BAD_ANSWER, FINE
from onceward.model.connection import Connection
from onceward.model.status import Event, Status
from onceward.store.reports.tasks import WorkerRow
from onceward.store.verify.verify import Report

PROCESSES = 3
CONCURRENCY = 12
NAME = "worker"
VICTIM = f"{NAME}/2"
KILL_AT = 0.35
"""After which part of all stages a worker is killed."""
LONGEST_S = 120.0
LOOK_EVERY_S = 0.15
LINE_EVERY_S = 1.5
BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Look:
    """How things stand at one moment."""

    at_s: float
    counts: dict[Status, int]
    rows: Counter[str]
    workers: list[WorkerRow]

    @property
    def rows_written(self) -> int:
        """How many stages have committed."""
        return self.rows.total()


@dataclass(frozen=True, slots=True)
class Kill:
    """The worker that was killed."""

    name: str
    pid: int
    running: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the balance: what there should be, and what there is."""

    what: str
    expected: int | str
    found: int

    @property
    def ok(self) -> bool:
        """Whether it is as it should be; where no number was expected, anything but nothing."""
        return self.found == self.expected if isinstance(self.expected, int) else self.found > 0


@dataclass(slots=True)
class Story:
    """What has happened so far, for those who watch."""

    looks: list[Look] = field(default_factory=list)
    events: list[tuple[float, Text]] = field(default_factory=list)
    killed: Kill | None = None
    seen: set[str] = field(default_factory=set)

    def tell(self, at_s: float, text: Text) -> None:
        """Something worth a line of its own."""
        self.events.append((at_s, text))

    @property
    def commits_per_s(self) -> float:
        """How many stages have been committed a second, over the last second or so."""
        last = self.looks[-1]
        first = next((look for look in self.looks if look.at_s >= last.at_s - 1.2), last)
        span_s = last.at_s - first.at_s
        return (last.rows_written - first.rows_written) / span_s if span_s > 0 else 0.0


def perform(*, as_json: bool) -> int:
    """Run the demo; the exit code is 1 if anything is off."""
    console = terminal.console(to_stderr=as_json)
    folder = Path(tempfile.mkdtemp(prefix="onceward-demo-"))
    url = f"sqlite:///{folder / 'demo.db'}"
    app = demo_app.demo_app(url)
    try:
        offers = list(demo_app.offers())
        ids = [enqueued.id for enqueued in app.enqueue_many(offers)]
        wanted = dict(zip(ids, offers, strict=True))
        console.print(Text.assemble(("database  ", "dim"), url))
        console.print(
            Text.assemble(
                ("work      ", "dim"),
                f"{len(ids)} offers, {' → '.join(stage.name for stage in demo_app.offer.stages)}, "
                f"{sum(len(demo_app.stages_of(one)) for one in offers)} stages to commit",
            )
        )
        started = time.monotonic()
        story, code = _watch(app, wanted, url, folder, console)
        seconds = time.monotonic() - started
        if code != 0:
            _show_log(console, folder, code)
        report = app.verify()
        balance = _balance(app, wanted, story)
    finally:
        app.close()
    ok = code == 0 and report.ok and all(line.ok for line in balance)
    if as_json:
        documents.print_document(_document(url, seconds, story, balance, report, ok=ok))
    else:
        _show_balance(console, url, seconds, balance, report, ok=ok)
    return FINE if ok else BAD_ANSWER


# Running


def _watch(
    app: App, wanted: dict[int, demo_app.Offer], url: str, folder: Path, console: Console
) -> tuple[Story, int | None]:
    """Start the workers, watch them, kill one, let the others finish; returns how their supervisor ended."""
    total = sum(len(demo_app.stages_of(one)) for one in wanted.values())
    story = Story()
    screen = _Screen(story, wanted, total)
    started = time.monotonic()
    with _supervisor(url, folder) as process, screen.on(console):
        while process.poll() is None and time.monotonic() - started < LONGEST_S:
            look = _look(app, time.monotonic() - started)
            story.looks.append(look)
            _notice_newcomers(story, look)
            if story.killed is None and look.rows_written >= total * KILL_AT:
                story.killed = _kill_one(app, look, story)
            screen.update()
            time.sleep(LOOK_EVERY_S)
        story.looks.append(_look(app, time.monotonic() - started))
        screen.update()
        return story, process.poll()


@contextmanager
def _supervisor(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable, "-m", "onceward", "run", "onceward.cli.demo_app:app", "--processes", str(PROCESSES),
        "--concurrency", str(CONCURRENCY), "--until-idle", "--name", NAME, "--log-json",
    ]  # fmt: skip
    with (folder / "workers.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, demo_app.VARIABLE: url}
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _look(app: App, at_s: float) -> Look:
    return Look(at_s, app.stats.counts(), Counter(app.read(_rows_by_stage)), app.workers.list())


def _rows_by_stage(connection: Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT stage, count(*) FROM demo_step GROUP BY stage").fetchall())


def _notice_newcomers(story: Story, look: Look) -> None:
    for worker in look.workers:
        if worker.name not in story.seen:
            story.seen.add(worker.name)
            if story.killed is not None:
                what = (
                    "runs what was running in it, apart from the rest"
                    if "suspects" in worker.name
                    else "takes its place"
                )
                story.tell(look.at_s, Text.assemble((worker.name, "bold"), f" {what}"))


def _kill_one(app: App, look: Look, story: Story) -> Kill | None:
    """Kill a worker in the middle of its work; None while there is none to be killed."""
    busy = sorted((one for one in look.workers if one.pid and one.holds), key=lambda one: one.name != VICTIM)
    for worker in busy[:1]:
        running = target_app.running_in(app, worker.id)
        try:
            os.kill(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        number = worker.name.removeprefix(f"{NAME}/")
        tasks = f"it was running {running} tasks"
        story.tell(look.at_s, Text(f"killed worker {number} (pid {worker.pid}) with SIGKILL, {tasks}", "bold red"))
        return Kill(worker.name, worker.pid, running, look.at_s)
    return None


# Watching


class _Screen:
    """Shows a story while it happens: moving on a terminal, line by line elsewhere."""

    def __init__(self, story: Story, wanted: dict[int, demo_app.Offer], total: int) -> None:
        self._story = story
        self._total = total
        self._by_stage = Counter(stage for one in wanted.values() for stage in demo_app.stages_of(one))
        self._live: Live | None = None
        self._console: Console | None = None
        self._told = 0
        self._line_at = 0.0

    def on(self, console: Console) -> AbstractContextManager[Any]:
        """Show it there."""
        self._console = console
        if not console.is_terminal:
            return nullcontext()
        self._live = Live(console=console, refresh_per_second=12)
        return self._live

    def update(self) -> None:
        """The story has gone on."""
        if self._live is not None:
            self._live.update(self._frame())
        else:
            self._print_lines()

    def _frame(self) -> Group:
        look = self._story.looks[-1]
        bars = Table.grid(padding=(0, 1))
        for stage, wanted in self._by_stage.items():
            done = look.rows[stage]
            bars.add_row(
                Text(f"{stage:8}", "bold"), ProgressBar(wanted, done, width=BAR_WIDTH), Text(f"{done:4} of {wanted}")
            )
        parts: list[Any] = [Text(), bars, Text(), self._counts(look), self._workers(look), Text()]
        for at_s, text in self._story.events:
            parts.append(Text.assemble((f"{at_s:5.1f}s  ", "dim"), text))
        return Group(*parts)

    def _counts(self, look: Look) -> Text:
        text = Text(f"{look.at_s:5.1f}s  ", "dim")
        for status, count in look.counts.items():
            if count:
                text.append(f"{count} {status.word}  ", screens.STATUS_STYLE[status])
        return text.append(f"{self._story.commits_per_s:.0f} commits/s", "bold")

    def _workers(self, look: Look) -> Text:
        text = Text("        ")
        for worker in look.workers:
            text.append("● ", "green")
            text.append(f"{worker.name} holds {worker.holds}  ")
        if not look.workers:
            text.append("no workers", "dim")
        return text

    def _print_lines(self) -> None:
        assert self._console is not None
        look = self._story.looks[-1]
        for at_s, text in self._story.events[self._told :]:
            self._console.print(Text.assemble(f"{at_s:5.1f}s  ", text))
        self._told = len(self._story.events)
        if look.at_s >= self._line_at:
            self._line_at = look.at_s + LINE_EVERY_S
            self._console.print(
                f"{look.at_s:5.1f}s  {look.rows_written} of {self._total} stages committed, "
                f"{len(look.workers)} workers alive, {self._story.commits_per_s:.0f} commits/s"
            )


# Counting


def _balance(app: App, wanted: dict[int, demo_app.Offer], story: Story) -> list[Line]:
    """What there should be after the last task, and what there is."""
    histories = [app.tasks.get(task_id).history for task_id in wanted]
    events = Counter(one.event for history in histories for one in history)
    pairs = Counter(app.read(_all_rows))
    counts = app.stats.counts()
    unwanted = sum(one.trouble == "unwanted" for one in wanted.values())
    should = {(task_id, stage) for task_id, one in wanted.items() for stage in demo_app.stages_of(one)}
    return [
        Line("tasks succeeded", len(wanted) - unwanted, counts[Status.SUCCEEDED]),
        Line("tasks filtered by a rule", unwanted, counts[Status.FILTERED]),
        Line("tasks failed, lost or left over", 0, _others(counts)),
        Line("rows written", len(should), pairs.total()),
        Line("rows missing", 0, len(should - set(pairs))),
        Line("rows written twice", 0, sum(count - 1 for count in pairs.values())),
        Line("retries after an error", sum(map(demo_app.failures_of, wanted.values())), events[Event.RETRY_SCHEDULED]),
        Line("polls of a page that was late", demo_app.POLLS, events[Event.DEFERRED]),
        Line("workers killed", 1, int(story.killed is not None)),
        Line("tasks taken back from it", "some", events[Event.RECLAIMED] + events[Event.CRASHED]),
    ]


def _all_rows(connection: Connection) -> list[tuple[int, str]]:
    return [(task, stage) for task, stage in connection.execute("SELECT task, stage FROM demo_step").fetchall()]


def _others(counts: dict[Status, int]) -> int:
    return sum(count for status, count in counts.items() if status not in (Status.SUCCEEDED, Status.FILTERED))


def _show_balance(
    console: Console, url: str, seconds: float, balance: Sequence[Line], report: Report, *, ok: bool
) -> None:
    rows = [
        (line.what, str(line.expected), str(line.found), Text("ok", "green") if line.ok else Text("OFF", "bold red"))
        for line in balance
    ]
    table = tables.table(("", "expected", "found", " "), rows, right=("expected", "found"))
    console.print()
    console.print(table)
    for part in list(screens.report_screen(report))[0 if not report.ok else -1 :]:
        console.print(part)
    verdict = "nothing was lost, nothing was done twice" if ok else "something is off"
    console.print(Text.assemble((verdict, "bold green" if ok else "bold red"), f", in {seconds:.1f} s"))
    # Not broken where the terminal is narrow, so that they can be copied.
    console.print(Text.assemble(("\nlook around  ", "dim"), f"onceward tasks --db {url}"), soft_wrap=True)
    console.print(Text.assemble(("             ", "dim"), f"onceward task 10 --db {url}"), soft_wrap=True)
    console.print(Text.assemble(("dashboard    ", "dim"), f"onceward web --db {url}"), soft_wrap=True)


def _show_log(console: Console, folder: Path, code: int | None) -> None:
    ended = "did not end in time" if code is None else f"ended with code {code}"
    console.print(Text(f"the workers' supervisor {ended}; the end of its log:", "bold red"))
    for line in (folder / "workers.log").read_text(errors="replace").splitlines()[-15:]:
        console.print(Text(line))


def _document(
    url: str, seconds: float, story: Story, balance: Sequence[Line], report: Report, *, ok: bool
) -> documents.Document:
    killed = story.killed
    return {
        "ok": ok,
        "database": url,
        "seconds": round(seconds, 3),
        "killed": None if killed is None else {"worker": killed.name, "pid": killed.pid, "running": killed.running},
        "balance": [
            {"what": line.what, "expected": line.expected, "found": line.found, "ok": line.ok} for line in balance
        ],
        "verify": documents.report_document(url, report),
    }
