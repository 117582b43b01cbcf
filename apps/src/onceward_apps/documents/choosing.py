"""Find the one document that a user's text names."""

from __future__ import annotations

import os

from onceward import App, ConfigError
from onceward_apps.documents import reads

SHOWN = 10
"""How many of the possible documents an error message lists."""


def chosen(app: App, text: str) -> str:
    """The id of the one document that a text means: an id or its beginning, a path, or a part of a name or title."""
    found = app.read(reads.named, text, os.path.abspath(os.path.expanduser(text)))
    if not found:
        raise ConfigError(f"there is no document {text!r} in the library; onceward-docs status lists them")
    if len(found) > 1:
        some = ", ".join(f"{document} ({name})" for document, name in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise ConfigError(f"{text!r} may be any of {len(found)} documents: {some}{more}")
    return found[0][0]
