"""Lines: where ready tasks wait, what a worker remembers of them, and how tasks get there.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["enqueue", "idle", "lines", "memory", "pause_scopes"]
