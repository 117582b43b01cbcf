"""Nothing in the name or the text of a file is obeyed by a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.progress import Progress

from onceward.terminal import Screen
from onceward_apps.documents.cli import ingest, main
from tests.apps.documents.shelf import Shelf, book
from tests.hostile_texts import HOSTILE, OBEYED, shown_as

NAMES = {what: f"{text.replace('/', '_')}.md" for what, text in HOSTILE.items()}
COMMANDS = (
    "status", "status {}", "show {}", "show {} --passages", "show {} --chunk 1", "search words", "connections --within",
    "export {} --format jsonl", "rm {}", "rm nothing\x1b[2J",
)  # fmt: skip


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("library_url", ["sqlite"], indirect=True)
def test_ingest_writes_nothing_that_a_terminal_would_obey(
    library_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    for place, name in enumerate(NAMES.values()):
        (tmp_path / name).write_bytes(book([place]))
    (tmp_path / "no\udcff words.md").write_bytes(b"")  # a name that is not UTF-8, of a file that cannot be read
    main(["ingest", str(tmp_path), "--processes", "1", "--library", library_url])
    said = capfd.readouterr()
    assert OBEYED.search(said.out + said.err) is None, said
    for name in NAMES.values():
        assert shown_as(name) in said.out
    main(["ingest", str(tmp_path), "--json", "--library", library_url])
    said = capfd.readouterr()
    assert OBEYED.search(said.out + said.err) is None, said
    assert {Path(line["path"]).name for line in json.loads(said.out)} == {*NAMES.values(), "no\udcff words.md"}


@pytest.mark.parametrize("library_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("what", HOSTILE)
def test_no_command_writes_what_a_terminal_would_obey(
    what: str, shelf: Shelf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    text = f"# Of {HOSTILE[what]} words\n\nSome words {HOSTILE[what]} that are said. ".encode() + book([1])
    document = shelf.add(NAMES[what], text)
    for command in COMMANDS:
        for form in ([], ["--json"]):
            main([*command.format(document).split(), *form, "--library", shelf.url])
            said = capsys.readouterr()
            assert OBEYED.search(said.out + said.err) is None, (command, said)
            assert "MarkupError" not in said.err
            if command == "rm {}":
                shelf.add(NAMES[what], text)
    for form in ("markdown", "html", "jsonl"):
        seen = _Terminal()
        monkeypatch.setattr(sys, "stdout", seen)
        assert main(["export", document, "--format", form, "--library", shelf.url]) == 0
        assert "words" in seen.getvalue()
        assert OBEYED.search(seen.getvalue()) is None, form


def test_bars_of_files_hold_nothing_that_a_terminal_would_obey() -> None:
    seen = _Terminal()
    screen = Screen(file=seen, force_terminal=True, color_system=None, width=2000)
    with ingest._Screen(screen, {}) as bars:
        progress: Progress = bars._progress
        for name in NAMES.values():
            progress.add_task(name, total=None, note=name)
        progress.refresh()
        shown = seen.getvalue()
    for name in NAMES.values():
        assert shown_as(name.replace("\x07", "").replace("\x08", "").replace("\r", "")) in shown, "rich drops these"
    assert "\x1b]0;" not in shown
    assert "\x1b]8;" not in shown
    assert not {"\x9b", "\u202e", "\u2066", "\u2028", "\x07"} & {*shown}
