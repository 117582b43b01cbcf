"""The envelope: what an hour can come to at worst, beside what it really came to, and what would bound the rest."""

from __future__ import annotations

from onceward.web.answers import Page
from onceward.web.route import Answer, Route, page
from onceward.web.view import View


async def show(view: View) -> Answer:
    """Show what can happen at worst, by the configuration, and what has."""
    found = await view.app.aenvelope(measured=True)
    stats = await view.app.stats.aspending()
    return Page(
        "envelope.html",
        {"envelope": found, "hour": found.hourly, "spending": stats, "code_is_known": bool(found.pipelines)},
        "Envelope",
        "envelope",
        refresh_s=None,
    )


ROUTES: list[Route] = [page("/envelope", show)]
