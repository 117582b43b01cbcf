"""schema.org postings inside pages."""

from __future__ import annotations

import html
import json
from datetime import date
from typing import Any

import pytest

from onceward_apps.jobfinder.boards.answer import BoardLimits
from onceward_apps.jobfinder.jsonld import links_in, listings_in, postings_in
from tests.apps.jobfinder.reading_pages import TODAY, read_all, read_one
from tests.apps.jobfinder.shared_data import shared_file, shared_files

URL = "https://acme.example/jobs/1"


def page(*blocks: Any) -> str:
    sources = [block if isinstance(block, str) else json.dumps(block) for block in blocks]
    return "".join(f'<script type="application/ld+json">{source}</script>' for source in sources)


POSTING = {
    "@context": "https://schema.org",
    "@type": "JobPosting",
    "title": "R&amp;D Cook",
    "description": html.escape("<p>Cook &amp; serve</p><h3>Requirements</h3><ul><li>A knife</li></ul>"),
    "datePosted": "2026-08-01T10:00:00Z",
    "validThrough": "2026-09-01",
    "hiringOrganization": {"@type": "Organization", "name": "Acme"},
    "jobLocation": [
        {"@type": "Place", "address": {"addressLocality": "Oslo", "addressCountry": {"name": "Norway"}}},
        {"@type": "Place", "address": "Bergen"},
    ],
    "jobLocationType": "TELECOMMUTE",
    "baseSalary": {"currency": "NOK", "value": {"minValue": 200, "maxValue": "300", "unitText": "HOUR"}},
    "identifier": {"@type": "PropertyValue", "value": 17},
    "url": "/jobs/cook",
}  # fmt: skip


def test_a_posting_is_read_whole() -> None:
    [listing] = listings_in(page(POSTING), URL, TODAY)
    assert (listing.title, listing.company, listing.url) == ("R&D Cook", "Acme", "https://acme.example/jobs/cook")
    assert (listing.location, listing.remote) == ("Oslo, Norway; Bergen", True)
    assert (listing.posted, listing.valid_through) == (date(2026, 8, 1), date(2026, 9, 1))
    assert listing.description == "Cook & serve\nRequirements\n- A knife"
    assert listing.requirements == ("A knife",)
    assert (listing.salary_min, listing.salary_max, listing.currency) == (200 * 2_080, 300 * 2_080, "NOK")
    assert listing.external_id == "17"


@pytest.mark.parametrize(
    "block",
    [
        [POSTING],
        {"@graph": [{"@type": "WebPage"}, POSTING]},
        {"@type": "WebPage", "mainEntity": POSTING},
        {**POSTING, "@type": ["Thing", "JobPosting"]},
        {**POSTING, "@type": "http://schema.org/JobPosting"},
        f"<!-- {json.dumps(POSTING)} -->",
        f"//<![CDATA[\n{json.dumps(POSTING)}\n//]]>",
        json.dumps(POSTING) + ";",
        json.dumps(POSTING).replace("Acme", "Ac\tme"),
        json.dumps(POSTING).replace('"', "&quot;"),
    ],
)
def test_a_posting_is_found_wherever_it_stands(block: Any) -> None:
    assert len(listings_in(page(block), URL, TODAY)) == 1


def test_a_broken_block_costs_no_other() -> None:
    assert len(postings_in(page("", "{", "[" * 100_000, "null", "7", POSTING, '"x"'))) == 1


def test_values_may_be_anything() -> None:
    odd: list[Any] = [None, 7, True, "", [], {}, [[]], [None], {"name": None}, "x" * 10, {"@type": "Place"}]
    for name in POSTING:
        if name in ("@type", "title"):
            continue
        for value in odd:
            assert len(listings_in(page({**POSTING, name: value}), URL, TODAY)) == 1, (name, value)
    assert listings_in(page({"@type": "JobPosting", "title": ""}), URL, TODAY) == []


def test_the_real_posting_of_a_page_is_found() -> None:
    source = shared_file("html/jobpages/jsonld_meta_software_engineer.html").read_text()
    [listing] = listings_in(source, URL, TODAY)
    assert (listing.title, listing.company, listing.location) == (
        "Software Engineer, Infrastructure", "Meta", "Sunnyvale, CA",
    )  # fmt: skip
    assert listing.posted == date(2025, 6, 10)
    assert len(listing.description or "") > 1_000


def test_real_pages_without_postings_have_none() -> None:
    for path in shared_files("html/jobpages"):
        source = path.read_text(errors="replace")
        assert len(listings_in(source, URL, TODAY)) == ("JobPosting" in source)


def test_a_list_leads_to_the_pages_of_its_jobs() -> None:
    items = [{"@type": "ListItem", "position": n, "url": f"/jobs/head-cook-{n}"} for n in (1, 2)]
    items.append({"@type": "ListItem", "url": "https://other.example/x"})
    listed = page({"@type": "ItemList", "itemListElement": items})
    assert links_in(listed, URL)[0] == "https://acme.example/jobs/head-cook-1"
    step = read_one("jsonld", listed)
    assert [listing.title for listing in step.listings] == ["Head cook 1", "Head cook 2"]

    board, _ = read_all("jsonld", lambda request: page(POSTING) if request.about else listed, BoardLimits(details=9))
    assert [(one.title, one.company) for one in board.listings] == [("R&D Cook", "Acme")] * 2
    assert board.listings[1].url == "https://acme.example/jobs/head-cook-2"
