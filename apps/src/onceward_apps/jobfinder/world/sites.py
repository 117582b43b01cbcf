"""The pages of a company's site, and boards that are pages: Jobvite, feeds, structured data, plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time
from email.utils import format_datetime
from html import escape

import msgspec

from onceward_apps.jobfinder.boards.board import BoardKind
from onceward_apps.jobfinder.world import words
from onceward_apps.jobfinder.world.companies import Company
from onceward_apps.jobfinder.world.http import Answer, html
from onceward_apps.jobfinder.world.paged import WORKDAY_SITE
from onceward_apps.jobfinder.world.positions import Position, text_html

WORKDAY_INSTANCE = "wd5"


def page(title: str, body: str, head: str = "") -> Answer:
    """A page in the manner of all of them."""
    return html(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{head}</head>'
        f"<body><nav><a href='/'>Home</a> <a href='/about'>About</a> <a href='/careers'>Careers</a></nav>"
        f"<main>{body}</main></body></html>"
    )


def home(company: Company) -> Answer:
    """What a company does, in a line."""
    organisation = _script({
        "@context": "https://schema.org", "@type": "Organization", "name": company.name, "url": company.website,
        "foundingDate": str(company.founded), "numberOfEmployees": company.people, "industry": company.industry,
        "address": {"@type": "PostalAddress", "addressLocality": company.city},
    })  # fmt: skip
    body = f"<h1>{company.name}</h1><p>{company.name} {words.INDUSTRIES[company.industry]}.</p>"
    return page(company.name, body, organisation)


def about(company: Company) -> Answer:
    """Who they are, how they work, and what with."""
    first = "We are a remote-first company. " if company.is_remote_first else ""
    values = [words.VALUES[(company.number + step) % len(words.VALUES)] for step in (0, 1)]
    return page(
        f"About · {company.name}",
        f"<h1>About {company.name}</h1><p>{company.name} {words.INDUSTRIES[company.industry]}. Founded in"
        f" {company.founded} and headquartered in {company.city}, we are {company.people} people today.</p>"
        f"<h2>Our mission</h2><p>Our mission is to leave those who use our work with less to do than before.</p>"
        f"<h2>How we work</h2><p>{first}{' '.join(values)}</p>"
        f"<h2>What we build with</h2><p>{', '.join(company.stack)}.</p>",
    )


def careers(company: Company, positions: Sequence[Position]) -> Answer:
    """Where the jobs are: on a board, in a feed, or on this very page."""
    opening = f"<h1>Careers at {company.name}</h1><p>We hire slowly and keep people long.</p>"
    title = f"Careers · {company.name}"
    match company.kind:
        case BoardKind.GENERIC:
            return page(title, opening + _listed(company, positions))
        case BoardKind.JSONLD:
            scripts = "".join(_script(posting(company, one)) for one in positions)
            return page(title, opening + _listed(company, positions), scripts)
        case BoardKind.FEED:
            head = '<link rel="alternate" type="application/rss+xml" title="Jobs" href="/jobs.rss">'
            return page(title, opening + '<p>Our <a href="/jobs.rss">jobs as a feed</a>.</p>', head)
    return page(title, opening + f'<p>See our <a href="{board_url(company)}">open positions</a>.</p>')


def board_url(company: Company) -> str:
    """Where a person looks at the board of a company."""
    slug = company.slug
    return {
        BoardKind.GREENHOUSE: f"https://boards.greenhouse.io/{slug}",
        BoardKind.LEVER: f"https://jobs.lever.co/{slug}",
        BoardKind.WORKDAY: f"https://{slug}.{WORKDAY_INSTANCE}.myworkdayjobs.com/{WORKDAY_SITE}",
        BoardKind.SMARTRECRUITERS: f"https://jobs.smartrecruiters.com/{slug}",
        BoardKind.ASHBY: f"https://jobs.ashbyhq.com/{slug}",
        BoardKind.WORKABLE: f"https://apply.workable.com/{slug}/",
        BoardKind.JOBVITE: f"https://jobs.jobvite.com/{slug}/jobs",
        BoardKind.FEED: f"{company.website}jobs.rss",
        BoardKind.JSONLD: f"{company.website}careers",
        BoardKind.GENERIC: f"{company.website}careers",
    }[company.kind]


def feed(company: Company, positions: Sequence[Position]) -> Answer:
    """The positions as RSS."""
    items = "".join(
        f"<item><title>{escape(one.title)} at {company.name}</title><link>{own_url(company, one)}</link>"
        f"<guid isPermaLink='false'>{one.uuid}</guid><pubDate>{_pub_date(one)}</pubDate>"
        f"<description>{escape(text_html(company, one))}</description><category>{one.department}</category></item>"
        for one in positions
    )
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel><title>Jobs at {company.name}</title>'
        f"<link>{company.website}careers</link><description>Open positions</description>{items}</channel></rss>"
    )
    return Answer(text.encode(), "application/rss+xml; charset=utf-8")


def jobvite(company: Company, positions: Sequence[Position]) -> Answer:
    """The list that Jobvite shows."""
    rows = "".join(
        f'<tr><td class="jv-job-list-name"><a href="/{company.slug}/job/{one.code}">{escape(one.title)}</a></td>'
        f'<td class="jv-job-list-location">{one.place}</td></tr>'
        for one in positions
    )
    return page(f"{company.name} Careers", f'<h1>{company.name}</h1><table class="jv-job-list">{rows}</table>')


def job(company: Company, position: Position) -> Answer:
    """The page of one position, on whatever board it is."""
    return page(
        f"{position.title} · {company.name}",
        f"<h1>{escape(position.title)}</h1><p class='place'>{position.place}</p>{text_html(company, position)}",
        _script(posting(company, position)),
    )


def own_url(company: Company, position: Position) -> str:
    """A position's page on the company's own site."""
    return f"{company.website}careers/{position.number}-{position.slug}"


def posting(company: Company, position: Position) -> dict[str, object]:
    """A position as structured data."""
    city, _, region = position.city.partition(", ")
    return {
        "@context": "https://schema.org",
        "@type": "JobPosting",
        "title": position.title,
        "description": text_html(company, position),
        "datePosted": position.posted.isoformat(),
        "employmentType": "FULL_TIME",
        "identifier": {"@type": "PropertyValue", "name": company.name, "value": str(position.number)},
        "url": own_url(company, position) if company.kind in _ON_OWN_SITE else None,
        "hiringOrganization": {"@type": "Organization", "name": company.name, "sameAs": company.website},
        "jobLocation": {
            "@type": "Place",
            "address": {"@type": "PostalAddress", "addressLocality": city, "addressRegion": region},
        },
        **({"jobLocationType": "TELECOMMUTE"} if position.is_remote else {}),
        "baseSalary": {
            "@type": "MonetaryAmount",
            "currency": "USD",
            "value": {
                "@type": "QuantitativeValue", "minValue": position.salary[0], "maxValue": position.salary[1],
                "unitText": "YEAR",
            },
        },
    }  # fmt: skip


_ON_OWN_SITE = (BoardKind.FEED, BoardKind.JSONLD, BoardKind.GENERIC)


def _listed(company: Company, positions: Sequence[Position]) -> str:
    items = "".join(
        f'<li class="opening"><a href="{own_url(company, one)}">{escape(one.title)}</a>'
        f' <span class="location">{one.place}</span></li>'
        for one in positions
    )
    return f'<h2>Open positions</h2><ul class="openings">{items}</ul>'


def _script(value: object) -> str:
    text = msgspec.json.encode(value).decode().replace("</", "<\\/")
    return f'<script type="application/ld+json">{text}</script>'


def _pub_date(position: Position) -> str:
    return format_datetime(datetime.combine(position.posted, time(8), UTC))
