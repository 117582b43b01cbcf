"""Pure rules: no database, no clock, no worker. The same examples every time, few enough to be quick."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", max_examples=30, deadline=None, database=None, derandomize=True)
settings.load_profile("unit")
