"""Places in line: where ready work waits, what a worker remembers of it, and how new work gets there.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["enqueue", "idle", "lines", "memory", "pause_scopes"]
