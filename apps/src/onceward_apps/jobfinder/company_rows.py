"""The rows of companies: begun with a name and a website, filled when the company was looked at."""

from __future__ import annotations

from typing import Any

import msgspec

from onceward import Connection
from onceward_apps.jobfinder.identities import folded_name
from onceward_apps.statements import change, record, records, row, stored


class Origin(msgspec.Struct, frozen=True):
    """Where a row comes from: the task that asked for it, its lineage and depth, and when."""

    task: int | None
    lineage: str | None
    depth: int
    at: int


class CompanyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A company as it stands in its table."""

    company: str
    name: str | None
    website: str
    status: str
    reason: str | None
    about: str | None
    culture: str | None
    mission: str | None
    size: str | None
    company_size_category: str | None
    headquarters_location: str | None
    industry: str | None
    founded: str | None
    tech_stack_json: str | None
    has_office: bool | None
    tier: str | None
    priority_score: int | None
    why_json: str | None
    analysis_status: str | None
    job_board_url: str | None
    job_board_confidence: str | None
    parent_task: int | None
    lineage: str | None
    depth: int | None
    created_at: int
    analysed_at: int | None


def company(connection: Connection, company: str) -> CompanyRow | None:
    """One company."""
    return record(connection, CompanyRow, "SELECT * FROM jobs_company WHERE company = ?", company)


def companies(connection: Connection) -> list[CompanyRow]:
    """All companies, the best first."""
    return records(
        connection,
        CompanyRow,
        "SELECT * FROM jobs_company ORDER BY coalesce(priority_score, -1) DESC, company",
    )


def company_named(connection: Connection, name: str) -> str | None:
    """The company that goes by a name."""
    found = row(connection, "SELECT company FROM jobs_company_name WHERE folded = ?", folded_name(name))
    return None if found is None else str(found[0])


def begin_company(connection: Connection, company: str, name: str | None, website: str, origin: Origin) -> None:
    """Have a row for a company at once; one that is there stays as it is."""
    change(
        connection,
        "INSERT INTO jobs_company (company, name, website, status, parent_task, lineage, depth, created_at)"
        " VALUES (?, ?, ?, 'analyzing', ?, ?, ?, ?) ON CONFLICT (company) DO NOTHING",
        company, name, website, origin.task, origin.lineage, origin.depth, origin.at,
    )  # fmt: skip
    if name:
        know_name(connection, company, name)


def know_name(connection: Connection, company: str, name: str) -> None:
    """Have a company found by a name; if another company has that name already, it keeps it."""
    if folded := folded_name(name):
        change(
            connection,
            "INSERT INTO jobs_company_name (folded, company) VALUES (?, ?) ON CONFLICT (folded) DO NOTHING",
            folded, company,
        )  # fmt: skip


def save_company(connection: Connection, company: str, found: dict[str, Any], now: int) -> None:
    """Fill in everything that was found out."""
    change(
        connection,
        "UPDATE jobs_company SET name = ?, about = ?, culture = ?, mission = ?, size = ?, company_size_category = ?,"
        " headquarters_location = ?, industry = ?, founded = ?, tech_stack_json = ?, has_office = ?, tier = ?,"
        " priority_score = ?, why_json = ?, job_board_url = ?, job_board_confidence = ?,"
        " status = 'active', reason = NULL, analysis_status = 'complete', analysed_at = ? WHERE company = ?",
        found["name"], found["about"], found["culture"], found["mission"], found["size"], found["size_category"],
        found["headquarters"], found["industry"], found["founded"], stored(found["tech_stack"]),
        int(found["has_office"]), found["tier"], found["score"], stored(found["why"]), found["board_url"],
        found["board_confidence"], now, company,
    )  # fmt: skip
    know_name(connection, company, found["name"])


def give_up_company(connection: Connection, company: str, status: str, reason: str) -> None:
    """Say why a company could not be looked at, or not well enough. What was known of it stays."""
    change(
        connection,
        "UPDATE jobs_company SET status = CASE WHEN analysed_at IS NULL THEN ? ELSE status END, reason = ?,"
        " analysis_status = ? WHERE company = ?",
        status, reason, status, company,
    )  # fmt: skip
