"""Every route of the site, with the role it needs: the table that the guard obeys and a test goes through."""

from __future__ import annotations

from onceward.web import api, metrics, pulse
from onceward.web.pages import (
    alerts,
    audit,
    batches,
    budgets,
    entrance,
    envelope,
    lineage,
    lineages,
    overview,
    schedules,
    settings,
    sources,
    store,
    task,
    tasks,
    workers,
)
from onceward.web.route import Route

ROUTES: tuple[Route, ...] = (
    *entrance.ROUTES,
    *overview.ROUTES,
    *tasks.ROUTES,
    *task.ROUTES,
    *lineages.ROUTES,
    *lineage.ROUTES,
    *batches.ROUTES,
    *sources.ROUTES,
    *budgets.ROUTES,
    *schedules.ROUTES,
    *workers.ROUTES,
    *alerts.ROUTES,
    *settings.ROUTES,
    *envelope.ROUTES,
    *store.ROUTES,
    *audit.ROUTES,
    *pulse.ROUTES,
    *metrics.ROUTES,
    *api.ROUTES,
)
