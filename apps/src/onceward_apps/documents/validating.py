"""Seeing for oneself that nothing is lost: five scenarios with made documents, on a library that is thrown away.

They are those of the story that this program was written after: a document that timed out, was tried again, and came
out with a third of its chunks gone and nearly all of its connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from onceward import App, Connection, Event
from onceward_apps.documents import reads, samples, watching
from onceward_apps.documents.admitting import Admitted, Decision, admit
from onceward_apps.documents.ingesting import looked_at
from onceward_apps.documents.payloads import Options
from onceward_apps.documents.removing import remove
from onceward_apps.documents.working import kill, workers
from onceward_apps.statements import row, rows

SMALL_PAGES, LARGE_SECTIONS, SECTIONS_PER_FILE = 20, 2_000, 10
SMALL_S, REPEAT_S = 60, 10
LOOK_EVERY_S = 0.01
LONGEST_S = 600
TAKEN_BACK = (Event.RECLAIMED, Event.CRASHED, Event.LOST)


class Result(msgspec.Struct, frozen=True):
    """What a scenario has shown."""

    scenario: str
    expected: str
    found: str
    ok: bool
    seconds: float


class Validation:
    """The scenarios, in an order in which each builds on those before."""

    def __init__(self, app: App, folder: Path, *, processes: int) -> None:
        self._app = app
        self._folder = folder
        self._processes = processes
        self._ids: list[str] = []

    def results(self) -> Iterator[Result]:
        """Go through all scenarios; each result comes when it is known."""
        yield self._small()
        yield self._repeated()
        yield self._large()
        yield self._killed("killed while it is embedded", _vectors)
        yield self._killed("killed while it is read", _parts)
        yield self._connected()

    def _small(self) -> Result:
        began = time.monotonic()
        pages = [f"{samples.passage(topic)} {samples.passage(topic, 1)}" for topic in range(SMALL_PAGES)]
        self._put("small.pdf", samples.pdf(pages))
        admitted = self._ingest("small.pdf")
        self._work()
        chunks, seconds = self._chunks(admitted), time.monotonic() - began
        return Result(
            "a small PDF",
            f"complete within {SMALL_S} s",
            f"{len(chunks)} chunks in {seconds:.1f} s",
            len(chunks) >= SMALL_PAGES and seconds < SMALL_S,
            seconds,
        )

    def _repeated(self) -> Result:
        began = time.monotonic()
        tasks, paid = len(self._app.tasks.list(limit=1_000)), self._paid_calls()
        admitted = self._ingest("small.pdf")
        self._work()
        made, asked = len(self._app.tasks.list(limit=1_000)) - tasks, self._paid_calls() - paid
        seconds = time.monotonic() - began
        return Result(
            "the same PDF again",
            f"unchanged within {REPEAT_S} s, no task, no paid call",
            f"{admitted.decision} in {seconds:.1f} s, {made} tasks, {asked} paid calls",
            admitted.decision is Decision.UNCHANGED and made == 0 and asked == 0 and seconds < REPEAT_S,
            seconds,
        )

    def _large(self) -> Result:
        began = time.monotonic()
        sections = [
            (samples.word(300_000 - topic).capitalize(), samples.passage(topic, 2)) for topic in range(LARGE_SECTIONS)
        ]
        files = [sections[place : place + SECTIONS_PER_FILE] for place in range(0, LARGE_SECTIONS, SECTIONS_PER_FILE)]
        self._put("large.epub", samples.epub("A Large Book", files))
        admitted = self._ingest("large.epub")
        self._work()
        self._ids = self._chunks(admitted)
        reclaims = self._reclaims(admitted)
        seconds = time.monotonic() - began
        return Result(
            "a large book, undisturbed",
            f"{LARGE_SECTIONS} chunks, no task taken back",
            f"{len(self._ids)} chunks, taken back {reclaims} times",
            len(self._ids) == LARGE_SECTIONS and reclaims == 0,
            seconds,
        )

    def _killed(self, scenario: str, progress: Callable[[Connection, str, int], tuple[int, int]]) -> Result:
        """The large book once more from the start; all are killed when something of a stage is done, and not all."""
        began = time.monotonic()
        remove(self._app, looked_at(self._folder / "large.epub").document)
        admitted = self._ingest("large.epub")
        generation = self._app.read(reads.newest_generation, admitted.file.document)
        with workers(self._app, self._folder / "workers.log", processes=self._processes) as process:
            until = began + LONGEST_S
            while process.poll() is None and time.monotonic() < until:
                if self._app.read(progress, admitted.file.document, generation)[0]:
                    break
                time.sleep(LOOK_EVERY_S)
            kill(process)
        left, total = self._app.read(progress, admitted.file.document, generation)
        self._work()
        ids = self._chunks(admitted)
        kept = "the same chunks" if ids == self._ids else f"{len(ids)} chunks, not the same"
        return Result(
            f"the large book, {scenario}",
            "it goes on, with the same chunks",
            f"killed at {left} of {total}, then {kept}",
            ids == self._ids and 0 < left < total and self._reclaims(admitted) > 0,
            time.monotonic() - began,
        )

    def _connected(self) -> Result:
        began = time.monotonic()
        [entry] = self._app.read(reads.entries, self._ingest("small.pdf").file.document)
        refused = self._app.read(watching.refused_connections)
        deleted = sum(missing for missing, _ in self._app.read(watching.missing_chunks))
        gap_ms = (entry.connected_at or 0) - (entry.ready_at or 0)
        return Result(
            "connections",
            "found after the document was ready, none refused, no chunk deleted",
            f"{entry.connections} found, {gap_ms} ms after it was ready, {refused} refused, {deleted} deleted",
            entry.connections > 0 and gap_ms >= 0 and refused == 0 and deleted == 0,
            time.monotonic() - began,
        )

    def _put(self, name: str, content: bytes) -> None:
        (self._folder / name).write_bytes(content)

    def _ingest(self, name: str) -> Admitted:
        return admit(self._app, looked_at(self._folder / name), Options(), round(time.time() * 1_000))

    def _work(self) -> None:
        if self._app.read(reads.being_read) or self._app.read(reads.being_connected):
            with workers(self._app, self._folder / "workers.log", processes=self._processes) as process:
                process.wait(timeout=LONGEST_S)

    def _chunks(self, admitted: Admitted) -> list[str]:
        return self._app.read(_chunk_ids, admitted.file.document)

    def _reclaims(self, admitted: Admitted) -> int:
        """How often the work on a document was taken back from a worker."""
        if admitted.task is None:
            return 0
        return sum(one.event in TAKEN_BACK for one in self._app.tasks.get(admitted.task).history)

    def _paid_calls(self) -> int:
        return self._app.read(reads.counts).get("provider calls", 0)


def _parts(connection: Connection, document: str, generation: int) -> tuple[int, int]:
    statement = "SELECT count(*) FROM docs_part WHERE document = ? AND generation = ?"
    found = row(connection, statement, document, generation)
    return (0 if found is None else int(found[0])), LARGE_SECTIONS // SECTIONS_PER_FILE


def _vectors(connection: Connection, document: str, generation: int) -> tuple[int, int]:
    found = row(
        connection,
        "SELECT count(v.chunk), count(*) FROM docs_chunk c"
        " LEFT JOIN docs_vector v ON v.chunk = c.chunk AND v.generation = c.generation"
        " WHERE c.document = ? AND c.generation = ?",
        document, generation,
    )  # fmt: skip
    return (0, 0) if found is None else (int(found[0]), int(found[1]))


def _chunk_ids(connection: Connection, document: str) -> list[str]:
    found = rows(
        connection,
        "SELECT c.chunk FROM docs_chunk c JOIN docs_document d"
        " ON d.document = c.document AND d.generation = c.generation WHERE d.document = ? ORDER BY c.position",
        document,
    )
    return [chunk for (chunk,) in found]
