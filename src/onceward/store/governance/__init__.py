"""What sources, budgets and the cache allow: gates that a claim passes, and what is set aside and spent.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["budget_waits", "budgets", "cache", "sources"]
