"""What a person decides about sources: a waiting one is tested once approved, a disabled one read again."""

from __future__ import annotations

from collections.abc import Sequence

from onceward import App, ConfigError, Limits
from onceward_apps.jobfinder import source_rows
from onceward_apps.jobfinder.payloads import Discovery, Reading
from onceward_apps.jobfinder.source_rows import SourceRow
from onceward_apps.transactions import transaction


def waiting(app: App) -> list[SourceRow]:
    """The sources that wait for approval."""
    return [row for row in app.read(source_rows.sources) if row.awaits_approval]


def testable(app: App) -> list[SourceRow]:
    """The sources that a person may have tested: those that wait, and those of which nothing came when they were."""
    return [row for row in app.read(source_rows.sources) if row.awaits_approval or row.status == "unknown"]


def chosen(rows: Sequence[SourceRow], words: Sequence[str]) -> list[SourceRow]:
    """The sources that words mean: ids, addresses, companies, or the beginnings of ids. ConfigError for others."""
    found: dict[str, SourceRow] = {}
    for word in words:
        exact = [row for row in rows if word in (row.source, row.url, row.company)]
        meant = exact or [row for row in rows if row.source.startswith(word)]
        if not meant:
            raise ConfigError(f"there is no such source: {word!r}; see `onceward-jobs sources`")
        if len(meant) > 1 and not exact:
            raise ConfigError(f"{word!r} may be {', '.join(row.source for row in meant[:5])}; write more of it")
        found |= {row.source: row for row in meant}
    return list(found.values())


def approve(app: App, rows: Sequence[SourceRow], limits: Limits | None = None) -> list[str]:
    """Have sources tested, and read if they prove themselves; returns their ids."""
    with transaction(app) as connection:
        for row in rows:
            discovery = Discovery(row.source, row.kind, row.token, row.url, row.company, row.expected_confidence)
            source_rows.approve_source(connection, row.source)
            app.enqueue(discovery, conn=connection.raw, limits=limits)
    return [row.source for row in rows]


def enable(app: App, rows: Sequence[SourceRow]) -> list[str]:
    """Have disabled sources read again, at once; returns their ids."""
    disabled = [row for row in rows if row.status == "disabled"]
    with transaction(app) as connection:
        for row in disabled:
            source_rows.enable_source(connection, row.source)
            app.enqueue(Reading(row.source), conn=connection.raw)
    return [row.source for row in disabled]
