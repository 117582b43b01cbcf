"""What people see: tables with colours on a terminal, plain columns where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onceward.authoring.pipeline import Pipeline
from onceward.cli.documents import Document, is_silent, lane_parts, stages_of
from onceward.cli.tables import GAP, LEAST_WIDTH, heading, table
from onceward.cli.words import age, as_json_text, shortened, time_of
from onceward.client.batch import BatchStatus
from onceward.client.importing import Imported
from onceward.harmless import harmless, harmless_lines, one_line
from onceward.model.decide import wait_text
from onceward.model.status import Event, Status
from onceward.model.times import moment
from onceward.store.reports.tasks import Backlog, WorkerRow
from onceward.terminal import console
from onceward.views.task import Task
from onceward.views.why import note_text

if TYPE_CHECKING:
    from onceward.store.verify.verify import Report
    from onceward.views.envelope import Envelope

RESULT_LENGTH = 200
NOTE_LENGTH = 500

STATUS_STYLE = {
    Status.PENDING: "default",
    Status.RUNNING: "cyan",
    Status.RETRYABLE: "yellow",
    Status.WAITING: "magenta",
    Status.SUCCEEDED: "green",
    Status.FILTERED: "dim",
    Status.SKIPPED: "dim",
    Status.FAILED: "bold red",
    Status.CANCELLED: "dim",
}
_TROUBLE = frozenset({Event.RETRY_SCHEDULED, Event.TIMED_OUT, Event.CRASHED, Event.RECLAIMED, Event.LOST})
_LEFT_OUT_FIRST = ("heartbeat", "created", "ended", "stage", "worker")
_BATCH_STYLE = {"open": "cyan", "succeeded": "green", "partial": "yellow", "failed": "bold red"}
_STATE_STYLE = {"finished": "green", "current": "cyan", "failed": "bold red"}


def batches_table(batches: Sequence[BatchStatus], now: datetime) -> Table:
    """Batches, one a line."""
    return table(
        (
            "name",
            "status",
            "done",
            "of",
            "%",
            "ok",
            "failed",
            "cancelled",
            "created",
            "left",
            "deadline",
            "ended",
            "then",
            "why",
        ),
        (
            (
                one_line(batch.name),
                Text(batch.status, _BATCH_STYLE[batch.status]),
                f"{batch.done:,}",
                f"{batch.total:,}",
                f"{int(batch.progress * 100)}",
                f"{batch.succeeded + batch.filtered + batch.skipped:,}",
                f"{batch.failed:,}",
                f"{batch.cancelled:,}",
                time_of(batch.created_at, now),
                "" if (left := batch.time_left(now)) is None else age(left),
                "" if batch.deadline is None else time_of(batch.deadline, now),
                "" if batch.ended_at is None else time_of(batch.ended_at, now),
                "" if batch.then is None else str(batch.then),
                batch.reason or (f"{batch.refused:,} refused" if batch.refused else ""),
            )
            for batch in batches
        ),
        right=("done", "of", "%", "ok", "failed", "cancelled", "then"),
        cut=("name",),
        folded=("why",),
        first_out=("created", "deadline", "ended", "cancelled", "ok", "then", "%"),
    )


def status_text(status: Status) -> Text:
    """A status in its colour."""
    return Text(status.word, STATUS_STYLE[status])


# Tasks


def tasks_screen(tasks: Sequence[Task], now: datetime, *, stuck: bool = False) -> Iterable[RenderableType]:
    """Tasks, one a line. On a terminal a column in which nothing stands, or for which there is no room, is left out."""
    rows = [_task_cells(task, now, stuck=stuck) for task in tasks]
    names = list(rows[0]) if rows else []
    left_out = []
    if sys.stdout.isatty():
        names = [name for name in names if any(row[name] for row in rows)]
        for name in _LEFT_OUT_FIRST:
            if name in names and _width(rows, names) > console().width:
                names.remove(name)
                left_out.append(name)
    cells = ([row[name] for name in names] for row in rows)
    yield table(names, cells, right=("id", "since"), cut=("key",), folded=("why",))
    if left_out:
        yield Text(f"no room here for: {', '.join(left_out)}; a wider terminal or --json has it all", "dim")


def _width(rows: Sequence[dict[str, Text]], names: Sequence[str]) -> int:
    """How wide the columns are if those that can give way do."""
    natural = {name: max(len(name), *(row[name].cell_len for row in rows)) for name in names}
    return sum(GAP + (min(width, LEAST_WIDTH) if name in ("key", "why") else width) for name, width in natural.items())


def _task_cells(task: Task, now: datetime, *, stuck: bool) -> dict[str, Text]:
    beat = task.heartbeat_at
    cells: dict[str, str | Text] = {
        "id": str(task.id),
        "kind": task.kind,
        "key": one_line(task.key),
        "status": status_text(task.status),
        "stage": task.stage or "",
        "worker": task.worker or "",
        "heartbeat": "" if beat is None else time_of(beat, now),
        "since": "" if beat is None else age(now - beat),
        "created": time_of(task.created_at, now),
    }
    if not stuck:
        cells["ended"] = "" if task.ended_at is None else time_of(task.ended_at, now)
        cells["why"] = why_of(task, now)
    return {name: cell if isinstance(cell, Text) else Text(cell) for name, cell in cells.items()}


def why_of(task: Task, now: datetime) -> str:
    """Why a task stands where it stands, as far as its row tells."""
    if task.status is Status.SUCCEEDED:
        return ""
    parts = ["paused"] if task.is_paused else []
    if task.reason:
        parts.append(one_line(task.reason))
    if task.due_at is not None and task.due_at > now:
        parts.append(f"due in {age(task.due_at - now)}")
    return ", ".join(parts)


def task_screen(task: Task, payload: bytes, pipeline: Pipeline[Any] | None, now: datetime) -> Iterable[RenderableType]:
    """One task with everything."""
    yield Text.assemble((f"task {task.id}", "bold"), "  ", one_line(task.kind), "  ", status_text(task.status))
    yield _fields(task, payload, now)
    stages = stages_of(task, pipeline)
    if stages:
        yield heading("Stages")
        yield _stages_table(stages, now)
    if task.progress is not None:
        yield heading("Progress")
        yield _progress_text(task, now)
    if task.history:
        yield heading("History", f"{len(task.history)} event{'s' * (len(task.history) != 1)}")
        yield _history_table(task, now)
    traces = [one for one in task.history if one.trace is not None]
    if traces:
        yield heading("Traceback", f"of the last failure, stage {one_line(traces[-1].stage or '')}")
        yield Text(harmless_lines(traces[-1].trace or ""))


def _fields(task: Task, payload: bytes, now: datetime) -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    when = {
        "created": task.created_at,
        "first started": task.started_at,
        "due": task.due_at,
        "scheduled": task.scheduled_at,
        "ended": task.ended_at,
        "last heartbeat": task.heartbeat_at,
    }
    values: dict[str, str | None] = {
        "key": one_line(task.key),
        "payload": shortened(payload.decode(), NOTE_LENGTH),
        "stage": task.stage,
        "reason": task.reason and one_line(task.reason),
        "waiting for": task.waiting_for and wait_text(task.waiting_for),
        "paused": "yes" if task.is_paused else None,
        "cost": f"{task.cost:,f} USD" if task.cost else None,
        "worker": task.worker,
        "queue": f"{task.queue}, priority {task.priority}",
        "run": str(task.run),
        "counted": f"failures {task.failures}, crashes {task.crashes}, deferrals {task.deferrals}",
        "lineage": f"{task.lineage}, depth {task.depth}" + (f", parent {task.parent}" if task.parent else ""),
        **{name: None if at is None else _dated(at, now) for name, at in when.items()},
    }
    for name, value in values.items():
        if value:
            made.add_row(name, Text(harmless(value)))
    return made


def _dated(at: datetime, now: datetime) -> str:
    distance = f"in {age(at - now)}" if at > now else f"{age(now - at)} ago"
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}, {distance}"


def _stages_table(stages: Iterable[Document], now: datetime) -> Table:
    rows = [
        (
            stage["name"],
            Text(stage["state"], _STATE_STYLE.get(stage["state"], "dim")),
            "" if stage["ended_at"] is None else time_of(datetime.fromisoformat(stage["ended_at"]), now),
            "" if stage["result"] is None else shortened(as_json_text(stage["result"]), RESULT_LENGTH),
        )
        for stage in stages
    ]
    return table(("stage", "state", "ended", "result"), rows, folded=("result",))


def _progress_text(task: Task, now: datetime) -> Text:
    progress = task.progress
    assert progress is not None
    of = "" if progress.total is None else f" of {progress.total}"
    note = f", {one_line(progress.note)}" if progress.note else ""
    return Text(f"stage {one_line(progress.stage)}: {progress.done}{of}{note} ({age(now - progress.at)} ago)")


def _history_table(task: Task, now: datetime) -> Table:
    rows = [
        (
            _exact(one.at, now),
            Text(one.event.word, "yellow" if one.event in _TROUBLE else ""),
            status_text(one.status),
            one.stage or "",
            str(one.run),
            str(one.fence) if one.fence else "",
            one_line(one.worker or ""),
            shortened(note_text(one.event, one.note) if one.note else "", NOTE_LENGTH),
        )
        for one in task.history
    ]
    columns = ("at", "event", "status", "stage", "run", "claim", "worker", "note")
    out = ("run", "claim", "status", "worker")
    return table(columns, rows, right=("run", "claim"), cut=("worker",), folded=("note",), first_out=out)


def _exact(at: datetime, now: datetime) -> str:
    local = at.astimezone()
    day = "" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d} "
    return f"{day}{local:%H:%M:%S}.{local.microsecond // 1000:03d}"


# How things stand


def status_screen(
    place: str, counts: dict[Status, int], backlog: Backlog, workers: Sequence[WorkerRow], now: datetime
) -> Iterable[RenderableType]:
    """Counts, backlog, workers."""
    yield Text.assemble(("onceward", "bold"), (f"  {place}", "dim"))
    yield heading("Tasks", f"{sum(counts.values())} in all")
    yield counts_table(counts)
    yield heading("Backlog", _backlog_summary(backlog, now))
    if backlog.ready or backlog.later:
        yield _backlog_table(backlog, now)
    yield heading("Workers", _workers_summary(workers, now))
    if workers:
        yield workers_table(workers, now)


def _workers_summary(workers: Sequence[WorkerRow], now: datetime) -> str:
    """How many workers are alive, silent and dead."""
    dead = sum(worker.is_dead for worker in workers)
    silent = sum(is_silent(worker, now) and not worker.is_dead for worker in workers)
    alive = len(workers) - dead - silent
    counted = [f"{alive} alive" if alive else "none is alive: onceward run APP starts one"]
    counted += [f"{silent} silent"] if silent else []
    counted += [f"{dead} dead, and the next worker takes over what it held"] if dead else []
    return ", ".join(counted)


def counts_table(counts: dict[Status, int]) -> Table:
    """How many tasks stand where."""
    rows = [
        (Text(status.word, STATUS_STYLE[status] if count else "dim"), Text(str(count), "" if count else "dim"))
        for status, count in counts.items()
    ]
    return table(("status", "tasks"), rows, right=("tasks",))


def _backlog_summary(backlog: Backlog, now: datetime) -> str:
    parked = f"{backlog.parked:,} parked: what is stored does not fit the code" if backlog.parked else ""
    if not backlog.ready_tasks and not backlog.later_tasks:
        return parked or "empty"
    text = f"{backlog.ready_tasks} could run now, {backlog.later_tasks} may run later{parked and f', {parked}'}"
    oldest = min((line.since for line in backlog.ready), default=None)
    return text if oldest is None else f"{text}; the oldest has been ready for {age(now - moment(oldest))}"


def _backlog_table(backlog: Backlog, now: datetime) -> Table:
    rows = []
    for line in backlog.ready:
        parts = lane_parts(line.lane)
        since = f"ready for {age(now - moment(line.since))}"
        when = f"{since}, suspected of a crash" if parts["suspects"] else since
        rows.append((parts["queue"], parts["kind"], str(line.priority), str(line.tasks), when))
    for lane in backlog.later:
        parts = lane_parts(lane.lane)
        at = moment(lane.next_at)
        when = f"the first in {age(at - now)}" if at > now else "due"
        rows.append((parts["queue"], parts["kind"], "", str(lane.tasks), when))
    return table(("queue", "kind", "priority", "tasks", "when"), rows, right=("priority", "tasks"), folded=("when",))


def workers_table(workers: Sequence[WorkerRow], now: datetime) -> Table:
    """Who works, and on how much."""
    rows = []
    for worker in workers:
        beat_at = moment(worker.beat_at)
        rows.append(
            (
                one_line(worker.name),
                one_line(worker.host),
                str(worker.pid) if worker.pid else "starting",
                str(worker.holds),
                "" if worker.running is None else str(worker.running),
                "" if worker.threads is None else str(worker.threads),
                time_of(beat_at, now),
                _since(worker, now),
                age(now - moment(worker.started_at)),
                worker.kinds.replace(",", ", "),
            )
        )
    columns = ("worker", "host", "pid", "holds", "runs", "threads", "heartbeat", "since", "alive for", "kinds")
    numbers = ("pid", "holds", "runs", "threads", "since", "alive for")
    out = ("heartbeat", "alive for", "host", "pid", "kinds")
    return table(columns, rows, right=numbers, cut=("worker", "host"), folded=("kinds",), first_out=out)


def _since(worker: WorkerRow, now: datetime) -> Text:
    """How long ago a worker has shown that it lives, and whether it still does."""
    since = age(now - moment(worker.beat_at))
    if worker.is_dead:
        return Text(f"dead, {since}", "bold red")
    return Text(f"silent, {since}", "bold red") if is_silent(worker, now) else Text(since)


# Verify


def report_screen(report: Report) -> Iterable[RenderableType]:
    """What verify checked, and what it found."""
    rows = [
        (
            Text(check.name, "bold red" if check.broken else ""),
            f"{check.checked:,}",
            Text(f"{check.broken:,}", "bold red" if check.broken else "green"),
            Text(one_line(check.meaning), "" if check.broken else "dim"),
        )
        for check in report.checks
    ]
    yield table(("check", "checked", "breaches", "promise"), rows, right=("checked", "breaches"), folded=("promise",))
    for check in report.checks:
        for breach in check.breaches:
            yield Text.assemble((f"{check.name}: ", "bold red"), one_line(breach.sentence))
        if check.broken > len(check.breaches):
            yield Text(f"{check.name}: and {check.broken - len(check.breaches)} more", "red")
    yield verdict_text(report)


def verdict_text(report: Report) -> Text:
    """The verdict in one sentence, with the tasks that are concerned."""
    if report.ok:
        return Text.assemble(
            ("\nevery promise holds", "bold green"),
            f" for {report.tasks:,} tasks, {report.claims:,} claims, {report.events:,} events, "
            f"{report.checkpoints:,} checkpoints",
        )
    tasks = sorted({task for check in report.checks for breach in check.breaches for task in breach.tasks})
    named = f" in tasks {', '.join(map(str, tasks))}" if tasks else ""
    return Text.assemble((f"\n{sum(check.broken for check in report.checks)} breaches", "bold red"), named)


def envelope_screen(envelope: Envelope) -> Iterable[RenderableType]:
    """What one root can come to at worst."""
    head, *rows = envelope.rows
    yield table(head, rows, right=head[1:])
    yield Text(f"\n{envelope.sentence}")
    if envelope.polls is None:
        yield Text("a stage that is put off by Waiting(after=…) makes no attempt; nothing bounds how often", "dim")
    yield Text()
    what, *figures = envelope.hourly.rows
    yield table(what, figures, right=what[1:])
    yield Text()
    for sentence in envelope.hourly.sentences:
        yield Text(sentence)
    yield Text("calls that a stage does not make through ctx are not counted", "dim")
    for source in envelope.hourly.sources:
        if source.calls is not None:
            yield Text(f"source {source.name}: at most {source.calls:,} calls an hour, each instance of it", "dim")


def import_screen(report: Imported) -> Iterable[RenderableType]:
    """What came of an import."""
    made = ", ".join(f"{count:,} {word}" for word, count in report.created.items())
    yield Text.assemble(
        ("imported ", "green"), f"{report.total:,} of {report.lines:,} lines", f": {made}" if made else ""
    )
    if report.existing:
        yield Text(f"{report.existing:,} were there already", "dim")
    if report.bad:
        yield Text(f"{report.bad:,} could not be read", "bold red")
