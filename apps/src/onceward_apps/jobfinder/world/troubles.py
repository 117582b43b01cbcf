"""What is wrong on the invented web, each with a company of its own.

ouroboros-loom    every page redirects, in a circle
silent-quarry     no server listens there
patience-weir     answers 429 with a Retry-After before it answers
bazaar-of-offers  a board with 10,000 links, on ten pages
crumbling-arch    a board whose second page is broken, on every reading
hedgerow-gate     a robots.txt that forbids the pages of its jobs
moebius-mill      a feed that leads back: to the companies that lead to the feed, and to the feed itself
moebius-yard      its sister, which has that same feed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onceward_apps.jobfinder.boards.board import BoardKind
from onceward_apps.jobfinder.world import sites, words
from onceward_apps.jobfinder.world.companies import Company
from onceward_apps.jobfinder.world.http import Answer, Ask, html, json, redirect
from onceward_apps.jobfinder.world.positions import Position

LOOP, DEAD, BUSY, SPAM = "Ouroboros Loom", "Silent Quarry", "Patience Weir", "Bazaar of Offers"
FAILING, FORBIDDEN, MILL, YARD = "Crumbling Arch", "Hedgerow Gate", "Moebius Mill", "Moebius Yard"
NUMBER = 8
DEAD_HOST, FAILING_HOST = "silent-quarry.example", "crumbling-arch.example"
SPAM_LINKS, SPAM_PAGE = 10_000, 1_000
BUSY_ANSWERS = 3
RETRY_AFTER_S = 2
FIRST_PAGE = 20


def companies(first: int, listings: int) -> Iterator[Company]:
    """The companies that have something wrong with them."""
    kinds = {
        LOOP: BoardKind.GENERIC, DEAD: BoardKind.GENERIC, BUSY: BoardKind.JSONLD, SPAM: BoardKind.GENERIC,
        FAILING: BoardKind.WORKDAY, FORBIDDEN: BoardKind.GENERIC, MILL: BoardKind.FEED, YARD: BoardKind.FEED,
    }  # fmt: skip
    industries = sorted(words.INDUSTRIES)
    for index, (name, kind) in enumerate(kinds.items()):
        yield Company(
            number=first + index + 1,
            name=name,
            kind=kind,
            listings=FIRST_PAGE * 2 if name == FAILING else listings,
            industry=industries[index % len(industries)],
            stack=words.STACKS[index % 4],
        )


class Troubles:
    """What is wrong, asked before everything else; it counts how often it was asked."""

    def __init__(self, found: dict[str, Company], positions: Callable[[Company], Sequence[Position]]) -> None:
        self._by_host = found
        self._positions = positions
        self._asked: Counter[str] = Counter()

    def answer(self, ask: Ask) -> Answer | None:
        """What is wrong with this, or None."""
        company = self._by_host.get(ask.host)
        if company is None:
            return self._on_boards(ask)
        robots = ask.path == "/robots.txt"
        match company.name:
            case name if name == LOOP and not robots:
                return redirect("/start" if ask.path == "/" else "/")
            case name if name == BUSY and not robots:
                self._asked[BUSY] += 1
                if self._asked[BUSY] <= BUSY_ANSWERS:
                    return replace(html("Too many requests", 429), headers={"Retry-After": str(RETRY_AFTER_S)})
            case name if name == SPAM and ask.path == "/careers":
                return _spam_board(company, int(ask.query.get("page", "1")))
            case name if name == SPAM and ask.parts[:1] == ("offer",):
                return _spam_offer(company, ask.parts[-1])
            case name if name == FORBIDDEN and robots:
                return Answer(b"User-agent: *\nDisallow: /careers/\n", "text/plain")
            case name if name == YARD and ask.path == "/careers":
                mill = next(one for one in self._by_host.values() if one.name == MILL)
                where = sites.board_url(mill)
                link = f'<link rel="alternate" type="application/rss+xml" title="Jobs" href="{where}">'
                return sites.page(f"Careers · {YARD}", "<p>We hire together with our sister.</p>", link)
            case name if name == MILL and ask.path == "/jobs.rss":
                return self._feed_that_leads_back(company)
        return None

    def _feed_that_leads_back(self, company: Company) -> Answer:
        feed = sites.feed(company, self._positions(company))
        back = "".join(
            f"<item><title>Everything about working here</title><link>{url}</link><guid>{url}</guid></item>"
            for url in (
                *(one.website for one in self._by_host.values() if one.name in (MILL, YARD)),
                sites.board_url(company),
            )
        )
        return replace(feed, body=feed.body.replace(b"</channel>", back.encode() + b"</channel>"))

    def _on_boards(self, ask: Ask) -> Answer | None:
        slug = FAILING.lower().replace(" ", "-")
        if ask.host.startswith(f"{slug}.") and ask.method == "POST" and b'"offset":0' not in ask.body:
            return json({"errorCode": "S22", "message": "This service is being rebuilt."})
        return None


def _spam_board(company: Company, page: int) -> Answer:
    end = page * SPAM_PAGE
    links = "".join(
        f'<li class="opening"><a href="/offer/{number}">Amazing offer {number}: earn from home</a>'
        f' <span class="location">Anywhere</span></li>'
        for number in range(end - SPAM_PAGE, end)
    )
    more = f'<a rel="next" href="/careers?page={page + 1}">More</a>' if end < SPAM_LINKS else ""
    return sites.page(company.name, f'<h1>{SPAM_LINKS:,} offers</h1><ul class="openings">{links}</ul>{more}')


def _spam_offer(company: Company, number: str) -> Answer:
    return sites.page(
        f"Amazing offer {number}",
        f"<h1>Amazing offer {number}</h1><p>Earn from home with {company.name}, on commission only. No skills are"
        " needed, no questions are asked, and no complaint has ever come back about it. Apply today.</p>",
    )
