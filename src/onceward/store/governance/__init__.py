"""Limits of sources and budgets, and the cache: gates that a claim passes, reservations, stored answers.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["budget_waits", "budgets", "cache", "sources"]
