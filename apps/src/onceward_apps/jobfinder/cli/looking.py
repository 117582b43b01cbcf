"""`onceward-jobs matches` and `companies`: what was found, ranked, with why."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.harmless import harmless
from onceward.terminal import console, print_json, show
from onceward_apps.jobfinder import company_rows, listing_rows, surroundings
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where
from onceward_apps.jobfinder.company_rows import CompanyRow
from onceward_apps.jobfinder.explaining import day, match_told, reasons
from onceward_apps.jobfinder.finder import opened, own_profile
from onceward_apps.jobfinder.near_misses import NearMiss, admitted_by, near_misses
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.reasons import Reason
from onceward_apps.jobfinder.settings import Numbers, numbers
from onceward_apps.speaking import FINE, NOTHING_SAID, Entries, Entry, Flag, Output
from onceward_apps.statements import loaded

SHORT = 10
"""How much of a listing's id is shown: a beginning is enough for `explain`."""
LOOKED_AT, NEAR = 2_000, 10
"""How many listings that are no matches are compared, and how many of them are shown."""
STYLES = {"high": "bold green", "medium": "yellow", "low": "dim", "unknown": "bold red", "skipped": "dim"}


def matches(
    *,
    gone: Annotated[bool, Flag, Parameter(help="Show those too that are no longer there.")] = False,
    hidden: Annotated[bool, Flag, Parameter(help="Show those too that you have hidden.")] = False,
    near: Annotated[bool, Flag, Parameter(help="Show the listings that came closest instead.")] = False,
    limit: Annotated[int, Parameter(validator=Number(gte=1), help="How many at most.")] = 50,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """See the matches, the best first; where there is none, the listings that came closest, and what they lack."""
    with opened(where.db) as app:
        told = [match_told(row) for row in app.read(listing_rows.matches, gone, hidden)]
        in_force = numbers(app.settings.get)
        rows = app.read(listing_rows.near_misses, LOOKED_AT) if near or not told else []
    missed = near_misses(rows, own_profile() or Profile(), in_force, min(limit, NEAR))
    if output.json:
        print_json([_near_told(one) for one in missed] if near else told[:limit])
        return FINE
    if near or not told:
        if not told:
            show("there is no match yet" if missed else "there is no match yet; add companies, then: onceward-jobs run")
        if missed:
            _show_near(missed, in_force)
        return FINE
    entries: list[Entry] = [
        (
            (
                Text(str(one["score"]), STYLES[one["priority"]]),
                Text(one["priority"], STYLES[one["priority"]]),
                one["title"] or "",
                one["company"] or "",
                one["location"] or ("remote" if one["remote"] else ""),
            ),
            (
                one["url"],
                Text(
                    one["listing"][:SHORT] + (f", {one['verdict']}" if one["verdict"] else "")
                    + (f", gone since {one['gone']}" if one["gone"] else ""),
                    "dim",
                ),
            ),
        )
        for one in told[:limit]
    ]  # fmt: skip
    columns = ("score", "priority", "title", "company", "place")
    show(Entries(columns, entries, gives_way=("title", "company", "place"), right=("score",)))
    if len(told) > limit:
        show(Text(f"and {len(told) - limit:,} more: --limit {len(told)}", "dim"))
    show(Text("why: onceward-jobs explain LISTING; yours: applied, not-for-me, hide LISTING", "dim"))
    return FINE


def _show_near(missed: list[NearMiss], in_force: Numbers) -> None:
    entries: list[Entry] = [
        (
            (
                "" if one.score is None else str(one.score),
                str(one.needed) if one.score is not None else f"{one.strikes} strikes",
                one.row.title or "",
                one.row.company_name or "",
                one.row.location or ("remote" if one.row.remote else ""),
            ),
            (one.row.url, *(_lack(lack) for lack in one.lacks)),
        )
        for one in missed
    ]  # fmt: skip
    show("these came closest:", Entries(("score", "needed", "title", "company", "place"), entries,
                                        gives_way=("title", "company", "place"), right=("score",)))  # fmt: skip
    wanted, admitted = admitted_by(missed, in_force)
    lines = " and ".join(f"{name} = {value}" for name, value in wanted.items())
    what = "let it be scored" if missed[0].score is None else f"admit {admitted} of these"
    show(f"{lines} under [settings] in {surroundings.profile_path()} would {what}; then: onceward-jobs run")


def _lack(lack: Reason) -> Text:
    return Text(harmless(f"{lack.points:+d} {lack.rule}: {lack.sentence}"), "dim")


def _near_told(one: NearMiss) -> dict[str, Any]:
    return {
        "listing": one.row.listing, "url": one.row.url, "title": one.row.title, "company": one.row.company_name,
        "location": one.row.location, "score": one.score, "needed": one.needed, "strikes": one.strikes,
        "lacks": [{"points": lack.points, "rule": lack.rule, "sentence": lack.sentence} for lack in one.lacks],
    }  # fmt: skip


def companies(
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1), help="How many at most.")] = 100,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """See the companies, the best first: tier, points, technologies, and where their jobs are."""
    with opened(where.db) as app:
        told = [_company(row) for row in app.read(company_rows.companies)]
    if output.json:
        print_json(told[:limit])
        return FINE
    if not told:
        console().print("there is no company yet; add some with: onceward-jobs add companies.csv")
        return FINE
    entries: list[Entry] = [
        (
            (
                one["tier"] or "",
                "" if one["priorityScore"] is None else str(one["priorityScore"]),
                one["name"] or one["company"],
                Text(one["status"], STYLES.get(one["status"], "default")),
                one["company_size_category"] or "",
                ", ".join(one["techStack"][:6]),
            ),
            tuple(dict.fromkeys(filter(None, (one["website"], one["job_board_url"], one["reason"])))),
        )
        for one in told[:limit]
    ]
    columns = ("tier", "points", "name", "status", "size", "technologies")
    show(Entries(columns, entries, gives_way=("name", "technologies"), right=("points",)))
    return FINE


def why(told: list[dict[str, Any]]) -> str:
    """Reasons in one line, parted by a sign that no spreadsheet takes for the end of a cell."""
    return " · ".join(f"{one['points']:+d} {one['sentence']}" for one in told)


def _company(row: CompanyRow) -> dict[str, Any]:
    return {
        "company": row.company, "name": row.name, "website": row.website, "status": row.status, "reason": row.reason,
        "tier": row.tier, "priorityScore": row.priority_score, "why": reasons(row.why_json), "about": row.about,
        "culture": row.culture, "mission": row.mission, "size": row.size,
        "company_size_category": row.company_size_category, "headquarters_location": row.headquarters_location,
        "industry": row.industry, "founded": row.founded, "techStack": loaded(row.tech_stack_json, list[str]) or [],
        "analysis_status": row.analysis_status, "job_board_url": row.job_board_url,
        "job_board_confidence": row.job_board_confidence, "analysed": day(row.analysed_at),
    }  # fmt: skip
