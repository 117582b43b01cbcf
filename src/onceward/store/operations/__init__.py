"""What operators and maintenance write: cancel, retry, schedules, settings, alerts, pruning.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = [
    "access",
    "alerts",
    "bulk",
    "history_samples",
    "hourly_usage",
    "importing",
    "intake",
    "pruning",
    "schedules",
    "search",
    "settings",
    "task_actions",
    "ticks",
    "watches",
]
