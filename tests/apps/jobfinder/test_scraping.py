"""Scraper instructions: discovered, checked, tested, followed."""

from __future__ import annotations

import time
from datetime import date
from typing import Any

import pytest

from onceward_apps.jobfinder.discovering import discovered
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.scraping import (
    BadInstructions,
    Field,
    Instructions,
    NextLink,
    PageNumber,
    checked,
    dumped,
    extracted,
    loaded,
    next_page,
)
from onceward_apps.jobfinder.scraping import tested as tried
from tests.apps.jobfinder.reading_pages import TODAY, read_all, read_one
from tests.apps.jobfinder.shared_data import shared_file

URL = "https://acme.example/careers"
TITLES = ["Cook", "Software Engineer", "Sales Manager", "Data Analyst"]


def items(page: int = 1) -> str:
    return "".join(
        f'<li class="job"><a href="/jobs/{page}{n}-x"><h3>{title} {page}</h3></a>'
        f'<span class="job-location">Oslo</span><time datetime="2026-08-0{n + 1}">then</time></li>'
        for n, title in enumerate(TITLES)
    )


PAGE = f"""<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About</a></li></ul></nav>
<main><h1>Careers</h1><ul class="jobs">{items()}</ul><a rel="next" href="?page=2">Next</a></main>
<footer><a href="/imprint">Imprint</a><a href="/jobs/privacy">Privacy</a></footer>"""

GOOD = Instructions(
    items="ul.jobs > li",
    fields={
        "title": Field("h3"),
        "url": Field("a", "href"),
        "location": Field(".job-location"),
        "posted": Field("time", "datetime"),
        "external_id": Field("a", "href", r"/jobs/(\d+)"),
    },
    pagination=NextLink("a[rel=next]"),
    company="Acme",
)


def test_instructions_are_stored_as_json_and_come_back() -> None:
    assert loaded(dumped(GOOD)) == GOOD
    numbered = Instructions(items="li", fields=GOOD.fields, pagination=PageNumber("p", 0, 20))
    assert loaded(dumped(numbered)) == numbered


def test_instructions_give_listings() -> None:
    listings, count = extracted(GOOD, PAGE, URL, TODAY)
    assert count == 4
    assert [listing.title for listing in listings] == [f"{title} 1" for title in TITLES]
    first = listings[0]
    assert (first.url, first.location, first.posted) == ("https://acme.example/jobs/10-x", "Oslo", date(2026, 8, 1))
    assert (first.company, first.external_id) == ("Acme", "10")


@pytest.mark.parametrize(
    "source",
    [
        "", "[]", "{", "{}", '{"items": "li"}', '{"items": "li", "fields": {}}',
        '{"items": "li", "fields": {"title": {}}}',
        '{"items": "li", "fields": {"title": {}, "url": {}}, "code": "x"}',
        '{"items": "li", "fields": {"title": {}, "url": {}, "wage": {}}}',
        '{"items": "li >", "fields": {"title": {}, "url": {}}}',
        '{"items": "", "fields": {"title": {}, "url": {}}}',
        '{"items": "li", "fields": {"title": {"selector": "[["}, "url": {}}}',
        '{"items": "li", "fields": {"title": {"pattern": "("}, "url": {}}}',
        '{"version": 2, "items": "li", "fields": {"title": {}, "url": {}}}',
        b"\xff",
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_when_it_is_read(source: str | bytes) -> None:
    with pytest.raises(BadInstructions):
        loaded(source)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*)*x", r"(x+x+)+y", r"(.)\1+", ".*.*.*x", "(a{1,9}){9}"])
def test_a_pattern_that_could_run_away_is_refused(pattern: str) -> None:
    with pytest.raises(BadInstructions):
        checked(Instructions(items="li", fields={"title": Field("a", None, pattern), "url": Field("a", "href")}))


def test_the_worst_pattern_that_is_allowed_ends_soon() -> None:
    worst = Instructions(items="li", fields={"title": Field(None, None, "a*a*b"), "url": Field("a", "href")})
    page = f"<li><a href='/jobs/1'>{'a' * 100_000}</a></li>" * 10
    began = time.monotonic()
    extracted(checked(worst), page, URL, TODAY)
    assert time.monotonic() - began < 10


def test_instructions_are_tested_before_they_are_used() -> None:
    assert tried(GOOD, PAGE, URL, TODAY).passed
    nothing = tried(Instructions(items=".vacancy", fields=GOOD.fields), PAGE, URL, TODAY)
    assert nothing.problems == ("'.vacancy' finds nothing",)
    linkless = tried(
        Instructions(items="li", fields={"title": Field("h3"), "url": Field("h3", "href")}), PAGE, URL, TODAY
    )
    assert "0 of 6" in linkless.problems[0]
    same = tried(
        Instructions(items="ul.jobs li", fields={"title": Field("time"), "url": Field("a", "href")}), PAGE, URL, TODAY
    )
    assert same.problems == ("most titles are the same",)


def test_pages_follow_a_link_or_a_number() -> None:
    assert next_page(GOOD, PAGE, URL) == f"{URL}?page=2"
    assert next_page(GOOD, "<p>last", URL) is None
    numbered = Instructions(items="li", fields=GOOD.fields, pagination=PageNumber("start", 0, 20))
    assert next_page(numbered, PAGE, f"{URL}?q=x") == f"{URL}?q=x&start=20"
    assert next_page(numbered, PAGE, f"{URL}?q=x&start=20") == f"{URL}?q=x&start=40"


def test_a_page_is_read_by_its_instructions_to_the_end() -> None:
    def serve(request: Any) -> str:
        page = 2 if request.url.endswith("page=2") else 1
        link = '<a rel="next" href="?page=2">Next</a>'
        return f'<ul class="jobs">{items(page)}</ul>{link}'

    board, asked = read_all("generic", serve, instructions=GOOD)
    assert len(board.listings) == 8
    assert len(asked) == 3  # the last has nothing new, and ends it


def test_a_page_that_its_instructions_no_longer_fit_has_drifted() -> None:
    with pytest.raises(Drifted):
        read_one("generic", "<p>We have moved", instructions=GOOD)
    with pytest.raises(Drifted):
        read_one("generic", '<ul class="jobs"><li>Cook</li><li>Waiter</li></ul>', instructions=GOOD)
    with pytest.raises(Drifted, match="instructions"):
        read_one("generic", PAGE)


def test_the_list_of_a_page_is_discovered() -> None:
    best = discovered(PAGE, URL, TODAY)[0]
    listings, _ = extracted(best, PAGE, URL, TODAY)
    assert [listing.title for listing in listings] == [f"{title} 1" for title in TITLES]
    assert {listing.location for listing in listings} == {"Oslo"}
    assert listings[0].posted == date(2026, 8, 1)
    assert best.pagination == NextLink("a[rel~=next][href]")


@pytest.mark.parametrize(
    "row",
    [
        '<tr><td><a href="/job/{n}">{title}</a></td><td class="city">Oslo</td></tr>',
        '<div class="card"><div><a class="go" href="https://acme.example/careers/{n}/x"><h4>{title}</h4></a></div></div>',
        '<a class="opening" href="/openings/{n}-x"><strong>{title}</strong></a>',
        '<p class="row"></p><article><h2><a href="?gh_jid={n}">{title}</a></h2></article>',
    ],
)
def test_lists_of_all_sorts_are_discovered(row: str) -> None:
    rows = "".join(row.format(n=12_340 + n, title=title) for n, title in enumerate(TITLES))
    page = f"<nav><a href='/a'>A</a><a href='/b'>B</a></nav><table>{rows}</table>" if "<tr" in row else rows
    best = discovered(f"<main>{page}</main>", URL, TODAY)[0]
    assert [listing.title for listing in extracted(best, f"<main>{page}</main>", URL, TODAY)[0]] == TITLES


def test_the_list_of_a_real_page_is_discovered() -> None:
    source = shared_file("ats/boards/cryptocurrencyjobs_html.html").read_text()
    best = discovered(source, "https://cryptocurrencyjobs.co/operations/", TODAY)[0]
    listings = extracted(best, source, "https://cryptocurrencyjobs.co/operations/", TODAY)[0]
    assert len(listings) >= 3
    assert all("cryptocurrencyjobs.co/" in listing.url for listing in listings)


def test_a_page_without_a_list_gives_no_instructions() -> None:
    for page in ("", "<p>Hello", "<nav><a href='/jobs/1'>Engineer</a><a href='/jobs/2'>Cook</a></nav>",
                 "<ul><li><a href='/blog/a'>News</a></li><li><a href='/blog/b'>More</a></li></ul>"):  # fmt: skip
        assert discovered(page, URL, TODAY) == []
