"""Deciding what a file is to the library: new, changed, unchanged, the same as another one.

The decision, the row of the new generation and its task are one transaction, and such transactions take turns. So two
commands that see the same file at once make one generation of it.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path

import msgspec

from onceward import App, Limits, Status
from onceward_apps.documents import reads
from onceward_apps.documents.payloads import Connecting, Ingestion, Options, PaidIngestion
from onceward_apps.documents.pipelines import PATIENCE
from onceward_apps.documents.reading import Reason
from onceward_apps.documents.writes import generation_of, take_turns
from onceward_apps.statements import change, rows
from onceward_apps.transactions import Direct, transaction

PASSING = frozenset({Reason.CHANGED, Reason.MISSING, Reason.NOT_READABLE})
"""Reasons that lie not in the content: with the same content it is tried again."""


class Decision(StrEnum):
    """What a file is to the library."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GOING_ON = "going on"
    SAME = "same as another"
    UNREADABLE = "unreadable"


class File(msgspec.Struct, frozen=True):
    """A file as it was found."""

    path: str
    content_hash: str

    @property
    def document(self) -> str:
        """The id of the document that it is."""
        return document_id(self.path)


class Admitted(msgspec.Struct, frozen=True):
    """What was decided, with the task that works on it, or the document that it is the same as."""

    file: File
    decision: Decision
    task: int | None = None
    same_as: str | None = None


def document_id(path: str) -> str:
    """The id of the document at an absolute path."""
    return "d" + hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:15]


def admit(app: App, file: File, options: Options, now: int, *, again: bool = False) -> Admitted:
    """Decide what a file is, and enqueue a task if it is new or changed, or with `again` in any case."""
    with transaction(app) as connection:
        admitted = _admit(app, connection, file, options, now, again=again)
    if admitted.decision is Decision.GOING_ON:
        return _going_on(app, admitted)
    return admitted


def _admit(app: App, connection: Direct, file: File, options: Options, now: int, *, again: bool) -> Admitted:
    document = file.document
    take_turns(connection)
    in_force = generation_of(connection, document)
    known = {
        generation: (content_hash, state, reason)
        for generation, content_hash, state, reason in rows(
            connection,
            "SELECT generation, content_hash, state, reason FROM docs_generation WHERE document = ?",
            document,
        )
    }
    newest = max(known, default=0)
    if not again:
        if in_force and known[in_force][0] == file.content_hash:
            _forget(connection, document, in_force)  # the file is again as it was: drop later generations
            _connect(app, connection, document, in_force)
            return Admitted(file, Decision.UNCHANGED)
        if newest and known[newest][0] == file.content_hash:
            _, state, reason = known[newest]
            if state == "reading":
                return Admitted(file, Decision.GOING_ON)
            if reason not in PASSING:
                return Admitted(file, Decision.UNREADABLE)
        twin = _twin(connection, file)
        if twin is not None:
            _marry(connection, file, twin, now)
            return Admitted(file, Decision.SAME, same_as=twin)
    if in_force is None:
        change(
            connection,
            "INSERT INTO docs_document (document, path, added_at) VALUES (?, ?, ?)",
            document,
            file.path,
            now,
        )
    _forget(connection, document, in_force or 0)
    change(
        connection,
        "INSERT INTO docs_generation (document, generation, content_hash, state, started_at)"
        " VALUES (?, ?, ?, 'reading', ?)",
        document, newest + 1, file.content_hash, now,
    )  # fmt: skip
    kind = PaidIngestion if options.are_paid else Ingestion
    payload = kind(document, file.path, file.content_hash, newest + 1, options)
    task = app.enqueue(payload, conn=connection.raw, limits=Limits(deadline=PATIENCE))
    return Admitted(file, Decision.CHANGED if in_force else Decision.NEW, task.id)


def _connect(app: App, connection: Direct, document: str, generation: int) -> None:
    """Enqueue a task that finds a document's connections, unless they are found or a task does so already."""
    found = rows(
        connection,
        "SELECT chunks FROM docs_generation WHERE document = ? AND generation = ? AND connected_at IS NULL",
        document, generation,
    )  # fmt: skip
    for (chunks,) in found:
        payload = Connecting(document, generation, chunks, "ingested again")
        app.enqueue(payload, conn=connection.raw, limits=Limits(deadline=PATIENCE))


def _twin(connection: Direct, file: File) -> str | None:
    """Another document with the same content, and the same ending of its name; there or on its way."""
    found = rows(
        connection,
        "SELECT d.document, d.path FROM docs_generation g JOIN docs_document d ON d.document = g.document"
        " WHERE g.content_hash = ? AND g.document <> ? AND g.state <> 'failed' ORDER BY d.added_at, d.document",
        file.content_hash, file.document,
    )  # fmt: skip
    suffix = Path(file.path).suffix.lower()
    return next((document for document, path in found if Path(path).suffix.lower() == suffix), None)


def _marry(connection: Direct, file: File, twin: str, now: int) -> None:
    """Keep that a document is the same as another one, and nothing else of it."""
    _forget(connection, file.document, 0)
    change(
        connection,
        "INSERT INTO docs_document (document, path, generation, added_at, same_as, same_hash) VALUES (?, ?, 0, ?, ?, ?)"
        " ON CONFLICT (document) DO UPDATE"
        " SET generation = 0, same_as = excluded.same_as, same_hash = excluded.same_hash",
        file.document, file.path, now, twin, file.content_hash,
    )  # fmt: skip
    change(connection, "DELETE FROM docs_generation WHERE document = ?", file.document)


def _forget(connection: Direct, document: str, in_force: int) -> None:
    """Take away what was begun or failed after the generation in force."""
    change(
        connection,
        "DELETE FROM docs_generation WHERE document = ? AND generation <> ? AND state <> 'ready'",
        document, in_force,
    )  # fmt: skip


def _going_on(app: App, admitted: Admitted) -> Admitted:
    """The task that works on a file already. One that has come to an end without reaching its goal is tried again."""
    document = admitted.file.document
    generation = app.read(reads.newest_generation, document)
    tasks = [
        task
        for kind in ("document", "paid_document")
        for task in app.tasks.list(kind=kind, key=f"{document}/{generation}", limit=1)
    ]
    if not tasks:
        return admitted
    newest = max(tasks, key=lambda task: task.id)
    if newest.status in (Status.FAILED, Status.CANCELLED):
        app.tasks.retry(newest.id)
    return Admitted(admitted.file, admitted.decision, newest.id)
