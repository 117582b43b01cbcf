"""Which board an address or a page belongs to."""

from __future__ import annotations

import csv
import json

import pytest

from onceward_apps.jobfinder.boards.board import BoardAddress, BoardKind
from onceward_apps.jobfinder.boards.recognising import boards_in, recognise
from tests.apps.jobfinder.shared_data import shared_file

CASES = [
    ("https://boards.greenhouse.io/acme", "greenhouse", "acme"),
    ("https://boards.greenhouse.io/acme/jobs/123?gh_src=x", "greenhouse", "acme"),
    ("https://boards.greenhouse.io/embed/job_board?for=acme&b=x", "greenhouse", "acme"),
    ("https://boards.greenhouse.io/embed/job_board/js?for=acme", "greenhouse", "acme"),
    ("https://job-boards.greenhouse.io/acme", "greenhouse", "acme"),
    ("https://job-boards.eu.greenhouse.io/acme/jobs/1", "greenhouse", "acme"),
    ("https://boards-api.greenhouse.io/v1/boards/acme/jobs", "greenhouse", "acme"),
    ("https://jobs.lever.co/acme", "lever", "acme"),
    ("https://jobs.lever.co/acme.com/0f/apply", "lever", "acme.com"),
    ("https://jobs.eu.lever.co/acme/", "lever", "acme"),
    ("https://api.lever.co/v0/postings/acme?mode=json", "lever", "acme"),
    ("https://jobs.ashbyhq.com/acme%20inc", "ashby", "acme inc"),
    ("https://api.ashbyhq.com/posting-api/job-board/acme", "ashby", "acme"),
    ("https://apply.workable.com/acme/", "workable", "acme"),
    ("https://apply.workable.com/acme/j/ABC/", "workable", "acme"),
    ("https://acme.workable.com/jobs/1", "workable", "acme"),
    ("https://apply.workable.com/api/v1/widget/accounts/acme?details=true", "workable", "acme"),
    ("https://careers.smartrecruiters.com/Acme1", "smartrecruiters", "Acme1"),
    ("https://jobs.smartrecruiters.com/Acme1/743-x", "smartrecruiters", "Acme1"),
    ("https://api.smartrecruiters.com/v1/companies/Acme1/postings", "smartrecruiters", "Acme1"),
    ("https://jobs.jobvite.com/acme/jobs", "jobvite", "acme"),
    ("https://jobs.jobvite.com/careers/acme/search", "jobvite", "acme"),
    ("https://acme.wd5.myworkdayjobs.com/Careers", "workday", "acme/wd5/Careers"),
    ("https://acme.wd5.myworkdayjobs.com/en-US/Careers/job/Oslo/X_1", "workday", "acme/wd5/Careers"),
    ("https://acme.wd5.myworkdayjobs.com/wday/cxs/acme/Careers/jobs", "workday", "acme/wd5/Careers"),
    ("https://wd1.myworkdaysite.com/recruiting/acme/Jobs", "workday", "acme/wd1/Jobs"),
    ("https://wd1.myworkdaysite.com/en-US/recruiting/acme/Jobs", "workday", "acme/wd1/Jobs"),
    ("https://acme.myworkdayjobs.com/", "workday", "acme"),
    ("https://acme.teamtailor.com/jobs", "feed", "acme.teamtailor.com/jobs.rss"),
    ("https://acme.example/jobs.rss", "feed", "acme.example/jobs.rss"),
    ("https://acme.example/careers/feed/", "feed", "acme.example/careers/feed"),
    ("https://acme.example/googlefeed.xml", "feed", "acme.example/googlefeed.xml"),
    ("https://acme.example/careers", "generic", "acme.example/careers"),
    ("https://www.acme.example/en/jobs/?page=2", "generic", "www.acme.example/en/jobs?page=2"),
    ("https://careers.acme.example/", "generic", "careers.acme.example"),
]


@pytest.mark.parametrize(("url", "kind", "token"), CASES)
def test_a_board_is_known_by_its_address(url: str, kind: str, token: str) -> None:
    board = recognise(url)
    assert board is not None
    assert (board.kind, board.token) == (BoardKind(kind), token)
    again = recognise(board.url)
    assert again is not None, "the address that a person would look at is the same board"
    assert (again.kind, again.token) == (board.kind, board.token)


@pytest.mark.parametrize(
    "url",
    ["https://acme.example/", "https://acme.example/about", "https://boards.greenhouse.io/", "mailto:jobs@acme.example",
     "https://apply.workable.com/j/ABC", "https://www.workable.com/", "https://help.workable.com/x", "http://[",
     "https://jobs.lever.co/", "https://boards.greenhouse.io.evil.example/acme", "", "https://notlever.co/acme",
     "https://jobs.lever.co/%2e%2e"],
)  # fmt: skip
def test_what_is_no_board_is_not_taken_for_one(url: str) -> None:
    assert recognise(url) is None


@pytest.mark.parametrize(
    ("url", "confidence"),
    [
        ("https://boards.greenhouse.io/acme", "high"),
        ("https://acme.wd5.myworkdayjobs.com/Careers", "high"),
        ("https://acme.example/jobs.rss", "high"),
        ("https://jobs.lever.co/acme", "medium"),
        ("https://jobs.jobvite.com/acme/jobs", "medium"),
        ("https://careers.smartrecruiters.com/Acme", "medium"),
        ("https://jobs.ashbyhq.com/acme", "medium"),
        ("https://apply.workable.com/acme/", "medium"),
        ("https://acme.example/careers", "low"),
        ("https://acme.myworkdayjobs.com/", "low"),
    ],
)
def test_how_far_a_board_is_trusted_goes_by_its_kind(url: str, confidence: str) -> None:
    board = recognise(url)
    assert board is not None
    assert board.confidence == confidence


def test_the_boards_of_real_companies_are_known_by_their_addresses() -> None:
    right: dict[str, list[bool]] = {}
    with shared_file("companies/jobseek_boards.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            expected = _expected(row)
            if expected is not None:
                url, kind, token = expected
                right.setdefault(kind, []).append(_is_right(recognise(url), kind, token))
    verdicts = [verdict for one in right.values() for verdict in one]
    assert {kind: len(one) for kind, one in right.items()} == {
        "greenhouse": 694, "ashby": 229, "feed": 66, "workday": 59, "lever": 43, "smartrecruiters": 19, "workable": 15,
    }  # fmt: skip
    assert sum(verdicts) / len(verdicts) >= 0.98
    assert all(right["feed"])


def _expected(row: dict[str, str]) -> tuple[str, str, str | None] | None:
    """Address, kind and token of a row. A feed goes by the feed's own address; seven rows do not tell it."""
    kind, config = row["monitor_type"], json.loads(row["monitor_config"] or "{}")
    if kind == "rss":
        url = config.get("feed_url") or config.get("url")
        return (url, "feed", None) if url else None
    if kind == "workday":
        tenant = config.get("company") or config.get("employer") or config.get("tenant")
        site = next((config[name] for name in ("site", "board", "job_board", "board_id", "board_slug")
                     if name in config), None)  # fmt: skip
        return row["board_url"], kind, f"{tenant}/{site}" if tenant and site else None
    if kind in ("greenhouse", "ashby", "lever", "smartrecruiters", "workable"):
        return row["board_url"], kind, config.get("token")
    return None


def _is_right(board: BoardAddress | None, kind: str, token: str | None) -> bool:
    if board is None or board.kind != kind:
        return False
    found = "/".join(board.token.split("/")[::2]) if kind == "workday" else board.token
    return token is None or found.lower() == token.lower()


PAGE = """<!doctype html><html><head>
<link rel="alternate" type="application/rss+xml" title="Jobs at Acme" href="/jobs/feed.xml">
<link rel="alternate" type="application/rss+xml" title="Our blog" href="/blog/index.xml">
<script src="https://boards.greenhouse.io/embed/job_board/js?for=acme"></script>
<script>fetch("https:\\/\\/api.lever.co\\/v0\\/postings\\/acme-labs?mode=json")</script>
<script type="application/ld+json">{"@type": "JobPosting", "title": "Cook"}</script>
</head><body><a href="https://job-boards.greenhouse.io/Acme/jobs/12">One</a>
<iframe src="https://jobs.ashbyhq.com/acme?embed=js&amp;x=1"></iframe>
<a href="/careers#top">Careers</a> <a href="https://other.example/careers">Theirs</a> <a href="http://[">broken</a>
</body></html>"""


def test_a_page_leads_to_its_boards_the_surest_first() -> None:
    found = boards_in(PAGE, "https://www.acme.example/about")
    assert [(board.kind.value, board.token, board.confidence) for board in found] == [
        ("greenhouse", "acme", "high"),
        ("feed", "www.acme.example/jobs/feed.xml", "high"),
        ("lever", "acme-labs", "medium"),
        ("ashby", "acme", "medium"),
        ("jsonld", "www.acme.example/about", "medium"),
        ("generic", "www.acme.example/careers", "low"),
    ]


def test_a_page_without_boards_leads_nowhere() -> None:
    assert boards_in("", "https://acme.example/") == []
    assert boards_in("<p>Hello", "https://acme.example/") == []
