"""Which board an address belongs to, and which boards a page leads to."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from selectolax.lexbor import LexborNode

from onceward_apps.jobfinder.boards.board import CONFIDENCE, BoardAddress, BoardKind, Confidence
from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.jsonld import postings_in
from onceward_apps.jobfinder.links import absolute, host_of

MOST_LINKS = 2_000
"""How many links of a page are looked at."""

_Found = tuple[str, str] | None
"""The token, and where a person would look at the board."""

_NAME = re.compile(r"[\w.~@&+ -]{1,100}")
_LOCALE = re.compile(r"[a-z]{2}([-_][A-Za-z]{2,4})?")
_FEED = re.compile(
    r"(\.(rss|atom)|/(rss|feed|atom)(\.(xml|json|php|aspx?))?|/(?=[\w-]*(feed|rss|jobs|vacanc))[\w-]*\.(xml|rss)|/rss/[\w-]+)/?$",
    re.IGNORECASE,
)
_CAREERS = re.compile(
    r"(^|/)(careers?|jobs?|join-us|work-with-us|vacanc(y|ies)|open-?(positions|roles)|openings|stellen\w*|karriere"
    r"|emplois?|empleos?|positions)(\.\w+)?(/|$)",
    re.IGNORECASE,
)
_RANK: dict[Confidence, int] = {"high": 0, "medium": 1, "low": 2}


def recognise(url: str) -> BoardAddress | None:
    """The board that an address belongs to, be it of the board, of one job or of its interface; None if it is none."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    for kind, pattern, reader in _BOARDS:
        if pattern.fullmatch(host):
            found = reader(parts, host)
            return _address(kind, *found) if found else None
    if _FEED.search(parts.path):
        return _address(BoardKind.FEED, _bare(parts), url.strip())
    if _CAREERS.search(parts.path) or host.startswith(("careers.", "jobs.", "career.", "karriere.")):
        return _address(BoardKind.GENERIC, _bare(parts), url.strip())
    return None


def boards_in(source: str, base_url: str) -> list[BoardAddress]:
    """The boards that a page leads to, by its links, frames, scripts and its own words; the surest first, each once."""
    document = parsed_html(source)
    found: list[BoardAddress] = []
    for link in _links(source, base_url):
        board = recognise(link)
        if board is not None and (board.kind in _HOSTED or board.kind is BoardKind.FEED):
            found.append(board)
    for node in document.css("link[rel~=alternate][href]"):
        link = absolute(base_url, node.attributes.get("href")) or ""
        about = f"{link} {node.attributes.get('title') or ''}"
        kind = (node.attributes.get("type") or "").lower()
        if ("rss" in kind or "atom" in kind or "feed+json" in kind) and re.search(r"job|career|vacanc", about, re.I):
            found.append(_address(BoardKind.FEED, _bare(urlsplit(link)), link))
    if postings_in(source):
        found.append(_address(BoardKind.JSONLD, _bare(urlsplit(base_url)), base_url))
    found += _own_pages(document.css("a[href]"), base_url)
    unique: dict[tuple[BoardKind, str], BoardAddress] = {}
    for board in sorted(found, key=lambda board: _RANK[board.confidence]):
        unique.setdefault((board.kind, board.token.lower()), board)
    return list(unique.values())


def _own_pages(nodes: list[LexborNode], base_url: str) -> list[BoardAddress]:
    """The careers pages of the same site."""
    site = ".".join(host_of(base_url).split(".")[-2:])
    found = []
    links = dict.fromkeys((node.attributes.get("href") or "").partition("#")[0] for node in nodes)
    for href in list(links)[:MOST_LINKS]:
        link = absolute(base_url, href)
        board = recognise(link) if link else None
        if board is not None and board.kind is BoardKind.GENERIC and host_of(board.url).endswith(site):
            found.append(board)
    return found


def _links(source: str, base_url: str) -> list[str]:
    """Every address in a page's source on a host of a board, wherever it stands."""
    text = html.unescape(source.replace("\\/", "/"))
    return [link for found in _ON_A_BOARD.finditer(text) if (link := absolute(base_url, found[0]))]


def _address(kind: BoardKind, token: str, url: str, confidence: Confidence | None = None) -> BoardAddress:
    if kind is BoardKind.WORKDAY and token.count("/") < 2:
        confidence = "low"  # without the name of a site it cannot be read
    return BoardAddress(kind, token, url, confidence or CONFIDENCE[kind])


def _bare(parts: SplitResult) -> str:
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.netloc.lower()}{parts.path.rstrip('/')}{query}"


def _segments(parts: SplitResult) -> list[str]:
    return [unquote(segment) for segment in parts.path.split("/") if segment]


def _named(token: str | None, board_url: str) -> _Found:
    if token is None or not _NAME.fullmatch(token) or token in (".", ".."):
        return None
    return token, board_url.format(token.replace(" ", "%20"))


def _greenhouse(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    region = ".eu" if ".eu." in host else ""
    if path[:1] == ["embed"]:
        token = parse_qs(parts.query).get("for", [None])[0]
    elif path[:2] == ["v1", "boards"]:
        token = path[2] if len(path) > 2 else None
    else:
        token = path[0] if path else parse_qs(parts.query).get("for", [None])[0]
    return _named(token, f"https://job-boards{region}.greenhouse.io/{{}}")


def _lever(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    if path[:2] == ["v0", "postings"]:
        path = path[2:]
    region = ".eu" if ".eu." in host else ""
    return _named(path[0] if path else None, f"https://jobs{region}.lever.co/{{}}")


def _ashby(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    if host.startswith("api."):
        path = path[2:] if path[:2] == ["posting-api", "job-board"] else []
    return _named(path[0] if path else None, "https://jobs.ashbyhq.com/{}")


def _workable(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    if "accounts" in path[:4] and path[:1] == ["api"]:
        path = path[path.index("accounts") + 1 :]
    elif host not in ("apply.workable.com",):
        path = [host.split(".")[0]]
    elif path[:1] in (["j"], ["api"]):
        path = []  # the short link of a job does not say whose it is
    return _named(path[0] if path else None, "https://apply.workable.com/{}/")


def _smartrecruiters(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    for marker in ("companies", "company"):
        if marker in path[:-1]:
            path = path[path.index(marker) + 1 :]
            break
    token = parse_qs(parts.query).get("company", [None])[0] if not path else path[0]
    return _named(token, "https://careers.smartrecruiters.com/{}")


def _jobvite(parts: SplitResult, host: str) -> _Found:
    path = [segment for segment in _segments(parts) if not _LOCALE.fullmatch(segment)]
    if path[:1] == ["careers"]:
        path = path[1:]
    return _named(path[0] if path else None, "https://jobs.jobvite.com/{}/jobs")


def _workday(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    tenant, _, rest = host.partition(".")
    instance = rest.split(".")[0] if rest.startswith("wd") else ""
    if path[:2] == ["wday", "cxs"]:
        path = path[3:]
    elif path and _LOCALE.fullmatch(path[0]) and (len(path) > 1 or "-" in path[0]):
        path = path[1:]
    if not path or not _NAME.fullmatch(path[0]):
        return tenant, f"https://{host}/"
    return f"{tenant}/{instance}/{path[0]}", f"https://{host}/{path[0]}"


def _workday_site(parts: SplitResult, host: str) -> _Found:
    path = _segments(parts)
    if path and _LOCALE.fullmatch(path[0]):
        path = path[1:]
    if len(path) < 3 or path[0] != "recruiting":
        return None
    instance = next((label for label in host.split(".") if re.fullmatch(r"wd\d+", label)), "")
    return f"{path[1]}/{instance}/{path[2]}", f"https://{host}/recruiting/{path[1]}/{path[2]}"


def _teamtailor(parts: SplitResult, host: str) -> _Found:
    """Teamtailor gives every site a feed of its jobs."""
    locale = next((f"/{one}" for one in _segments(parts)[:1] if _LOCALE.fullmatch(one)), "")
    return f"{host}{locale}/jobs.rss", f"https://{host}{locale}/jobs.rss"


_BOARDS: tuple[tuple[BoardKind, re.Pattern[str], Callable[[SplitResult, str], _Found]], ...] = (
    (BoardKind.GREENHOUSE, re.compile(r"(job-)?boards(-api)?(\.eu)?\.greenhouse\.io"), _greenhouse),
    (BoardKind.LEVER, re.compile(r"(jobs|api)(\.eu)?\.lever\.co"), _lever),
    (BoardKind.ASHBY, re.compile(r"(jobs|api)\.ashbyhq\.com"), _ashby),
    (BoardKind.WORKABLE, re.compile(r"(?!jobs\.|help\.|resources\.|www\.)[\w-]+\.workable\.com"), _workable),
    (BoardKind.SMARTRECRUITERS, re.compile(r"(careers|jobs|api)\.smartrecruiters\.com"), _smartrecruiters),
    (BoardKind.JOBVITE, re.compile(r"jobs\.jobvite\.com"), _jobvite),
    (BoardKind.WORKDAY, re.compile(r"[\w-]+(\.wd\d+)?\.myworkdayjobs\.com"), _workday),
    (BoardKind.WORKDAY, re.compile(r"([\w-]+\.)*wd\d+\.myworkdaysite\.com"), _workday_site),
    (BoardKind.FEED, re.compile(r"(?!www\.|app\.|api\.)[\w-]+(\.\w+)?\.teamtailor\.com"), _teamtailor),
)
_HOSTED = frozenset(kind for kind, _, _ in _BOARDS)
_ON_A_BOARD = re.compile(
    r"(?:https?:)?//[\w.-]{0,100}\.(?:greenhouse\.io|lever\.co|ashbyhq\.com|workable\.com|smartrecruiters\.com"
    r"|jobvite\.com|myworkdayjobs\.com|myworkdaysite\.com|teamtailor\.com)(?:/[^\s\"'<>\\)]{0,500})?",
    re.IGNORECASE,
)
