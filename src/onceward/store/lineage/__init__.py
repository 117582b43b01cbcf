"""Spawning and what follows from it: the guard, children, joins, batches, trees of tasks.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = [
    "batches",
    "branches",
    "growth",
    "pause_lineage",
    "raise_limits",
    "remote_spawn",
    "spawn_requests",
    "stage_batches",
    "trees",
    "unique_roots",
]
