"""Every rule of the engine, checked on a live database.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = ["verify"]
