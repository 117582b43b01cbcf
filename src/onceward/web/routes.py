"""Every route of the site, with the role it needs: the table that the guard obeys and a test goes through."""

from __future__ import annotations

from onceward.web import api, metrics, pulse
from onceward.web.pages import entrance, overview, task, tasks
from onceward.web.route import Route

ROUTES: tuple[Route, ...] = (
    *entrance.ROUTES,
    *overview.ROUTES,
    *tasks.ROUTES,
    *task.ROUTES,
    *pulse.ROUTES,
    *metrics.ROUTES,
    *api.ROUTES,
)
