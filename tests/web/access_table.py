"""What every route of the site needs. A route that is not here fails a test: say who may take it, then add it."""

from __future__ import annotations

NONE = """
GET /login
POST /login
POST /logout
"""
VIEWER = """
GET /lineages
GET /lineages/{id}
GET /batches
GET /sources
GET /budgets
GET /schedules
GET /workers
GET /alerts
GET /settings
GET /envelope
GET /store
GET /
GET /bulk/{id}
GET /tasks
GET /tasks/act
GET /tasks/complete
GET /tasks/count
GET /tasks/groups
GET /tasks/{id}
GET /tasks/{id}/payload
GET /tasks/{id}/stored
GET /live
GET /metrics
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
"""
OPERATOR = """
POST /lineages/{id}/pause
POST /lineages/{id}/resume
POST /lineages/{id}/retry
POST /lineages/{id}/cancel
POST /lineages/{id}/approve
POST /lineages/{id}/refuse
POST /sources/enable
POST /sources/disable
POST /sources/pause
POST /sources/resume
POST /schedules/run
POST /schedules/pause
POST /schedules/resume
POST /workers/pause
POST /workers/resume
POST /alerts/look
POST /bulk/{id}/stop
POST /overview/enable
POST /overview/pause
POST /overview/resume
POST /tasks/act
POST /tasks/{id}/approve
POST /tasks/{id}/cancel
POST /tasks/{id}/retry
POST /tasks/{id}/signal
POST /tasks/{id}/unblock
GET /api/v1/audit
GET /api/v1/bulk/preview
POST /api/v1/bulk
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
"""
ADMIN = """
POST /lineages/{id}/limits
POST /budgets/limit
POST /settings/set
POST /settings/unset
GET /audit
POST /overview/limit
POST /tasks/{id}/limit
DELETE /api/v1/settings/{name:path}
PATCH /api/v1/lineages/{id}/limits
PUT /api/v1/budgets/{name:path}/limit
PUT /api/v1/settings/{name:path}
"""

NEEDS = {
    line: role
    for role, lines in (("none", NONE), ("viewer", VIEWER), ("operator", OPERATOR), ("admin", ADMIN))
    for line in lines.split("\n")
    if line
}
