"""robots.txt: its rules, and what the fetcher does about them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from protego import Protego

from onceward_apps.jobfinder.errors import Refused, RefusedReason, Unavailable, UnavailableReason
from onceward_apps.jobfinder.fetching import AGENT, Fetcher
from onceward_apps.jobfinder.robots import BYTES_READ, parsed
from tests.apps.jobfinder.raw_server import RawServer, answer, moved
from tests.apps.jobfinder.robots_cases import cases
from tests.apps.jobfinder.shared_data import shared_files

PAGE = answer(b"<!doctype html>")


def text(rules: str, status: int = 200, **headers: str) -> bytes:
    return answer(rules.encode(), status, "text/plain", **headers)


# ---------------------------------------------------------------- rules


def test_the_conformance_cases_are_kept_better_than_protego_keeps_them() -> None:
    all_cases = [case for path in shared_files("robots/google_spec") for case in cases(path)]
    assert len(all_cases) == 146
    missed = [case for case in all_cases if parsed(case.robots).allows(case.url, case.agent) is not case.is_allowed]
    missed_by_protego = [
        case
        for case in all_cases
        if Protego.parse(case.robots.decode("utf-8", "replace")).can_fetch(case.url, case.agent) is not case.is_allowed
    ]
    # RFC 9309, 2.2.2 takes an address and its percent-encoded form for the same; these three cases do not.
    assert {case.file for case in missed} == {"non-ascii-paths"}
    assert (len(missed), len(missed_by_protego)) == (3, 14)


def test_the_files_of_real_sites_are_all_read() -> None:
    files = shared_files("robots/real_sites")
    assert len(files) == 71
    for path in files:
        rules = parsed(path.read_bytes())
        assert rules.allows(f"https://{path.name}/robots.txt", AGENT)
        assert rules.allows(f"https://{path.name}/", AGENT) in (True, False)
        assert all(isinstance(sitemap, str) for sitemap in rules.sitemaps())


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"])
def test_a_byte_order_mark_hides_no_rule(mark: bytes) -> None:
    assert not parsed(mark + b"User-agent: *\nDisallow: /").allows("https://shop.example/jobs", AGENT)


def test_the_first_word_of_an_agent_counts() -> None:
    rules = parsed(b"User-agent: onceward-jobs/2.0 (any)\nDisallow: /private\nCrawl-delay: 7\n")
    assert not rules.allows("https://shop.example/private", AGENT)
    assert rules.allows("https://shop.example/jobs", AGENT)
    assert rules.crawl_delay_s(AGENT) == 7.0


def test_a_page_instead_of_rules_allows_everything() -> None:
    assert parsed(b"<!doctype html><html><body>Not found</body></html>").allows("https://shop.example/", AGENT)
    assert parsed(bytes(range(256)) * 100).allows("https://shop.example/", AGENT)


def test_a_file_is_read_up_to_its_limit_and_to_the_end_of_a_line() -> None:
    start = b"User-agent: *\nDisallow: /x\n"
    rest = b"#" * (BYTES_READ - len(start) - 12) + b"\nDisallow: /and-more\n"
    rules = parsed(start + rest)
    assert not rules.allows("https://shop.example/x", AGENT)
    assert rules.allows("https://shop.example/and-more", AGENT)


# ---------------------------------------------------------------- the fetcher


def asked(routes: dict[str, Any], ask: Callable[[Fetcher, RawServer], Awaitable[Any]]) -> RawServer:
    """A server, after a fetcher has asked it."""
    server = RawServer(routes)

    async def run() -> None:
        async with server:
            await ask(Fetcher(allow_loopback=True), server)

    asyncio.run(run())
    return server


def get(path: str, **options: Any) -> Callable[[Fetcher, RawServer], Awaitable[Any]]:
    return lambda fetcher, server: fetcher.get(server.url + path, **options)


RULES = text("User-agent: *\nDisallow: /private\n")


def test_what_a_site_does_not_allow_is_not_asked_for() -> None:
    server = RawServer({"/robots.txt": RULES, "/private": PAGE})

    async def run() -> None:
        async with server:
            with pytest.raises(Refused) as refused:
                await Fetcher(allow_loopback=True).get(f"{server.url}/private")
            assert refused.value.reason is RefusedReason.ROBOTS

    asyncio.run(run())
    assert [path for _, path, _, _ in server.requests] == ["/robots.txt"]


def test_a_redirect_leads_nowhere_that_is_not_allowed() -> None:
    with pytest.raises(Refused) as refused:
        asked({"/robots.txt": RULES, "/": moved("/private"), "/private": PAGE}, get("/"))
    assert refused.value.reason is RefusedReason.ROBOTS


def test_an_interface_for_programs_needs_no_leave() -> None:
    server = asked({"/robots.txt": RULES, "/private": PAGE}, get("/private", is_api=True))
    assert [path for _, path, _, _ in server.requests] == ["/private"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_site_without_rules_allows_everything(status: int) -> None:
    asked({"/robots.txt": text("User-agent: *\nDisallow: /", status), "/": PAGE}, get("/"))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_site_whose_rules_cannot_be_read_is_left_alone_for_now(status: int) -> None:
    with pytest.raises(Unavailable) as later:
        asked({"/robots.txt": text("", status, retry_after="9"), "/": PAGE}, get("/"))
    assert later.value.reason is UnavailableReason.ROBOTS_UNREACHABLE
    assert (later.value.retry_after, later.value.status) == (9.0, status)


def test_rules_may_be_elsewhere_but_not_in_a_circle() -> None:
    with pytest.raises(Refused):
        asked({"/robots.txt": moved("/rules"), "/rules": RULES, "/private": PAGE}, get("/private"))
    asked({"/robots.txt": moved("/robots.txt"), "/private": PAGE}, get("/private"))


def test_rules_are_kept_for_a_day_and_longer_while_their_site_is_down() -> None:
    now = [1_000_000.0]
    server = RawServer({"/robots.txt": RULES, "/": PAGE})

    async def run() -> None:
        async with server:
            fetcher = Fetcher(allow_loopback=True, clock=lambda: now[0])
            for _ in range(3):
                await fetcher.get(server.url)
            assert _times(server) == 1
            now[0] += 24 * 3_600 - 1
            await fetcher.get(server.url)
            assert _times(server) == 1
            now[0] += 1
            server.routes["/robots.txt"] = text("", 503)
            await fetcher.get(server.url)
            with pytest.raises(Refused):
                await fetcher.get(f"{server.url}/private")
            assert _times(server) == 3

    asyncio.run(run())


def _times(server: RawServer) -> int:
    return sum(path == "/robots.txt" for _, path, _, _ in server.requests)


def test_a_file_without_end_is_cut() -> None:
    rules = b"User-agent: *\nDisallow: /private\n" + b"# more\n" * 200_000
    with pytest.raises(Refused) as refused:
        asked({"/robots.txt": answer(rules, content_type="text/plain"), "/private": PAGE}, get("/private"))
    assert refused.value.reason is RefusedReason.ROBOTS
