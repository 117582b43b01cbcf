"""Boards that speak JSON and tell much at once: what each interface answers, in its own shape and with its own ways.

Each function takes what was asked, the company whose board it is, and its positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from html import escape

from onceward_apps.jobfinder.world import words
from onceward_apps.jobfinder.world.companies import Company
from onceward_apps.jobfinder.world.http import Answer, Ask, json
from onceward_apps.jobfinder.world.positions import Position, text_html, text_plain


def greenhouse(ask: Ask, company: Company, positions: Sequence[Position]) -> Answer:
    """The whole board at once; texts come as HTML that is escaped once more."""
    match ask.parts[3:]:
        case ():
            about = escape(f"<p>{company.name} {words.INDUSTRIES[company.industry]}.</p>")
            return json({"name": company.name, "content": about})
        case ("jobs",):
            with_text = ask.query.get("content") == "true"
            jobs = [_greenhouse_job(company, one, with_text) for one in positions]
            return json({"jobs": jobs, "meta": {"total": len(jobs)}})
        case ("jobs", number):
            found = next((one for one in positions if str(one.number) == number), None)
            return shown(found, company, _greenhouse_job)
    return json({"status": 404, "error": "Job not found"}, 404)


def _greenhouse_job(company: Company, position: Position, with_text: bool = True) -> dict[str, object]:
    job: dict[str, object] = {
        "absolute_url": f"https://boards.greenhouse.io/{company.slug}/jobs/{position.number}",
        "data_compliance": [{"type": "gdpr", "requires_consent": False, "retention_period": None}],
        "internal_job_id": position.number + 7,
        "location": {"name": position.place},
        "metadata": None,
        "id": position.number,
        "updated_at": f"{position.posted}T09:30:00-04:00",
        "requisition_id": str(position.number),
        "title": position.title,
        "company_name": company.name,
        "first_published": f"{position.posted}T09:30:00-04:00",
        "language": "en",
        "application_deadline": None,
    }
    if with_text:
        job["content"] = escape(text_html(company, position))
        job["departments"] = [{"id": 1, "name": position.department, "child_ids": [], "parent_id": None}]
        job["offices"] = [{"id": 2, "name": position.city, "location": position.city, "child_ids": []}]
    return job


def lever(ask: Ask, company: Company, positions: Sequence[Position]) -> Answer:
    """A bare list with no total: a reader goes on until a page is short."""
    if "application/json" not in ask.headers.get("accept", "") and ask.query.get("mode") != "json":
        return Answer(b"<!doctype html><title>Jobs</title>")
    if len(ask.parts) == 4:
        found = next((one for one in positions if one.uuid == ask.parts[3]), None)
        return shown(found, company, _lever_posting)
    skip, limit = int(ask.query.get("skip", "0")), int(ask.query.get("limit", "100"))
    return json([_lever_posting(company, one) for one in positions[skip : skip + limit]])


def _lever_posting(company: Company, position: Position) -> dict[str, object]:
    where = f"https://jobs.lever.co/{company.slug}/{position.uuid}"
    return {
        "id": position.uuid,
        "text": position.title,
        "country": "US",
        "workplaceType": "remote" if position.is_remote else "on-site",
        "createdAt": _milliseconds(position.posted),
        "hostedUrl": where,
        "applyUrl": f"{where}/apply",
        "categories": {
            "commitment": "Full-time",
            "department": position.department,
            "location": position.city,
            "team": position.department,
            "allLocations": [position.city],
        },
        "description": text_html(company, position),
        "descriptionPlain": text_plain(company, position),
        "lists": [
            {"text": "Requirements", "content": "".join(f"<li>{line}</li>" for line in position.requirements)}
        ],
        "additionalPlain": "",
        "salaryRange": {
            "min": position.salary[0], "max": position.salary[1], "currency": "USD", "interval": "per-year-salary",
        },
    }  # fmt: skip


def smartrecruiters(ask: Ask, company: Company, positions: Sequence[Position]) -> Answer:
    """A list without texts, and one request for the text of each."""
    if len(ask.parts) == 5:
        found = next((one for one in positions if str(one.number) == ask.parts[4]), None)
        return shown(found, company, _smart_detail)
    offset, limit = int(ask.query.get("offset", "0")), min(100, int(ask.query.get("limit", "10")))
    content = [_smart_item(company, one) for one in positions[offset : offset + limit]]
    return json({"offset": offset, "limit": limit, "totalFound": len(positions), "content": content})


def _smart_item(company: Company, position: Position) -> dict[str, object]:
    city, _, region = position.city.partition(", ")
    return {
        "id": str(position.number),
        "name": position.title,
        "uuid": position.uuid,
        "refNumber": f"REF{position.number}",
        "company": {"identifier": company.slug, "name": company.name},
        "releasedDate": f"{position.posted}T08:00:00.000Z",
        "location": {
            "city": city, "region": region, "country": "us", "remote": position.is_remote, "hybrid": False,
            "fullLocation": f"{position.city}, United States",
        },
        "industry": {"id": "computer_software", "label": "Computer Software"},
        "department": {"id": "1", "label": position.department},
        "function": {"id": "other", "label": "Other"},
        "typeOfEmployment": {"id": "permanent", "label": "Full-time"},
        "experienceLevel": {"id": "mid_senior_level", "label": "Mid-Senior Level"},
        "customField": [],
        "language": {"code": "en", "label": "English"},
        "ref": f"https://api.smartrecruiters.com/v1/companies/{company.slug}/postings/{position.number}",
    }  # fmt: skip


def _smart_detail(company: Company, position: Position) -> dict[str, object]:
    where = f"https://jobs.smartrecruiters.com/{company.slug}/{position.number}-{position.slug}"
    wanted = "".join(f"<li>{line}</li>" for line in position.requirements)
    about = f"<p>{company.name} {words.INDUSTRIES[company.industry]}.</p>"
    return {
        **_smart_item(company, position),
        "postingUrl": where,
        "applyUrl": f"{where}?oga=true",
        "active": True,
        "jobAd": {
            "sections": {
                "companyDescription": {"title": "Company Description", "text": about},
                "jobDescription": {"title": "Job Description", "text": text_html(company, position)},
                "qualifications": {"title": "Qualifications", "text": f"<ul>{wanted}</ul>"},
                "additionalInformation": {"title": "Additional Information", "text": ""},
            }
        },
    }


def ashby(ask: Ask, company: Company, positions: Sequence[Position]) -> Answer:
    """The whole board at once, with pay where it is asked for."""
    return json({"apiVersion": "1", "jobs": [_ashby_job(company, one) for one in positions]})


def _ashby_job(company: Company, position: Position) -> dict[str, object]:
    where = f"https://jobs.ashbyhq.com/{company.slug}/{position.uuid}"
    lowest, highest = position.salary
    pay = f"${lowest // 1_000}K - ${highest // 1_000}K"
    return {
        "id": position.uuid,
        "title": position.title,
        "department": position.department,
        "team": position.department,
        "employmentType": "FullTime",
        "location": position.city,
        "secondaryLocations": [],
        "publishedAt": f"{position.posted}T12:00:00.000+00:00",
        "isListed": True,
        "isRemote": position.is_remote,
        "workplaceType": "Remote" if position.is_remote else "OnSite",
        "address": {"postalAddress": {"addressLocality": position.city, "addressCountry": "United States"}},
        "jobUrl": where,
        "applyUrl": f"{where}/application",
        "descriptionHtml": text_html(company, position),
        "descriptionPlain": text_plain(company, position),
        "compensation": {
            "compensationTierSummary": pay,
            "scrapeableCompensationSalarySummary": pay,
            "compensationTiers": [{"id": "1", "tierSummary": pay, "title": None, "components": [{
                "id": "2", "summary": pay, "compensationType": "Salary", "interval": "1 YEAR", "currencyCode": "USD",
                "minValue": lowest, "maxValue": highest,
            }]}],
        },
    }  # fmt: skip


def shown(found: Position | None, company: Company, show: Callable[[Company, Position], dict[str, object]]) -> Answer:
    """One position as its board shows it, or that there is none."""
    return json({"ok": False, "error": "not found"}, 404) if found is None else json(show(company, found))


def _milliseconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1_000)
