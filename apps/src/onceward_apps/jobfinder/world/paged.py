"""Boards that are asked by POST, page by page: Workday, which lies about its totals, and Workable with its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from onceward_apps.jobfinder.world.companies import Company
from onceward_apps.jobfinder.world.http import Answer, Ask, json
from onceward_apps.jobfinder.world.interfaces import shown
from onceward_apps.jobfinder.world.positions import Position, text_html

WORKDAY_SITE = "Careers"
WORKDAY_PAGE = 20
WORKDAY_FIELDS = {"appliedFacets", "limit", "offset", "searchText"}
WORKABLE_PAGE = 10
WORKABLE_FIELDS = {"query", "location", "department", "worktype"}


def workday(ask: Ask, company: Company, positions: Sequence[Position], said_at_most: int | None = None) -> Answer:
    """Pages by POST. The total is told on the first page only, and may be a lid; on later ones it says 0."""
    if ask.method == "GET":
        path = "/" + "/".join(ask.parts[4:])
        found = next((one for one in positions if _workday_path(one) == path), None)
        return shown(found, company, partial(_workday_detail, ask.host))
    try:
        wanted = msgspec.json.decode(ask.body, type=dict[str, object])
    except msgspec.DecodeError:
        return json({"errorCode": "HTTP_400"}, 400)
    if not wanted.keys() >= WORKDAY_FIELDS:
        return json({"errorCode": "HTTP_422", "httpStatus": 422}, 422)
    offset, limit = wanted["offset"], wanted["limit"]
    if not isinstance(offset, int) or not isinstance(limit, int) or limit > WORKDAY_PAGE:
        return json({"errorCode": "HTTP_400", "httpStatus": 400}, 400)
    total = len(positions) if said_at_most is None else min(len(positions), said_at_most)
    return json({
        "total": 0 if offset else total,
        "jobPostings": [_workday_posting(one) for one in positions[offset : offset + limit]],
        "facets": [],
        "userAuthenticated": False,
    })  # fmt: skip


def _workday_path(position: Position) -> str:
    city = position.city.partition(",")[0].replace(" ", "-")
    return f"/job/{city}/{position.title.replace(',', '').replace(' ', '-')}_JR-{position.number}"


def _workday_posting(position: Position) -> dict[str, object]:
    return {
        "title": position.title,
        "externalPath": _workday_path(position),
        "locationsText": position.place,
        "postedOn": "Posted 30+ Days Ago",
        "remoteType": "Remote" if position.is_remote else "Onsite",
        "bulletFields": [f"JR-{position.number}"],
    }


def _workday_detail(host: str, company: Company, position: Position) -> dict[str, object]:
    return {
        "jobPostingInfo": {
            "id": position.uuid.replace("-", ""),
            "title": position.title,
            "jobDescription": text_html(company, position),
            "location": position.place,
            "postedOn": "Posted 30+ Days Ago",
            "startDate": position.posted.isoformat(),
            "timeType": "Full time",
            "jobReqId": f"JR-{position.number}",
            "country": {"descriptor": "United States of America", "id": "us"},
            "remoteType": "Remote" if position.is_remote else "Onsite",
            "externalUrl": f"https://{host}/{WORKDAY_SITE}{_workday_path(position)}",
            "canApply": True,
        },
        "hiringOrganization": {"name": company.name, "url": company.website},
    }


def workable(ask: Ask, company: Company, positions: Sequence[Position]) -> Answer:
    """A widget with everything, and a list by POST whose pages are chained by tokens."""
    match ask.parts:
        case ("api", "v1", "widget", "accounts", _):
            jobs = [_workable_widget(company, one) for one in positions]
            return json({"name": company.name, "description": "", "jobs": jobs})
        case ("api", "v3", "accounts", _, "jobs") if ask.method == "POST":
            return _workable_list(ask, positions)
        case ("api", _, "accounts", _, "jobs", code):
            found = next((one for one in positions if one.code == code), None)
            return shown(found, company, _workable_detail)
    return json({"error": "Not Found"}, 404)


def _workable_list(ask: Ask, positions: Sequence[Position]) -> Answer:
    try:
        wanted = msgspec.json.decode(ask.body, type=dict[str, object])
    except msgspec.DecodeError:
        return json({"error": "bad request"}, 400)
    if not wanted.keys() >= WORKABLE_FIELDS:
        return json({"error": "bad request"}, 400)
    token = str(wanted.get("token") or "from-0")
    start = int(token.removeprefix("from-"))
    end = start + WORKABLE_PAGE
    answer: dict[str, object] = {
        "total": len(positions),
        "results": [_workable_item(one) for one in positions[start:end]],
    }
    if end < len(positions):
        answer["nextPage"] = f"from-{end}"
    return json(answer)


def _workable_item(position: Position) -> dict[str, object]:
    city, _, region = position.city.partition(", ")
    place = {"country": "United States", "countryCode": "US", "city": city, "region": region, "hidden": False}
    return {
        "id": position.number,
        "shortcode": position.code,
        "title": position.title,
        "remote": position.is_remote,
        "location": place,
        "locations": [place],
        "state": "published",
        "isInternal": False,
        "published": f"{position.posted}T00:00:00.000Z",
        "type": "full",
        "language": "en",
        "department": [position.department],
        "workplace": "remote" if position.is_remote else "on_site",
    }


def _workable_detail(company: Company, position: Position) -> dict[str, object]:
    wanted = "".join(f"<li>{line}</li>" for line in position.requirements)
    texts = {"description": text_html(company, position), "requirements": f"<ul>{wanted}</ul>", "benefits": ""}
    return {**_workable_item(position), **texts}


def _workable_widget(company: Company, position: Position) -> dict[str, object]:
    city, _, region = position.city.partition(", ")
    where = f"https://apply.workable.com/j/{position.code}"
    return {
        "title": position.title,
        "shortcode": position.code,
        "code": "",
        "employment_type": "Full-time",
        "telecommuting": position.is_remote,
        "department": position.department,
        "url": where,
        "shortlink": where,
        "application_url": f"{where}/apply",
        "published_on": position.posted.isoformat(),
        "created_at": position.posted.isoformat(),
        "country": "United States",
        "city": city,
        "state": region,
        "locations": [{"country": "United States", "countryCode": "US", "city": city, "region": region}],
        "description": text_html(company, position),
    }
