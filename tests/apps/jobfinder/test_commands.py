"""The command line, as people and scripts use it: real processes for `run`, the same code in this one for the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward import ConfigError
from onceward.terminal import show
from onceward_apps.jobfinder import importing, listing_rows, source_rows
from onceward_apps.jobfinder.cli import main
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.identities import listing_id
from onceward_apps.jobfinder.importing import BadRow, Row, companies_in
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import Match
from onceward_apps.jobfinder.reasons import Reason
from onceward_apps.jobfinder.source_rows import SourceName
from onceward_apps.speaking import table
from onceward_apps.transactions import transaction
from tests.apps.jobfinder.conftest import PROFILE
from tests.apps.jobfinder.loopback import World, job

STACK = "Python, PostgreSQL, Docker, Go and Redis in our Portland office"


class Commands:
    """`onceward-jobs` on one database; what it said last."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        found = main([*words, "--db", self.url])
        said = self._capsys.readouterr()
        self.error = said.err
        assert found == code, said
        return said.out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code))


@pytest.fixture
def jobs(
    url: str, profile: Callable[[str], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    monkeypatch.setenv("COLUMNS", "200")  # where tests run in several processes it is 80, and titles are folded
    return Commands(url, capsys)


def test_from_a_file_of_companies_to_a_report(
    jobs: Commands, world: World, tmp_path: Path, profile: Callable[[str], None]
) -> None:
    board = world.greenhouse("acme", [
        job(1), job(2, "Junior Accountant", location={"name": "Berlin"}), job(3, "<b>Backend</b> Engineer II"),
    ])  # fmt: skip
    website = world.company("Acme", board=board, stack=STACK)
    medium = world.company("Globex", board='<a href="https://jobs.lever.co/globex">Jobs</a>')
    file = tmp_path / "companies.csv"
    file.write_text(f"name,website\nAcme,{website}\nGlobex,{medium}\nNobody,\nBad,http://[,\n", encoding="utf-8")
    told = jobs.json("add", str(file), code=1)
    assert told["added"] == 2
    assert [(one["line"], one["reason"]) for one in told["bad"]] == [
        (4, "it has no website"),
        (5, "it has 3 columns, the first row has 2"),
    ]
    assert jobs("add", website) == "added 0, 1 known already\n"

    told = jobs.json("run", "--processes", "1")
    assert told["matches"] == 2
    assert told["listings"] == {"active": 2, "filtered": 1}
    assert told["waiting_for_approval"] == 1

    best, other = jobs.json("matches")
    assert (best["title"], best["score"], best["priority"], best["tier"]) == (
        "Senior Backend Engineer",
        100,
        "high",
        "S",
    )
    assert {one["rule"] for one in best["why"]} >= {"skills", "place", "company"}
    assert "Senior Backend Engineer" in jobs("matches")
    assert "it names python (10)" in jobs("explain", best["listing"][:8])
    filtered = jobs.json("explain", job(2)["absolute_url"])
    assert filtered["status"] == "filtered"
    assert {one["rule"] for one in filtered["strikes"]} >= {"seniority", "place"}
    assert filtered["tasks"][0]["status"] == "filtered"

    first, second = jobs.json("companies")
    assert (first["name"], first["tier"], second["name"]) == ("Acme", "S", "Globex")
    assert "postgresql" in jobs("companies")
    assert [(one["source"], one["awaits_approval"]) for one in jobs.json("sources")] == [
        ("lever:globex", True), ("greenhouse:acme", False),
    ]  # fmt: skip
    assert "waits for approval" in jobs("approve")
    assert jobs("approve", "lever:globex") == "approved lever:globex\n"
    assert jobs("approve") == "no source waits for approval\n"
    assert jobs("sources", "--enable", "greenhouse:acme") == "nothing was enabled\n"

    lines = jobs("export").splitlines()
    assert lines[0].startswith("listing,score,needed,priority,title")
    assert len(lines) == 3
    assert len(json.loads(jobs("export", "--listings", "--format", "json"))) == 3
    page = tmp_path / "matches.html"
    assert jobs("report", str(page)) == f"wrote 2 matches to {page}\n"
    html = page.read_text(encoding="utf-8")
    assert "<h1>2 matches</h1>" in html
    assert "3 listings: 2 active, 1 filtered." in html
    assert "<summary>+40 title, +25 skills" in html
    assert "<b>Backend</b>" not in html
    assert "&lt;b&gt;Backend&lt;/b&gt;" in html or "Backend Engineer" in html
    assert "default-src 'none'" in html
    assert html.count("http-equiv") == 1
    assert "<script" not in html
    assert "src=" not in html.replace("default-src", "").replace("style-src", "")
    assert other["listing"]

    profile(PROFILE.replace('["mid", "senior"]', '["senior"]') + "[settings]\nfilter.strike_threshold = 3\n")
    assert "the profile has changed: 3 listings are judged anew" in jobs("run", "--processes", "1")
    assert [one["title"] for one in jobs.json("matches")] == [best["title"]]


def test_what_comes_from_the_web_is_shown_as_it_is_and_commands_no_terminal(
    jobs: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show("Engineer [/] [red]now[/red] \x1b[2J", table(("title",), [("[/bold] \x1b]0;x\x07",)]))
    name = listing_id("https://acme.example/1")
    with opened(jobs.url) as app, transaction(app) as connection:
        listing_rows.begin_listing(connection, name, "https://acme.example/1", Origin(None, None, 0, 1))
        found = Listing(url="https://acme.example/1", title="Engineer [/] \x1b[2J[red]", company="Acme")
        match = Match(score=90, needed=80, priority="high", why=(Reason(90, "skills", "all of [them]"),))
        more = {"at": 1, "judged_by": "x", "score": 90, "why": match.why}
        listing_rows.decide(connection, name, "active", None, found, more)
        listing_rows.save_match(connection, name, None, match, None, 1)
    told = jobs("matches")
    assert r"Engineer [/] [red]now[/red] \x1b[2J" in told
    assert r"Engineer [/] \x1b[2J[red]" in told
    assert r"[/bold] \x1b]0;x\x07" in told
    assert name[:10] in told
    told += jobs("explain", name[:10])
    assert " +90  skills: all of [them]" in told
    assert "points, 90 in all, 80 needed" in told
    assert "\x1b" not in told


def test_what_is_wrong_with_a_source_has_a_line_of_its_own(jobs: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with opened(jobs.url) as app, transaction(app) as connection:
        name = SourceName("lever:acme", "lever", "acme", "https://jobs.lever.co/acme", "medium")
        source_rows.begin_source(connection, name, None, Origin(None, None, 0, 1), False)
        source_rows.reject_source(connection, "lever:acme", "gone: it answered 404", 1)
    assert jobs("sources").splitlines()[-2:] == ["    lever:acme", "    gone: it answered 404"]


def test_a_run_that_is_ended_ends_its_workers(jobs: Commands, world: World) -> None:
    world.company("Acme")
    command = [sys.executable, "-m", "onceward_apps.jobfinder", "run", "--forever", "--processes", "1"]
    process = subprocess.Popen([*command, "--db", jobs.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with opened(jobs.url) as app:
        until = time.monotonic() + 60
        while not app.workers.list() and time.monotonic() < until:
            time.sleep(0.05)
        assert app.workers.list()
        process.terminate()
        assert process.wait(timeout=60) == 130
        assert app.workers.list() == []


def test_commands_that_cannot_be_meant_say_why(jobs: Commands, tmp_path: Path) -> None:
    jobs("explain", "nothing", code=2)
    assert "there is no listing 'nothing'" in jobs.error
    jobs("explain", "https://acme.example/jobs/1", code=2)
    assert "there is no listing https://" in jobs.error
    jobs("add", str(tmp_path / "missing.csv"), code=2)
    assert "cannot be opened" in jobs.error
    jobs("add", "not a website", code=1)
    assert "not a website: " in jobs.error
    jobs("approve", "lever:nobody", code=2)
    assert "there is no such source" in jobs.error
    jobs("approve", "x", "--all", code=2)
    assert "name sources, or say --all" in jobs.error
    assert jobs.json("matches") == []
    assert "there is no match yet" in jobs("matches")


def test_a_profile_that_cannot_be_meant_stops_everything_with_a_sentence(
    jobs: Commands, profile: Callable[[str], None]
) -> None:
    profile("[skills]\npython = 5\n[settings]\nmatch.min_score = 200")
    jobs("run", code=2)
    assert "match.min_score=200 cannot be reached: a listing scores at most 100" in " ".join(jobs.error.split())


def test_settings_that_were_changed_to_what_cannot_be_reached_stop_a_run(jobs: Commands) -> None:
    with opened(jobs.url) as app:
        app.settings.set("match.min_score", 110)
    jobs("run", code=2)
    assert "match.min_score=110 cannot be reached" in jobs.error


def test_init_writes_a_profile_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "me.toml"
    assert main(["init", str(path)]) == 0
    assert "# The person for whom onceward-jobs looks for jobs." in path.read_text(encoding="utf-8")
    assert main(["init", str(path)]) == 1
    assert "--force writes over it" in capsys.readouterr().err
    assert main(["init", str(path), "--force", "--json"]) == 0


def test_the_command_is_a_module_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "onceward_apps.jobfinder", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"})
    for name in ("init", "add", "run", "matches", "explain", "companies", "sources", "approve", "export", "report"):
        assert f" {name} " in said.stdout


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("website\nacme.com\n", [2]),
        ("\ufeffName;Website\n", ConfigError),
        ("company,homepage,board\nAcme,acme.com,https://boards.greenhouse.io/acme\n\n,,\nX,x.com,\n", [2, 5]),
        ("name\nAcme\n", ConfigError),
        ("", ConfigError),
    ],
)
def test_a_file_of_companies_names_its_columns(tmp_path: Path, text: str, lines: Any) -> None:
    file = tmp_path / "companies.csv"
    file.write_text(text, encoding="utf-8")
    if lines is ConfigError:
        with pytest.raises(ConfigError, match="has no column for the website"):
            list(companies_in(file))
    else:
        assert [row.line for row in companies_in(file) if isinstance(row, Row)] == lines


def test_bad_rows_are_named_and_the_rest_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "companies.csv"
    file.write_text("website\nftp://acme.com\nlocal\nacme.com\n", encoding="utf-8")
    rows = list(companies_in(file))
    assert [type(row) for row in rows] == [BadRow, BadRow, Row]
    assert all(row.reason for row in rows if isinstance(row, BadRow))
    file.write_bytes(b"website\nacme.com\n\xff\xfe.com\n")
    rows = list(companies_in(file))
    assert isinstance(rows[-1], BadRow)
    assert "cannot be read" in rows[-1].reason


def test_an_address_is_a_board_a_company_or_a_listing() -> None:
    assert importing.meant_by("https://boards.greenhouse.io/acme").__class__.__name__ == "BoardAddress"
    assert importing.meant_by("acme.com").__class__.__name__ == "Company"
    assert importing.meant_by("https://acme.com/jobs/1", is_listing=True).__class__.__name__ == "Job"


def test_real_files_of_companies_are_taken_whole(shared_data: Path) -> None:
    rows = list(companies_in(shared_data / "companies" / "jobseek_companies.csv"))
    good = [row for row in rows if isinstance(row, Row)]
    assert len(good) > 0.98 * len(rows) > 1_000


def test_init_can_mend_a_profile_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "me.toml"
    path.write_text("[skills", encoding="utf-8")
    command = [sys.executable, "-m", "onceward_apps.jobfinder"]
    environment = {**os.environ, "ONCEWARD_JOBS_PROFILE": str(path), "ONCEWARD_JOBS": str(tmp_path / "jobs.db")}
    broken = subprocess.run([*command, "matches"], capture_output=True, text=True, check=False, env=environment)
    assert broken.returncode == 2
    assert "Expected ']'" in broken.stderr
    subprocess.run([*command, "init", "--force"], check=True, env=environment, capture_output=True)
    mended = subprocess.run([*command, "matches"], capture_output=True, text=True, check=False, env=environment)
    assert "there is no database" in mended.stderr


def test_only_who_adds_or_runs_makes_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistyped = tmp_path / "jbos.db"
    for words in (["matches"], ["companies"], ["sources"], ["approve"], ["explain", "x"], ["export"]):
        assert main([*words, "--db", str(mistyped)]) == 2
        assert f"there is no database at {mistyped}" in capsys.readouterr().err
    assert not mistyped.exists()


def test_add_without_arguments_says_what_to_give(jobs: Commands) -> None:
    jobs("add", code=2)
    assert "name files of companies or addresses to add, as in: onceward-jobs add companies.csv" in jobs.error
