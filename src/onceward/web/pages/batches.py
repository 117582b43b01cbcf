"""The batches: how far each has come, how long it will still take, and what follows it."""

from __future__ import annotations

from datetime import UTC, datetime

from onceward.web.answers import Page
from onceward.web.route import Answer, Route, page
from onceward.web.view import View

STATUSES = ("open", "succeeded", "partial", "failed")
GLYPHS = {"open": "running", "succeeded": "succeeded", "partial": "warning", "failed": "failed"}
"""The mark of each status of a batch."""
MOST = 100


async def show(view: View) -> Answer:
    """Show the newest batches, or those of one status."""
    status = view.query.get("status") or None
    found = await view.app.batches.alist(status=status, limit=MOST)
    now = datetime.fromtimestamp(view.now / 1_000, UTC)
    rows = [(one, GLYPHS[one.status], _left_ms(one.time_left(now))) for one in found]
    values = {"batches": rows, "status": status, "statuses": STATUSES, "most": MOST}
    return Page("batches.html", values, "Batches", "batches")


def _left_ms(left: object) -> float | None:
    seconds = getattr(left, "total_seconds", None)
    return None if seconds is None else seconds() * 1_000


ROUTES: list[Route] = [page("/batches", show)]
