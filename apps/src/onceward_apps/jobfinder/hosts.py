"""The hosts of the web as one source of the engine: each with a rate, places, a breaker and a Retry-After of its own.

A stage declares `WEB`, so that a task is only claimed when the host of its key can serve it. A page of another host is
asked under that host's limits, where it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from onceward import Breaker, Context, Payload, Retry, Source
from onceward_apps.jobfinder import surroundings
from onceward_apps.jobfinder.boards.board import BoardKind, placed
from onceward_apps.jobfinder.errors import Drifted, Gone, Refused
from onceward_apps.jobfinder.pages import MOST_REDIRECTS, Page, Request

P = TypeVar("P", bound=Payload)

NAME = "web"
CALL_RETRIES = 1
KEPT_FOR = "10m"
"""How long a page is kept: for the tasks that want it together, and shorter than a source is ever left alone."""
RETRIES = 3
"""How often a stage is tried again."""
RETRY = Retry(retries=RETRIES, base="2s", cap="10m", permanent=(Refused, Gone, Drifted))

_API_HOSTS: dict[str, str] = {
    BoardKind.GREENHOUSE: "boards-api.greenhouse.io",
    BoardKind.LEVER: "api.lever.co",
    BoardKind.SMARTRECRUITERS: "api.smartrecruiters.com",
    BoardKind.ASHBY: "api.ashbyhq.com",
    BoardKind.WORKABLE: "apply.workable.com",
    BoardKind.JOBVITE: "jobs.jobvite.com",
}


class Kept(msgspec.Struct, frozen=True):
    """A page as the cache keeps it."""

    final_url: str
    status: int
    content_type: str
    text: str
    redirects: tuple[str, ...] = ()
    location: str | None = None
    """Where it redirects, if it does."""


def host_of_key(key: str) -> str:
    """The host, with its port, that work with this key asks: of an address, or of the interface of a board."""
    if "://" in key:
        return urlsplit(key).netloc or "nowhere"
    kind, _, token = key.partition(":")
    if kind == BoardKind.WORKDAY and token.count("/") >= 1:
        tenant, instance = token.split("/")[:2]
        host = f"{tenant}.{instance}.myworkdayjobs.com"
    else:
        host = _API_HOSTS.get(kind) or token.partition("/")[0]
    return urlsplit(placed(f"https://{host}/", surroundings.web().hosts)).netloc or "nowhere"


def _web(per_host: str | None = None) -> Source:
    options = surroundings.web()
    return Source(
        NAME,
        per=host_of_key if per_host is None else lambda _key: per_host,
        rate=options.rate,
        burst=options.burst,
        concurrency=options.concurrency,
        timeout=options.total_s + 15,
        retries=CALL_RETRIES,
        breaker=Breaker(failures=5, pause=options.breaker_pause),
        cache=KEPT_FOR,
    )


WEB = _web()
"""All hosts. Its limits are those of the environment that a worker is started in."""


def source_of(url: str, key: str) -> Source:
    """The source of a page, for a task with this key: the one that it was claimed with, or another host's."""
    host = urlsplit(url).netloc
    return WEB if host == host_of_key(key) else _web(host)


def calls_for(pages: int) -> Callable[[Payload], int]:
    """How many calls a stage makes at most that fetches so many pages: each may redirect as often as is allowed."""
    return lambda _payload: pages * (1 + MOST_REDIRECTS)


async def fetched(ctx: Context[P], request: Request) -> Page:
    """A page, each redirect on the way to it followed. Raises Refused, Gone or Unavailable.

    Every hop comes from the cache, or is one call within the limits of its own host.
    """
    kept = await _one(ctx, request)
    asked = [kept.final_url]
    while kept.location is not None:
        hop = surroundings.fetcher().hop(asked, kept.location)
        kept = await _one(ctx, replace(request, url=hop))
        asked.append(kept.final_url)
    return Page(
        url=request.url,
        final_url=kept.final_url,
        status=kept.status,
        content_type=kept.content_type,
        headers={"content-type": kept.content_type},
        body=kept.text.encode(),
        text=kept.text,
        redirects=tuple(asked[:-1]),
    )


async def _one(ctx: Context[P], request: Request) -> Kept:
    async def ask() -> Kept:
        page = await surroundings.fetcher().send(request, follows=False)
        location = page.headers.get("location") if 300 <= page.status < 400 else None
        return Kept(page.final_url, page.status, page.content_type, page.text, location=location)

    source = source_of(request.url, ctx.payload.key())
    kept: Kept = await ctx.acached(source, (request.method, request.url, request.json), ask, type=Kept)
    return kept


def page_request(url: str) -> Request:
    """The request for a page that people read."""
    return Request(url=url, kinds=("html",))


def is_last_try(ctx: Context[P]) -> bool:
    """Whether another failure of this stage would be its last: then what is known of it is written down."""
    return ctx.task.attempt > RETRIES
