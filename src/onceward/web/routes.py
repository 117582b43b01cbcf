"""Every route of the site, with the role it needs: the table that the guard obeys and a test goes through."""

from __future__ import annotations

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
    workers,
)
from onceward.web.route import Route

ROUTES: tuple[Route, ...] = (
    *entrance.ROUTES,
    *overview.ROUTES,
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
)
