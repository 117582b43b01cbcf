"""Whatever a board answers, its reader gives listings or says that the board has drifted."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward_apps.jobfinder.boards.board import BoardKind
from onceward_apps.jobfinder.boards.recognising import boards_in, recognise
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.discovering import discovered
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.extracting import Kept, facts
from onceward_apps.jobfinder.identities import folded_name
from onceward_apps.jobfinder.jsonld import listings_in
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Request
from onceward_apps.jobfinder.plain_text import plain_text
from onceward_apps.jobfinder.positions import employment_of
from onceward_apps.jobfinder.scraping import Field, Instructions
from tests.apps.jobfinder.reading_pages import TODAY, address_of, completed, read_one

KINDS = [kind.value for kind in BoardKind]
INSTRUCTIONS = Instructions(items="li", fields={"title": Field("a"), "url": Field("a", "href")})
TEN_MB = 10_000_000

BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"jobs": [',
    "a page": b"<!doctype html><html><body><h1>Just a moment</h1></body></html>",
    "null": b"null",
    "a number": b"7",
    "a text": b'"jobs"',
    "a list": b"[]",
    "an object": b"{}",
    "an error": b'{"ok": false, "error": "no"}',
    "a list of nothing": b"[null, 1, [], {}]",
    "nested lists": b"[" * TEN_MB,
    "nested objects": b'{"a":' * (TEN_MB // 5),
    "nested elements": b"<div>" * (TEN_MB // 5),
    "elements that nothing closes": b"<div></x>" * (TEN_MB // 9),
    "marks that go on in every paragraph": b"".join(b"<b a=%d>" % n for n in range(900)) + b"<p>x" * 500_000,
    "choices": b"<select>" + b"<option>x" * (TEN_MB // 9),
    "nested items": b"<ul><li><a href=/job/1>" * (TEN_MB // 50),
    "nested xml": b"<rss><channel>" + b"<item>" * 5_000,
    "no text": b"\xff\xfe\x00\x01" * 100,
    "zeros": bytes(100_000),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_an_answer_in_no_known_shape_is_drift_and_no_crash(kind: str, body: bytes) -> None:
    began = time.monotonic()
    with contextlib.suppress(Drifted):
        assert all(listing.title for listing in read_one(kind, body, instructions=INSTRUCTIONS).listings)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("kind", ["greenhouse", "lever", "workday", "smartrecruiters", "workable", "jobvite", "jsonld"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_detail_in_no_known_shape_is_drift_or_adds_nothing(kind: str, body: bytes) -> None:
    listing = Listing(url="https://acme.example/1", title="Cook", external_id="1")
    with contextlib.suppress(Drifted):
        assert completed(kind, listing, Request(url=listing.url, about="1"), body).title == "Cook"


ANSWERS: dict[str, Any] = {
    "greenhouse": {
        "jobs": [
            {
                "id": 1,
                "title": "Cook",
                "absolute_url": "https://a.example/1",
                "location": {"name": "Oslo"},
                "content": "x",
                "departments": [{"name": "Kitchen"}],
                "first_published": "2026-01-01",
                "pay_input_ranges": [{"min_cents": 1, "max_cents": 2, "currency_type": "USD"}],
            }
        ],
        "meta": {"total": 1},
    },
    "lever": [
        {
            "id": "1",
            "text": "Cook",
            "hostedUrl": "https://a.example/1",
            "categories": {"allLocations": ["Oslo"]},
            "lists": [{"text": "You have", "content": "<li>a knife"}],
            "createdAt": 1_764_205_361_939,
            "salaryRange": {"min": 1, "max": 2, "currency": "USD", "interval": "per-year-salary"},
        }
    ],
    "workday": {
        "total": 2000,
        "jobPostings": [
            {
                "title": "Cook",
                "externalPath": "/job/Oslo/Cook_1",
                "postedOn": "Today",
                "locationsText": "2 Locations",
                "bulletFields": ["1"],
            }
        ],
        "facets": [{"facetParameter": "f", "values": [{"id": "a", "count": 1500}, {"id": "b", "count": 900}]}],
    },
    "smartrecruiters": {
        "totalFound": 1,
        "content": [
            {
                "id": "1",
                "name": "Cook",
                "company": {"name": "A", "identifier": "a"},
                "location": {"city": "Oslo", "remote": False, "fullLocation": "Oslo"},
                "releasedDate": "2026-01-01",
            }
        ],
    },
    "ashby": {
        "jobs": [
            {
                "id": "1",
                "title": "Cook",
                "jobUrl": "https://a.example/1",
                "secondaryLocations": [{"location": "x"}],
                "compensation": {
                    "compensationTiers": [
                        {"components": [{"compensationType": "Salary", "minValue": 1, "interval": "1 YEAR"}]}
                    ]
                },
            }
        ]
    },
    "workable": {
        "name": "A",
        "jobs": [
            {
                "title": "Cook",
                "shortcode": "1",
                "url": "https://a.example/1",
                "locations": [{"city": "Oslo", "hidden": False}],
            }
        ],
    },
    "feed": {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "A",
        "next_url": "/2",
        "items": [
            {
                "id": "1",
                "url": "https://a.example/1",
                "title": "Cook",
                "tags": ["x"],
                "date_published": "2026-01-01",
                "_jobposting": {"title": "Cook", "jobLocation": {"address": {"addressLocality": "Oslo"}}},
            }
        ],
    },
}
ODD: list[Any] = [
    None,
    True,
    -1,
    10**30,
    1e308,
    "",
    "x",
    "http://[",
    "\ud800",
    [],
    {},
    [[]],
    [{}],
    {"name": []},
    ["x", 1],
]


@pytest.mark.parametrize("kind", ANSWERS)
def test_any_value_of_an_answer_may_turn_into_any_other(kind: str) -> None:
    assert len(read_one(kind, ANSWERS[kind]).listings) == 1
    for path in _paths(ANSWERS[kind]):
        for odd in ODD:
            changed = copy.deepcopy(ANSWERS[kind])
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = odd
            try:
                step = read_one(kind, json.dumps(changed))
            except Drifted:
                continue
            for listing in step.listings:
                assert isinstance(listing.title, str), (path, odd)
                assert listing.title, (path, odd)


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        yield (*above, key)
        yield from _paths(below, (*above, key))


def test_pages_of_noise_lead_nowhere() -> None:
    dice = random.Random(8)
    pieces = ["<a href='", "</a>", "<li>", "job/", "'>", "<script type='application/ld+json'>", "{", '"@type"', "https://",
              "greenhouse.io/", "jobs.lever.co/", "\x00", "é", "<", "&#x", "http://[", "<!--", "x" * 50]  # fmt: skip
    for _ in range(300):
        page = "".join(dice.choices(pieces, k=60))
        boards_in(page, "https://acme.example/")
        listings_in(page, "https://acme.example/", TODAY)
        discovered(page, "https://acme.example/", TODAY)
        plain_text(page)


def test_a_page_of_links_without_end_is_looked_through_in_time() -> None:
    page = "<main>" + "".join(f"<li class=job><a href=/jobs/{n}>Engineer {n}</a></li>" for n in range(50_000))
    began = time.monotonic()
    boards_in(page, "https://acme.example/")
    assert discovered(page, "https://acme.example/", TODAY)
    assert time.monotonic() - began < 30
    assert address_of("generic").kind is BoardKind.GENERIC


def test_a_page_that_closes_hardly_anything_is_read_whole() -> None:
    row = "<div><font color=red>Cook<span class=place>Oslo</div><svg><path d=M0/></svg><p><b>Apply</b><br>"
    assert plain_text(row * 100 + "<h2>The end</h2>").endswith("The end")


@pytest.mark.parametrize(
    "read",
    [
        lambda: facts([Kept("/", "https://acme.example/", f"<p>{'1' * 100_000}</p>")]).size,
        lambda: day_of("1" * 200_000, TODAY),
        lambda: recognise(f"https://acme.example/{'vacanc' * 5_000}"),
        lambda: employment_of("Cook", "job type" + "\n" * 200_000),
    ],
    ids=["digits on a page", "digits for a day", "a long address", "lines without words"],
)
def test_a_long_text_of_one_kind_says_nothing_and_at_once(read: Callable[[], object]) -> None:
    assert not read()


def test_a_name_of_nothing_but_signs_is_compared_at_once() -> None:
    assert folded_name("Acme" + "," * 1_000_000 + "x") == folded_name("Acme, Inc.")


def test_structured_data_may_nest_as_it_likes() -> None:
    name = "[" * 900 + '"Acme"' + "]" * 900
    block = f'<script type="application/ld+json">{{"@type": "Organization", "name": {name}}}</script>'
    assert facts([Kept("/", "https://acme.example/", block)]).name == "Acme"  # by its host
