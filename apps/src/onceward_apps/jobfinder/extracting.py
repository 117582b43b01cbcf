"""What the pages of a company say of it, by heuristics: structured data, headings and what stands below them, phrases.

Every fact says where it was found. What is not found stays empty; a model may be asked for that, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.plain_text import node_text, one_line, plain_text
from onceward_apps.jobfinder.structured import objects, text_of

LONGEST_TEXT = 2_000
LONGEST_LINE = 200
SHORTEST_SECTION = 20


class Kept(msgspec.Struct, frozen=True):
    """A page of a company, without the parts that are not text for readers."""

    path: str
    url: str
    html: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a company; what is not is None."""

    name: str | None = None
    about: str | None = None
    culture: str | None = None
    mission: str | None = None
    size: str | None = None
    headquarters: str | None = None
    industry: str | None = None
    founded: str | None = None
    found_by: dict[str, str] = {}
    """How each was found."""

    @property
    def empty(self) -> tuple[str, ...]:
        """What was not found."""
        return tuple(name for name in FIELDS if getattr(self, name) is None)


FIELDS = ("name", "about", "culture", "mission", "size", "headquarters", "industry", "founded")
_HEADINGS = {
    "mission": re.compile(r"\b(?:mission|vision|purpose)\b", re.IGNORECASE),
    "culture": re.compile(r"\b(?:culture|values|life at|how we work|working (?:here|at)|why (?:join|work)|benefits"
                          r"|perks|our people|what we believe)\b", re.IGNORECASE),
    "about": re.compile(r"\b(?:about|who we are|our story|what we do|our company|the company)\b", re.IGNORECASE),
}  # fmt: skip
_PLACE = r"((?:[A-Z][\w'’-]+)(?:,? (?:[A-Z][\w'’-]+|de|la|of))*)"
_PHRASES = {
    "mission": (re.compile(r"\b[Oo]ur (?:mission|purpose) is (?:to )?([^.!?\n]{15,300})"),),
    "size": (
        re.compile(
            r"(?<![\d,.])(\d[\d,.]{0,15}\s?\+?)\s{0,3}(?:\w{1,30}\s{1,3})?"
            r"(?:employees|people|team members|staff|colleagues)\b"
        ),
        re.compile(r"\b(?:a )?team of (\d[\d,.]*\+?)"),
    ),
    "headquarters": (
        re.compile(rf"\b(?:[Hh]eadquartered|[Bb]ased|HQ(?:'d)?|[Hh]eadquarters(?: is)?)\s*(?:in|:|at)\s+{_PLACE}"),
    ),
    "founded": (
        re.compile(r"\b(?:[Ff]ounded|[Ee]stablished|[Ss]tarted|[Ss]ince)\s+(?:\w+\s+)?(?:in\s+)?((?:19|20)\d\d)\b"),
    ),
}  # fmt: skip
_INDUSTRIES = {
    "financial technology": r"fintech|payments?|banking|financial services",
    "health care": r"health ?care|healthtech|medical|clinical|patients",
    "education": r"edtech|education|learners|students",
    "e-commerce": r"e-?commerce|online store|retail(?:ers)?",
    "security": r"cyber ?security|security platform|threats",
    "artificial intelligence": r"artificial intelligence|machine learning|AI platform",
    "climate and energy": r"climate|renewable|clean energy|solar",
    "logistics": r"logistics|supply chain|freight|shipping",
    "games": r"video games?|game studio|gaming",
    "developer tools": r"developer tools|developers build|API platform|open source",
    "software": r"software|SaaS|cloud platform",
}
_ANY_HEADING = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOT_A_NAME = re.compile(r"\b(?:home|about(?: us)?|careers?|jobs|welcome|company)\b", re.IGNORECASE)


def slim(path: str, url: str, html: str, longest: int = 400_000) -> Kept:
    """A page without scripts, styles and drawings; structured data stays."""
    tree = parsed_html(html[: 4 * longest])
    for node in tree.css("style, svg, noscript, iframe, template, script"):
        if node.tag != "script" or node.attributes.get("type") != "application/ld+json":
            node.decompose()
    return Kept(path, url, (tree.html or "")[:longest])


def facts(pages: Sequence[Kept], name: str | None = None) -> Facts:
    """What the pages say. Earlier pages, and more certain ways, come first; a name that is given counts before all."""
    found: dict[str, str] = {}
    by: dict[str, str] = {}
    guesses: Iterator[tuple[str, str | None, str]]
    for guesses in (
        iter([("name", name, "given")]),
        _structured(pages),
        _sections(pages),
        _phrases(pages),
        _fallbacks(pages),
    ):
        for field, value, how in guesses:
            if value and field not in found:
                found[field], by[field] = value, how
    return Facts(**found, found_by=by)


def all_text(pages: Sequence[Kept]) -> str:
    """The text of all pages."""
    return "\n".join(plain_text(page.html) for page in pages)


def _structured(pages: Sequence[Kept]) -> Iterator[tuple[str, str | None, str]]:
    for page in pages:
        for thing in objects(page.html, "Organization", "Corporation", "LocalBusiness", "NGO"):
            how = f"structured data of {page.path}"
            yield "name", text_of(thing.get("name")), how
            yield "about", _long(text_of(thing.get("description")), 50), how
            yield "size", _employees(thing.get("numberOfEmployees")), how
            yield "headquarters", _address(thing.get("address") or thing.get("location")), how
            yield "industry", text_of(thing.get("industry")), how
            year = re.search(r"(?:19|20)\d\d", text_of(thing.get("foundingDate")) or "")
            yield "founded", year[0] if year else None, how
            yield "mission", text_of(thing.get("slogan")) if thing.get("slogan") else None, how


def _sections(pages: Sequence[Kept]) -> Iterator[tuple[str, str | None, str]]:
    for page in pages:
        tree = parsed_html(page.html)
        for heading in tree.css("h1, h2, h3, h4"):
            title = one_line(heading.text()) or ""
            field = next((name for name, pattern in _HEADINGS.items() if pattern.search(title)), None)
            if field is not None and len(title) <= LONGEST_LINE:
                text = _below(heading)
                if len(text) >= SHORTEST_SECTION:
                    yield field, text[:LONGEST_TEXT], f"the heading {title!r} of {page.path}"


def _phrases(pages: Sequence[Kept]) -> Iterator[tuple[str, str | None, str]]:
    for page in pages:
        text = plain_text(page.html)
        for field, patterns in _PHRASES.items():
            for pattern in patterns:
                if match := pattern.search(text):
                    yield field, match[1].strip(" ,.")[:LONGEST_LINE], f"the words {match[0][:80]!r} of {page.path}"


def _fallbacks(pages: Sequence[Kept]) -> Iterator[tuple[str, str | None, str]]:
    for page in pages:
        tree = parsed_html(page.html)
        yield "name", _content(tree, 'meta[property="og:site_name"]'), f"the site name of {page.path}"
    for page in pages:
        if page.path.strip("/") in ("about", "about-us", "company"):
            yield "about", _long(_main_text(page.html), 50), f"the text of {page.path}"
    for page in pages:
        tree = parsed_html(page.html)
        title = tree.css_first("title")
        for part in re.split(r"\s[|–—·:-]\s", one_line(title.text()) or "") if title else ():
            if part and not _NOT_A_NAME.search(part) and len(part) <= 60:
                yield "name", part, f"the title of {page.path}"
        described = _content(tree, 'meta[name="description"]') or _content(tree, 'meta[property="og:description"]')
        yield "about", described, f"the description of {page.path}"
    if pages:
        yield "name", _from_host(pages[0].url), "the name of the host"
    text = all_text(pages)
    counted = {name: len(re.findall(rf"\b(?:{words})\b", text, re.IGNORECASE)) for name, words in _INDUSTRIES.items()}
    best = max(counted, key=lambda name: counted[name])
    if counted[best] >= 2:
        yield "industry", best, f"its words, {counted[best]} times"


def _below(heading: LexborNode) -> str:
    """The text that stands below a heading, up to the next one; a lower one right below it belongs to it."""
    same_or_higher = tuple(f"h{number}" for number in range(1, int((heading.tag or "h6")[1]) + 1))
    lines: list[str] = []
    node = heading.next
    while node is not None and sum(map(len, lines)) < LONGEST_TEXT:
        tag = node.tag or ""
        if tag in same_or_higher or (tag in _ANY_HEADING and any(lines)):
            break
        if tag not in ("-comment", *_ANY_HEADING):
            lines.append((one_line(node.text()) or "") if tag == "-text" else node_text(node))
        node = node.next
    return "\n".join(line for line in lines if line).strip()


def _main_text(html: str) -> str | None:
    import trafilatura  # it takes a second to load, and few pages need it

    return trafilatura.extract(html, include_comments=False, include_tables=False)


def _long(text: str | None, least: int) -> str | None:
    return text[:LONGEST_TEXT] if text and len(text) > least else None


def _content(tree: LexborHTMLParser, selector: str) -> str | None:
    node = tree.css_first(selector)
    return one_line(node.attributes.get("content")) if node is not None else None


def _employees(value: object) -> str | None:
    if isinstance(value, dict) and (value.get("minValue") or value.get("maxValue")):
        return "-".join(str(value[name]) for name in ("minValue", "maxValue") if value.get(name))
    return text_of(value)


def _address(value: object) -> str | None:
    if isinstance(value, list):
        return next((found for one in value if (found := _address(one))), None)
    if isinstance(value, dict):
        inner = value.get("address")
        if isinstance(inner, dict | list | str):
            return _address(inner)
        parts = [text_of(value.get(name)) for name in ("addressLocality", "addressRegion", "addressCountry")]
        return ", ".join(part for part in parts if part) or text_of(value.get("name"))
    return text_of(value)


def _from_host(url: str) -> str | None:
    labels = (urlsplit(url).hostname or "").removeprefix("www.").split(".")
    return None if labels[-1].isdigit() else labels[0].replace("-", " ").title() or None
