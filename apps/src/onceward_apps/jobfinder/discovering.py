"""Work out how to read an unknown page: a list of jobs is many like elements with one link each."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import date

from selectolax.lexbor import LexborHTMLParser, LexborNode

from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.links import absolute
from onceward_apps.jobfinder.plain_text import node_text, one_line
from onceward_apps.jobfinder.scraping import Field, FieldName, Instructions, NextLink, tested

FEWEST = 2
MOST_LINKS = 2_000
_BEST = 3
_LOOKED_AT = 100
"""How many elements of a group are enough to judge it."""
_JOB_LINK = re.compile(
    r"/(jobs?|careers?|positions?|vacanc(y|ies)|openings?|roles?|stellen\w*|offers?|posting|requisition)s?[/?_-]"
    r"|gh_jid=|job_?id=|[/=]\d{5,}|/j/[\w-]+",
    re.IGNORECASE,
)
_JOB_TITLE = re.compile(
    r"engineer|developer|manager|designer|analyst|scientist|director|lead\b|architect|consultant|specialist|intern\b"
    r"|assistant|officer|administrator|technician|nurse|representative|executive|coordinator|head of|recruiter|writer"
    r"|accountant|product|marketing|sales|support|counsel|operator|driver|teacher|\(m/[wf]/d\)|werkstudent",
    re.IGNORECASE,
)
_AROUND = frozenset({"nav", "header", "footer"})
_CONTAINERS = frozenset({"li", "tr", "article", "div", "section", "a"})
_NAME = re.compile(r"[A-Za-z][\w-]*")
_PARTS: dict[FieldName, str] = {
    "location": "location|place|city|office|region",
    "department": "department|team|category|division",
    "posted": "date|posted|published",
    "company": "company|employer|organi[sz]ation",
}


def discovered(source: str, base_url: str, today: date) -> list[Instructions]:
    """Instructions that pass their test on the page, the likeliest first; at most three."""
    document = parsed_html(source)
    groups = _groups(document, base_url)
    ranked = sorted(groups.items(), key=lambda group: _likeliness(group[1], base_url), reverse=True)
    found: list[Instructions] = []
    for items, nodes in ranked[: _BEST * 2]:
        if _likeliness(nodes, base_url) <= 0:
            continue
        instructions = Instructions(items=items, fields=_fields(nodes), pagination=_pagination(document))
        if tested(instructions, source, base_url, today).passed:
            found.append(instructions)
    return found[:_BEST]


def _groups(document: LexborHTMLParser, base_url: str) -> dict[str, list[LexborNode]]:
    """Elements that look alike and hold one link each, by the selector that finds them."""
    counts: Counter[str] = Counter()
    chains: list[list[tuple[str, LexborNode]]] = []
    for link in document.css("a[href]")[:MOST_LINKS]:
        if absolute(base_url, link.attributes.get("href")) is None:
            continue
        chain = _containers(link)
        counts.update({selector for selector, _ in chain})
        chains.append(chain)
    groups: dict[str, dict[int, LexborNode]] = defaultdict(dict)
    for chain in chains:
        # The widest element that is still one of many with a link each is the whole item.
        for selector, node in reversed(chain):
            if counts[selector] >= FEWEST and len(node.css("a[href]")) <= 2:
                groups[selector][node.mem_id] = node
                break
    return {selector: list(nodes.values()) for selector, nodes in groups.items() if len(nodes) >= FEWEST}


def _containers(link: LexborNode) -> list[tuple[str, LexborNode]]:
    """The elements around a link that may be its item, from within, each with its selector; none in a page's frame."""
    chain: list[tuple[str, LexborNode]] = []
    node: LexborNode | None = link
    depth = 0
    while node is not None and node.tag not in ("body", "html", "main", None):
        if node.tag in _AROUND:
            return []
        if node.tag in _CONTAINERS and depth < 8:
            chain.append((_selector(node), node))
        node = node.parent
        depth += 1
    return chain


def _selector(node: LexborNode) -> str:
    own = _simple(node)
    parent = node.parent
    return own if parent is None or parent.tag in ("body", "html", None) else f"{_simple(parent)} > {own}"


def _simple(node: LexborNode) -> str:
    names = [name for name in (node.attributes.get("class") or "").split() if _NAME.fullmatch(name)]
    steady = [name for name in names if not re.search(r"\d{3,}|active|odd|even|first|last", name)]
    return (node.tag or "*") + "".join(f".{name}" for name in steady[:2])


def _likeliness(nodes: list[LexborNode], base_url: str) -> float:
    """How much a group looks like jobs: by its links, its titles, and its size."""
    nodes = nodes[:_LOOKED_AT]
    links = [_link(node) for node in nodes]
    hrefs = [absolute(base_url, link.attributes.get("href")) or "" if link is not None else "" for link in links]
    titles = [one_line(node_text(node)) or "" for node in nodes]
    if len(set(hrefs)) * 2 < len(hrefs):
        return 0.0
    by_links = sum(bool(_JOB_LINK.search(href)) for href in hrefs) / len(nodes)
    by_titles = sum(bool(_JOB_TITLE.search(title)) for title in titles) / len(nodes)
    if by_links + by_titles < 0.5:
        return 0.0
    return by_links + by_titles + min(len(nodes), 20) / 20


def _link(node: LexborNode) -> LexborNode | None:
    return node if node.tag == "a" else node.css_first("a[href]")


def _fields(nodes: list[LexborNode]) -> dict[FieldName, Field]:
    is_link = nodes[0].tag == "a"
    heading = _present(nodes, ["h1", "h2", "h3", "h4", "h5", "[class*=title i]"])
    fields: dict[FieldName, Field] = {
        "title": Field(heading or (None if is_link else "a[href]")),
        "url": Field(None if is_link else "a[href]", "href"),
    }
    for name, words in _PARTS.items():
        selector = _present(nodes, [f"[class*={word} i]" for word in re.sub(r"\[sz\]", "s", words).split("|")])
        if selector and selector != heading:
            fields[name] = Field(selector)
    if _present(nodes, ["time[datetime]"]):
        fields["posted"] = Field("time[datetime]", "datetime")
    return fields


def _present(nodes: list[LexborNode], selectors: list[str]) -> str | None:
    """The first selector that finds something in more than half of the items."""
    for selector in selectors:
        if sum(node.css_first(selector) is not None for node in nodes[:50]) * 2 > min(len(nodes), 50):
            return selector
    return None


def _pagination(document: LexborHTMLParser) -> NextLink | None:
    for selector in ("a[rel~=next][href]", "a[class*=next i][href]", "a[aria-label*=next i][href]"):
        if document.css_first(selector) is not None:
            return NextLink(selector)
    return None
