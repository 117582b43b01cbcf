"""Mistakes that are put into a copy of the source on purpose, and the tests that must find them.

A mutant is a few exact replacements. Each must match exactly once, in a file or in one named query of a `.sql` file, so
that a mutant whose place has changed says so instead of doing nothing. The source itself is never touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onceward"
WIDER = ("tests/unit", "tests/store", "tests/worker", "tests/property", "tests/faults")
"""Where it is looked for a test that finds a mutant if those that should have not."""
LONGEST_S = 1_800.0


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in a file of the package, or in one query of it."""

    file: str
    old: str
    new: str
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake in the protocol."""

    name: str
    about: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    """Those that are expected to find it."""
    dialect: str | None = None
    """Where it must be found, if that is one database alone."""


def on_each_database(mutant: Mutant) -> list[Mutant]:
    """A mistake that is spelled for both databases, in one of them at a time: each must be found by itself."""
    found = []
    for dialect, other in (("sqlite", "postgres"), ("postgres", "sqlite")):
        if any(dialect in edit.file for edit in mutant.edits):
            edits = tuple(edit for edit in mutant.edits if other not in edit.file)
            found.append(replace(mutant, name=f"{mutant.name} ({dialect})", edits=edits, dialect=dialect))
    return found or [mutant]


class DoesNotApply(Exception):
    """The source has changed where a mutant would change it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests have said."""

    caught_by: str | None
    tests: str
    """Which tests were asked: the narrow list, or all."""
    seconds: float


def edited(text: str, edit: Edit) -> str:
    """A file with a mistake in it."""
    start, end = 0, len(text)
    if edit.query is not None:
        found = re.search(rf"^-- name: {edit.query}\n(?:(?!^-- name: ).*\n?)*", text, re.M)
        if found is None:
            raise DoesNotApply(f"{edit.file}: there is no query {edit.query}")
        start, end = found.span()
    part = text[start:end]
    if part.count(edit.old) != 1:
        where = edit.file if edit.query is None else f"{edit.file}, {edit.query}"
        raise DoesNotApply(f"{where}: found {part.count(edit.old)} times, not once: {edit.old!r}")
    return text[:start] + part.replace(edit.old, edit.new) + text[end:]


def changed_files(mutant: Mutant, source: Path = SOURCE) -> dict[str, str]:
    """The files that a mutant changes, as they are then."""
    files: dict[str, str] = {}
    for edit in mutant.edits:
        text = files.get(edit.file) or (source / edit.file).read_text(encoding="utf-8")
        files[edit.file] = edited(text, edit)
    return files


@contextmanager
def copied(mutant: Mutant | None) -> Iterator[Path]:
    """A copy of the project with a mutant in it, or as it is."""
    with tempfile.TemporaryDirectory(prefix="onceward-mutant-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "examples"):
            shutil.copytree(ROOT / name, copy / name)
        shutil.copy2(ROOT / "pyproject.toml", copy)
        for file, text in {} if mutant is None else changed_files(mutant).items():
            (copy / "src" / "onceward" / file).write_text(text, encoding="utf-8")
        yield copy


def hunt(mutant: Mutant, *, wider: bool = True) -> Verdict:
    """Have the tests look for a mutant: those that should find it, and then all others."""
    began = time.monotonic()
    there = [] if mutant.dialect is None else ["-k", mutant.dialect]
    with copied(mutant) as copy:
        caught_by = run(copy, mutant.tests, there)
        if caught_by is not None or not wider:
            return Verdict(caught_by, "narrow", time.monotonic() - began)
        return Verdict(run(copy, WIDER, [*there, "-n", "2", "--dist", "loadgroup"]), "wider", time.monotonic() - began)


def run(copy: Path, tests: Sequence[str], options: Sequence[str]) -> str | None:
    """The first test of some that fails in a copy; None if all of them pass."""
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-m", "not torture", "--timeout=120", *options,
        *tests,
    ]  # fmt: skip
    here = {**os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        done = subprocess.run(
            command, cwd=copy, env=here, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return "the tests did not come to an end"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", done.stdout, re.M)
    if failed is not None:
        return failed[1]
    if "Timeout" in done.stdout + done.stderr:
        return "a test that did not come to an end"
    raise RuntimeError(f"the tests could not be run:\n{done.stdout}{done.stderr}")
