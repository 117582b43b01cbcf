"""`onceward-docs ingest`: bring files into the library, and work until they are there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from onceward import App
from onceward.harmless import harmless
from onceward.terminal import console, print_json
from onceward_apps.documents import reads
from onceward_apps.documents.admitting import Admitted, Decision, admit
from onceward_apps.documents.app import opened
from onceward_apps.documents.cli.documents_table import documents_table
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where, complain
from onceward_apps.documents.ingesting import Found, found, looked_at
from onceward_apps.documents.payloads import Options
from onceward_apps.documents.reading import Reason, Unreadable
from onceward_apps.documents.standing import is_trouble, standing, task_of
from onceward_apps.documents.working import workers
from onceward_apps.speaking import BAD_ANSWER, FINE, NOTHING_SAID, WRONG_USAGE, Flag, Output

LOOK_EVERY_S = 0.25
SHOWN_AT_ONCE = 12
MOST_ROUNDS = 3
"""How often a file that changes while it is read is read anew by one command."""

Line = dict[str, Any]


def ingest(
    *paths: Annotated[str, Parameter(help="Files, folders with all that is below them, or patterns.")],
    processes: Annotated[int, Parameter(validator=Number(gte=1, lte=64), help="How many processes work.")] = 2,
    again: Annotated[bool, Flag, Parameter(help="Read the files again, also if they have not changed.")] = False,
    follow_links: Annotated[bool, Flag, Parameter(help="Follow links in folders that lead out of the folder.")] = False,
    embedding: Annotated[
        str, Parameter(help="A model of a provider that makes the vectors, instead of the one that works offline.")
    ] = "",
    cleaning: Annotated[str, Parameter(help="A model of a provider that repairs headings and scanner's noise.")] = "",
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """Bring files into the library: EPUB, PDF, Word, LibreOffice, HTML, Markdown, text.

    What is there and has not changed is left alone. If it is interrupted, or killed, the same command goes on.

    A provider is asked at OPENAI_BASE_URL with OPENAI_API_KEY, if a model is named.
    """
    if not paths:
        complain("name files, folders or patterns to ingest, as in: onceward-docs ingest ~/books")
        return WRONG_USAGE
    screen = console(to_stderr=output.json)
    with opened(where.library, new=True) as app:
        meant = found(paths, follow_links=follow_links)
        admitted, refused = _admit_all(app, meant, options := Options(embedding, cleaning), again=again)
        for sentence in meant.passed_over_told():
            screen.print(harmless(sentence), markup=False, highlight=False)
        if not admitted and not refused:
            complain("there is nothing to ingest here")
            return BAD_ANSWER
        log = Path(tempfile.mkdtemp(prefix="onceward-docs-")) / "workers.log"
        code = _work(app, admitted, log, processes, screen)
        for _ in range(MOST_ROUNDS - 1):
            if code or not _admit_changed(app, admitted, options):
                break
            code = _work(app, admitted, log, processes, screen)
        outcome = _outcome(app, admitted, refused)
    if output.json:
        print_json(outcome)
    else:
        screen.print(documents_table([{**one, "file": Path(one["path"]).name} for one in outcome], "file"))
    if code == 0:
        shutil.rmtree(log.parent)
    else:
        complain(f"the workers ended with code {code}; their log is {log}")
    return BAD_ANSWER if code or any(one["trouble"] for one in outcome) else FINE


def _admit_all(
    app: App, meant: Found, options: Options, *, again: bool
) -> tuple[list[Admitted], list[tuple[str, Unreadable]]]:
    """Enqueue a task for every file that needs one."""
    admitted, refused = [], []
    for path in meant.files:
        try:
            file = looked_at(path)
        except Unreadable as error:
            refused.append((str(path), error))
        else:
            admitted.append(admit(app, file, options, round(time.time() * 1_000), again=again))
    nothing = Unreadable(Reason.MISSING, "no file matches this pattern")
    return admitted, refused + [(pattern, nothing) for pattern in meant.unmatched]


def _admit_changed(app: App, admitted: list[Admitted], options: Options) -> bool:
    """Admit the files again that have changed while they were read; returns whether there were any."""
    entries = {entry.document: entry for entry in app.read(reads.entries)}
    changed = [
        one
        for one in admitted
        if (entry := entries.get(one.file.document)) is not None
        and Reason.CHANGED in (entry.newer_reason, entry.reason if entry.generation == 0 else None)
    ]
    for one in changed:
        with suppress(Unreadable):  # it is gone by now: the reason of the reading that failed stands
            admit(app, looked_at(Path(one.file.path)), options, round(time.time() * 1_000))
    return bool(changed)


def _work(app: App, admitted: list[Admitted], log: Path, processes: int, screen: Console) -> int:
    """Work until nothing is left, and show how it goes; returns how the workers ended."""
    if not app.read(reads.being_read) and not app.read(reads.being_connected):
        return 0
    names = {one.file.document: Path(one.file.path).name for one in admitted}
    with workers(app, log, processes=processes) as process, _Screen(screen, names) as bars:
        while process.poll() is None:
            bars.show(app)
            try:
                process.wait(timeout=LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
        bars.show(app)
        return process.returncode


class _Screen:
    """A bar for all documents and one for each in progress; without a terminal, plain lines."""

    def __init__(self, screen: Console, names: dict[str, str]) -> None:
        self._screen = screen
        self._names = names
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            TimeElapsedColumn(),
            console=screen,
            disable=not screen.is_terminal,
            transient=True,
        )
        self._overall = self._progress.add_task("all documents", total=None, note="")
        self._bars: dict[int, TaskID] = {}
        self._open: set[str] = set()
        self._total = 0

    def __enter__(self) -> _Screen:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, app: App) -> None:
        """Look, and show what is seen."""
        reading, connecting = app.read(reads.being_read), app.read(reads.being_connected)
        if not self._screen.is_terminal and (ended := sorted(self._open - reading)):
            unread = app.read(reads.unread)
            for document in ended:
                how = "could not be read" if document in unread else "is done"
                self._screen.print(f"{self._names.get(document, document)} {how}")
        self._open = reading
        self._total = max(self._total, len(reading))
        note = f"finding connections of {len(connecting)}" if connecting else ""
        self._progress.update(self._overall, total=self._total, completed=self._total - len(reading), note=note)
        running = app.tasks.list(status="running", limit=SHOWN_AT_ONCE)
        for task in running:
            told = app.tasks.get(task.id).progress
            bar = self._bars.get(task.id)
            if bar is None:
                document = task.key.partition("/")[0]
                bar = self._bars[task.id] = self._progress.add_task(
                    self._names.get(document, document), total=None, note=""
                )
            self._progress.update(
                bar,
                note=told.note if told and told.note else task.stage or "",
                completed=told.done if told else 0,
                total=told.total if told else None,
            )
        for gone in set(self._bars) - {task.id for task in running}:
            self._progress.remove_task(self._bars.pop(gone))


def _outcome(app: App, admitted: list[Admitted], refused: list[tuple[str, Unreadable]]) -> list[Line]:
    """What became of each file."""
    entries = {entry.document: entry for entry in app.read(reads.entries)}
    lines: list[Line] = []
    for one in admitted:
        entry = entries.get(one.file.document)
        if entry is None:
            lines.append(_line(one.file.path, one.file.document, "removed", "it was removed meanwhile"))
            continue
        task = task_of(app, entry)
        word, why = standing(entry, task)
        trouble = is_trouble(entry, task)
        if one.decision is Decision.UNCHANGED and not trouble:
            word, why = "unchanged", "" if entry.connected_at else word
        about = msgspec.json.decode(entry.about) if entry.about else {}
        lines.append(
            {
                **_line(one.file.path, entry.document, word, why, trouble=trouble),
                "words": entry.words,
                "chunks": entry.chunks,
                "connections": entry.connections,
                "warnings": about.get("warnings") or [],
            }
        )
    for path, error in refused:
        lines.append(_line(path, None, "unreadable", f"{error.reason}: {error.detail}", trouble=True))
    return lines


def _line(path: str, document: str | None, word: str, why: str, *, trouble: bool = False) -> Line:
    return {
        "path": path,
        "document": document,
        "state": word,
        "why": why,
        "words": None,
        "chunks": None,
        "connections": None,
        "warnings": [],
        "trouble": trouble,
    }
