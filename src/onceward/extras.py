"""What comes with which extra: the one table from which a missing module says what to install."""

from __future__ import annotations

EXTRA_OF = {
    "psycopg": "postgres",
    "boto3": "aws",
    "uvloop": "speed",
    "jinja2": "web",
    "starlette": "web",
    "uvicorn": "web",
    "mcp": "mcp",
    "opentelemetry": "otel",
    "textual": "tui",
}
"""For each module that is not always there, the extra that brings it."""


def missing(module: str) -> str | None:
    """What to do about a module that cannot be imported; None if it is none of ours."""
    extra = EXTRA_OF.get(module.partition(".")[0])
    return None if extra is None else f"{module} is not installed; it comes with pip install 'onceward[{extra}]'"
