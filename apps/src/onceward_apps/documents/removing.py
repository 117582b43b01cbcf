"""Taking a document out of the library, also while it is worked on."""

from __future__ import annotations

from contextlib import suppress

from onceward import App, IllegalTransition
from onceward_apps.documents import reads, writes
from onceward_apps.transactions import transaction

KINDS = ("document", "paid_document", "detect_connections")


def remove(app: App, document: str) -> None:
    """Cancel the document's tasks, then delete it in one transaction. A task that still runs can write nothing more."""
    for generation in app.read(reads.generations, document):
        for kind in KINDS:
            for task in app.tasks.list(kind=kind, key=f"{document}/{generation}", limit=1):
                with suppress(IllegalTransition):  # it has ended by itself
                    app.tasks.cancel(task.id, "the document was removed")
    with transaction(app) as connection:
        writes.remove(connection, document)
