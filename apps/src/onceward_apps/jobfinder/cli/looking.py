"""`onceward-jobs matches` and `companies`: what was found, ranked, with why."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.terminal import console, print_json
from onceward_apps.jobfinder import company_rows, listing_rows
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where
from onceward_apps.jobfinder.company_rows import CompanyRow
from onceward_apps.jobfinder.explaining import briefly, day, match_told, reasons
from onceward_apps.jobfinder.finder import opened
from onceward_apps.speaking import FINE, NOTHING_SAID, Flag, Output, table
from onceward_apps.statements import loaded

SHORT = 10
"""How much of a listing's id is shown: a beginning is enough for `explain`."""
STYLES = {"high": "bold green", "medium": "yellow", "low": "dim", "unknown": "bold red", "skipped": "dim"}


def matches(
    *,
    gone: Annotated[bool, Flag, Parameter(help="Show those too that are no longer there.")] = False,
    limit: Annotated[int, Parameter(validator=Number(gte=1), help="How many at most.")] = 50,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """See the matches, the best first, with why."""
    with opened(where.db) as app:
        told = [match_told(row) for row in app.read(listing_rows.matches, gone)]
    if output.json:
        print_json(told[:limit])
        return FINE
    if not told:
        console().print("there is no match yet; add companies, then: onceward-jobs run")
        return FINE
    cells = [
        (
            one["listing"][:SHORT],
            str(one["score"]),
            Text(one["priority"], STYLES[one["priority"]]),
            one["title"] or "",
            one["company"] or "",
            one["location"] or ("remote" if one["remote"] else ""),
            briefly(one["why"]) + (f" (gone since {one['gone']})" if one["gone"] else ""),
        )
        for one in told[:limit]
    ]
    columns = ("listing", "score", "priority", "title", "company", "place", "why")
    console().print(table(columns, cells, right=("score",), folded=("title", "why")))
    if len(told) > limit:
        console().print(Text(f"and {len(told) - limit:,} more: --limit {len(told)}", "dim"))
    console().print(Text("why in full: onceward-jobs explain LISTING", "dim"))
    return FINE


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
    cells = [
        (
            one["company"],
            one["name"] or "",
            one["tier"] or "",
            "" if one["priorityScore"] is None else str(one["priorityScore"]),
            Text(one["status"], STYLES.get(one["status"], "default")),
            one["company_size_category"] or "",
            ", ".join(one["techStack"][:6]),
            one["reason"] or one["job_board_url"] or "",
        )
        for one in told[:limit]
    ]
    columns = ("company", "name", "tier", "points", "status", "size", "technologies", "board, or what is wrong")
    console().print(table(columns, cells, right=("points",), folded=("technologies", "board, or what is wrong")))
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
