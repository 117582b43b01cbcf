"""What people ask: tasks, figures, and what holds a task back. Reads only.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["details", "health", "hour", "standing", "stats", "tasks", "waits"]
