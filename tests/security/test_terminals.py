"""Nothing that stands in the database is obeyed by the terminal of whoever looks at it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.cli.exits import BAD_ANSWER, FINE, carried_out
from tests.hostile_texts import HOSTILE, OBEYED
from tests.security.test_every_column import fill, rich_app

TEXT = "".join(HOSTILE.values()) + "\nforged"
ROOT = Path(__file__).parents[2]
COLUMNS = (
    "task.kind", "task.key", "task.queue", "task.stage", "task.waiting_for", "task.reason", "attempt.stage",
    "attempt.note", "progress.stage", "progress.note", "refusal.kind", "refusal.reason", "batch.reason",
    "budget.unit", "cache.source", "gate.why", "gate.last_error", "schedule.kind", "schedule.expression",
    "schedule.tz", "schedule.missed", "worker.name",
)  # fmt: skip
COMMANDS = (
    "status", "tasks", "stats", "verify", "alerts", "sources", "source web", "budgets", "settings", "lineages",
    "batches", "schedules", "cache",
)  # fmt: skip


def test_no_command_writes_what_a_terminal_would_obey(
    store_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # where lines are folded, any word may begin one
    with rich_app(store_url) as app:
        fill(app)
        looked_at = app.tasks.list(limit=100)
        session = app._store.session()
        mark = "?" if session.dialect == "sqlite" else "%s"
        for table, column in (one.split(".") for one in COLUMNS):
            session.opened().execute(f"UPDATE onceward_{table} SET {column} = {mark}", (TEXT,))
        session.opened().execute(
            f"INSERT INTO onceward_setting (name, value, at, author) VALUES ({mark}, {mark}, 0, {mark})", (TEXT,) * 3
        )
        session.close()
    commands = [*COMMANDS]
    for task in looked_at:
        commands += [f"task {task.id}", f"why {task.id}", f"lineage {task.lineage}"]
    capfd.readouterr()
    seen = 0
    for command in commands:
        assert carried_out([*command.split(), "--db", store_url]) in (FINE, BAD_ANSWER), command
        screen = capfd.readouterr()
        assert carried_out([*command.split(), "--db", store_url, "--json"]) in (FINE, BAD_ANSWER), command
        document = capfd.readouterr().out
        for text in (screen.out, screen.err, document):
            assert OBEYED.search(text) is None, (command, text)
            assert "\nforged" not in text, command
        seen += r"\x1b[2J" in screen.out
        assert isinstance(json.loads(document), dict)
    assert seen > 10, "it is shown, so that one can see it"


LOGGING = """
import logging
from onceward.support.logs import EngineLog, configure
configure({form!r})
hostile = {hostile!r}
try:
    raise ValueError(hostile)
except ValueError:
    EngineLog("onceward.worker").exception("housekeeping failed", key=hostile)
    logging.getLogger("of.another.library").exception("it said %s", hostile)
EngineLog("onceward.worker").warning(hostile)
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_of_the_log_holds_what_a_terminal_would_obey(form: str) -> None:
    """An answer of a server can be in any error, and its trace in the log of whoever watches a worker."""
    program = LOGGING.format(form=form, hostile=TEXT)
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60).stderr.decode()
    assert said.count("[2J") >= 5
    assert OBEYED.search(said) is None, said


WRITES = {
    "src/onceward/terminal.py": "the one place",
    "src/onceward/support/logs.py": "the log, whose lines go through `harmless_lines`",
    "src/onceward/cli/answers.py": "keeps stdout for one document",
    "apps/src/onceward_apps/jobfinder/world/__main__.py": "tells its parent the address that it serves",
}
"""Which files may name stdout, stderr, `print` or a console of their own, and why."""


def test_only_one_place_writes_to_people() -> None:
    found = {}
    for path in sorted(path for of in (ROOT, ROOT / "apps") for path in (of / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
        wrong = calls & {"print", "Console", "sys.stdout.write", "sys.stdout.writelines", "sys.stderr.write"}
        if wrong:
            found[str(path.relative_to(ROOT))] = wrong
    assert {name: wrong for name, wrong in found.items() if name not in WRITES} == {}
