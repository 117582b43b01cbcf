"""The overview: is work being done, what needs a person, and how the last hour went."""

from __future__ import annotations

from onceward.web.answers import Page
from onceward.web.route import Answer, page
from onceward.web.view import View


async def show(view: View) -> Answer:
    """Show the overview."""
    app = view.app
    counts, alerts = await app.stats.acounts(), await app.alerts.alist()
    return Page("overview.html", {"counts": counts, "alerts": alerts}, "Overview", "overview")


ROUTES = [page("/", show)]
