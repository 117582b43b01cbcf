"""What `--json` prints: plain values under stable keys, times in ISO 8601 (UTC), durations in seconds (`…_s`).

A key, once here, keeps its name and its meaning; new ones may join.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from onceward.authoring.pipeline import Pipeline
from onceward.client.batch import BatchStatus
from onceward.client.importing import Imported
from onceward.model.status import Event, Status
from onceward.model.times import moment
from onceward.store.reports.tasks import Backlog, WorkerRow
from onceward.terminal import print_json
from onceward.views.task import Task, shown

if TYPE_CHECKING:
    from onceward.store.verify.verify import Report

Document = dict[str, Any]

_STAGE_ENDS = frozenset({Event.STAGE_COMMITTED, Event.HANDED_OVER, Event.FINISHED})


def print_document(document: Document) -> None:
    """Write a document to stdout, and nothing else."""
    print_json(document)


def iso(at: datetime | None) -> str | None:
    """A time, with its zone."""
    return None if at is None else at.isoformat(timespec="milliseconds")


def batch_document(batch: BatchStatus) -> Document:
    """A batch as it is listed."""
    return {
        "id": batch.id,
        "name": batch.name,
        "status": batch.status,
        "reason": batch.reason,
        "total": batch.total,
        "open": batch.open,
        "done": batch.done,
        "progress": round(batch.progress, 4),
        "succeeded": batch.succeeded,
        "filtered": batch.filtered,
        "skipped": batch.skipped,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "refused": batch.refused,
        "deadline": iso(batch.deadline),
        "created_at": iso(batch.created_at),
        "ended_at": iso(batch.ended_at),
        "then": batch.then,
    }


def task_document(task: Task, now: datetime) -> Document:
    """A task as it is listed."""
    return {
        "id": task.id,
        "kind": task.kind,
        "key": task.key,
        "status": task.status.word,
        "stage": task.stage,
        "reason": task.reason,
        "run": task.run,
        "queue": task.queue,
        "priority": task.priority,
        "failures": task.failures,
        "crashes": task.crashes,
        "deferrals": task.deferrals,
        "lineage": str(task.lineage),
        "parent": task.parent,
        "depth": task.depth,
        "waiting_for": task.waiting_for,
        "paused": task.is_paused,
        "cost_usd": float(task.cost),
        "worker": task.worker,
        "heartbeat_at": iso(task.heartbeat_at),
        "heartbeat_age_s": _seconds_between(task.heartbeat_at, now),
        "due_at": iso(task.due_at),
        "scheduled_at": iso(task.scheduled_at),
        "created_at": iso(task.created_at),
        "started_at": iso(task.started_at),
        "ended_at": iso(task.ended_at),
    }


def whole_task_document(task: Task, payload: bytes, pipeline: Pipeline[Any] | None, now: datetime) -> Document:
    """A task with all that is stored of it. Without its pipeline the stages are those that have run."""
    return {
        **task_document(task, now),
        "payload": shown(payload),
        "stages": stages_of(task, pipeline),
        "progress": None
        if task.progress is None
        else {
            "stage": task.progress.stage,
            "done": task.progress.done,
            "total": task.progress.total,
            "note": task.progress.note,
            "at": iso(task.progress.at),
        },
        "history": [
            {
                "at": iso(one.at),
                "event": one.event.word,
                "status": one.status.word,
                "stage": one.stage,
                "run": one.run,
                "fence": one.fence,
                "worker": one.worker,
                "note": one.note,
                "trace": one.trace,
            }
            for one in task.history
        ],
    }


def stages_of(task: Task, pipeline: Pipeline[Any] | None) -> list[Document]:
    """The stages of a task's present run, in order: finished, current or to come."""
    ended: dict[str, datetime] = {}
    for one in task.history:
        if one.event is Event.REOPENED:
            ended = {name: at for name, at in ended.items() if one.run == task.run and name in task.results}
        elif one.run == task.run and one.event in _STAGE_ENDS and one.stage is not None:
            ended[one.stage] = one.at
    names = list(ended)
    if pipeline is not None:
        declared = [stage.name for stage in pipeline.stages]
        names = [*declared, *(name for name in names if name not in declared)]
    current = None if task.status.is_terminal else task.stage or (names[0] if pipeline is not None else None)
    if current is not None and current not in names:
        names.append(current)
    return [
        {
            "name": name,
            "state": _state(name, task, ended, current),
            "ended_at": iso(ended.get(name)),
            "result": task.results.get(name),
        }
        for name in names
    ]


def _state(name: str, task: Task, ended: dict[str, datetime], current: str | None) -> str:
    if name == current:
        return "current"
    if name not in ended:
        return "not run" if task.status.is_terminal else "to come"
    is_last = task.status.is_terminal and name == task.stage
    return "finished" if not is_last or task.status is Status.SUCCEEDED else task.status.word


def worker_document(worker: WorkerRow, now: datetime) -> Document:
    """A living worker."""
    beat_at = moment(worker.beat_at)
    return {
        "id": worker.id,
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "kinds": _names(worker.kinds),
        "queues": _names(worker.queues),
        "holds": worker.holds,
        "running": worker.running,
        "threads": worker.threads,
        "lease_s": worker.lease_ms / 1_000,
        "started_at": iso(moment(worker.started_at)),
        "heartbeat_at": iso(beat_at),
        "heartbeat_age_s": _seconds_between(beat_at, now),
        "silent": is_silent(worker, now),
        "dead": worker.is_dead,
    }


def is_silent(worker: WorkerRow, now: datetime) -> bool:
    """Whether the heartbeats of a worker have stayed away for half its lease."""
    return worker.is_silent(round(now.timestamp() * 1_000))


def status_document(
    place: str, counts: dict[Status, int], backlog: Backlog, workers: list[WorkerRow], now: datetime
) -> Document:
    """How things stand."""
    oldest_ms = backlog.oldest_ready_ms(round(now.timestamp() * 1_000))
    return {
        "at": iso(now),
        "database": place,
        "tasks": {status.word: counts[status] for status in Status},
        "total": sum(counts.values()),
        "backlog": {
            "ready": backlog.ready_tasks,
            "later": backlog.later_tasks,
            "parked": backlog.parked,
            "oldest_ready_s": None if oldest_ms is None else max(0, oldest_ms) / 1_000,
            "lines": [
                {
                    **lane_parts(line.lane),
                    "priority": line.priority,
                    "tasks": line.tasks,
                    "since": iso(moment(line.since)),
                }
                for line in backlog.ready
            ],
            "due": [
                {**lane_parts(lane.lane), "tasks": lane.tasks, "next_at": iso(moment(lane.next_at))}
                for lane in backlog.later
            ],
        },
        "workers": [worker_document(worker, now) for worker in workers],
    }


def lane_parts(lane: str) -> Document:
    """Queue and kind of a line, and whether it is the one in which suspects of a crash stand."""
    queue, _, kind = lane.removeprefix("!").partition(":")
    return {"queue": queue, "kind": kind, "suspects": lane.startswith("!")}


def report_document(place: str, report: Report) -> Document:
    """What verify found."""
    return {
        "ok": report.ok,
        "at": iso(moment(report.at)),
        "database": place,
        "tasks": report.tasks,
        "claims": report.claims,
        "events": report.events,
        "checkpoints": report.checkpoints,
        "checks": [
            {
                "name": check.name,
                "meaning": check.meaning,
                "checked": check.checked,
                "broken": check.broken,
                "breaches": [{"tasks": list(breach.tasks), "sentence": breach.sentence} for breach in check.breaches],
            }
            for check in report.checks
        ],
    }


def _seconds_between(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, round((now - at).total_seconds(), 3))


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def import_document(report: Imported) -> Document:
    """What came of an import. Of the lines that could not be read, the first are named."""
    return {
        "lines": report.lines,
        "imported": report.total,
        "created": report.created,
        "existing": report.existing,
        "bad": report.bad,
        "problems": [{"line": one.line, "reason": one.reason} for one in report.problems],
    }
