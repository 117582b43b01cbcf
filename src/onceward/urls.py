"""One written form for each web address, to be used as a key.

Two addresses have the same canonical form only where it is certain that they mean the same page: a page that is fetched
twice costs a request, two pages under one key cost one of them. The rules are a table in `docs/reference/urls.md`.

Keys are stored. A rule that changes makes new keys for old pages, so it changes `VERSION` too, and a test pins both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from onceward.errors import PayloadError
from onceward.model.hosts import parsed, plain_host

if TYPE_CHECKING:
    from ada_url import URL

__all__ = ["LONGEST", "TRACKING", "TRACKING_ON", "TRACKING_PREFIXES", "VERSION", "canonical", "host_of"]

VERSION: Final = 1
"""The version of the rules."""

LONGEST: Final = 8000
"""How many characters an address may have, before and after: what RFC 9110 asks every server to take."""

TRACKING_PREFIXES: Final = ("utm_", "mtm_")
"""Parameters that begin so say where a visitor came from."""

TRACKING: Final = frozenset(
    """
    gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid _ga _gl
    fbclid fb_action_ids fb_action_types fb_ref fb_source igsh igshid
    msclkid twclid ttclid li_fat_id sccid epik rdt_cid yclid ysclid _openstat
    mc_cid mc_eid mkt_tok _kx ml_subscriber ml_subscriber_hash oly_anon_id oly_enc_id vero_conv vero_id wickedid
    _hsenc _hsmi __hsfp __hssc __hstc hsctatracking
    irclickid rb_clickid _branch_match_id _branch_referrer
    pk_campaign pk_cid pk_content pk_keyword pk_kwd pk_medium pk_source piwik_campaign piwik_keyword piwik_kwd
    gh_src lever-origin lever-source lever-source%5b%5d
    jsessionid phpsessid
    """.split()  # noqa: SIM905 - sixty quoted names would hide the groups
)
"""Parameters that never say which page is meant, on no site. In lower case: case is not compared."""

TRACKING_ON: Final = {
    "linkedin.com": frozenset({"licu", "lipi", "refid", "trackingid", "trk", "trkinfo"}),
    "indeed.com": frozenset({"alid", "from", "tk"}),
    "youtube.com": frozenset({"feature", "pp", "si"}),
    "youtu.be": frozenset({"feature", "pp", "si"}),
}
"""The same for one site and its subdomains; elsewhere these names may mean anything."""

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TO_REWRITE = re.compile(r'%[0-9A-Fa-f]{2}|[%"<>\[\]\\^`{|}]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SCHEME = re.compile(r" *[A-Za-z][A-Za-z0-9+.-]*:")
_USERINFO = re.compile(r"^([^:]*:[/\\]*)[^/\\?#]*@")


def canonical(url: str) -> str:
    """The one written form of a web address; `PayloadError` where the text is not one."""
    address = _read(url)
    host = plain_host(address)
    port = f":{address.port}" if address.port else ""
    query = _query(address.search.removeprefix("?"), host)
    form = f"{address.protocol}//{host}{port}{_encoded(address.pathname)}{'?' if query else ''}{query}"
    if len(form) > LONGEST:
        raise PayloadError(
            f"{_shown(url)} has {len(form)} characters in its canonical form; a URL may have up to {LONGEST}"
        )
    return form


def host_of(url: str) -> str:
    """The host of a web address, without its port: `jobs.example.com`. It serves as the name of a source."""
    return plain_host(_read(url))


def _read(url: str) -> URL:
    if not isinstance(url, str):
        raise PayloadError(f"a URL is text, not {type(url).__name__}")
    if not url.strip():
        raise PayloadError("the URL is empty")
    if len(url) > LONGEST:
        raise PayloadError(f"{_shown(url)} has {len(url)} characters; a URL may have up to {LONGEST}")
    if _CONTROL.search(url):
        raise PayloadError(f"{_shown(url)} holds a control character, such as a line break; take it out")
    if not _SCHEME.match(url):
        raise PayloadError(f"{_shown(url)} has no scheme; write https:// in front of it, or join it to its page")
    address = parsed(url)
    scheme = address.protocol.removesuffix(":") if address is not None else ""
    if address is not None and scheme not in ("http", "https"):
        raise PayloadError(f"{_shown(url)} has the scheme {scheme}; only http and https are taken")
    # Empty parts are refused because `0x1..` without its dots would be read as a number, and so as another host.
    if address is None or not all(address.hostname.removesuffix(".").split(".")):
        raise PayloadError(f"{_shown(url)} is not a URL that a browser could open; look at its host and port")
    return address


def _encoded(text: str) -> str:
    """The same path or query, with exactly those characters percent-encoded that have to be."""
    return _TO_REWRITE.sub(_one_way_to_write, text)


def _one_way_to_write(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:  # also a `%` that begins nothing, or what follows it could become its hex digits
        return f"%{ord(found):02X}"
    character = chr(int(found[1:], 16))
    return character if character in _UNRESERVED else found.upper()


def _query(query: str, host: str) -> str:
    """The parameters that say which page is meant, by name; those of one name stay in their order."""
    here = next((names for site, names in TRACKING_ON.items() if f".{host}".endswith(f".{site}")), frozenset[str]())
    kept: list[tuple[str, str]] = []
    for parameter in _encoded(query).split("&"):
        name = parameter.partition("=")[0]
        lower = name.lower()
        if parameter and not lower.startswith(TRACKING_PREFIXES) and lower not in TRACKING and lower not in here:
            kept.append((name, parameter))
    return "&".join(parameter for _, parameter in sorted(kept, key=lambda one: one[0]))


def _shown(url: str) -> str:
    """The address as an error may show it: no password, and not pages of it."""
    safe = _USERINFO.sub(r"\1…@", url)
    return repr(safe if len(safe) <= 100 else f"{safe[:100]}…")
