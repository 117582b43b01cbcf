"""The invented web: what it serves is read by the fetcher and the boards as the real one is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import pytest

from onceward_apps.jobfinder.boards.board import BoardAddress, BoardKind
from onceward_apps.jobfinder.boards.reading import read_board
from onceward_apps.jobfinder.boards.recognising import recognise
from onceward_apps.jobfinder.errors import Refused, RefusedReason, Unavailable, UnavailableReason
from onceward_apps.jobfinder.fetching import Fetcher
from onceward_apps.jobfinder.world import sites, troubles
from onceward_apps.jobfinder.world.http import Entry, Server
from onceward_apps.jobfinder.world.judging import judge
from onceward_apps.jobfinder.world.running import CLOSED, running
from onceward_apps.jobfinder.world.web import Size, Web

TODAY = date(2026, 5, 1)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Web, Fetcher, Server]]:
    """A web, and somebody who fetches from it as from the real one."""
    web = Web(Size(), TODAY)
    server = Server(web.answer)
    port = await server.open()
    stand_ins = {"*": f"127.0.0.1:{port}", troubles.DEAD_HOST: CLOSED}
    try:
        yield web, Fetcher(allow_loopback=True, stand_ins=stand_ins), server
    finally:
        await server.close()


def test_a_web_has_forty_companies_and_every_kind_of_board() -> None:
    web = Web(Size(), TODAY)
    assert len(web.companies) == 40
    assert {one.kind for one in web.companies} == set(BoardKind)
    assert len({one.host for one in web.companies}) == 40
    numbers = [position.number for one in web.companies for position in web.positions(one)]
    assert len(numbers) == len(set(numbers)) > 600


def test_the_same_seed_gives_the_same_web_and_another_one_another() -> None:
    first, again, other = (Web(Size(seed=seed), TODAY) for seed in (7, 7, 8))
    assert first.companies == again.companies != other.companies
    company = first.companies[0]
    assert first.positions(company) == again.positions(company)


def test_a_large_web_has_as_many_companies_and_listings_as_were_asked_for() -> None:
    web = Web(Size(companies=1_000, listings=50_000, has_troubles=False), TODAY)
    assert len({one.slug for one in web.companies}) == 1_000
    assert sum(one.listings for one in web.companies) == 50_000


def test_a_site_keeps_its_own_address_though_loopback_stands_in_for_it() -> None:
    async def story() -> None:
        async with served() as (web, fetcher, server):
            page = await fetcher.get(f"{web.companies[0].website}about")
            assert page.final_url == f"https://{web.companies[0].host}/about"
            assert web.companies[0].name in page.text
            assert [entry.what for entry in server.log] == ["GET /robots.txt", "GET /about"]
            assert {entry.host for entry in server.log} == {web.companies[0].host}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("url", "error", "reason"),
    [
        ("https://ouroboros-loom.example/", Refused, RefusedReason.REDIRECT_LOOP),
        ("https://silent-quarry.example/", Unavailable, UnavailableReason.ROBOTS_UNREACHABLE),
        ("https://patience-weir.example/", Unavailable, UnavailableReason.RATE_LIMITED),
        ("https://hedgerow-gate.example/careers/1", Refused, RefusedReason.ROBOTS),
    ],
)
def test_what_is_wrong_with_a_site_is_told_apart(url: str, error: type[Exception], reason: str) -> None:
    async def story() -> None:
        async with served() as (_, fetcher, _server):
            with pytest.raises(error) as caught:
                await fetcher.get(url)
            assert getattr(caught.value, "reason") == reason  # noqa: B009
            if reason == UnavailableReason.RATE_LIMITED:
                assert getattr(caught.value, "retry_after_s") == troubles.RETRY_AFTER_S  # noqa: B009

    asyncio.run(story())


@pytest.mark.parametrize("kind", [kind for kind in BoardKind if kind is not BoardKind.GENERIC])
def test_a_board_is_read_whole_by_the_reader_of_its_kind(kind: BoardKind) -> None:
    async def story() -> None:
        async with served() as (web, fetcher, _server):
            company = next(one for one in web.companies if one.kind is kind)
            url = sites.board_url(company)
            address = BoardAddress(kind, url, url, "high") if kind is BoardKind.JSONLD else recognise(url)
            assert address is not None
            answer = await read_board(address, fetcher.send, today=TODAY)
            wanted = Counter(position.title for position in web.positions(company))
            assert Counter(listing.title.removesuffix(f" at {company.name}") for listing in answer.listings) == wanted
            assert answer.warnings == ()

    asyncio.run(story())


def test_a_host_is_not_stood_in_for_on_loopback_unless_that_is_allowed() -> None:
    fetcher = Fetcher(stand_ins={"*": CLOSED})
    with pytest.raises(Refused) as caught:
        asyncio.run(fetcher.get("https://moebius-mill.example/"))
    assert caught.value.reason in (RefusedReason.NOT_PUBLIC, RefusedReason.PORT)


def test_the_spam_board_has_ten_thousand_links_on_a_page_that_is_small_enough_to_be_read() -> None:
    async def story() -> None:
        async with served() as (_, fetcher, _server):
            page = await fetcher.get("https://bazaar-of-offers.example/careers")
            assert page.text.count('<a href="/offer/') == troubles.SPAM_PAGE

    asyncio.run(story())


def test_a_web_in_a_process_of_its_own_tells_what_it_was_asked_and_ends_with_whoever_started_it() -> None:
    with running(Size(companies=12, listings=20)) as web:
        fetcher = Fetcher(allow_loopback=True, stand_ins=web.stand_ins)
        with pytest.raises(Unavailable):
            asyncio.run(fetcher.get(f"https://{troubles.DEAD_HOST}/"))
        asyncio.run(fetcher.get("https://moebius-mill.example/"))
        assert [entry.what for entry in web.log()] == ["GET /robots.txt", "GET /"]


def test_a_host_that_was_asked_too_often_is_found_in_the_log() -> None:
    def log(host: str, *times: float) -> list[Entry]:
        return [Entry(at_s, host, "GET /", 200) for at_s in times]

    calm = log("calm.example", 0, 0, 1, 2, 3)
    assert judge(calm, per_second=1.0, burst=2).over == 0
    hasty = judge(calm + log("hasty.example", 0, 0, 0.5, 0.5), per_second=1.0, burst=2)
    assert (hasty.host, hasty.asked, hasty.over) == ("hasty.example", 4, 1.5)
