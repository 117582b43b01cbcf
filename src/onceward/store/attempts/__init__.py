"""Attempts from claim to commit: leases, fences, lost workers, and what ends by time.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["claims", "commit_results", "commits", "engine_failures", "expiry", "quick_claim", "workers"]
