"""The tables of the job finder, as a migration of its database."""

from __future__ import annotations

from importlib.resources import files

from onceward import Migration

TABLES = (Migration("001 jobfinder", files(__package__).joinpath("sql", "tables.sql").read_text(encoding="utf-8")),)
"""What the database has beside the engine's own tables."""
