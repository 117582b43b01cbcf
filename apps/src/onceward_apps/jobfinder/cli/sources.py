"""`onceward-jobs sources` and `approve`: the boards that are read, those that are disabled, and those that wait."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from onceward import ConfigError
from onceward.terminal import print_json, show
from onceward_apps.jobfinder import approving, source_rows
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where
from onceward_apps.jobfinder.explaining import day
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.source_rows import SourceRow
from onceward_apps.speaking import FINE, NOTHING_SAID, Entries, Entry, Flag, Output

STYLES = {"active": "green", "disabled": "bold red", "unknown": "red", "pending_validation": "yellow"}


def sources(
    *,
    enable: Annotated[
        list[str] | None, Parameter(name="--enable", help="Have a source read again that was disabled.")
    ] = None,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """See the job boards: how often they failed in a row, what was wrong, and how many listings they have."""
    with opened(where.db) as app:
        rows = app.read(source_rows.sources)
        if enable:
            enabled = approving.enable(app, approving.chosen(rows, enable))
            _say("enabled", enabled, output)
            return FINE
    if output.json:
        print_json([_told(row) for row in rows])
    elif not rows:
        show("there is no source yet")
    else:
        _show(rows)
    return FINE


def approve(
    *named: Annotated[str, Parameter(name="SOURCE", help="Sources: ids or the beginnings of them, addresses.")],
    everything: Annotated[bool, Flag, Parameter(name="--all", help="All that wait.")] = False,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Approve uncertain sources: they are tested, and read if the test succeeds. Without names, list what waits."""
    if named and everything:
        raise ConfigError("name sources, or say --all")
    with opened(where.db) as app:
        rows = approving.waiting(app)
        if named or everything:
            agreed = rows if everything else approving.chosen(approving.testable(app), named)
            approved = approving.approve(app, agreed)
            _say("approved", approved, output)
            return FINE
    if output.json:
        print_json([_told(row) for row in rows])
    elif not rows:
        show("no source waits for approval")
    else:
        _show(rows)
    return FINE


def _say(word: str, names: list[str], output: Output) -> None:
    if output.json:
        print_json({word: names})
    else:
        show(*(f"{word} {name}" for name in names) if names else (f"nothing was {word}",))


def _show(rows: list[SourceRow]) -> None:
    entries: list[Entry] = [
        (
            (
                Text("waits for approval" if row.awaits_approval else row.status, STYLES.get(row.status, "default")),
                row.confidence or row.expected_confidence,
                "" if row.listings is None else f"{row.listings:,}",
                str(row.streak),
                day(row.last_success_at) or "",
                row.company or "",
            ),
            tuple(filter(None, (row.source, row.reason or (row.last_error if row.streak else None)))),
        )
        for row in rows
    ]
    columns = ("state", "confidence", "listings", "streak", "read", "company")
    show(Entries(columns, entries, gives_way=("company",), right=("listings", "streak")))


def _told(row: SourceRow) -> dict[str, Any]:
    return {
        "source": row.source, "kind": row.kind, "url": row.url, "company": row.company, "status": row.status,
        "awaits_approval": row.awaits_approval, "confidence": row.confidence,
        "expected_confidence": row.expected_confidence, "listings": row.listings, "streak": row.streak,
        "is_drifted": row.is_drifted, "last_success": day(row.last_success_at),
        "last_failure": day(row.last_failure_at), "last_error": row.last_error, "reason": row.reason,
    }  # fmt: skip
