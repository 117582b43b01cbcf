"""`ingest`, `status` and `rm`, as somebody at a terminal meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward_apps.documents.app import address, library
from onceward_apps.documents.cli import ingest as ingesting
from onceward_apps.documents.cli import main
from onceward_apps.documents.ingesting import found
from onceward_apps.documents.payloads import Connecting
from onceward_apps.documents.reads import being_read, entries
from tests.apps.documents.fleet import ROOT, wait_until
from tests.apps.documents.shelf import Shelf, assert_sound, book

Ask = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def ask(library_url: str, capfd: pytest.CaptureFixture[str]) -> Ask:
    """One command line; its exit code, its JSON document, and what it says on stderr."""

    def answer(*arguments: str) -> tuple[int, Any, str]:
        capfd.readouterr()
        code = main([*arguments, "--json", "--library", library_url])
        said = capfd.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err

    return answer


def test_a_folder_is_ingested_with_whatever_is_in_it(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "books"
    (folder / "below").mkdir(parents=True)
    (folder / "one.md").write_bytes(book(range(3)))
    (folder / "below" / "two.txt").write_bytes(book(range(2), variant=1))
    (folder / "below" / "copy.md").write_bytes(book(range(3)))
    (folder / "empty.md").write_bytes(b"")
    (folder / "image.png").write_bytes(b"not taken from a folder")

    code, lines, _ = ask("ingest", "--processes", "1", str(folder), str(tmp_path / "missing.md"))

    assert code == 1, "something could not be read"
    told = {Path(line["path"]).name: line for line in lines}
    assert {name: line["state"] for name, line in told.items()} == {
        "one.md": "ready", "two.txt": "ready", "copy.md": "same", "empty.md": "unreadable", "missing.md": "unreadable",
    }  # fmt: skip
    assert told["empty.md"]["why"].startswith("empty: ")
    assert told["missing.md"]["why"] == "missing: there is no such file"
    assert told["one.md"]["chunks"] == 3
    assert told["one.md"]["connections"] == 2
    assert told["copy.md"]["why"] == f"same as {told['one.md']['document']}"

    code, lines, _ = ask("ingest", str(folder / "*.md"), str(folder / "below" / "two.txt"))
    assert code == 1
    assert sorted(line["state"] for line in lines) == ["unchanged", "unchanged", "unreadable"]

    code, told, _ = ask("status")
    assert code == 0
    assert told["counts"] == {"refused connections": 0, "chunks deleted": 0}
    assert sorted(one["state"] for one in told["documents"]) == ["ready", "ready", "same", "unreadable"]
    code, one, _ = ask("status", "one.md")
    assert (one["path"], one["headings"], one["generation"]) == (str(folder / "one.md"), 3, 1)

    code, removed, _ = ask("rm", "one.md")
    assert (code, removed) == (0, {"removed": [one["document"]]})
    code, told, _ = ask("status", "copy.md")
    assert told["state"] == "stopped"
    code, _, said = ask("rm", "one.md")
    assert code == 2
    assert "there is no document 'one.md'" in said


def test_a_document_is_ready_while_its_connections_are_found(shelf: Shelf, ask: Ask) -> None:
    admitted = shelf.ingest(shelf.put("book.md", book(range(3))))
    shelf.harness.drain(attempts=5)

    _, told, _ = ask("status", admitted.file.document)

    assert told["state"] == "ready, finding connections"
    [task] = shelf.app.tasks.list(kind="detect_connections")
    assert task.payload == Connecting(admitted.file.document, 1, 3, "document complete")
    shelf.work()
    assert ask("status", admitted.file.document)[1]["state"] == "ready"


def test_status_says_what_is_in_line_and_what_was_stopped(shelf: Shelf, ask: Ask) -> None:
    admitted = shelf.ingest(shelf.put("book.md", book(range(3))))
    assert ask("status", "book.md")[1]["state"] == "being read"
    shelf.app.tasks.cancel(admitted.task or 0, "not today")

    _, told, _ = ask("status", "book.md")

    assert (told["state"], told["why"], told["trouble"]) == ("stopped", "not today", True)


def test_connections_that_were_given_up_are_told_and_found_after_another_ingest(shelf: Shelf, ask: Ask) -> None:
    admitted = shelf.ingest(shelf.put("book.md", book(range(3))))
    shelf.harness.drain(attempts=5)
    [task] = shelf.app.tasks.list(kind="detect_connections")
    shelf.app.tasks.cancel(task.id, "not today")

    _, told, _ = ask("status", admitted.file.document)

    assert (told["state"], told["trouble"]) == ("ready, connections stopped", True)
    assert told["why"] == "not today; ingest it again"
    shelf.ingest(shelf.folder / "book.md")
    shelf.work()
    assert ask("status", admitted.file.document)[1]["state"] == "ready"


def test_only_ingest_makes_a_library(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mistyped = tmp_path / "librarry.db"
    for command in (["search", "comet"], ["status"], ["connections"], ["show", "x"], ["rm", "x"]):
        assert main([*command, "--library", str(mistyped)]) == 2
        assert f"there is no library at {mistyped}" in capfd.readouterr().err
    assert not mistyped.exists()


def test_nothing_to_ingest_is_said(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    code, _, said = ask("ingest", str(tmp_path / "nothing"))
    assert code == 1
    assert "there is nothing to ingest here" in said


def test_a_command_that_was_killed_goes_on_when_it_is_given_again(
    migrated_sqlite_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        (tmp_path / f"book{number}.md").write_bytes(book(range(number * 100, number * 100 + 40)))
    arguments = ["ingest", str(tmp_path), "--processes", "1", "--library", migrated_sqlite_url]
    command = [sys.executable, "-m", "onceward_apps.documents", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, start_new_session=True)
    with library(migrated_sqlite_url) as app:
        app.migrate()
        wait_until(lambda: bool(app.read(being_read)))
        os.killpg(process.pid, signal.SIGKILL)  # its workers are in a group of their own, and go on
        process.wait()

        assert main([*arguments, "--json"]) == 0

        assert len(json.loads(capfd.readouterr().out)) == 6
        assert {entry.state for entry in app.read(entries)} == {"ready"}
        assert {entry.chunks for entry in app.read(entries)} == {40}
        assert_sound(app)


def test_paths_are_files_folders_and_patterns_each_once(tmp_path: Path) -> None:
    (tmp_path / "below" / ".hidden").mkdir(parents=True)
    for name in ("a.md", "b.PDF", "c.png", "below/d.epub", "below/.hidden/e.md", ".f.md"):
        (tmp_path / name).touch()

    assert [path.name for path in found([str(tmp_path)]).files] == ["a.md", "b.PDF", "d.epub"]
    assert [path.name for path in found([str(tmp_path / "c.png"), str(tmp_path / "*.md")]).files] == ["c.png", "a.md"]
    assert [path.name for path in found([str(tmp_path), str(tmp_path / "a.md")]).files] == ["a.md", "b.PDF", "d.epub"]
    assert [path.name for path in found([str(tmp_path / "**" / "d*")]).files] == ["d.epub"]


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_what_is_passed_over_in_a_folder_is_named_with_its_number_and_kind(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in ("a.png", "b.PNG", "c.mobi", "README", ".hidden.png"):
        (folder / name).write_bytes(b"x")

    code, _, said = ask("ingest", str(folder))

    assert code == 1
    assert "passed over 4 files of kinds that are not read: 2 .png, 1 without an extension, 1 .mobi" in one_line(said)
    assert "there is nothing to ingest here" in said
    (folder / "one.md").write_bytes(book(range(1)))
    code, lines, said = ask("ingest", "--processes", "1", str(folder))
    assert (code, [line["state"] for line in lines]) == (0, ["ready"])
    assert "passed over 4 files" in said


def test_a_folder_is_searched_for_every_format_that_is_read(tmp_path: Path) -> None:
    for ending in (".docx", ".odt", ".text", ".mkd"):
        (tmp_path / f"one{ending}").touch()
    assert {path.suffix for path in found([str(tmp_path)]).files} == {".docx", ".odt", ".text", ".mkd"}


def test_a_pattern_that_matches_nothing_is_an_error_that_names_it(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "one.md").write_bytes(book(range(1)))
    code, lines, _ = ask("ingest", "--processes", "1", str(tmp_path / "*.epub"), str(tmp_path / "*.md"))
    assert code == 1
    assert {(line["path"], line["state"], line["why"]) for line in lines} == {
        (str(tmp_path / "*.epub"), "unreadable", "missing: no file matches this pattern"),
        (str(tmp_path / "one.md"), "ready", ""),
    }


def test_ingest_without_arguments_says_what_to_give(ask: Ask) -> None:
    code, _, said = ask("ingest")
    assert code == 2
    assert "name files, folders or patterns" in said


def test_links_that_lead_out_of_a_folder_are_followed_only_when_asked(ask: Ask, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for one in (outside / "deep", folder / "below"):
        one.mkdir(parents=True)
    (outside / "secret.txt").write_bytes(book(range(1), variant=1))
    (outside / "deep" / "far.md").write_bytes(book(range(1), variant=2))
    (folder / "below" / "own.md").write_bytes(book(range(2)))
    (folder / "notes.txt").symlink_to(outside / "secret.txt")
    (folder / "deep").symlink_to(outside / "deep")
    (folder / "lost.md").symlink_to(outside / "nothing.md")
    (folder / "within.md").symlink_to(folder / "below" / "own.md")
    (folder / "round").symlink_to(folder)

    code, lines, said = ask("ingest", "--processes", "1", str(folder))

    assert sorted(Path(line["path"]).name for line in lines) == ["own.md", "within.md"]
    assert sorted(line["state"] for line in lines) == ["ready", "same"]
    assert code == 0
    passed_over = "passed over 3 links that lead out of the folder: deep, lost.md, notes.txt (--follow-links)"
    assert passed_over in one_line(said)
    by_pattern = found([str(folder / "*.txt"), str(folder / "**")])
    assert {path.name for path in by_pattern.files if path.suffix} == {"own.md", "within.md"}
    assert {path.name for path in by_pattern.links} >= {"notes.txt", "deep", "lost.md"}
    assert [path.name for path in found([str(folder / "notes.txt")]).files] == ["notes.txt"], "it is named itself"
    followed = found([str(folder)], follow_links=True)
    assert sorted(path.name for path in followed.files) == ["far.md", "lost.md", "notes.txt", "own.md", "within.md"]
    assert followed.links == []
    _, lines, _ = ask("ingest", "--follow-links", "--processes", "1", str(folder))
    assert {Path(line["path"]).name for line in lines} == {
        "far.md", "lost.md", "notes.txt", "own.md", "within.md",
    }  # fmt: skip


def test_a_file_that_changes_while_it_is_read_is_read_anew_by_the_same_command(
    ask: Ask, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shelf.put("book.md", book(range(3)))
    shelf.ingest(path)
    path.write_bytes(book(range(2), variant=1))
    work = ingesting._work

    def changing(*arguments: Any) -> int:
        if not rewritten:
            rewritten.append(path.write_bytes(book(range(4), variant=2)))
        return work(*arguments)

    rewritten: list[int] = []
    monkeypatch.setattr(ingesting, "_work", changing)

    code, [line], said = ask("ingest", "--processes", "1", str(path))

    assert (code, line["state"], line["chunks"]) == (0, "ready", 4)
    assert "book.md could not be read" in said
    assert "book.md is done" in said


def test_a_file_that_cannot_be_read_is_not_called_done(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7 and no more")
    code, [line], said = ask("ingest", "--processes", "1", str(tmp_path))
    assert (code, line["state"]) == (1, "unreadable")
    assert "bad.pdf could not be read" in said
    assert "is done" not in said


def test_tables_show_warnings_and_fit_80_columns(
    shelf: Shelf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = shelf.put("the long name of a document that was saved by a program without much thought.log", book([1]))
    for command in (["ingest", "--processes", "1", str(path), str(shelf.put("empty.md", b""))], ["status"]):
        main([*command, "--library", shelf.url])
        said = capsys.readouterr().out
        assert "    warning: it is named .log, and was read as text\n" in said
        assert "    empty: it has no bytes\n" in said
        assert max(map(len, said.splitlines())) <= 80, said
        assert len([line for line in said.splitlines() if line.startswith("d")]) == 3, said


def test_a_library_is_a_file_or_an_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ONCEWARD_DOCS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert address() == f"sqlite:///{tmp_path}/onceward-docs/library.db"
    monkeypatch.setenv("ONCEWARD_DOCS", "postgresql://host/books")
    assert address() == "postgresql://host/books"
    assert address("/srv/books.db") == "sqlite:////srv/books.db"
