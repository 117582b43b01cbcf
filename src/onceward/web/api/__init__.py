"""The JSON API below `/api/v1`: what programs ask and change, with an OpenAPI document made of the same table."""

from __future__ import annotations

from onceward.web.api import bulk, control, lineages, lists, openapi, reports, tasks
from onceward.web.api.operation import Operation
from onceward.web.route import Route

OPERATIONS: list[Operation] = [
    *lists.OPERATIONS,
    *bulk.OPERATIONS,
    *tasks.OPERATIONS,
    *lineages.OPERATIONS,
    *control.OPERATIONS,
    *reports.OPERATIONS,
]
OPERATIONS.append(openapi.operation(OPERATIONS))
ROUTES: list[Route] = [one.route for one in OPERATIONS]
