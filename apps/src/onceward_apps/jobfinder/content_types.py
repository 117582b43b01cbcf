"""Which content types are of which kind, and what is asked for."""

from __future__ import annotations

import re
from collections.abc import Collection

from onceward_apps.jobfinder.errors import Refused, RefusedReason
from onceward_apps.jobfinder.pages import Kind

_TYPES: dict[Kind, re.Pattern[str]] = {
    "html": re.compile(r"text/html|application/xhtml\+xml"),
    "json": re.compile(r"application/json|text/json|[\w.-]+/[\w.-]+\+json"),
    "feed": re.compile(r"(application|text)/(rss\+|atom\+|rdf\+)?xml|application/(feed\+)?json|text/(rss|atom)"),
    "text": re.compile(r"text/[\w.+-]+"),
}
_VAGUE = re.compile(r"|text/plain|text/html|application/(octet-stream|x-www-form-urlencoded)")
"""What servers say when they were not told: the start of the body decides."""
_COMMENT = rb"<!--(?:(?!-->).){0,2000}-->"
"""One comment, and no more than one: if it could be two, a row of them would be tried in every division."""
_STARTS: dict[Kind, re.Pattern[bytes]] = {
    "html": re.compile(
        rb"\s*(" + _COMMENT + rb"\s*)*<(!doctype\s+html|html|head|body|\?xml)", re.IGNORECASE | re.DOTALL
    ),
    "json": re.compile(rb"\s*[\[{]"),
    "feed": re.compile(
        rb"\s*(<\?xml[^>]{0,500}>\s*)?(<\?[^>]{0,500}>\s*|" + _COMMENT + rb"\s*)*<(rss|feed|rdf:rdf)\b"
        rb"|\s*\{",
        re.IGNORECASE | re.DOTALL,
    ),
    "text": re.compile(rb"[^\x00]*\Z"),
}
_ACCEPT: dict[Kind, str] = {
    "html": "text/html,application/xhtml+xml",
    "json": "application/json",
    "feed": "application/rss+xml,application/atom+xml,application/feed+json,application/xml;q=0.9,text/xml;q=0.9",
    "text": "text/plain",
}
_MARK = b"\xef\xbb\xbf"


def accept_of(kinds: Collection[Kind]) -> str:
    """What to ask for, if any of these kinds will do."""
    return ",".join(_ACCEPT[kind] for kind in kinds)


def may_be(content_type: str, kinds: Collection[Kind]) -> bool:
    """Whether a body of this content type is worth reading."""
    bare = _bare(content_type)
    return any(_TYPES[kind].fullmatch(bare) for kind in kinds) or bool(_VAGUE.fullmatch(bare))


def check_type(content_type: str, kinds: Collection[Kind], where: str) -> None:
    """Raise Refused for a body that is none of the kinds by its type."""
    if not may_be(content_type, kinds):
        raise _wrong(content_type, kinds, where)


def check_start(body: bytes, content_type: str, kinds: Collection[Kind], where: str) -> None:
    """Raise Refused for a body that is none of the kinds, if its type leaves that open."""
    bare = _bare(content_type)
    if any(_TYPES[kind].fullmatch(bare) for kind in kinds):
        return
    start = body[:4_096].removeprefix(_MARK)
    if not any(_STARTS[kind].match(start) for kind in kinds):
        raise _wrong(content_type, kinds, where)


def _bare(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _wrong(content_type: str, kinds: Collection[Kind], where: str) -> Refused:
    said = _bare(content_type) or "no content type"
    return Refused(RefusedReason.WRONG_TYPE, f"{where} is {said}, not {' or '.join(kinds)}")
