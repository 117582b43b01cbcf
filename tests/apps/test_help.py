"""The help of every command of the applications: its examples are its own, and can be carried out."""

from __future__ import annotations

import re
import shlex

import pytest
from cyclopts import App as CommandLine

from onceward_apps.documents.cli.commands import commands as documents
from onceward_apps.jobfinder.cli.commands import command_line as jobs

LINES = {"onceward-docs": documents, "onceward-jobs": jobs()}
COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""What a console that an earlier test has forced to be a terminal writes between the words."""
COMMANDS = [(program, name) for program, line in LINES.items() for name in line if not name.startswith("-")]


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_the_examples_of_a_command_are_its_own_and_can_be_parsed(
    program: str, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    line: CommandLine = LINES[program]
    line([command, "--help"], exit_on_error=False, print_error=False)
    said = COLOUR.sub("", capsys.readouterr().out)
    examples = re.findall(rf"^  ({program} .*?)\s*$", said.partition("\nExample\n")[2], re.MULTILINE)
    assert examples, said
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])[1:]
        assert words[0] == command
        line.parse_args(words, exit_on_error=False, print_error=False)
