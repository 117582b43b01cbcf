"""The tables of a library, as a migration of its database."""

from __future__ import annotations

from importlib.resources import files

from onceward import Migration


def _text(name: str) -> str:
    return files(__package__).joinpath("sql", name).read_text(encoding="utf-8")


TABLES = (Migration("001 documents", sqlite=_text("sqlite.sql"), postgres=_text("postgres.sql")),)
"""What a library's database has beside the engine's own tables."""
