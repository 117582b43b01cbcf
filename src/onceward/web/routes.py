"""Every route of the site, with the role it needs: the table that the guard obeys and a test goes through."""

from __future__ import annotations

from onceward.web.pages import entrance, overview
from onceward.web.route import Route

ROUTES: tuple[Route, ...] = (
    *entrance.ROUTES,
    *overview.ROUTES,
)
