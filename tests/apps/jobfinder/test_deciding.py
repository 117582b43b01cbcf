"""What a person decides about listings, and what is shown where nothing is good enough: on both databases."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from onceward.testing import Harness
from onceward_apps.jobfinder import listing_rows, surroundings
from onceward_apps.jobfinder.cli import main
from onceward_apps.jobfinder.identities import listing_id
from onceward_apps.jobfinder.payloads import Company
from onceward_apps.jobfinder.rejudging import rejudge
from onceward_apps.speaking import Entries
from tests.apps.jobfinder.conftest import PROFILE
from tests.apps.jobfinder.loopback import World, job
from tests.apps.jobfinder.test_commands import Commands

STACK = "Python, PostgreSQL, Docker, Go and Redis in our Portland office"
WEAK = "&lt;p&gt;" + "We look for somebody who cares for our ledgers and those who read them. " * 4 + "&lt;/p&gt;"


@pytest.fixture
def jobs(url: str, finder: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("COLUMNS", "80")
    return Commands(url, capsys)


def look(finder: Harness, world: World, *listings: dict[str, object]) -> list[str]:
    """Read a board of these listings; returns their addresses."""
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", list(listings)), stack=STACK)))
    finder.drain()
    return [str(one["absolute_url"]) for one in listings]


def scores(finder: Harness) -> dict[str, int]:
    return {str(row.title): row.score for row in finder.app.read(listing_rows.matches, False)}


def test_what_is_hidden_or_not_for_one_is_not_shown_and_an_application_is_noted(
    finder: Harness, world: World, jobs: Commands
) -> None:
    one, two, three = look(finder, world, job(1), job(2, "Backend Engineer"), job(3, "Senior Platform Engineer"))
    assert jobs("applied", one) == f"{listing_id(one)}: applied\n"
    jobs("not-for-me", listing_id(two)[:8])
    jobs("hide", three)
    assert [(row["url"], row["verdict"]) for row in jobs.json("matches")] == [(one, "applied")]
    assert ", applied" in jobs("matches")
    assert len(jobs.json("matches", "--hidden")) == 3
    assert jobs.json("explain", two)["verdict"] == "not for me"
    assert jobs.json("hide", three, "--undo") == [{"listing": listing_id(three), "verdict": None}]
    assert {row["url"] for row in jobs.json("matches")} == {one, three}
    assert jobs("hide", three, "--undo") == "there was no verdict to take back\n"
    jobs("applied", "nothing", code=2)
    jobs("applied", code=2)
    assert "LISTING" in jobs.error


@pytest.mark.parametrize(("verdict", "change"), [("applied", 2), ("not-for-me", -2), ("hide", 0)])
def test_a_verdict_counts_for_what_is_judged_from_then_on(
    finder: Harness, world: World, jobs: Commands, profile: Callable[[str], None], verdict: str, change: int
) -> None:
    weaker = job(2, "Senior Backend Engineer, Ledgers", location={"name": "Seattle"}, content=WEAK)
    other, _ = look(finder, world, job(1), weaker)
    before = jobs.json("explain", str(weaker["absolute_url"]))["score"]
    jobs(verdict, other)
    profile(PROFILE + "\n[salary]\nminimum = 1\n")  # every listing is judged anew
    profile(PROFILE.replace('"Seattle"]', '"Seattle", "Boston"]'))
    rejudge(finder.app, surroundings.profile())
    finder.drain()
    told = jobs.json("explain", str(weaker["absolute_url"]))
    assert told["score"] - before == change
    assert any(reason["rule"] == "verdicts" for reason in told["why"]) is bool(change)
    assert sum(reason["points"] for reason in told["why"]) == told["score"]


def test_without_a_match_the_nearest_are_shown_with_what_they_lack_and_what_would_admit_them(
    finder: Harness, world: World, jobs: Commands, profile: Callable[[str], None]
) -> None:
    profile(PROFILE.replace('office = "Portland"', 'office = "Salem"').replace('"Portland", "Seattle"', '"Seattle"'))
    [weak, _] = look(
        finder, world,
        job(1, "Senior Product Manager", location={"name": "Seattle"}, content=WEAK),
        job(2, location={"name": "Berlin"}),
    )  # fmt: skip
    assert jobs.json("matches") == []
    told = jobs("matches")
    assert "these came closest:" in told
    assert weak in told
    best, last = jobs.json("matches", "--near")
    assert best["score"] < best["needed"] == 80
    assert best["lacks"][0]["rule"] == "title"
    assert (last["score"], last["lacks"][0]["rule"]) == (None, "place")
    assert f"match.min_score = {best['score']}" in told
    assert max(map(len, told.replace(str(surroundings.profile_path()), "").splitlines())) <= 200

    settings = f"[settings]\nmatch.min_score = {best['score']}\nmatch.portland_score = {best['score']}\n"
    profile(PROFILE.replace('office = "Portland"', 'office = "Salem"').replace('"Portland", "Seattle"', '"Seattle"')
            + settings)  # fmt: skip
    jobs("run", "--processes", "1")
    assert [one["url"] for one in jobs.json("matches")] == [weak]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_an_entry_fits_any_terminal_and_its_link_stays_whole(width: int) -> None:
    link = "https://boards.example/" + "x" * 150
    entries = Entries(
        ("score", "title", "place"),
        [(("100", "Senior Engineer " * 9, "Portland, Oregon, United States; " * 3), (link, "because " * 40))],
        gives_way=("title", "place"), right=("score",),
    )  # fmt: skip
    made = io.StringIO()
    Console(file=made, width=width).print(entries, crop=False)
    head, line, below, *rest = made.getvalue().splitlines()
    assert head.startswith("score  title")
    assert line.startswith("  100  Senior Engineer")
    assert len(line) <= width
    assert below == f"    {link}"
    assert all(len(one) <= width for one in rest)
    assert len(rest) < 8, "a text is wrapped by words, not by letters"


def test_a_profile_is_needed_for_no_verdict(capsys: pytest.CaptureFixture[str], migrated_sqlite_url: str) -> None:
    assert main(["matches", "--db", migrated_sqlite_url]) == 0
    assert "there is no match yet" in capsys.readouterr().out
