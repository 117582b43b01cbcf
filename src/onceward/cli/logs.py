"""The log of a worker: structured, on stderr, for people or as JSON lines.

What the application logs through the standard library comes out in the same form.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor

Form = Literal["text", "json"]
VARIABLE = "ONCEWARD_LOG"
"""How the children of a supervisor are told the form: they take it from their environment."""


def configure(form: Form, *, level: int = logging.INFO) -> None:
    """Log to stderr from now on, in this process and in those that it starts.

    An application that has set up structlog itself keeps its own log, unless JSON lines were asked for.
    """
    os.environ[VARIABLE] = form
    if form == "text" and structlog.is_configured():
        return
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(*(("iso", True) if form == "json" else ("%H:%M:%S", False))),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor]
    if form == "json":
        first.append(structlog.stdlib.add_logger_name)
        last = [_add_pid, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    else:
        last = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
            )
        ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *first,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=first,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def configure_from_environment() -> None:
    """Log as the supervisor of this process was told to; without one, leave everything as it is."""
    form = os.environ.get(VARIABLE)
    if form in ("text", "json"):
        configure("json" if form == "json" else "text")


def _add_pid(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {**event, "pid": os.getpid()}
