"""The lineages: the newest, or the largest, with what became of their tasks and what they cost."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import RedirectResponse

from onceward.errors import ConfigError
from onceward.model.status import Status
from onceward.views.branches import ListedLineage
from onceward.web.answers import Page
from onceward.web.rendering import path
from onceward.web.route import Answer, Route, page
from onceward.web.view import View

PAGE = 25
WELL = (Status.SUCCEEDED, Status.FILTERED, Status.SKIPPED)


async def show(view: View) -> Answer:
    """Show a page of lineages."""
    sought = view.query.get("id", "").strip()
    if sought:
        return RedirectResponse(path(view.base, f"/lineages/{sought.partition('/')[0]}"), status_code=303)
    largest = view.query.get("by") == "size"
    before = _moment(view.query.get("before", ""))
    found = await view.app.lineages.apage(limit=PAGE + 1, largest=largest, before=None if largest else before)
    older = found[PAGE - 1].summary.created_at if len(found) > PAGE and not largest else None
    values = {
        "lineages": [(one, mix_of(one)) for one in found[:PAGE]],
        "largest": largest,
        "older": older.isoformat() if older else None,
        "before": before,
    }
    return Page("lineages.html", values, "Lineages", "lineages")


def mix_of(one: ListedLineage) -> dict[str, int]:
    """Return how many tasks of a lineage ended well, ended badly, were cancelled and are open."""
    counts = one.summary.counts
    return {
        "good": sum(counts.get(status, 0) for status in WELL),
        "bad": counts.get(Status.FAILED, 0),
        "off": counts.get(Status.CANCELLED, 0),
        "open": sum(count for status, count in counts.items() if not status.is_terminal),
    }


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"before={text[:40]!r} is no moment like 2026-11-17T16:45:00+00:00") from None


ROUTES: list[Route] = [page("/lineages", show)]
