"""One request and its answer: counted while it is read, and judged by its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpcore2
import httpx2

from onceward_apps.jobfinder.addresses import Target
from onceward_apps.jobfinder.content_types import check_start, check_type
from onceward_apps.jobfinder.errors import Gone, Refused, RefusedReason, Unavailable, UnavailableReason
from onceward_apps.jobfinder.network import translated
from onceward_apps.jobfinder.pages import Kind, Method
from onceward_apps.jobfinder.retry_after import retry_after_s

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LASTING_REDIRECTS = frozenset({301, 308})
_BUSY = frozenset({408, 425, 429})
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
_ENCODINGS_NESTED = 2


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked, wherever it leads, and what is taken for an answer."""

    method: Method
    headers: Mapping[str, str]
    content: bytes | None
    kinds: tuple[Kind, ...]
    """None of them: a body of any type."""
    bytes_max: int
    bot_checks: frozenset[int] = frozenset()
    cuts: bool = False
    """Whether a longer body is cut instead of refused."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said: either a body, or where to go."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    location: str | None = None


async def exchange(client: httpx2.AsyncClient, hop: Target, ask: Ask, now: float) -> Answer:
    """Ask one server once. Raises Refused, Gone or Unavailable."""
    try:
        async with client.stream(ask.method, hop.href, headers=dict(ask.headers), content=ask.content) as response:
            return await _judged(response, hop, ask, now)
    except httpx2.DecodingError as error:
        raise Refused(RefusedReason.BAD_ENCODING, f"{hop.href} cannot be decompressed: {error}") from error
    except (httpx2.InvalidURL, httpx2.LocalProtocolError, httpcore2.LocalProtocolError) as error:
        raise Refused(RefusedReason.BAD_URL, f"{hop.href}: {error}") from error
    except (
        httpx2.TransportError,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.TimeoutException,
    ) as error:
        raise translated(error, hop.host) from error


async def _judged(response: httpx2.Response, hop: Target, ask: Ask, now: float) -> Answer:
    status = response.status_code
    headers = _lowered(response.headers)
    if status in ask.bot_checks:
        wait_s = retry_after_s(headers.get("retry-after"), now)
        detail = f"{hop.href} answered {status}, which here is a check for robots"
        raise Unavailable(UnavailableReason.BOT_CHECK, detail, retry_after_s=wait_s, status=status)
    if status in _REDIRECTS:
        return Answer(status, headers, location=_location(hop, ask, status, headers))
    if status == 304:
        return Answer(status, headers)
    if not 200 <= status < 300:
        raise _failure(status, headers, hop, now)
    content_type = headers.get("content-type", "")
    if ask.kinds:
        check_type(content_type, ask.kinds, hop.href)
    body = await _body(response, headers, hop, ask)
    if ask.kinds and body:
        check_start(body, content_type, ask.kinds, hop.href)
    return Answer(status, headers, body)


def _location(hop: Target, ask: Ask, status: int, headers: Mapping[str, str]) -> str:
    location = headers.get("location")
    if ask.method == "POST":
        # To follow would make a GET of it, or send the body to another host; some boards do this when they are busy.
        detail = f"{hop.href} answered a POST with a redirect ({status})"
        if status in _LASTING_REDIRECTS:
            raise Refused(RefusedReason.BAD_REDIRECT, detail, status=status)
        raise Unavailable(UnavailableReason.REDIRECTED, detail, status=status)
    if not location:
        raise Refused(RefusedReason.BAD_REDIRECT, f"{hop.href} redirects to nowhere ({status})", status=status)
    return location


def _failure(status: int, headers: Mapping[str, str], hop: Target, now: float) -> Exception:
    detail = f"{hop.href} answered {status}"
    if status in (404, 410):
        return Gone(detail, status)
    if status in _BUSY or status >= 500:
        reason = UnavailableReason.RATE_LIMITED if status == 429 else UnavailableReason.SERVER_ERROR
        wait_s = retry_after_s(headers.get("retry-after"), now)
        return Unavailable(reason, detail, retry_after_s=wait_s, status=status)
    return Refused(RefusedReason.STATUS, detail, status=status)


async def _body(response: httpx2.Response, headers: Mapping[str, str], hop: Target, ask: Ask) -> bytes:
    codings = [coding.strip().lower() for coding in headers.get("content-encoding", "").split(",")]
    if len(codings) > _ENCODINGS_NESTED or not _ENCODINGS.issuperset(codings):
        named = ", ".join(codings)
        raise Refused(RefusedReason.BAD_ENCODING, f"{hop.href} is encoded as {named}, which was not asked for")
    said = headers.get("content-length", "")
    if not ask.cuts and said.isdecimal() and int(said[:20]) > ask.bytes_max:
        raise _too_large(hop, ask)
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if max(len(body), response.num_bytes_downloaded) > ask.bytes_max:
            if ask.cuts:
                break
            raise _too_large(hop, ask)
    return bytes(body)


def _too_large(hop: Target, ask: Ask) -> Refused:
    return Refused(RefusedReason.TOO_LARGE, f"{hop.href} has more than {ask.bytes_max} bytes")


def _lowered(headers: httpx2.Headers) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.multi_items():
        lowered = name.lower()
        joined[lowered] = f"{joined[lowered]}, {value}" if lowered in joined else value
    return joined
