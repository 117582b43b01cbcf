"""The fetcher, against a real server on loopback that does its worst."""

from __future__ import annotations

import asyncio
import gzip
import pickle
import threading
import time
import zlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import pytest

from onceward_apps.jobfinder import network
from onceward_apps.jobfinder.decoding import text_of
from onceward_apps.jobfinder.errors import Gone, Refused, RefusedReason, Unavailable, UnavailableReason
from onceward_apps.jobfinder.fetching import Fetcher, FetchLimits
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.retry_after import retry_after_s
from tests.apps.jobfinder.raw_server import RawServer, answer, moved

Result = TypeVar("Result")
PAGE = b"<!doctype html><p>Hello</p>"
NOON = 1_800_000_000.0


def served(server: RawServer, url: str = "/", fetcher: Fetcher | None = None, **options: Any) -> Page:
    """What a fetcher makes of one address on a server."""

    async def fetch() -> Page:
        async with server:
            whole = url if "://" in url else server.url + url
            return await (fetcher or Fetcher(allow_loopback=True)).get(whole, **options)

    return asyncio.run(fetch())


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(coroutine)


def names(**hosts: list[str]) -> Any:
    """A resolver that knows some hosts, with `_` for a dot, and counts its look-ups."""

    async def resolve(host: str, port: int) -> list[str]:
        resolve.asked.append(host)  # type: ignore[attr-defined]
        return hosts[host.replace(".", "_")]

    resolve.asked = []  # type: ignore[attr-defined]
    return resolve


# ---------------------------------------------------------------- pages


def test_a_page_comes_with_all_that_was_said_about_it() -> None:
    server = RawServer({"/a": moved("/b"), "/b": answer(PAGE, content_type="text/html; charset=utf-8", x_y="z")})
    page = served(server, "/a")
    assert (page.status, page.body, page.text) == (200, PAGE, PAGE.decode())
    assert page.content_type == "text/html; charset=utf-8"
    assert page.headers["x-y"] == "z"
    assert page.url == page.redirects[0] == f"{server.url}/a"
    assert page.final_url == f"{server.url}/b"


def test_the_fetcher_says_who_it_is() -> None:
    server = RawServer({"/": answer(PAGE)})
    served(server, fetcher=Fetcher(allow_loopback=True, contact="mailto:me@shop.example"))
    assert {headers["user-agent"] for _, _, headers, _ in server.requests} == {
        "onceward-jobs/0.1 (+mailto:me@shop.example)"
    }


def test_a_request_of_a_board_is_sent_as_it_is() -> None:
    server = RawServer({"/jobs": answer(b'{"a":1}', content_type="application/json")})

    async def send() -> Page:
        async with server:
            request = Request(url=f"{server.url}/jobs", method="POST", json={"limit": 20}, is_api=True)
            return await Fetcher(allow_loopback=True).send(request)

    assert run(send()).body == b'{"a":1}'
    [(method, path, headers, body)] = server.requests
    assert (method, path, body) == ("POST", "/jobs", b'{"limit":20}')
    assert headers["accept"] == headers["content-type"] == "application/json"


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://localhost/", "http://0x7f.1/", "http://[::1]/", "http://169.254.169.254/latest/",
     "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://10.0.0.1/"],
)  # fmt: skip
def test_a_host_that_is_not_public_is_never_asked(url: str) -> None:
    with pytest.raises(Refused) as refused:
        run(Fetcher().get(url))
    assert refused.value.reason is RefusedReason.NOT_PUBLIC


def test_a_name_is_looked_up_once_and_the_checked_address_is_connected_to() -> None:
    server = RawServer({"/": answer(PAGE)})
    resolve = names(shop_example=["127.0.0.1"])

    async def fetch() -> Page:
        async with server:
            fetcher = Fetcher(allow_loopback=True, resolve=resolve, obey_robots=False)
            return await fetcher.get(f"http://shop.example:{server.port}/")

    # No resolver knows the name: a second look-up anywhere would fail.
    assert run(fetch()).body == PAGE
    assert resolve.asked == ["shop.example"]
    assert server.requests[0][2]["host"] == f"shop.example:{server.port}"


def test_a_name_that_means_something_else_the_second_time_is_refused_then() -> None:
    answers = iter([["127.0.0.1"], ["192.168.0.1"]])

    async def resolve(host: str, port: int) -> list[str]:
        return next(answers)

    async def fetch() -> None:
        async with RawServer({"/": answer(PAGE)}) as server:
            fetcher = Fetcher(allow_loopback=True, resolve=resolve, obey_robots=False)
            await fetcher.get(f"http://shop.example:{server.port}/")
            with pytest.raises(Refused) as refused:
                await fetcher.get(f"http://shop.example:{server.port}/")
            assert refused.value.reason is RefusedReason.NOT_PUBLIC

    run(fetch())


def test_an_odd_port_is_refused_before_anything_is_looked_up() -> None:
    resolve = names()
    with pytest.raises(Refused) as refused:
        run(Fetcher(resolve=resolve).get("http://shop.example:6379/"))
    assert refused.value.reason is RefusedReason.PORT
    assert resolve.asked == []


def test_a_host_that_does_not_exist_is_refused_and_one_that_is_down_may_come_back() -> None:
    with pytest.raises(Refused) as refused:
        run(Fetcher(resolve=names(shop_example=[])).get("http://shop.example/"))
    assert refused.value.reason is RefusedReason.UNKNOWN_HOST

    async def nobody() -> None:
        async with RawServer() as server:
            url = server.url
        await Fetcher(allow_loopback=True, obey_robots=False).get(url)

    with pytest.raises(Unavailable) as down:
        run(nobody())
    assert down.value.reason is UnavailableReason.CONNECT


# ---------------------------------------------------------------- redirects


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://10.0.0.1/", RefusedReason.NOT_PUBLIC),
        ("http://intranet.example/", RefusedReason.NOT_PUBLIC),
        ("//169.254.169.254/latest/meta-data", RefusedReason.NOT_PUBLIC),
        ("file:///etc/passwd", RefusedReason.SCHEME),
        ("http://me:secret@shop.example/", RefusedReason.USERINFO),
        ("http://[", RefusedReason.BAD_URL),
        ("", RefusedReason.BAD_REDIRECT),
    ],
)
def test_every_hop_is_checked_anew(location: str, reason: RefusedReason) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["192.168.7.7"] if host == "intranet.example" else [host]

    fetcher = Fetcher(allow_loopback=True, resolve=resolve, obey_robots=False)
    with pytest.raises(Refused) as refused:
        served(RawServer({"/": moved(location)}), fetcher=fetcher)
    assert refused.value.reason is reason


def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    steps = {f"/{n}": moved(f"/{n + 1}") for n in range(6)}
    assert served(RawServer({**steps, "/6": answer(PAGE)}), "/1").body == PAGE
    with pytest.raises(Refused) as refused:
        served(RawServer({**steps, "/6": answer(PAGE)}), "/0")
    assert refused.value.reason is RefusedReason.TOO_MANY_REDIRECTS


def test_a_circle_of_redirects_is_noticed() -> None:
    server = RawServer({"/a": moved("/b"), "/b": moved("/a#again")})
    with pytest.raises(Refused) as refused:
        served(server, "/a")
    assert refused.value.reason is RefusedReason.REDIRECT_LOOP
    assert server.paths() == ["/a", "/b"]


@pytest.mark.parametrize(("status", "error"), [(303, Unavailable), (302, Unavailable), (307, Unavailable),
                                               (301, Refused), (308, Refused)])  # fmt: skip
def test_a_redirected_post_is_not_followed(status: int, error: type[Exception]) -> None:
    server = RawServer({"/": moved("/elsewhere", status), "/elsewhere": answer(b"{}", content_type="application/json")})
    with pytest.raises(error):
        served(server, method="POST", json={}, kinds=("json",))
    assert server.paths() == ["/"]


def test_headers_of_the_caller_stay_with_the_host_they_were_meant_for() -> None:
    async def fetch() -> None:
        async with RawServer({"/": answer(PAGE)}) as other, RawServer() as server:
            server.routes["/"] = moved(f"{other.url}/")
            await Fetcher(allow_loopback=True).get(server.url, headers={"If-None-Match": "tag"})
            assert server.requests[-1][2]["if-none-match"] == "tag"
            assert all("if-none-match" not in headers for _, _, headers, _ in other.requests)

    run(fetch())


# ---------------------------------------------------------------- bodies


SMALL = FetchLimits(html_bytes=10_000, json_bytes=10_000)


def fetched(route: Any, **options: Any) -> Page:
    limits = options.pop("limits", SMALL)
    return served(RawServer({"/": route}), fetcher=Fetcher(limits, allow_loopback=True), **options)


async def endless() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 x\r\ncontent-type: text/html\r\n\r\n"
    while True:
        yield b"<p>" * 500


def test_a_body_is_read_up_to_its_limit() -> None:
    assert len(fetched(answer(b"<" * 10_000)).body) == 10_000
    for route in (answer(b"<" * 10_001), endless):
        with pytest.raises(Refused) as refused:
            fetched(route)
        assert refused.value.reason is RefusedReason.TOO_LARGE


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_small_body_that_unpacks_to_a_large_one_is_refused(coding: str) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    assert fetched(answer(pack(PAGE), content_encoding=coding)).body == PAGE
    bomb = pack(b"\0" * 50_000_000)
    with pytest.raises(Refused) as refused:
        fetched(answer(bomb, content_encoding=coding), limits=FetchLimits(html_bytes=1_000_000))
    assert refused.value.reason is RefusedReason.TOO_LARGE


@pytest.mark.parametrize(
    ("body", "coding"), [(b"not packed", "gzip"), (b"x", "br"), (b"x", "gzip, gzip, gzip"), (b"x", "pack200")]
)
def test_a_body_in_an_encoding_that_cannot_be_read_is_refused(body: bytes, coding: str) -> None:
    with pytest.raises(Refused) as refused:
        fetched(answer(body, content_encoding=coding))
    assert refused.value.reason is RefusedReason.BAD_ENCODING


async def trickle() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 x\r\ncontent-type: text/html\r\n\r\n"
    while True:
        yield b"."
        await asyncio.sleep(0.01)


async def silence() -> AsyncIterator[bytes]:
    await asyncio.sleep(60)
    yield b""


@pytest.mark.parametrize("route", [trickle, silence])
def test_a_page_that_does_not_end_is_ended_after_the_whole_time(route: Any) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable) as late:
        fetched(route, limits=FetchLimits(total_s=0.3, read_s=10))
    assert late.value.reason is UnavailableReason.TIMEOUT
    assert time.monotonic() - began < 5


def test_a_connection_that_breaks_off_may_be_tried_again() -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 x\r\ncontent-type: text/html\r\ncontent-length: 100\r\n\r\nabc"

    async def nonsense() -> AsyncIterator[bytes]:
        yield b"SSH-2.0-OpenSSH\r\n\r\n"

    for route in (half, nonsense):
        with pytest.raises(Unavailable) as broken:
            fetched(route)
        assert broken.value.reason is UnavailableReason.BROKEN_OFF


# ---------------------------------------------------------------- types


JSON, RSS = b'{"jobs": []}', b'<?xml version="1.0"?>\n<!-- jobs -->\n<rss version="2.0"><channel/></rss>'
COMMENTS = b"<!-- -->\n" * 400


@pytest.mark.parametrize(
    ("kinds", "content_type", "body", "is_taken"),
    [
        (("html",), "text/html", PAGE, True),
        (("html",), "application/xhtml+xml; charset=utf-8", PAGE, True),
        (("html",), "text/plain", PAGE, True),
        (("html",), None, PAGE, True),
        (("html",), "text/plain", COMMENTS + PAGE, True),
        (("html",), "text/plain", b"just words", False),
        (("html",), "text/plain", COMMENTS, False),
        (("html",), "application/pdf", b"%PDF", False),
        (("html",), "application/json", JSON, False),
        (("json",), "application/json", JSON, True),
        (("json",), "application/vnd.api+json", JSON, True),
        (("json",), "text/plain", JSON, True),
        (("json",), "text/html", JSON, True),
        (("json",), "text/html", PAGE, False),
        (("json",), "image/png", JSON, False),
        (("feed",), "application/rss+xml", RSS, True),
        (("feed",), "text/xml", RSS, True),
        (("feed",), "text/html", RSS, True),
        (("feed",), "application/octet-stream", RSS, True),
        (("feed",), "text/html", COMMENTS, False),
        (("feed",), "application/feed+json", JSON, True),
        (("feed",), "text/html", PAGE, False),
        (("html", "feed"), "text/html", PAGE, True),
        (("html", "feed"), "application/atom+xml", RSS, True),
    ],
)
def test_a_body_is_of_a_kind_that_was_asked_for(
    kinds: tuple[Any, ...], content_type: str | None, body: bytes, is_taken: bool
) -> None:
    route = answer(body, content_type=content_type)
    if is_taken:
        assert fetched(route, kinds=kinds).body == body
    else:
        with pytest.raises(Refused) as refused:
            fetched(route, kinds=kinds)
        assert refused.value.reason is RefusedReason.WRONG_TYPE


def test_a_body_of_a_wrong_type_is_not_read() -> None:
    async def film() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 x\r\ncontent-type: video/mp4\r\n\r\n"
        await asyncio.sleep(60)

    with pytest.raises(Refused) as refused:
        fetched(film)
    assert refused.value.reason is RefusedReason.WRONG_TYPE


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é".encode(), "text/html; charset=UTF-8", "é"),
        ("é".encode("latin-1"), "text/html; charset=ISO-8859-1", "é"),
        (b"\x93x\x94", "text/html; charset=iso-8859-1", "“x”"),
        ("é".encode(), "text/html", "é"),
        ("é€".encode("cp1252"), "text/html", "é€"),
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=iso-8859-1", "é"),
        ("é".encode("utf-16"), "text/html", "é"),
        (b"<meta charset=koi8-r>\xc1", "text/html", "<meta charset=koi8-r>а"),
        (b'<?xml version="1.0" encoding="shift_jis"?>\x83\x65', "text/xml",
         '<?xml version="1.0" encoding="shift_jis"?>テ'),
        (b"<meta charset=utf-16>x", "text/html", "<meta charset=utf-16>x"),
        ("é".encode(), "text/html; charset=unicode_escape", "é"),
        ("é".encode(), "text/html; charset=zlib", "é"),
        (b"+AGEAYg-", "text/html; charset=utf-7", "+AGEAYg-"),
        (b"\xff", "text/html; charset=utf-8", "\ufffd"),
    ],
)  # fmt: skip
def test_bytes_become_text_as_in_a_browser(body: bytes, content_type: str, text: str) -> None:
    assert text_of(body, content_type) == text


# ---------------------------------------------------------------- statuses


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (404, Gone, None),
        (410, Gone, None),
        (400, Refused, RefusedReason.STATUS),
        (401, Refused, RefusedReason.STATUS),
        (403, Refused, RefusedReason.STATUS),
        (451, Refused, RefusedReason.STATUS),
        (408, Unavailable, UnavailableReason.SERVER_ERROR),
        (429, Unavailable, UnavailableReason.RATE_LIMITED),
        (500, Unavailable, UnavailableReason.SERVER_ERROR),
        (503, Unavailable, UnavailableReason.SERVER_ERROR),
        (522, Unavailable, UnavailableReason.SERVER_ERROR),
        (300, Refused, RefusedReason.STATUS),
    ],
)
def test_a_status_decides_whether_it_is_worth_a_retry(status: int, error: type[Exception], reason: Any) -> None:
    with pytest.raises(error) as failed:
        fetched(answer(PAGE, status=status))
    assert failed.value.status == status  # type: ignore[attr-defined]
    if reason is not None:
        assert failed.value.reason is reason  # type: ignore[attr-defined]


def test_what_has_not_changed_has_no_body() -> None:
    assert fetched(answer(status=304), headers={"If-None-Match": "tag"}).status == 304


def test_a_bot_check_says_nothing_about_the_page() -> None:
    for status in (202, 401, 403):
        with pytest.raises(Unavailable) as checked:
            fetched(answer(PAGE, status=status), bot_checks=(202, 401, 403))
        assert checked.value.reason is UnavailableReason.BOT_CHECK


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("Fri, 15 Jan 2027 08:01:00 GMT", 60.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("99999999999", 604_800.0),
        ("inf", 604_800.0),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOON) == seconds


def test_a_busy_server_tells_the_engine_when_to_come_back() -> None:
    with pytest.raises(Unavailable) as busy:
        fetched(answer(status=429, retry_after="7"))
    assert busy.value.retry_after == busy.value.retry_after_s == 7.0
    assert isinstance(busy.value, ConnectionError)


def test_errors_travel_between_processes() -> None:
    for error in (
        Unavailable(UnavailableReason.RATE_LIMITED, "busy", retry_after_s=3, status=429),
        Refused(RefusedReason.STATUS, "no", status=403),
        Gone("gone", 410),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_names_that_nobody_answers_for_hold_up_no_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(network.socket, "getaddrinfo", lambda *_, **__: answered.wait(60) and [])

    async def scene() -> None:
        waiting = [asyncio.create_task(network.resolve(f"h{number}.example", 443)) for number in range(64)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 10) == "free"
        with pytest.raises(Unavailable, match="64 names have no answer"):
            await network.resolve("one.more.example", 443)
        waiting[0].cancel()
        answered.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [[]] * 63
        assert await network.resolve("one.more.example", 443) == []

    asyncio.run(scene())
