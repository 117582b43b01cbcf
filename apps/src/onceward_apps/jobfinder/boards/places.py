"""Whether a place is anywhere."""

from __future__ import annotations

import re

_REMOTE = re.compile(r"\bremote\b|\banywhere\b|\bwork from home\b|\bworldwide\b", re.IGNORECASE)
_NOT_REMOTE = re.compile(r"\b(not|no|non)[- ]remote\b|\bhybrid\b|\bon[- ]?site\b", re.IGNORECASE)


def is_remote(*texts: str | None) -> bool | None:
    """What places, titles and kinds of workplace say about remote work; None if they say nothing."""
    said = " ".join(text for text in texts if text)
    if _NOT_REMOTE.search(said):
        return False
    return True if _REMOTE.search(said) else None
