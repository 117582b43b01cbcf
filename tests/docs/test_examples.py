"""Every example in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import apsw
import psycopg
import pytest

from onceward import App
from tests.docs.pages import PAGES, ROOT, RUNS, Block, blocks_of, name_of
from tests.nursery import Process, nursery

WITH_EXAMPLES = [page for page in PAGES if any(block.language in RUNS for block in blocks_of(page))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CHECKER = doctest.OutputChecker()
POSTGRES_VARIABLE = "DATABASE_URL"
LONGEST_S = 60
SHOWN = ("", "toml", "ini", "json")
"""Blocks in these languages are pictures, or files."""
NOT_RUN = ("pip install", "make ", "git clone")
"""Commands of set-up: they are what brought this test here."""


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    blocks = blocks_of(page)
    environment = _environment()
    if any(POSTGRES_VARIABLE in block.text for block in blocks):
        environment[POSTGRES_VARIABLE] = request.getfixturevalue("postgres_url")
    with _Page(tmp_path, environment) as running:
        for block in blocks:
            if block.why_not_run is not None:
                continue
            if block.file is not None:
                _write(block, tmp_path)
            elif block.language == "python":
                _compare(block, "the block", block.output, running.run(block))
            elif block.language == "console":
                for command, said in block.commands:
                    code, printed = running.carry_out(command)
                    assert code == block.exit_code, f"{block}: {command} ended with {code}\n{printed}"
                    _compare(block, command, said, printed)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_queries_of_the_reference_run(store: str, sqlite_url: str, request: pytest.FixtureRequest) -> None:
    queries = [block for page in PAGES for block in blocks_of(page) if block.language == "sql"]
    url = sqlite_url if store == "sqlite" else request.getfixturevalue("postgres_url")
    app = App(url)
    app.migrate()
    app.close()
    connection: Any = apsw.Connection(url.removeprefix("sqlite:///")) if store == "sqlite" else psycopg.connect(url)
    for block in queries:
        if block.why_not_run is None and block.comment in ("", store):
            connection.execute(block.text.strip().rstrip(";"))
    connection.close()
    assert queries


def test_a_block_is_left_out_only_with_a_reason() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language in {*RUNS, *SHOWN}, f"{block}: is {block.language!r} run, or only shown?"
            if block.comment.startswith("not run"):
                assert block.comment.startswith("not run: "), f"{block}: <!-- not run: why -->"
                assert len(block.why_not_run or "") >= 10, f"{block}: the reason is too short to be one"


def _write(block: Block, folder: Path) -> None:
    path = folder / (block.file or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    if block.replaces is not None:
        before, rest = path.read_text(encoding="utf-8"), block.text.split("\n", 1)[1]
        assert before.count(f"{block.replaces}\n") == 1, f"{block}: {path.name} has no such line: {block.replaces}"
        path.write_text(before.replace(f"{block.replaces}\n", rest), encoding="utf-8")
    elif block.adds:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n\n{block.text}")
    else:
        path.write_text(block.text, encoding="utf-8")


def _compare(block: Block, what: str, said: str | None, printed: str) -> None:
    if said:
        wanted, found = (re.sub(r"[ \t]+$", "", text, flags=re.M).strip() + "\n" for text in (said, printed))
        assert CHECKER.check_output(wanted, found, FLAGS), (
            f"{block}: {what} is said to print\n{said}\nbut it prints\n{printed}"
        )


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
    scripts = str(Path(sys.executable).parent)
    return kept | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "140",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


class _Page:
    """What a page runs: its interpreter, and the commands beside it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._behind: list[Process] = []
        self._interpreter: Process | None = None
        self._connection = socket.socketpair()
        self._answers = self._connection[0].makefile("rb")

    def __enter__(self) -> _Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        for end in self._connection:
            end.close()
        running = [*self._behind, *([] if self._interpreter is None else [self._interpreter])]
        for process in running:
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5.0)

    def run(self, block: Block) -> str:
        """Run a block in the page's interpreter; returns what it printed."""
        if self._interpreter is None:
            theirs = self._connection[1]
            self._interpreter = self._start(
                ["python", "-m", "tests.docs.interpreter"], theirs.fileno(), theirs.fileno()
            )
            theirs.close()
        request = {"code": block.text, "line": block.line, "page": block.page}
        self._connection[0].sendall(json.dumps(request).encode() + b"\n")
        line = self._answers.readline()
        assert line, f"{block} has ended the interpreter of its page"
        answer = json.loads(line)
        assert answer["error"] is None, f"{block}\n{answer['error']}"
        printed: str = answer["printed"]
        return printed

    def carry_out(self, command: str) -> tuple[int, str]:
        """Carry out one command; returns its exit code and what it printed."""
        if command.startswith(NOT_RUN):
            _check_set_up(command)
            return 0, ""
        behind = command.endswith("&")
        command = command.removesuffix("&").replace("$!", str(self._behind[-1].pid) if self._behind else "")
        command, _, errors = command.partition(" 2> ")
        words = shlex.split(command, comments=True)
        with (self._folder / (errors.strip() or ".printed")).open("w+b") as printed:
            with open(os.devnull, "rb") as nothing:
                process = self._start(words, nothing, printed, subprocess.STDOUT)
            if behind:
                self._behind.append(process)
                return 0, ""
            code = process.wait(LONGEST_S)
            printed.seek(0)
            return code, printed.read().decode()

    def _start(
        self, argv: list[str], stdin: int | IO[bytes], stdout: int | IO[bytes], stderr: int | None = None
    ) -> Process:
        return nursery().start(
            argv,
            folder=self._folder,
            environment=self._environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            warnings_are_errors=True,
        )


def _check_set_up(command: str) -> None:
    """What is not run must at least be there."""
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in (word for word in words[1:] if "=" not in word):
            assert re.search(rf"^{target}:.*##", makefile, re.M), f"{command}: the Makefile has no {target}"
    for extra in re.findall(r"onceward\[([\w,]+)\]", command):
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        for name in extra.split(","):
            assert re.search(rf"^{name} = \[", project, re.M), f"{command}: there is no extra {name}"
