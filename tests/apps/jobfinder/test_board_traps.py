"""What boards do to those who read them."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from onceward_apps.jobfinder.boards.answer import BoardLimits
from onceward_apps.jobfinder.boards.board import Reading, SoFar, placed
from onceward_apps.jobfinder.boards.reading import board_for, read_board
from onceward_apps.jobfinder.errors import Drifted, Gone
from onceward_apps.jobfinder.fetching import Fetcher
from onceward_apps.jobfinder.pages import Request
from tests.apps.jobfinder.raw_server import RawServer, answer
from tests.apps.jobfinder.reading_pages import TODAY, address_of, page_of, read_all, read_one

ENDLESS = 10**400
URL = "https://acme.example/1"

# ---------------------------------------------------------------- Lever


def lever_postings(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"id-{n}", "text": f"Job {n}", "hostedUrl": f"https://jobs.lever.co/acme/id-{n}"}
        for n in range(first, first + count)
    ]


@pytest.mark.parametrize(("total", "pages"), [(0, 1), (99, 1), (100, 2), (101, 2), (250, 3)])
def test_lever_never_says_how_long_it_is_so_a_short_page_ends_it(total: int, pages: int) -> None:
    def serve(request: Request) -> Any:
        skip = int(parse_qs(urlsplit(request.url).query)["skip"][0])
        return lever_postings(skip, min(100, total - skip))

    board, asked = read_all("lever", serve)
    assert len(board.listings) == total
    assert len(asked) == pages
    assert board.total_said is None


def test_a_lever_that_gives_page_one_for_ever_is_left() -> None:
    board, asked = read_all("lever", lambda _: lever_postings(0, 100))
    assert (len(board.listings), len(asked)) == (100, 2)


def test_lever_in_the_eu_has_an_interface_of_its_own_and_is_asked_for_json() -> None:
    address = msgspec.structs.replace(address_of("lever"), url="https://jobs.eu.lever.co/acme")
    request = board_for(address.kind).first(address)
    assert request.url.startswith("https://api.eu.lever.co/v0/postings/acme?")
    assert request.accept == "application/json"


# ---------------------------------------------------------------- Workday


class Tenant:
    """A Workday board that lies as they do: no totals after the first page, and a lid over the first 2,000."""

    def __init__(self, jobs: int, *, lid: int | None = 2_000, places: int = 4, has_facets: bool = True) -> None:
        self.jobs = [(n, f"place-{n % places}") for n in range(jobs)]
        self.lid, self.places, self.has_facets = lid, places, has_facets

    def __call__(self, request: Request) -> Any:
        assert request.method == "POST"
        asked = request.json
        assert asked is not None
        assert asked.keys() == {"appliedFacets", "limit", "offset", "searchText"}
        assert asked["limit"] == 20
        wanted = asked["appliedFacets"].get("locationCountry")
        found = [job for job in self.jobs if wanted is None or job[1] in wanted]
        offset = asked["offset"]
        if self.lid and offset >= self.lid:
            offset = 0  # page one again
        total = len(found) if self.lid is None else min(len(found), self.lid)
        return {
            "total": total if asked["offset"] == 0 else 0,
            "jobPostings": [self._posting(*job) for job in found[offset : offset + 20]],
            "facets": self._facets() if self.has_facets else [],
        }

    @staticmethod
    def _posting(number: int, place: str) -> dict[str, Any]:
        return {
            "title": f"Job {number}", "externalPath": f"/job/{place}/Job-{number}_JR-{number:05}",
            "locationsText": place, "postedOn": "Posted 30+ Days Ago", "bulletFields": [f"JR-{number:05}"],
        }  # fmt: skip

    def _facets(self) -> list[dict[str, Any]]:
        def counts(names: list[str]) -> list[dict[str, Any]]:
            return [
                {"id": name, "descriptor": name, "count": sum(job[1] == name for job in self.jobs)} for name in names
            ]

        by_place = counts([f"place-{n}" for n in range(self.places)])
        everyone = [{"id": "full", "descriptor": "Full time", "count": len(self.jobs)}]
        return [
            {"facetParameter": "timeType", "values": everyone},
            {"facetParameter": "places", "values": [{"facetParameter": "locationCountry", "values": by_place}]},
        ]


@pytest.mark.parametrize("jobs", [0, 1, 20, 21, 60, 1_999])
def test_the_first_total_of_workday_counts_and_the_zeros_after_it_do_not(jobs: int) -> None:
    board, asked = read_all("workday", Tenant(jobs))
    assert len(board.listings) == jobs
    assert board.total_said == (jobs or None)
    assert len(asked) == max(1, -(-jobs // 20))


def test_a_workday_with_more_than_it_tells_is_read_by_the_facet_that_splits_it() -> None:
    board, _ = read_all("workday", Tenant(5_000), BoardLimits(pages=1_000, listings=100_000))
    assert len(board.listings) == len({listing.external_id for listing in board.listings}) == 5_000
    assert board.total_said == 5_000
    assert board.warnings == ()


def test_a_workday_with_exactly_two_thousand_is_read_once() -> None:
    board, asked = read_all("workday", Tenant(2_000))
    assert len(board.listings) == 2_000
    assert len(asked) == 101  # the last is page one again


def test_a_workday_without_facets_is_read_as_far_as_it_goes_and_says_so() -> None:
    board, _ = read_all("workday", Tenant(5_000, has_facets=False))
    assert len(board.listings) == 2_000
    assert "out of reach" in board.warnings[0]


def test_a_workday_that_pages_on_past_its_lid_is_read_to_the_end() -> None:
    tenant = Tenant(2_500, has_facets=False)

    def serve(request: Request) -> Any:
        told = Tenant(2_500, lid=None, has_facets=False)(request)
        return told | {"total": tenant(request)["total"]}

    assert len(read_all("workday", serve)[0].listings) == 2_500


def test_a_workday_of_one_large_part_takes_what_it_can_and_says_so() -> None:
    board, _ = read_all("workday", Tenant(5_000, places=2), BoardLimits(pages=1_000, listings=100_000))
    assert len(board.listings) == 4_000
    assert any("place-0" in warning for warning in board.warnings)


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ("Posted Today", date(2026, 8, 20)),
        ("Posted Yesterday", date(2026, 8, 19)),
        ("Posted 3 Days Ago", date(2026, 8, 17)),
        ("Posted 30+ Days Ago", date(2026, 7, 21)),
        ("Heute ausgeschrieben", None),
        (None, None),
    ],
)
def test_workday_says_when_in_words(said: str | None, day: date | None) -> None:
    posting = {"title": "Cook", "externalPath": "/job/Oslo/Cook_1", "postedOn": said}
    assert read_one("workday", {"total": 1, "jobPostings": [posting]}).listings[0].posted == day


def test_a_workday_without_the_name_of_a_site_says_what_it_needs() -> None:
    address = msgspec.structs.replace(address_of("workday"), token="acme")
    with pytest.raises(Drifted, match="site"):
        board_for(address.kind).first(address)


# ---------------------------------------------------------------- the others


def test_smartrecruiters_is_read_page_by_page_and_completed_on_request() -> None:
    def serve(request: Request) -> Any:
        if request.about:
            return {"jobAd": {"sections": {"jobDescription": {"title": "About", "text": "<p>Cook &amp; serve</p>"}}}}
        offset = int(parse_qs(urlsplit(request.url).query)["offset"][0])
        content = [{"id": str(n), "name": f"Job {n}"} for n in range(offset, min(offset + 100, 230))]
        return {"offset": offset, "limit": 100, "totalFound": 230, "content": content}

    board, asked = read_all("smartrecruiters", serve, BoardLimits(details=2))
    assert len(board.listings) == board.total_said == 230
    assert [request.about for request in asked] == [None] * 3 + ["0", "1"]
    assert [listing.description for listing in board.listings[:3]] == ["About\nCook & serve"] * 2 + [None]


def test_an_ashby_without_jobs_may_be_none_at_all() -> None:
    step = read_one("ashby", {"apiVersion": "1", "jobs": []})
    assert step.listings == ()
    assert "there is none of this name" in step.so_far.warnings[0]


def test_a_workable_without_a_widget_is_read_by_its_tokens() -> None:
    def serve(request: Request) -> Any:
        if request.method == "GET":
            return {"name": "Acme", "jobs": []}
        page = int((request.json or {}).get("token", "0"))
        results = [{"shortcode": f"S{page}{n}", "title": f"Job {page}{n}"} for n in range(10)]
        return {"total": 30, "results": results} | ({"nextPage": str(page + 1)} if page < 2 else {})

    board, asked = read_all("workable", serve)
    assert len(board.listings) == board.total_said == 30
    assert [(request.json or {}).get("token") for request in asked] == [None, None, "1", "2"]
    assert board.listings[0].url == "https://apply.workable.com/acme/j/S00/"
    assert board.listings[0].company == "Acme"


def test_jobvite_takes_its_checks_for_robots_for_no_verdict() -> None:
    step = read_one("jobvite", '<a href="/acme/job/oA1">Cook</a><a class="jv-pagination-next" href="?p=1">next</a>')
    assert step.next is not None
    assert step.next.bot_checks == step.details[0].bot_checks == (202, 401, 403)
    assert step.listings[0].url == "https://jobs.jobvite.com/acme/job/oA1"


def test_a_detail_that_is_gone_costs_no_listing() -> None:
    async def fetch(request: Request) -> Any:
        if request.about:
            raise Gone("gone")
        return page_of({"totalFound": 1, "content": [{"id": "1", "name": "Cook"}]})

    board = asyncio.run(read_board(address_of("smartrecruiters"), fetch, BoardLimits(details=5), today=TODAY))
    assert [listing.title for listing in board.listings] == ["Cook"]
    assert board.warnings == ("gone",)


# ---------------------------------------------------------------- drift, limits, checkpoints


def test_one_job_in_another_shape_is_left_out_and_all_of_them_are_drift() -> None:
    good = {"id": 1, "title": "Cook", "absolute_url": "https://acme.example/1", "content": "x"}
    for odd in ({"headline": "Cook"}, "Cook", None, [], {"title": {"en": "Cook"}, "absolute_url": 7}):
        step = read_one("greenhouse", {"jobs": [good, odd]})
        assert [listing.title for listing in step.listings] == ["Cook"]
        assert len(step.so_far.warnings) == 1
        with pytest.raises(Drifted):
            read_one("greenhouse", {"jobs": [odd, odd]})


def test_values_of_another_shape_are_unknown() -> None:
    odd = {"id": 1, "title": " Cook ", "absolute_url": "https://acme.example/1", "location": "Oslo", "content": 7,
           "departments": {"name": "x"}, "first_published": {"at": 1}, "company_name": ["x"]}  # fmt: skip
    [listing] = read_one("greenhouse", {"jobs": [odd]}).listings
    assert (listing.title, listing.location, listing.posted, listing.department) == ("Cook", None, None, None)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (
            "greenhouse",
            {"jobs": [{"title": "Cook", "absolute_url": URL, "pay_input_ranges": [{"min_cents": ENDLESS}]}]},
        ),
        (
            "lever",
            [{"id": "1", "text": "Cook", "hostedUrl": URL, "createdAt": ENDLESS, "salaryRange": {"min": ENDLESS}}],
        ),
    ],
)
def test_a_pay_that_no_number_can_hold_is_unknown(kind: str, answer: Any) -> None:
    [listing] = read_one(kind, answer).listings
    assert (listing.title, listing.salary_min, listing.posted) == ("Cook", None, None)


def test_a_board_is_read_within_its_limits() -> None:
    board, asked = read_all("workday", Tenant(500), BoardLimits(pages=3))
    assert (len(asked), len(board.listings)) == (3, 60)
    assert "there are more" in board.warnings[0]
    board, asked = read_all("workday", Tenant(500), BoardLimits(listings=25))
    assert (len(asked), len(board.listings)) == (2, 25)


def test_a_stage_may_stop_between_two_pages_and_go_on_from_json() -> None:
    tenant, address = Tenant(5_000), address_of("workday")
    board = board_for(address.kind)
    request: Request | None = board.first(address)
    so_far, found = SoFar(), 0
    while request is not None:
        request = msgspec.json.decode(msgspec.json.encode(request), type=Request)
        so_far = msgspec.json.decode(msgspec.json.encode(so_far), type=SoFar)
        reading = Reading(address=address, request=request, today=TODAY, so_far=so_far)
        step = board.read(page_of(tenant(request)), reading)
        found += len(step.listings)
        request, so_far = step.next, step.so_far
    assert found == 5_000


def test_a_board_is_fetched_from_wherever_its_host_is_set_to() -> None:
    def body(first: int, count: int) -> bytes:
        return answer(json.dumps(lever_postings(first, count)).encode(), content_type="application/json")

    async def read() -> Any:
        path = "/x/v0/postings/acme?mode=json&skip={}&limit=100"
        async with RawServer({path.format(0): body(0, 100), path.format(100): body(100, 5)}) as server:
            hosts = {"api.lever.co": f"{server.url}/x"}
            fetcher = Fetcher(allow_loopback=True)
            return await read_board(address_of("lever"), fetcher.send, today=TODAY, hosts=hosts)

    assert len(asyncio.run(read()).listings) == 105


def test_a_star_stands_for_all_hosts_below() -> None:
    hosts = {"*.myworkdayjobs.com": "http://127.0.0.1:1/wd", "api.lever.co": "http://127.0.0.1:2"}
    assert placed("https://a.wd5.myworkdayjobs.com/x?y=1", hosts) == "http://127.0.0.1:1/wd/x?y=1"
    assert placed("https://api.lever.co/x", hosts) == "http://127.0.0.1:2/x"
    assert placed("https://lever.co/x", hosts) == "https://lever.co/x"
