"""What became of a listing, and why: everything that is known of it, as values for a screen, a file or a page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onceward import App, ConfigError, Connection
from onceward_apps.jobfinder import company_rows, listing_rows, verdict_rows
from onceward_apps.jobfinder.identities import listing_id
from onceward_apps.jobfinder.listing_rows import MatchRow
from onceward_apps.jobfinder.payloads import Job
from onceward_apps.jobfinder.reasons import Reason
from onceward_apps.statements import loaded, rows


def listing_named(connection: Connection, text: str) -> str:
    """The listing that a text means: its address, its id, or the beginning of one. ConfigError if it is not one."""
    if "://" in text:
        named = listing_id(text)
        if listing_rows.listing(connection, named) is None:
            raise ConfigError(f"there is no listing {text}: no source has shown it, and no person has asked for it")
        return named
    found = rows(
        connection,
        "SELECT listing FROM jobs_listing WHERE substr(listing, 1, ?) = ? ORDER BY listing LIMIT 6",
        len(text), text,
    )  # fmt: skip
    if not found:
        raise ConfigError(f"there is no listing {text!r}; give its address, or the id that `matches` shows")
    if len(found) > 1:
        raise ConfigError(f"{text!r} may be {', '.join(name for (name,) in found)}; write more of it")
    return str(found[0][0])


def explained(app: App, text: str) -> dict[str, Any]:
    """All that is known of a listing, and why it is what it is."""
    name = app.read(listing_named, text)
    row = app.read(listing_rows.listing, name)
    assert row is not None
    company = app.read(company_rows.company, row.company) if row.company else None
    match = app.read(listing_rows.match_of, name)
    told: dict[str, Any] = {
        "listing": row.listing, "url": row.url, "status": row.status, "reason": row.reason, "title": row.title,
        "company": row.company_name or (company.name if company else None), "tier": company.tier if company else None,
        "location": row.location, "remote": row.remote, "posted": row.posted, "salary": salary(row),
        "source": row.source, "completeness": row.completeness, "gone": day(row.gone_at),
        "strikes": reasons(row.strikes_json), "score": row.score, "why": reasons(row.why_json),
        "verdict": app.read(verdict_rows.of, name),
    }  # fmt: skip
    if match is not None:
        told |= {"needed": match[1], "priority": match[2], "why": reasons(match[3]), "model": match[4]}
    if company is not None:
        told["why_company"] = reasons(company.why_json)
    found = app.tasks.find(Job(row.url))
    told["tasks"] = [
        {"task": task.id, "status": task.status.word, "stage": task.stage, "reason": task.reason}
        for task in found.tasks
    ]
    told["seen_at"] = [
        {"source": source, "first": day(first), "last": day(last), "gone": day(gone)}
        for source, first, last, gone in app.read(_sightings, name)
    ]
    return told


def match_told(row: MatchRow) -> dict[str, Any]:
    """A match, with why."""
    return {
        "listing": row.listing, "score": row.score, "needed": row.needed, "priority": row.priority, "title": row.title,
        "company": row.company_name, "tier": row.tier, "location": row.location, "remote": row.remote,
        "posted": row.posted, "salary": salary(row), "url": row.url, "apply_url": row.apply_url,
        "why": reasons(row.why_json), "model": row.model, "saved": day(row.saved_at), "gone": day(row.gone_at),
        "verdict": row.verdict,
    }  # fmt: skip


def reasons(text: str | None) -> list[dict[str, Any]]:
    """Reasons of a row, as values."""
    found: list[Reason] = loaded(text, list[Reason]) or []
    return [{"points": one.points, "rule": one.rule, "sentence": one.sentence} for one in found]


def briefly(told: list[dict[str, Any]]) -> str:
    """Reasons by their names alone."""
    return ", ".join(f"{one['points']:+d} {one['rule']}" for one in told if one["points"])


def salary(row: Any) -> str | None:
    """What a listing pays, in words."""
    numbers = [f"{value:,.0f}" for value in (row.salary_min, row.salary_max) if value]
    return f"{' to '.join(dict.fromkeys(numbers))} {row.currency or ''}".strip() if numbers else None


def day(ms: int | None) -> str | None:
    """A time as a date."""
    return None if ms is None else datetime.fromtimestamp(ms / 1_000, UTC).date().isoformat()


def _sightings(connection: Connection, listing: str) -> list[tuple[Any, ...]]:
    return rows(
        connection,
        "SELECT source, first_seen_at, last_seen_at, gone_at FROM jobs_sighting WHERE listing = ? ORDER BY source",
        listing,
    )
