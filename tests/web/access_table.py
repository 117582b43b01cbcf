"""What every route of the site needs. A route that is not here fails a test: say who may take it, then add it."""

from __future__ import annotations

NONE = """
GET /login
POST /login
POST /logout
"""
VIEWER = """
GET /
GET /alerts
GET /api/v1/alerts
GET /api/v1/batches
GET /api/v1/batches/{name:path}
GET /api/v1/budgets
GET /api/v1/budgets/{name:path}
GET /api/v1/bulk
GET /api/v1/bulk/{number}
GET /api/v1/cron
GET /api/v1/envelope
GET /api/v1/holds
GET /api/v1/lineages
GET /api/v1/lineages/{id}
GET /api/v1/openapi.json
GET /api/v1/pauses
GET /api/v1/schedules
GET /api/v1/settings
GET /api/v1/sources
GET /api/v1/sources/{name:path}
GET /api/v1/stats
GET /api/v1/stats/backlog
GET /api/v1/stats/counts
GET /api/v1/stats/hour
GET /api/v1/tasks
GET /api/v1/tasks/completions
GET /api/v1/tasks/count
GET /api/v1/tasks/errors
GET /api/v1/tasks/export
GET /api/v1/tasks/{id}
GET /api/v1/tasks/{id}/why
GET /api/v1/workers
GET /batches
GET /budgets
GET /bulk/{id}
GET /envelope
GET /lineages
GET /lineages/{id}
GET /live
GET /metrics
GET /schedules
GET /settings
GET /sources
GET /store
GET /tasks
GET /tasks/act
GET /tasks/complete
GET /tasks/count
GET /tasks/groups
GET /tasks/{id}
GET /tasks/{id}/payload
GET /tasks/{id}/stored
GET /workers
"""
OPERATOR = """
POST /alerts/look
POST /api/v1/bulk
GET /api/v1/bulk/preview
POST /api/v1/bulk/{number}/stop
POST /api/v1/lineages/{id}/cancel
POST /api/v1/lineages/{id}/pause
POST /api/v1/lineages/{id}/resume
POST /api/v1/lineages/{id}/retry
POST /api/v1/pauses
POST /api/v1/pauses/resume
POST /api/v1/schedules/{name:path}/pause
POST /api/v1/schedules/{name:path}/resume
POST /api/v1/schedules/{name:path}/run
POST /api/v1/sources/{name:path}/disable
POST /api/v1/sources/{name:path}/enable
POST /api/v1/tasks
POST /api/v1/tasks/{id}/approve
POST /api/v1/tasks/{id}/cancel
POST /api/v1/tasks/{id}/retry
POST /api/v1/tasks/{id}/signal
POST /bulk/{id}/stop
POST /lineages/{id}/approve
POST /lineages/{id}/cancel
POST /lineages/{id}/pause
POST /lineages/{id}/refuse
POST /lineages/{id}/resume
POST /lineages/{id}/retry
POST /overview/enable
POST /overview/pause
POST /overview/resume
POST /schedules/pause
POST /schedules/resume
POST /schedules/run
POST /sources/disable
POST /sources/enable
POST /sources/pause
POST /sources/resume
POST /tasks/act
POST /tasks/{id}/approve
POST /tasks/{id}/cancel
POST /tasks/{id}/retry
POST /tasks/{id}/signal
POST /tasks/{id}/unblock
POST /workers/pause
POST /workers/resume
"""
ADMIN = """
GET /api/v1/audit
PUT /api/v1/budgets/{name:path}/limit
PATCH /api/v1/lineages/{id}/limits
DELETE /api/v1/settings/{name:path}
PUT /api/v1/settings/{name:path}
GET /audit
POST /budgets/limit
POST /lineages/{id}/limits
POST /overview/limit
POST /settings/set
POST /settings/unset
POST /tasks/{id}/limit
"""

NEEDS = {
    line: role
    for role, lines in (("none", NONE), ("viewer", VIEWER), ("operator", OPERATOR), ("admin", ADMIN))
    for line in lines.split("\n")
    if line
}
