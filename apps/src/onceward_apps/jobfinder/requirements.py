"""What a listing asks for: the items of the lists that stand below a heading of that sense."""

from __future__ import annotations

from onceward_apps.jobfinder.demands import sections

MOST = 40


def requirements_in(text: str | None) -> tuple[str, ...]:
    """The requirements in a plain text, in order and each once."""
    items = (line for section, line, is_item in sections(text or "") if section != "other" and is_item)
    return tuple(dict.fromkeys(items))[:MOST]
