"""What comes with which extra of the applications: the one table from which a missing module says what to install."""

from __future__ import annotations

from onceward import extras

EXTRAS_WITH = {
    "httpx2": ("jobfinder",),
    "selectolax": ("jobfinder",),
    "protego": ("jobfinder",),
    "feedparser": ("jobfinder",),
    "trafilatura": ("documents", "jobfinder"),
    "lxml_html_clean": ("documents", "jobfinder"),
    "lxml": ("documents",),
    "pypdfium2": ("documents",),
    "html_to_markdown": ("documents",),
    "semantic_text_splitter": ("documents",),
    "wordllama": ("documents",),
    "numpy": ("documents",),
    "sqlite_vec": ("documents",),
    "openai": ("llm",),
}
"""For each module that is not always there, the extras that bring it."""


def missing(module: str) -> str | None:
    """What to do about a module that cannot be imported; None if it comes with no extra."""
    brought_by = EXTRAS_WITH.get(module.partition(".")[0])
    if brought_by is None:
        return extras.missing(module)
    ways = " or ".join(f"'onceward-apps[{extra}]'" for extra in brought_by)
    return f"{module} is not installed; it comes with pip install {ways}"
