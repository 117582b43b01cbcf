"""Nothing that a web page has said is obeyed by a terminal or computed by a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from onceward_apps.jobfinder.cli import main
from onceward_apps.jobfinder.cli.telling import _as_csv
from onceward_apps.jobfinder.finder import opened
from onceward_apps.statements import change
from onceward_apps.transactions import transaction
from tests.hostile_texts import HOSTILE, OBEYED, shown_as

COMMANDS = (
    "matches", "matches --json", "companies", "companies --json", "sources", "sources --json", "approve",
    "explain 00", "explain 00 --json", "explain nothing\x1b[2J", "export", "export --format json", "export --listings",
    "export --listings --format json", "add [x]\x1b[2J.csv",
)  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_no_command_writes_what_a_terminal_would_obey(
    what: str, profile: Callable[[str], None], migrated_sqlite_url: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "2000")
    text = HOSTILE[what]
    with opened(migrated_sqlite_url, new=True) as app, transaction(app) as connection:
        change(
            connection,
            "INSERT INTO jobs_listing (listing, url, status, title, company_name, location, apply_url, created_at,"
            " reason, depth, lineage) VALUES (?, 'https://e.example/', 'active', ?, ?, ?, ?, 0, ?, 0, 'x')",
            "0" * 16, text, text, text, text, text,
        )  # fmt: skip
        why = json.dumps([{"points": 1, "rule": text, "sentence": text}])
        change(
            connection,
            "INSERT INTO jobs_match (listing, score, needed, priority, why_json, has_office, model, saved_at)"
            " VALUES (?, 90, 80, 'high', ?, 0, NULL, 0)",
            "0" * 16, why,
        )  # fmt: skip
    shown = 0
    for command in COMMANDS:
        main([*command.split(), "--db", migrated_sqlite_url])
        said = capsys.readouterr()
        assert OBEYED.search(said.out.replace("\r\n", "\n") + said.err) is None, (command, said)
        assert "MarkupError" not in said.err
        shown += shown_as(text) in said.out
    assert shown >= 2, "it is shown, so that one can see it"
    assert main(["matches", "--json", "--db", migrated_sqlite_url]) == 0
    assert json.loads(capsys.readouterr().out)[0]["title"] == text


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
        "\t=1",
        "\n=1",
        "\r=1",
        "x;=cmd|'/C calc'!A0;y",
        'x;"=1',
        "x; =1",
        "x\n=1",
        "＝1",
        "x;＋1",
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_cell_of_an_export_is_computed_whatever_parts_cells(text: str, delimiter: str) -> None:
    written = _as_csv([{"listing": "1", "title": text, "why": [{"points": 5, "sentence": text}]}])
    cells = [cell for row in csv.reader(io.StringIO(written), delimiter=delimiter) for cell in row]
    assert [
        cell for cell in cells if cell.strip(' "').startswith(("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"))
    ] == []
    [title] = [row["title"] for row in csv.DictReader(io.StringIO(written))]
    assert "1" in title or "calc" in title
