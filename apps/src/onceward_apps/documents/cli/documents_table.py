"""The table of documents that `ingest` and `status` print: a line for each, with its reasons and warnings below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from onceward.harmless import harmless
from onceward_apps.speaking import Entries, Entry

SHORT = 10
"""How much of a document's id is shown: a beginning is enough for every command."""
COUNTED = ("words", "chunks", "connections")
STYLES = {
    "ready": "green", "unreadable": "bold red", "stopped": "bold red", "unchanged": "dim", "same": "dim",
    "being read": "cyan", "ready, finding connections": "cyan",
}  # fmt: skip


def documents_table(told: Sequence[dict[str, Any]], column: str) -> Entries:
    """The table: what `column` names is what each document is called, and `why` and `warnings` stand below it."""
    entries: list[Entry] = [
        (
            (
                (one["document"] or "")[:SHORT],
                one[column],
                Text(one["state"], STYLES.get(one["state"], "default")),
                *("" if one[name] is None else f"{one[name]:,}" for name in COUNTED),
            ),
            (
                *([one["why"]] if one["why"] else []),
                *(Text(f"warning: {harmless(warning)}", "yellow") for warning in one["warnings"] or ()),
            ),
        )
        for one in told
    ]
    return Entries(("document", column, "state", *COUNTED), entries, gives_way=(column,), right=COUNTED)
