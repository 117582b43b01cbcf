"""One way to fetch: safe against addresses, answers and redirects that mean harm, honest about its sender.

Every hop is checked anew: scheme, port, public addresses, robots.txt. The body is counted while it streams, before
and after decompression; the time limit holds for the whole of a fetch, redirects and robots.txt included. Every
connection serves one fetch and ends with it, so nothing is left over for another page, loop or process.

Rates, retries and breakers are the engine's: call a Fetcher inside `ctx.acall(source_of_the_host, …)`.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import httpx2
import msgspec

from onceward_apps.jobfinder import robots
from onceward_apps.jobfinder.addresses import Target, target
from onceward_apps.jobfinder.content_types import accept_of
from onceward_apps.jobfinder.decoding import text_of
from onceward_apps.jobfinder.errors import Gone, Refused, RefusedReason, Unavailable, UnavailableReason
from onceward_apps.jobfinder.exchange import Answer, Ask, exchange
from onceward_apps.jobfinder.network import NO_STAND_INS, CheckedNetwork, CheckedTransport, Resolve, StandIns, resolve
from onceward_apps.jobfinder.pages import MOST_REDIRECTS, Kind, Method, Page, Request
from onceward_apps.jobfinder.robots_cache import RobotsCache

AGENT = "onceward-jobs"
"""The product token, by which a robots.txt names us."""


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one fetch may take."""

    total_s: float = 30.0
    connect_s: float = 10.0
    read_s: float = 10.0
    html_bytes: int = 4 * 1024 * 1024
    json_bytes: int = 32 * 1024 * 1024
    feed_bytes: int = 8 * 1024 * 1024
    text_bytes: int = 1024 * 1024
    redirects: int = MOST_REDIRECTS

    def bytes_of(self, kinds: Collection[Kind]) -> int:
        """The most that a body of one of these kinds may have."""
        sizes: dict[Kind, int] = {
            "html": self.html_bytes,
            "json": self.json_bytes,
            "feed": self.feed_bytes,
            "text": self.text_bytes,
        }
        return max(sizes[kind] for kind in kinds)


@cache
def _usual_tls() -> ssl.SSLContext:
    """Trust what the system trusts; cached, since reading all its certificates takes 50 ms."""
    return ssl.create_default_context()


class Fetcher:
    """Fetches pages. One may be shared by any number of stages."""

    def __init__(
        self,
        limits: FetchLimits | None = None,
        *,
        allow_loopback: bool = False,
        contact: str | None = None,
        obey_robots: bool = True,
        resolve: Resolve = resolve,
        stand_ins: StandIns = NO_STAND_INS,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits or FetchLimits()
        self._network = CheckedNetwork(allow_loopback=allow_loopback, resolve=resolve)
        self._stand_ins = stand_ins
        self._tls = tls or _usual_tls()
        self._clock = clock
        self._obeys_robots = obey_robots
        self._robots = RobotsCache()
        self.user_agent = f"{AGENT}/0.1 (+{contact})" if contact else f"{AGENT}/0.1"

    async def send(self, request: Request, *, follows: bool = True) -> Page:
        """Fetch what a board asks for."""
        return await self.get(
            request.url,
            accept=request.accept,
            method=request.method,
            json=request.json,
            kinds=request.kinds,
            is_api=request.is_api,
            bot_checks=request.bot_checks,
            follows=follows,
        )

    def hop(self, asked: Sequence[str], location: str) -> str:
        """The address that a redirect leads to, after all that were asked. Raises Refused for a circle, or too many."""
        return self._hop(list(asked), location).href

    async def get(
        self,
        url: str,
        *,
        accept: str | None = None,
        method: Method = "GET",
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        kinds: tuple[Kind, ...] = ("html",),
        is_api: bool = False,
        bot_checks: Collection[int] = (),
        follows: bool = True,
    ) -> Page:
        """The page at an address. Raises Refused, Gone or Unavailable, and nothing else.

        `kinds` is what the body may be. `is_api` says that the address is a published interface for programs, for
        which robots.txt is not asked. An answer with a status in `bot_checks` says nothing about the page. `headers`
        are sent to the host of the address alone, not to where it redirects. Unless it `follows`, a redirect is a page
        like any other, with its `location` among the headers.
        """
        own = {"User-Agent": self.user_agent, "Accept": accept or accept_of(kinds), "Accept-Encoding": "gzip, deflate"}
        content = None if json is None else msgspec.json.encode(json)
        if content is not None:
            own["Content-Type"] = "application/json"
        size = self._limits.bytes_of(kinds)
        ask = Ask(method, {**(headers or {}), **own}, content, kinds, size, frozenset(bot_checks))
        first = target(url)
        async with self._within_the_limits(first) as client:
            asked, answer = await self._followed(
                client, first, ask, replace(ask, headers=own), checks=self._obeys_robots and not is_api, follows=follows
            )
        content_type = answer.headers.get("content-type", "")
        return Page(
            url=url,
            final_url=asked[-1],
            status=answer.status,
            content_type=content_type,
            headers=dict(answer.headers),
            body=answer.body,
            text=text_of(answer.body, content_type),
            redirects=tuple(asked[:-1]),
        )

    async def rules_of(self, url: str) -> robots.Robots:
        """The robots.txt of an address's site: what it allows, its crawl delay, its sitemaps."""
        hop = target(url)
        async with self._within_the_limits(hop) as client:
            return await self._rules(client, hop)

    @asynccontextmanager
    async def _within_the_limits(self, hop: Target) -> AsyncIterator[httpx2.AsyncClient]:
        timeout = httpx2.Timeout(self._limits.read_s, connect=self._limits.connect_s)
        transport = CheckedTransport(self._network, self._tls, self._stand_ins)
        try:
            async with (
                asyncio.timeout(self._limits.total_s),
                httpx2.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client,
            ):
                yield client
        except TimeoutError as error:
            detail = f"{hop.href} was not read within {self._limits.total_s:g} s"
            raise Unavailable(UnavailableReason.TIMEOUT, detail) from error

    async def _followed(
        self, client: httpx2.AsyncClient, first: Target, ask: Ask, elsewhere: Ask, *, checks: bool, follows: bool = True
    ) -> tuple[list[str], Answer]:
        """The answer at the end of all redirects, and every address that was asked for it."""
        hop, asked = first, [first.href]
        while True:
            if checks and not (await self._rules(client, hop)).allows(hop.href, AGENT):
                raise Refused(RefusedReason.ROBOTS, f"the robots.txt of {hop.origin} does not allow {hop.href}")
            answer = await exchange(client, hop, ask if hop.origin == first.origin else elsewhere, self._clock())
            if answer.location is None or not follows:
                return asked, answer
            hop = self._hop(asked, answer.location)
            asked.append(hop.href)

    def _hop(self, asked: list[str], location: str) -> Target:
        hop = target(location, base=asked[-1])
        if hop.href in asked:
            raise Refused(RefusedReason.REDIRECT_LOOP, f"{asked[0]} redirects in a circle, to {hop.href} again")
        if len(asked) > self._limits.redirects:
            detail = f"{asked[0]} redirects more than {self._limits.redirects} times"
            raise Refused(RefusedReason.TOO_MANY_REDIRECTS, detail)
        return hop

    async def _rules(self, client: httpx2.AsyncClient, hop: Target) -> robots.Robots:
        now = self._clock()
        known = self._robots.fresh(hop.origin, now)
        if known is not None:
            return known
        own = {"User-Agent": self.user_agent, "Accept": "text/plain,*/*;q=0.1", "Accept-Encoding": "gzip, deflate"}
        ask = Ask("GET", own, None, (), robots.BYTES_READ + 1, cuts=True)
        try:
            _, answer = await self._followed(client, target(f"{hop.origin}/robots.txt"), ask, ask, checks=False)
            rules = robots.parsed(answer.body)
        except Gone:
            rules = robots.NO_RULES
        except Refused as error:
            if error.reason not in _MEANS_NO_RULES:
                raise
            rules = robots.NO_RULES
        except Unavailable as error:
            old = self._robots.old(hop.origin)
            if old is not None:
                return old
            detail = f"the robots.txt of {hop.origin} cannot be read, so nothing is fetched there: {error.detail}"
            raise Unavailable(
                UnavailableReason.ROBOTS_UNREACHABLE, detail, retry_after_s=error.retry_after_s, status=error.status
            ) from error
        self._robots.keep(hop.origin, rules, now)
        return rules


_MEANS_NO_RULES = frozenset({
    RefusedReason.STATUS, RefusedReason.BAD_ENCODING, RefusedReason.BAD_REDIRECT, RefusedReason.REDIRECT_LOOP,
    RefusedReason.TOO_MANY_REDIRECTS,
})  # fmt: skip
"""Why a robots.txt may be missing without harm: RFC 9309 calls it unavailable, and lets everything be fetched."""
