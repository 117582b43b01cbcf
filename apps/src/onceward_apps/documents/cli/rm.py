"""`onceward-docs rm`: take documents out of the library."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from onceward.terminal import print_json, show
from onceward_apps.documents.app import opened
from onceward_apps.documents.choosing import chosen
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where
from onceward_apps.documents.removing import remove
from onceward_apps.speaking import FINE, NOTHING_SAID, Output


def rm(
    *documents: Annotated[
        str, Parameter(name="DOC", help="Documents: ids or the beginnings of them, paths, or file names.")
    ],
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """Take documents out of the library, with their connections. The files stay where they are."""
    with opened(where.library) as app:
        ids = [chosen(app, document) for document in documents]
        for document in ids:
            remove(app, document)
    if output.json:
        print_json({"removed": ids})
    else:
        show(*(f"removed {document}" for document in ids))
    return FINE
