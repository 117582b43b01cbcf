"""`onceward-jobs explain`, `export` and `report`: why a listing is what it is, and everything in a file."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from onceward.harmless import harmless_cell, json_text
from onceward.terminal import print_json, print_pieces, show
from onceward_apps.jobfinder import listing_rows
from onceward_apps.jobfinder.cli.looking import why
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where
from onceward_apps.jobfinder.explaining import day, explained, match_told, reasons, salary
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.listing_rows import ListingRow
from onceward_apps.jobfinder.reporting import report as written_report
from onceward_apps.speaking import FINE, NOTHING_SAID, Flag, Output


def explain(
    listing: Annotated[str, Parameter(name="LISTING", help="Its address, or its id or the beginning of it.")],
    /,
    *,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """See why a listing is a match, or why not: its strikes, its points, its company, its tasks."""
    with opened(where.db) as app:
        told = explained(app, listing)
    if output.json:
        print_json(told)
        return FINE
    show(f"{told['title'] or told['url']}: {told['status']}" + (f", {told['reason']}" if told["reason"] else ""))
    for name in ("company", "tier", "location", "salary", "posted", "source", "completeness", "url", "gone", "verdict"):
        if told[name]:
            show(f"  {name}: {told[name]}")
    for name, title in (("strikes", "strikes"), ("why", "points"), ("why_company", "points of its company")):
        if found := told.get(name):
            needed = f", {told['needed']} needed" if name == "why" and "needed" in told else ""
            show(f"  {title}, {sum(one['points'] for one in found)} in all{needed}:")
            show(*(f"    {one['points']:>+4d}  {one['rule']}: {one['sentence']}" for one in found))
    for task in told["tasks"]:
        show(f"  task {task['task']}: {task['status']}" + (f", {task['reason']}" if task["reason"] else ""))
    return FINE


def export(
    path: Annotated[Path | None, Parameter(name="FILE", help="Where to; otherwise it is printed.")] = None,
    /,
    *,
    form: Annotated[Literal["csv", "json"], Parameter(name="--format", help="csv or json.")] = "csv",
    listings: Annotated[bool, Flag, Parameter(help="All listings, not only the matches.")] = False,
    gone: Annotated[bool, Flag, Parameter(help="Matches too that are no longer there.")] = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Write the matches, or all listings, as a table or as JSON."""
    with opened(where.db) as app:
        if listings:
            lines = [_listing(row) for row in app.read(listing_rows.listings)]
        else:
            lines = [match_told(row) for row in app.read(listing_rows.matches, gone)]
    text = json_text(lines) + "\n" if form == "json" else _as_csv(lines)
    if path is None:
        print_pieces([text])
        return FINE
    path.write_text(text, encoding="utf-8")
    if output.json:
        print_json({"file": str(path), "lines": len(lines)})
    else:
        show(f"wrote {len(lines):,} lines to {path}")
    return FINE


def report(
    path: Annotated[Path, Parameter(name="FILE", help="Where to.")] = Path("matches.html"),
    /,
    *,
    gone: Annotated[bool, Flag, Parameter(help="With those that are no longer there.")] = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Write a page of the ranked matches with their reasons: one file, for any browser."""
    with opened(where.db) as app:
        rows, counts = app.read(listing_rows.matches, gone), app.read(listing_rows.counts)
    path.write_text(written_report(rows, counts, datetime.now(UTC)), encoding="utf-8")
    if output.json:
        print_json({"file": str(path), "matches": len(rows)})
    else:
        show(f"wrote {len(rows):,} matches to {path}")
    return FINE


def _listing(row: ListingRow) -> dict[str, Any]:
    return {
        "listing": row.listing, "status": row.status, "reason": row.reason, "score": row.score, "title": row.title,
        "company": row.company_name, "location": row.location, "remote": row.remote, "posted": row.posted,
        "salary": salary(row), "url": row.url, "apply_url": row.apply_url, "strikes": reasons(row.strikes_json),
        "why": reasons(row.why_json), "gone": day(row.gone_at),
    }  # fmt: skip


def _as_csv(lines: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    if lines:
        writer = csv.DictWriter(text, list(lines[0]))
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        value = why(value)
    return harmless_cell(value) if isinstance(value, str) else value
