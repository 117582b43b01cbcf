"""A page of the ranked matches with their reasons: one file, which needs nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from onceward_apps.jobfinder.explaining import briefly, match_told
from onceward_apps.jobfinder.listing_rows import MatchRow

_SAFE = ("http://", "https://")


def report(matches: Sequence[MatchRow], counts: dict[str, int], now: datetime) -> str:
    """The page. Everything on it that comes from the web is escaped, and links lead to the web alone."""
    page = Template(files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    cards = "\n".join(_card(place, match_told(row)) for place, row in enumerate(matches, 1))
    every = sum(counts.values())
    summary = f"{every:,} listing{'' if every == 1 else 's'}: " if every else ""
    summary += ", ".join(f"{number:,} {name}" for name, number in counts.items())
    return page.substitute(
        count=f"{len(matches):,}",
        plural="" if len(matches) == 1 else "es",
        summary=escape(summary or "no listings yet"),
        when=escape(f"{now:%Y-%m-%d %H:%M} UTC"),
        cards=cards or '<p class="empty">There is no match yet.</p>',
    )


def _card(place: int, one: dict[str, Any]) -> str:
    facts = [one["company"], f"tier {one['tier']}" if one["tier"] else None, one["location"], one["salary"],
             f"posted {one['posted']}" if one["posted"] else None]  # fmt: skip
    why = "".join(
        f'<li><b class="{"minus" if reason["points"] < 0 else "plus"}">{reason["points"]:+d}</b> '
        f"{escape(reason['rule'])}: {escape(reason['sentence'])}</li>"
        for reason in one["why"]
    )
    gone = '<span class="gone">gone</span>' if one["gone"] else ""
    return (
        f'<article class="{escape(one["priority"])}"><header><span class="place">{place}</span>'
        f'<span class="score" title="of {one["needed"]} needed">{one["score"]}</span>'
        f"<h2>{_link(one['apply_url'] or one['url'], one['title'] or one['url'])}</h2>"
        f'<span class="priority">{escape(one["priority"])}</span>{gone}</header>'
        f"<p>{escape(' · '.join(str(fact) for fact in facts if fact))}</p>"
        f"<details><summary>{escape(briefly(one['why'])) or 'why'}</summary><ul>{why}</ul>"
        f"<p>{_link(one['url'], one['url'])}</p></details></article>"
    )


def _link(url: str, text: str) -> str:
    if not url.startswith(_SAFE):
        return escape(text)
    return f'<a href="{escape(url, quote=True)}" rel="noopener noreferrer">{escape(text)}</a>'
