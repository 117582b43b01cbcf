"""Where the engine's log goes: to structlog if the application has set it up, otherwise to the standard library.

A library must not print by itself: without any set-up only warnings and errors reach stderr, as with any other.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog
from structlog.typing import EventDict


class EngineLog:
    """A logger that looks at each line anew where it should go, because the set-up comes after the import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(bound_logger(self._name), method)


def bound_logger(name: str) -> Any:
    """A structured logger, in the form that the application has chosen."""
    if structlog.is_configured():
        return structlog.get_logger(name)
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _as_one_line],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _as_one_line(_logger: Any, _method: str, event: EventDict) -> str:
    trace = event.pop("exception", None)
    text = " ".join([str(event.pop("event")), *(f"{name}={value!r}" for name, value in event.items())])
    return text if trace is None else f"{text}\n{trace}"
