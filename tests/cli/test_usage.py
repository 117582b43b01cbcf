"""Help, exit codes and errors: what scripts and people who mistype rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onceward import App
from onceward.cli.commands import HOMES, command_line, with_commands_for
from tests.cli.conftest import Ask

COMMANDS = [
    "alerts", "approve", "batches", "budgets", "bulk", "cache", "cancel", "demo", "envelope", "import", "limits",
    "lineage", "lineages", "mcp", "migrate", "pause", "prune", "resume", "retry", "run", "schedules", "settings",
    "signal", "source", "sources", "stats", "status", "task", "tasks", "tick", "token", "top", "try", "verify", "web",
    "why",
]  # fmt: skip
ONE_TASK = {
    **{name: ["1"] for name in ("approve", "cancel", "lineage", "limits", "pause", "resume", "retry", "task", "why")},
    "signal": ["1", "go"],
}


def test_these_are_all_commands() -> None:
    with_commands_for([])
    assert sorted(name for name in command_line if not name.startswith("-")) == COMMANDS


def test_a_command_is_imported_by_the_module_that_holds_it_and_without_the_others() -> None:
    assert sorted(name for names in HOMES.values() for name in names) == COMMANDS
    code = (
        "import sys\nfrom onceward.cli.commands import HOMES, command_line, with_commands_for\n"
        "with_commands_for(['status'])\nprint(*[home for home in HOMES if f'onceward.cli.{home}' in sys.modules])\n"
        "for names in HOMES.values():\n    with_commands_for(names)\n    assert {*names} <= {*command_line}, names"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["database_commands"]), done.stderr


def test_shells_can_complete_commands() -> None:
    with_commands_for([])
    for shell in ("bash", "zsh", "fish"):
        script = command_line.generate_completion(prog_name="onceward", shell=shell)  # type: ignore[arg-type]
        assert "verify" in script, shell


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_takes_json(name: str, ask: Ask) -> None:
    answer = ask(name, "--help")

    assert answer.code == 0
    assert f"Usage: onceward {name}" in answer.out
    assert f"\nExample\n  onceward {name}" in answer.out
    assert "--json" in answer.out or name in ("mcp", "top"), "their output is a protocol, and a picture"
    assert "--debug" in answer.out
    assert ("--db" in answer.out and "--app" in answer.out) or name in ("run", "tick", "try", "demo", "envelope")


def test_without_a_command_the_help_is_shown(ask: Ask) -> None:
    answer = ask()

    assert answer.code == 0
    assert all(f"│ {name} " in answer.out for name in COMMANDS)
    assert "Exit codes" in answer.out


WRONG_USAGES = {
    "unknown command": ["tusks"],
    "unknown option": ["tasks", "--colour", "red"],
    "no number": ["task", "seven"],
    "no id at all": ["retry"],
    "a number no id can be": ["task", "99999999999999999999"],
    "unknown status": ["tasks", "--status", "asleep"],
    "which database": ["tasks"],
    "no address": ["tasks", "--db", "shop.db"],
    "another kind of database": ["tasks", "--db", "mysql://shop:secret@localhost/shop"],
    "in memory": ["tasks", "--db", "sqlite:///:memory:"],
    "no such module": ["run", "nowhere:app"],
    "no such name": ["run", "tests.cli.shop:shop"],
    "no name": ["run", "tests.cli.shop"],
    "not an app": ["tasks", "--app", "tests.cli.shop:order"],
    "no such queue": ["run", "tests.cli.shop:app", "--queues", "express"],
    "both": ["retry", "1", "--fresh", "--from-stage", "ship", "--db", "sqlite:///shop.db"],
}


@pytest.mark.parametrize("arguments", WRONG_USAGES.values(), ids=WRONG_USAGES)
def test_wrong_usage_is_one_sentence_and_code_2(arguments: list[str], ask: Ask) -> None:
    answer = ask(*arguments)

    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("onceward: ")
    assert answer.err.count("\n") == 1
    assert "secret" not in answer.err


def test_stages_are_forgotten_by_those_who_know_their_order(sqlite_url: str, ask: Ask) -> None:
    ask("migrate", "--db", sqlite_url)

    answer = ask("retry", "1", "--from-stage", "ship", "--db", sqlite_url)

    assert answer.code == 2
    assert "give --app" in answer.err


@pytest.mark.parametrize("name", ONE_TASK)
def test_a_task_that_is_not_there_is_code_1(name: str, url: str, ask: Ask) -> None:
    ask("migrate", "--db", url)

    answer = ask(name, *ONE_TASK[name], "--db", url)

    assert answer.code == 1
    assert answer.err.endswith("there is no task 1\n")


READING = [*ONE_TASK, "lineages", "prune", "status", "tasks", "verify"]


@pytest.mark.parametrize("name", READING)
def test_a_database_that_is_not_there_is_code_3_and_is_not_made(name: str, sqlite_url: str, ask: Ask) -> None:
    answer = ask(name, *ONE_TASK.get(name, []), "--db", sqlite_url)

    assert (answer.code, answer.out) == (3, "")
    assert "there is no database file" in answer.err
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


def test_a_missing_database_is_named_with_the_folder_that_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ask("tasks", "--db", "sqlite:///shop.db")

    assert f"there is no database file {tmp_path / 'shop.db'}; is this the right folder?" in answer.err


@pytest.mark.parametrize("name", [*READING, "migrate"])
def test_a_server_that_does_not_answer_is_code_3_without_its_password(name: str, ask: Ask) -> None:
    answer = ask(name, *ONE_TASK.get(name, []), "--db", "postgresql://shop:secret@127.0.0.1:1/shop")

    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("onceward: the database cannot be reached: ")
    assert answer.err.count("\n") == 1
    assert "secret" not in answer.err


def test_a_file_that_is_no_database_is_code_3(tmp_path: Path, ask: Ask) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear reader, " * 1_000)

    answer = ask("status", "--db", f"sqlite:///{file}")

    assert answer.code == 3
    assert "is not a healthy SQLite database" in answer.err


def test_an_app_that_cannot_be_imported_is_code_2(tmp_path: Path, ask: Ask) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import nothing_of_that_name\n")

    answer = ask("tasks", "--app", f"{script}:app")

    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in answer.err


@pytest.mark.parametrize("way", ["option", "environment"])
def test_the_traceback_is_shown_on_demand(way: str, sqlite_url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "environment":
        monkeypatch.setenv("ONCEWARD_DEBUG", "1")

    answer = ask("tasks", "--db", sqlite_url, *(["--debug"] if way == "option" else []))

    assert answer.code == 3
    assert "Traceback (most recent call last)" in answer.err
    assert answer.err.splitlines()[-1].startswith("onceward: there is no database file")


def test_the_database_may_be_named_by_the_environment(
    sqlite_url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_DB", sqlite_url)
    assert ask("migrate").code == 0
    assert ask("tasks").out == "no such task\n"

    monkeypatch.setenv("ONCEWARD_APP", "nowhere:app")
    assert ask("tasks").code == 2
    assert ask("tasks", "--db", sqlite_url).code == 0


@pytest.mark.parametrize("output", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(("healthy", "code"), [(True, 0), (False, 1)], ids=["fine", "a breach"])
def test_an_answer_that_is_not_read_ends_with_its_own_code(
    output: list[str], healthy: bool, code: int, worked: App
) -> None:
    if not healthy:
        worked._raw_session().opened().execute("UPDATE onceward_task SET failures = 9 WHERE id = 1")

    done = unread("verify", "--db", worked.url, *output)

    assert (done.returncode, done.stderr) == (code, "")


def test_help_that_is_not_read_is_fine() -> None:
    done = unread("--help")

    assert (done.returncode, done.stderr) == (0, "")


def unread(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a stdout whose reader has gone, as before `head`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-m", "onceward", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("module", ["onceward.cli.exits", "onceward.cli.database_commands"])
def test_an_interruption_while_the_command_is_imported_shows_no_traceback(module: str) -> None:
    code = f"""
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from onceward.cli import main
sys.exit(main(["status"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("", "onceward: interrupted\n")
