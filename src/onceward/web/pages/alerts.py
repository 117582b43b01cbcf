"""The alerts: what the rules of the engine and the watches of the app have found, and what to do about it."""

from __future__ import annotations

from onceward.web.answers import Done, Page
from onceward.web.route import Answer, Route, action, page
from onceward.web.view import View

MOST = 200
STOPPED = frozenset({"source", "budget", "code", "lease", "workers", "chain"})
"""Rules about what stands still; the others are about what is at risk."""


async def show(view: View) -> Answer:
    """Show the alerts that last, and those that were resolved."""
    found = await view.app.alerts.alist(open_only=False, limit=MOST)
    values = {
        "open_ones": [one for one in found if one.is_open],
        "resolved": [one for one in found if not one.is_open][:100],
        "stopped": STOPPED,
        "most": MOST,
        "looked_at": max((one.seen_at for one in found), default=None),
        "every": view.app.config.watch_every,
    }
    return Page("alerts.html", values, "Alerts", "alerts")


async def look(view: View) -> Answer:
    """Look at all rules and watches at once."""
    found = await view.app.alerts.alook()
    count = len(found)
    said = "Looked: nothing needs you." if not count else f"Looked: {count:,} alert{'s' if count > 1 else ''} last."
    return Done(said, "/alerts", count, "onceward alerts --look")


ROUTES: list[Route] = [page("/alerts", show), action("/alerts/look", look, "Look at all rules and watches at once.")]
